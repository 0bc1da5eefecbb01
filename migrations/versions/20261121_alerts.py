"""Alerts: rules, where they stand, what changed, whom it was told, and when to be silent.

Revision 20261121_alerts, after 20261120_audit.
"""

import sqlalchemy as sa
from alembic import op

revision = "20261121_alerts"
down_revision = "20261120_audit"
branch_labels = None
depends_on = None


def _id() -> "sa.Column[int]":
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column("id", kind, autoincrement=True, nullable=False)


def upgrade() -> None:
    """Create the five tables."""
    op.create_table(
        "alert_rules",
        _id(),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("group_pattern", sa.String(255), nullable=False),
        sa.Column("topic_pattern", sa.String(255), nullable=False),
        sa.Column("threshold", sa.BigInteger(), nullable=False),
        sa.Column("window_s", sa.BigInteger(), nullable=False),
        sa.Column("for_s", sa.BigInteger(), nullable=False),
        sa.Column("severity", sa.String(16), nullable=False),
        sa.Column("is_enabled", sa.Boolean(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alert_rules"),
    )
    op.create_index("uq_alert_rules_name", "alert_rules", ["name"], unique=True)
    op.create_table(
        "alert_states",
        sa.Column("rule_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("event_id", sa.String(64), nullable=False),
        sa.Column("is_told", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("rule_id", "subject", name="pk_alert_states"),
    )
    _create_history()
    op.create_table(
        "alert_silences",
        _id(),
        sa.Column("rule_id", sa.BigInteger(), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.String(512), nullable=False),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alert_silences"),
    )


def _create_history() -> None:
    op.create_table(
        "alert_transitions",
        _id(),
        sa.Column("event_id", sa.String(64), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("rule_id", sa.BigInteger(), nullable=False),
        sa.Column("rule_name", sa.String(128), nullable=False),
        sa.Column("severity", sa.String(16), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("before", sa.String(16), nullable=False),
        sa.Column("after", sa.String(16), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alert_transitions"),
    )
    op.create_table(
        "alert_deliveries",
        _id(),
        sa.Column("event_id", sa.String(64), nullable=False),
        sa.Column("event", sa.String(16), nullable=False),
        sa.Column("url", sa.String(2048), nullable=False),
        sa.Column("rule_name", sa.String(128), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("body_json", sa.Text(), nullable=False),
        sa.Column("result", sa.String(16), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_ms", sa.BigInteger(), nullable=True),
        sa.Column("next_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alert_deliveries"),
    )
    op.create_index(
        "uq_alert_deliveries_event_id_url", "alert_deliveries", ["event_id", "url"], unique=True
    )
    op.create_index("ix_alert_deliveries_result", "alert_deliveries", ["result"])


def downgrade() -> None:
    """Drop them, the newest first."""
    for table in ("silences", "deliveries", "transitions", "states", "rules"):
        op.drop_table(f"alert_{table}")
