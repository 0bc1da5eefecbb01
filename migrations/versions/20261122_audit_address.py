"""From where a change was asked for; entries of before do not know.

The column is added in place, since SQLite would have to copy the whole trail.
Revision 20261122_audit_address, after 20261122_packed.
"""

import sqlalchemy as sa
from alembic import op

revision = "20261122_audit_address"
down_revision = "20261122_packed"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column(
        "audit", sa.Column("address", sa.String(64), nullable=False, server_default=sa.text("''"))
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_column("audit", "address")
