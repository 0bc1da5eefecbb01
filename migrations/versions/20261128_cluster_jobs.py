"""Replay jobs before a cluster, marks of dead letters, leases. Revision 20261128_cluster_jobs."""

import sqlalchemy as sa
from alembic import op

revision = "20261128_cluster_jobs"
down_revision = "20261127_produce_templates"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "cluster_jobs",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("source", sa.String(255), nullable=False),
        sa.Column("plan", sa.LargeBinary(), nullable=False),
        sa.Column("per_s", sa.Float(), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("decided", sa.String(16), nullable=False),
        sa.Column("outcomes", sa.LargeBinary(), nullable=False),
        sa.Column("examined", sa.BigInteger(), nullable=False),
        sa.Column("doubt", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=False),
        sa.Column("waiting", sa.Text(), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("lease_ms", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_cluster_jobs"),
    )
    op.create_index("ix_cluster_jobs_source", "cluster_jobs", ["source"])
    op.create_table(
        "letter_marks",
        sa.Column("topic", sa.String(255), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("resent", sa.LargeBinary(), nullable=False),
        sa.Column("dismissed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("topic", name="pk_letter_marks"),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )


def downgrade() -> None:
    """Drop them; what was resent and dismissed is forgotten."""
    op.drop_table("leases")
    op.drop_table("letter_marks")
    op.drop_table("cluster_jobs")
