"""The audit trail in SQL; `insert_audit` writes an entry within another store's transaction."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, and_, delete, func, or_, select, update

from app.db.rows import AuditEntry, AuditFilter, AuditTally
from app.db.store import Condition, TableStore, count_rows, insert_row, matching, newest, storable
from app.db.tables import audit

TALLY_MAX = 100_000
PRUNE_MAX = 500  # entries of one step
FAILED_LOGINS = ("login_failed", "login_limited")


def insert_audit(connection: Connection, entry: AuditEntry) -> int:
    """Insert an entry; returns its id."""
    fields = ("actor", "object_name", "request_id", "address")
    texts: dict[str, Any] = {name: storable(getattr(entry, name)) for name in fields}
    texts["address"] = texts["address"][:64]
    return insert_row(connection, audit, replace(entry, **texts)).id


class AuditStore(TableStore):
    """The part of the database that holds the audit trail."""

    def insert(self, entry: AuditEntry) -> int:
        """Insert an entry; returns its id."""
        with self._transaction() as connection:
            return insert_audit(connection, entry)

    def finish(self, entry_id: int, after_json: str, result: str) -> None:
        """Complete an entry with the result of its change."""
        same = audit.c.id == entry_id
        self._execute(update(audit).where(same).values(after_json=after_json, result=result))

    def find(self, filter: AuditFilter, limit: int, before_id: int | None) -> list[AuditEntry]:
        """At most `limit` (and 200) matching entries older than `before_id`, the newest first."""
        conditions = _conditions(filter)
        if before_id is not None:
            conditions.append(audit.c.id < before_id)
        return self._read(newest(audit, limit, *conditions), AuditEntry)

    def newest(self, kinds: Sequence[str]) -> AuditEntry | None:
        """The newest entry about an object of these kinds."""
        of_kinds = audit.c.object_kind.in_(kinds)
        return self._read_one(newest(audit, 1, of_kinds), AuditEntry)

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
            surplus = min(count_rows(connection, audit) - entries_max, PRUNE_MAX)
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


def _conditions(filter: AuditFilter) -> list[Condition]:
    """The conditions of a filter; parts of names match in any case, "%" is a plain character."""
    conditions = matching(audit, filter, at="at_ms")
    if filter.name_part:
        part = storable(filter.name_part)
        conditions.append(audit.c.object_name.icontains(part, autoescape=True))
    return conditions
