"""The audit trail: a change that nobody can be asked about later is not one to allow.

Revision 20261120_audit, the first.
"""

import sqlalchemy as sa
from alembic import op

revision = "20261120_audit"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the audit table with its two ways of being searched."""
    op.create_table(
        "audit",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("object_kind", sa.String(32), nullable=False),
        sa.Column("object_name", sa.String(512), nullable=False),
        sa.Column("before_json", sa.Text(), nullable=False),
        sa.Column("after_json", sa.Text(), nullable=False),
        sa.Column("result", sa.String(64), nullable=False),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_at_ms", "audit", ["at_ms"])
    op.create_index("ix_audit_object_kind_object_name", "audit", ["object_kind", "object_name"])


def downgrade() -> None:
    """Drop it, with all that it knows."""
    op.drop_index("ix_audit_object_kind_object_name", table_name="audit")
    op.drop_index("ix_audit_at_ms", table_name="audit")
    op.drop_table("audit")
