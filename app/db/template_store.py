"""Templates of the Produce form in SQL: each change is one transaction with its audit entry."""

from dataclasses import replace

from sqlalchemy import Connection, delete, select

from app.db.audit_store import insert_audit
from app.db.rows import AuditEntry, TemplateRow, json_text
from app.db.store import TableStore, insert_row, read
from app.db.tables import produce_templates
from engine.errors import Conflict, NotFound

TEMPLATES_MAX = 50  # of one owner


class TemplateStore(TableStore):
    """The part of the database that holds templates."""

    def of(self, owner: str) -> list[TemplateRow]:
        """All templates of one owner, by name."""
        with self._transaction() as connection:
            return _of(connection, owner)

    def save(self, template: TemplateRow, entry: AuditEntry) -> TemplateRow:
        """Add a template, or replace the one with its name; Conflict for one too many."""
        with self._transaction() as connection:
            insert_audit(connection, replace(entry, after_json=_json(template)))
            others = _of(connection, template.owner)
            same = next((other for other in others if other.name == template.name), None)
            if same is None and len(others) >= TEMPLATES_MAX:
                raise Conflict(
                    f"nobody has more than {TEMPLATES_MAX} templates",
                    field="name",
                    remedy="delete some",
                )
            if same is not None:
                _delete(connection, same)
            return insert_row(connection, produce_templates, template)

    def delete(self, owner: str, template_id: int, entry: AuditEntry) -> TemplateRow:
        """Delete and return a template of this owner; raises NotFound."""
        with self._transaction() as connection:
            own = (each for each in _of(connection, owner) if each.id == template_id)
            template = next(own, None)
            if template is None:
                raise NotFound(
                    f"you have no template {template_id}", field="id", remedy="reload the form"
                )
            audited = replace(entry, object_name=template.name, before_json=_json(template))
            insert_audit(connection, audited)
            _delete(connection, template)
        return template


def _of(connection: Connection, owner: str) -> list[TemplateRow]:
    owned = select(produce_templates).where(produce_templates.c.owner == owner)
    # Sorted here: databases differ over capitals.
    return sorted(read(connection, owned, TemplateRow), key=lambda row: row.name.casefold())


def _delete(connection: Connection, template: TemplateRow) -> None:
    table = produce_templates
    connection.execute(delete(table).where(table.c.id == template.id))


def _json(template: TemplateRow) -> str:
    """What the trail says of it; the body of a message is none of its business."""
    return json_text({"name": template.name, "topic": template.topic})
