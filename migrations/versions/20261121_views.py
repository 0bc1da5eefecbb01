"""Saved views, and the replay jobs that there were: kept longer than the engine keeps the jobs.

Revision 20261121_views, after 20261121_identity.
"""

import sqlalchemy as sa
from alembic import op

revision = "20261121_views"
down_revision = "20261121_identity"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create both tables."""
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "saved_views",
        sa.Column("id", kind, autoincrement=True, nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("path", sa.String(1024), nullable=False),
        sa.Column("query", sa.String(2000), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_saved_views"),
        sa.UniqueConstraint("owner", "name", name="uq_saved_views_owner_name"),
    )
    op.create_table(
        "replay_jobs",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("source", sa.String(255), nullable=False),
        sa.Column("target", sa.String(16), nullable=False),
        sa.Column("target_name", sa.String(255), nullable=False),
        sa.Column("selection_json", sa.Text(), nullable=False),
        sa.Column("per_s", sa.Float(), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("selected", sa.BigInteger(), nullable=False),
        sa.Column("examined", sa.BigInteger(), nullable=False),
        sa.Column("totals_json", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(255), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_replay_jobs"),
    )
    op.create_index("ix_replay_jobs_created_ms", "replay_jobs", ["created_ms"])


def downgrade() -> None:
    """Drop both; the engine's journal still has the jobs that it keeps."""
    op.drop_index("ix_replay_jobs_created_ms", table_name="replay_jobs")
    op.drop_table("replay_jobs")
    op.drop_table("saved_views")
