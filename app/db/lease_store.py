"""What one of the servers that share the database does for all of them, and which one that is."""

from sqlalchemy import insert, select, update

from app.db.rows import LeaseRow
from app.db.store import TableStore, read_one
from app.db.tables import leases


class LeaseStore(TableStore):
    """The part of the database that holds the leases."""

    def take(self, name: str, owner: str, now_ms: int, until_ms: int) -> LeaseRow:
        """Take a lease that nobody has, or keep it; the lease as it is then."""
        named = select(leases).where(leases.c.name == name)
        mine = LeaseRow(name=name, owner=owner, until_ms=until_ms)
        with self._transaction() as connection:
            row = read_one(connection, named, LeaseRow)
            if row is None:
                connection.execute(
                    insert(leases).values(name=name, owner=owner, until_ms=until_ms, note="")
                )
                return mine
            if row.owner == owner or row.until_ms < now_ms:
                same = (leases.c.name == name, leases.c.owner == row.owner)
                unchanged = leases.c.until_ms == row.until_ms
                taking = update(leases).where(*same, unchanged)
                connection.execute(taking.values(owner=owner, until_ms=until_ms))
            return read_one(connection, named, LeaseRow) or mine

    def note(self, name: str, owner: str, note: str) -> None:
        """Let the others know, as far as the lease is still the owner's."""
        own = (leases.c.name == name, leases.c.owner == owner)
        self._execute(update(leases).where(*own).values(note=note))

    def release(self, name: str, owner: str) -> None:
        """Give it up."""
        own = (leases.c.name == name, leases.c.owner == owner)
        self._execute(update(leases).where(*own).values(until_ms=0))
