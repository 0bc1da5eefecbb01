"""Stars: the topics that somebody wants to see first; notes: what a topic is for.

Both are about a topic's name, and stay when the topic is deleted and created again.
Revision 20261122_topic_marks, after 20261121_reports.
"""

import sqlalchemy as sa
from alembic import op

revision = "20261122_topic_marks"
down_revision = "20261121_reports"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create both tables."""
    op.create_table(
        "topic_stars",
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("topic", sa.String(255), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "topic", name="pk_topic_stars"),
    )
    op.create_table(
        "topic_notes",
        sa.Column("topic", sa.String(255), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("topic", name="pk_topic_notes"),
    )


def downgrade() -> None:
    """Drop both; the audit trail still has what the notes said."""
    op.drop_table("topic_notes")
    op.drop_table("topic_stars")
