"""Saved views in SQL."""

from dataclasses import replace

from app.db.audit_store import insert_audit
from app.db.owned_store import OwnedStore
from app.db.rows import AuditEntry, ViewRow, json_text
from app.db.store import insert_row
from app.db.tables import saved_views
from engine.errors import Conflict
from kitemq.model.views import VIEWS_MAX


class ViewStore(OwnedStore[ViewRow]):
    """The part of the database that holds saved views."""

    table = saved_views
    row_type = ViewRow
    what, remedy = "view", "list the views"

    def add(self, view: ViewRow, entry: AuditEntry) -> ViewRow:
        """Add a view; raises Conflict if its owner has this name, or 100 views."""
        with self._transaction() as connection:
            insert_audit(connection, replace(entry, after_json=self._audited(view)))
            others = self._of(connection, view.owner)
            if any(other.name == view.name for other in others):
                raise Conflict(
                    f"you have a view {view.name!r} already",
                    field="name",
                    remedy="choose another name, or delete that one",
                )
            if len(others) >= VIEWS_MAX:
                raise Conflict(f"nobody has more than {VIEWS_MAX} views", remedy="delete some")
            return insert_row(connection, saved_views, view)

    def _audited(self, row: ViewRow) -> str:
        return json_text({"name": row.name, "address": row.href})
