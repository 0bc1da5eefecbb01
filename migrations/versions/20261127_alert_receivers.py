"""Receivers of alerts, which rules may name; deliveries say which rule and message they are of.

Deliveries of before are each a message of its own. Revision 20261127_alert_receivers.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "20261127_alert_receivers"
down_revision = "20261123_lag_evaluated"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, and add columns to rules and deliveries."""
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "alert_receivers",
        sa.Column("id", kind, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("url", sa.String(2048), nullable=False),
        sa.Column("signing_secret", sa.String(255), nullable=False),
        sa.Column("smtp_host", sa.String(255), nullable=False),
        sa.Column("smtp_port", sa.BigInteger(), nullable=False),
        sa.Column("smtp_security", sa.String(16), nullable=False),
        sa.Column("smtp_username", sa.String(255), nullable=False),
        sa.Column("smtp_password", sa.String(255), nullable=False),
        sa.Column("mail_from", sa.String(255), nullable=False),
        sa.Column("mail_to_json", sa.Text(), nullable=False),
        sa.Column("quiet_days_json", sa.Text(), nullable=False),
        sa.Column("quiet_from", sa.String(5), nullable=False),
        sa.Column("quiet_to", sa.String(5), nullable=False),
        sa.Column("quiet_zone", sa.String(64), nullable=False),
        sa.Column("critical_passes", sa.Boolean(), nullable=False),
        sa.Column("group_s", sa.BigInteger(), nullable=False),
        sa.Column("is_enabled", sa.Boolean(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alert_receivers"),
    )
    op.create_index("uq_alert_receivers_name", "alert_receivers", ["name"], unique=True)
    op.add_column("alert_rules", _column("receivers_json", sa.Text(), "'[]'"))
    op.add_column("alert_deliveries", _column("receiver", sa.String(128), "''"))
    op.add_column("alert_deliveries", _column("message_id", sa.String(64), "''"))
    op.add_column("alert_deliveries", _column("rule_id", sa.BigInteger(), "0"))
    op.execute("UPDATE alert_deliveries SET message_id = event_id")


def downgrade() -> None:
    """Take them away; deliveries that wait for such a receiver are given up by the next start."""
    with op.batch_alter_table("alert_deliveries") as batch:
        for name in ("rule_id", "message_id", "receiver"):
            batch.drop_column(name)
    with op.batch_alter_table("alert_rules") as batch:
        batch.drop_column("receivers_json")
    op.drop_table("alert_receivers")


def _column(name: str, kind: "sa.types.TypeEngine[Any]", default: str) -> "sa.Column[object]":
    return sa.Column(name, kind, nullable=False, server_default=sa.text(default))
