"""Reading messages and running reports become rights of their own; who had them keeps them.

Until now every login could read every message, and every operator could run reports. Users and
tokens get the patterns that say so, but for tokens whose patterns all begin with `produce`: a
producer's token reads no messages. Revision 20261123_read_messages.
"""

import json
from collections.abc import Callable

import sqlalchemy as sa
from alembic import op

revision = "20261123_read_messages"
down_revision = "20261122_alert_acks"
branch_labels = None
depends_on = None

READ_ALL, RUN_REPORTS = "read_messages:*:*", "administer:report:*"


def upgrade() -> None:
    """Add the patterns that say what a viewer or an operator could do."""
    _rewrite("users", _added)
    _rewrite("tokens", _added_to_token)


def downgrade() -> None:
    """Take them away: the version before knows no such patterns."""
    for table in ("users", "tokens"):
        _rewrite(table, _removed)


def _added(role: str, patterns: list[str]) -> list[str]:
    more = {"viewer": [READ_ALL], "operator": [READ_ALL, RUN_REPORTS]}.get(role, [])
    if "*:*:*" in patterns:
        more = []
    return patterns + [pattern for pattern in more if pattern not in patterns]


def _added_to_token(role: str, patterns: list[str]) -> list[str]:
    produces = bool(patterns) and all(each.startswith("produce:") for each in patterns)
    return patterns if produces and role == "operator" else _added(role, patterns)


def _removed(_role: str, patterns: list[str]) -> list[str]:
    return [
        pattern
        for pattern in patterns
        if not pattern.startswith("read_messages:") and ":report:" not in pattern
    ]


def _rewrite(name: str, changed: Callable[[str, list[str]], list[str]]) -> None:
    table = sa.table(
        name,
        sa.column("id", sa.BigInteger),
        sa.column("role", sa.String),
        sa.column("patterns_json", sa.Text),
    )
    connection = op.get_bind()
    for row in connection.execute(sa.select(table)).all():
        patterns = json.loads(row.patterns_json)
        after = changed(row.role, patterns)
        if after != patterns:
            change = sa.update(table).where(table.c.id == row.id)
            connection.execute(change.values(patterns_json=json.dumps(after)))
