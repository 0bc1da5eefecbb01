"""The resets of a cluster's groups, to be listed and undone. Revision 20261128_cluster_resets."""

import sqlalchemy as sa
from alembic import op

revision = "20261128_cluster_resets"
down_revision = "20261128_cluster_jobs"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "cluster_resets",
        sa.Column("group_name", sa.String(255), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("resets", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("group_name", name="pk_cluster_resets"),
    )


def downgrade() -> None:
    """Drop it; what was reset cannot be undone any more."""
    op.drop_table("cluster_resets")
