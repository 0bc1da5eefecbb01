<% body = (upgrades or "") + (downgrades or "") %>\
"""${message}.

Revision ${up_revision}, ${"after " + down_revision if down_revision else "the first"}.
"""
% if "sa." in body or "op." in body:

% endif
% if "sa." in body:
import sqlalchemy as sa
% endif
% if "op." in body:
from alembic import op
% endif
% if imports:
${imports}
% endif

revision = "${up_revision}"
down_revision = ${'"' + down_revision + '"' if down_revision else "None"}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring a database of the revision before to this one."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Take it back."""
    ${downgrades if downgrades else "pass"}
