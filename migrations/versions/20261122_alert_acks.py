"""Acknowledgements: who has seen that an alert fires, and when.

They belong to the state of a subject, and go with it.
Revision 20261122_alert_acks, after 20261122_audit_address.
"""

import sqlalchemy as sa
from alembic import op

revision = "20261122_alert_acks"
down_revision = "20261122_audit_address"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nobody has seen what fires already."""
    op.add_column("alert_states", sa.Column("acked_by", sa.String(255), nullable=True))
    op.add_column("alert_states", sa.Column("acked_ms", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Forget who has seen what; the audit trail still says so."""
    with op.batch_alter_table("alert_states") as batch:
        batch.drop_column("acked_ms")
        batch.drop_column("acked_by")
