"""Every statement of the application, each on a connection whose transaction the caller owns."""

from sqlalchemy import Connection, insert, select, update

from app.db.rows import AuditEntry
from app.db.tables import audit

PAGE_MAX = 200


def insert_audit(connection: Connection, entry: AuditEntry) -> int:
    """Write a new entry; the id it got."""
    statement = insert(audit).values(
        at_ms=entry.at_ms,
        actor=entry.actor,
        action=entry.action,
        object_kind=entry.object_kind,
        object_name=entry.object_name,
        before_json=entry.before_json,
        after_json=entry.after_json,
        result=entry.result,
        request_id=entry.request_id,
    )
    key = connection.execute(statement).inserted_primary_key
    assert key is not None, "the database numbers every entry"
    return int(key[0])


def finish_audit(connection: Connection, entry_id: int, *, after_json: str, result: str) -> None:
    """Complete an entry with how its change ended."""
    connection.execute(
        update(audit).where(audit.c.id == entry_id).values(after_json=after_json, result=result)
    )


def list_audit(
    connection: Connection,
    *,
    limit: int,
    before_id: int | None = None,
    object_kind: str = "",
    object_name: str = "",
) -> list[AuditEntry]:
    """At most `limit` (and 200) entries, the newest first, older than `before_id`."""
    statement = select(audit).order_by(audit.c.id.desc()).limit(min(limit, PAGE_MAX))
    if before_id is not None:
        statement = statement.where(audit.c.id < before_id)
    if object_kind:
        statement = statement.where(audit.c.object_kind == object_kind)
    if object_name:
        statement = statement.where(audit.c.object_name == object_name)
    return [AuditEntry(**row) for row in connection.execute(statement).mappings()]
