"""The audit trail in SQL; `insert_audit` writes an entry within another store's transaction."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select, update

from app.db.rows import AuditEntry, AuditFilter, AuditTally
from app.db.store import TableStore, insert_row
from app.db.tables import audit

PAGE_MAX = 200
TALLY_MAX = 100_000
PRUNE_MAX = 500  # entries of one step
FAILED_LOGINS = ("login_failed", "login_limited")


def insert_audit(connection: Connection, entry: AuditEntry) -> int:
    """Insert an entry; returns its id."""
    storable = replace(
        entry,
        actor=_storable(entry.actor),
        object_name=_storable(entry.object_name),
        request_id=_storable(entry.request_id),
        address=_storable(entry.address[:64]),
    )
    return insert_row(connection, audit, storable)


class AuditStore(TableStore):
    """The part of the database that holds the audit trail."""

    def insert(self, entry: AuditEntry) -> int:
        """Insert an entry; returns its id."""
        with self._transaction() as connection:
            return insert_audit(connection, entry)

    def finish(self, entry_id: int, after_json: str, result: str) -> None:
        """Complete an entry with the result of its change."""
        same = audit.c.id == entry_id
        with self._transaction() as connection:
            connection.execute(
                update(audit).where(same).values(after_json=after_json, result=result)
            )

    def find(self, filter: AuditFilter, limit: int, before_id: int | None) -> list[AuditEntry]:
        """At most `limit` (and 200) matching entries older than `before_id`, the newest first."""
        statement = select(audit).where(*_conditions(filter)).order_by(audit.c.id.desc())
        if before_id is not None:
            statement = statement.where(audit.c.id < before_id)
        return self._read(statement.limit(min(limit, PAGE_MAX)), AuditEntry)

    def tally(self) -> AuditTally:
        """Counts of the actions, kinds and results of the newest 100,000 entries."""
        newest = (
            select(audit.c.action, audit.c.object_kind, audit.c.result)
            .order_by(audit.c.id.desc())
            .limit(TALLY_MAX)
            .subquery()
        )
        columns = (newest.c.action, newest.c.object_kind, newest.c.result)
        statement = select(*columns, func.count()).group_by(*columns)
        actions, kinds, results = Counter[str](), Counter[str](), Counter[str]()
        with self._transaction() as connection:
            for action, kind, result, count in connection.execute(statement):
                actions[action] += count
                kinds[kind] += count
                results[result] += count
        return AuditTally(examined=actions.total(), actions=actions, kinds=kinds, results=results)

    def delete_old(self, before_ms: int) -> int:
        """Delete at most PRUNE_MAX entries older than `before_ms`; returns their number."""
        old = select(audit.c.id).where(audit.c.at_ms < before_ms).order_by(audit.c.at_ms)
        with self._transaction() as connection:
            return _delete(connection, connection.execute(old.limit(PRUNE_MAX)).scalars().all())

    def delete_surplus(self, entries_max: int) -> int:
        """Delete at most PRUNE_MAX entries beyond `entries_max`; returns their number.

        Refused attempts go before changes, so that refusals cannot displace changes.
        """
        is_refused = or_(
            audit.c.object_kind == "request",
            and_(audit.c.action == "login", audit.c.result.in_(FAILED_LOGINS)),
        )
        with self._transaction() as connection:
            count = connection.execute(select(func.count()).select_from(audit)).scalar_one()
            surplus = min(count - entries_max, PRUNE_MAX)
            if surplus <= 0:
                return 0
            for chosen in (select(audit.c.id).where(is_refused), select(audit.c.id)):
                ids = connection.execute(chosen.order_by(audit.c.id).limit(surplus)).scalars().all()
                if ids:
                    return _delete(connection, ids)
        return 0


def _delete(connection: Connection, ids: Sequence[int]) -> int:
    if ids:
        connection.execute(delete(audit).where(audit.c.id.in_(ids)))
    return len(ids)


def _conditions(filter: AuditFilter) -> list[ColumnElement[bool]]:
    """The conditions of a filter; parts of names match in any case, "%" is a plain character."""
    columns = audit.c
    same = (
        (columns.object_kind, filter.object_kind),
        (columns.object_name, filter.object_name),
        (columns.action, filter.action),
        (columns.actor, filter.actor),
        (columns.result, filter.result),
        (columns.request_id, filter.request_id),
        (columns.address, filter.address),
    )
    conditions = [column == _storable(value) for column, value in same if value]
    if filter.name_part:
        part = _storable(filter.name_part)
        conditions.append(columns.object_name.icontains(part, autoescape=True))
    if filter.from_ms is not None:
        conditions.append(columns.at_ms >= filter.from_ms)
    if filter.to_ms is not None:
        conditions.append(columns.at_ms < filter.to_ms)
    return conditions


def _storable(text: str) -> str:
    """The text without NUL, which PostgreSQL cannot store."""
    return text.replace("\0", "\ufffd")
