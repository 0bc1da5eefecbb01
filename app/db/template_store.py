"""Templates of the Produce form in SQL."""

from dataclasses import replace

from app.db.audit_store import insert_audit
from app.db.owned_store import OwnedStore
from app.db.rows import AuditEntry, TemplateRow, json_text
from app.db.store import insert_row
from app.db.tables import produce_templates
from engine.errors import Conflict

TEMPLATES_MAX = 50  # of one owner


class TemplateStore(OwnedStore[TemplateRow]):
    """The part of the database that holds templates."""

    table = produce_templates
    row_type = TemplateRow
    what, remedy = "template", "reload the form"

    def save(self, template: TemplateRow, entry: AuditEntry) -> TemplateRow:
        """Add a template, or replace the one with its name; Conflict for one too many."""
        with self._transaction() as connection:
            insert_audit(connection, replace(entry, after_json=self._audited(template)))
            others = self._of(connection, template.owner)
            same = next((other for other in others if other.name == template.name), None)
            if same is None and len(others) >= TEMPLATES_MAX:
                raise Conflict(
                    f"nobody has more than {TEMPLATES_MAX} templates",
                    field="name",
                    remedy="delete some",
                )
            if same is not None:
                self._delete(connection, same)
            return insert_row(connection, produce_templates, template)

    def _audited(self, row: TemplateRow) -> str:
        """Without the body of a message, which is no business of the trail's."""
        return json_text({"name": row.name, "topic": row.topic})
