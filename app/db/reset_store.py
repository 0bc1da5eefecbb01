"""The resets of a cluster's groups: one row for each group, which all servers share."""

from dataclasses import asdict

from sqlalchemy import delete, insert, select, update

from app.db.rows import GroupResetsRow
from app.db.store import TableStore
from app.db.tables import cluster_resets


class ResetStore(TableStore):
    """The part of the database that holds them."""

    def read(self, group: str) -> GroupResetsRow | None:
        """What is kept of a group."""
        statement = select(cluster_resets).where(cluster_resets.c.group_name == group)
        return self._read_one(statement, GroupResetsRow)

    def write(self, row: GroupResetsRow) -> bool:
        """Replace the version before; False where another server did."""
        own, values = cluster_resets.c.group_name == row.group_name, asdict(row)
        before = cluster_resets.c.version == row.version - 1
        with self._transaction() as connection:
            if row.version > 1:
                statement = update(cluster_resets).where(own, before).values(**values)
                return connection.execute(statement).rowcount > 0
            if connection.execute(select(cluster_resets.c.version).where(own)).first() is not None:
                return False
            connection.execute(insert(cluster_resets).values(**values))
            return True

    def forget(self, group: str) -> None:
        """A group was deleted."""
        self._execute(delete(cluster_resets).where(cluster_resets.c.group_name == group))
