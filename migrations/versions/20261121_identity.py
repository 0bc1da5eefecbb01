"""Who a user is at an OpenID Connect provider: issuer and subject, both empty for local users.

A name can be given to somebody else there; issuer and subject together never are. The columns are
added in place: SQLite would have to copy the table of users, and tokens hang on it.

Revision 20261121_identity, after 20261121_people.
"""

import sqlalchemy as sa
from alembic import op

revision = "20261121_identity"
down_revision = "20261121_people"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the two columns, and that nobody is two users."""
    op.add_column("users", sa.Column("issuer", sa.String(255), nullable=True))
    op.add_column("users", sa.Column("subject", sa.String(255), nullable=True))
    op.create_index("uq_users_issuer_subject", "users", ["issuer", "subject"], unique=True)


def downgrade() -> None:
    """Drop them: who came through a provider stays, without any way to log in."""
    op.drop_index("uq_users_issuer_subject", table_name="users")
    op.drop_column("users", "subject")
    op.drop_column("users", "issuer")
