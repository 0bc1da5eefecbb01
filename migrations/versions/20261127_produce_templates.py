"""Templates of the Produce form, kept for their owners. Revision 20261127_produce_templates."""

import sqlalchemy as sa
from alembic import op

revision = "20261127_produce_templates"
down_revision = "20261127_alert_receivers"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "produce_templates",
        sa.Column("id", kind, autoincrement=True, nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("topic", sa.String(255), nullable=False),
        sa.Column("fields_json", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_produce_templates"),
        sa.UniqueConstraint("owner", "name", name="uq_produce_templates_owner_name"),
    )


def downgrade() -> None:
    """Drop it with its templates."""
    op.drop_table("produce_templates")
