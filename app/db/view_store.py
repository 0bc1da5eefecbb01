"""Saved views in SQL: each change is one transaction with its audit entry."""

from dataclasses import replace

from sqlalchemy import Connection, delete, select

from app.db.audit_store import insert_audit
from app.db.rows import AuditEntry, ViewRow, json_text
from app.db.store import TableStore, insert_row, read
from app.db.tables import saved_views
from engine.errors import Conflict, NotFound

VIEWS_MAX = 100  # of one owner


class ViewStore(TableStore):
    """The part of the database that holds saved views."""

    def of(self, owner: str) -> list[ViewRow]:
        """All views of one owner, by name."""
        with self._transaction() as connection:
            return _of(connection, owner)

    def add(self, view: ViewRow, entry: AuditEntry) -> ViewRow:
        """Add a view; raises Conflict if its owner has this name, or 100 views."""
        with self._transaction() as connection:
            insert_audit(connection, replace(entry, after_json=_json(view)))
            others = _of(connection, view.owner)
            if any(other.name == view.name for other in others):
                raise Conflict(
                    f"you have a view {view.name!r} already",
                    field="name",
                    remedy="choose another name, or delete that one",
                )
            if len(others) >= VIEWS_MAX:
                raise Conflict(f"nobody has more than {VIEWS_MAX} views", remedy="delete some")
            return insert_row(connection, saved_views, view)

    def delete(self, owner: str, view_id: int, entry: AuditEntry) -> ViewRow:
        """Delete and return a view of this owner; raises NotFound."""
        with self._transaction() as connection:
            view = next((view for view in _of(connection, owner) if view.id == view_id), None)
            if view is None:
                raise NotFound(f"you have no view {view_id}", field="id", remedy="list the views")
            audited = replace(entry, object_name=view.name, before_json=_json(view))
            insert_audit(connection, audited)
            connection.execute(delete(saved_views).where(saved_views.c.id == view_id))
        return view


def _of(connection: Connection, owner: str) -> list[ViewRow]:
    views = read(connection, select(saved_views).where(saved_views.c.owner == owner), ViewRow)
    # Sorted here: databases differ over capitals.
    return sorted(views, key=lambda view: view.name.casefold())


def _json(view: ViewRow) -> str:
    return json_text({"name": view.name, "address": view.href})
