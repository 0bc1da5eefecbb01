"""Named rows of their owners in SQL; each change is one transaction with its audit entry."""

from dataclasses import replace
from typing import ClassVar, Generic

from sqlalchemy import Connection, Table, delete, select

from app.db.audit_store import insert_audit
from app.db.rows import AuditEntry, Owned
from app.db.store import TableStore, read
from engine.errors import NotFound


class OwnedStore(TableStore, Generic[Owned]):
    """The rows of one table; `what` names one in errors, with the `remedy` where it is missing."""

    table: ClassVar[Table]
    what: ClassVar[str]
    remedy: ClassVar[str]
    row_type: type[Owned]

    def of(self, owner: str) -> list[Owned]:
        """All rows of one owner, by name."""
        with self._transaction() as connection:
            return self._of(connection, owner)

    def delete(self, owner: str, row_id: int, entry: AuditEntry) -> Owned:
        """Delete and return a row of this owner; raises NotFound."""
        with self._transaction() as connection:
            row = next((each for each in self._of(connection, owner) if each.id == row_id), None)
            if row is None:
                detail = f"you have no {self.what} {row_id}"
                raise NotFound(detail, field="id", remedy=self.remedy)
            audited = replace(entry, object_name=row.name, before_json=self._audited(row))
            insert_audit(connection, audited)
            self._delete(connection, row)
        return row

    def _of(self, connection: Connection, owner: str) -> list[Owned]:
        owned = select(self.table).where(self.table.c.owner == owner)
        # Sorted here: databases differ over capitals.
        return sorted(read(connection, owned, self.row_type), key=lambda row: row.name.casefold())

    def _delete(self, connection: Connection, row: Owned) -> None:
        connection.execute(delete(self.table).where(self.table.c.id == row.id))

    def _audited(self, row: Owned) -> str:
        """What the trail says of a row, as JSON."""
        raise NotImplementedError
