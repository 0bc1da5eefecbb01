"""Replay jobs over a cluster's messages, and the marks of its dead letters.

Several servers may share them: whoever holds a job's lease runs it, and every change says which
version it is of.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from sqlalchemy import Connection, delete, insert, or_, select, update

from app.db.rows import ClusterJobRow, LetterMarksRow
from app.db.store import TableStore, read_one
from app.db.tables import cluster_jobs, letter_marks


class _Overtaken(Exception):
    """Another server was faster: nothing of the transaction stays."""


class ClusterJobStore(TableStore):
    """The part of the database that holds both."""

    def versions(self) -> dict[str, int]:
        """The version of each job."""
        with self._transaction() as connection:
            rows = connection.execute(select(cluster_jobs.c.id, cluster_jobs.c.version))
            return {row.id: row.version for row in rows}

    def read(self, job_ids: Sequence[str]) -> list[ClusterJobRow]:
        """These jobs, as far as there are any."""
        statement = select(cluster_jobs).where(cluster_jobs.c.id.in_(job_ids))
        return self._read(statement, ClusterJobRow)

    def add(self, row: ClusterJobRow, forgotten: Sequence[str]) -> None:
        """A new job, and others that are kept no longer."""
        with self._transaction() as connection:
            connection.execute(delete(cluster_jobs).where(cluster_jobs.c.id.in_(forgotten)))
            connection.execute(insert(cluster_jobs).values(**asdict(row)))

    def change(self, job_id: str, version: int, values: Mapping[str, object]) -> bool:
        """Change a job; False where another did so since that version."""
        same = (cluster_jobs.c.id == job_id, cluster_jobs.c.version == version)
        statement = update(cluster_jobs).where(*same).values(**values, version=version + 1)
        return self._execute(statement) > 0

    def lease(self, job_id: str, owner: str, now_ms: int, until_ms: int) -> bool:
        """Take a job, or keep it; False while another has it."""
        columns = cluster_jobs.c
        is_free = or_(columns.owner == owner, columns.lease_ms < now_ms)
        statement = update(cluster_jobs).where(columns.id == job_id, is_free)
        return self._execute(statement.values(owner=owner, lease_ms=until_ms)) > 0

    def release(self, owner: str) -> None:
        """Give up all leases, as far as nothing is in doubt."""
        columns = cluster_jobs.c
        mine = update(cluster_jobs).where(columns.owner == owner, columns.doubt == 0)
        self._execute(mine.values(owner="", lease_ms=0))

    def advance(
        self,
        row: ClusterJobRow,
        owner: str,
        values: Mapping[str, object],
        marks: LetterMarksRow | None,
    ) -> bool:
        """Note what `owner` did to a job from where the row stands; False without its lease.

        `marks` are those of its source with what was sent, of the version before.
        """
        columns = cluster_jobs.c
        same = (
            columns.id == row.id,
            columns.owner == owner,
            columns.examined == row.examined,
            columns.dry_run == row.dry_run,
        )
        try:
            with self._transaction() as connection:
                statement = update(cluster_jobs).where(*same)
                done = connection.execute(statement.values(**values, version=columns.version + 1))
                if not done.rowcount or (marks is not None and not _write(connection, marks)):
                    raise _Overtaken
        except _Overtaken:
            return False
        return True

    def marks(self, topic: str) -> LetterMarksRow | None:
        """What is marked of a topic."""
        statement = select(letter_marks).where(letter_marks.c.topic == topic)
        return self._read_one(statement, LetterMarksRow)

    def write_marks(self, marks: LetterMarksRow) -> bool:
        """Replace the marks of the version before; False where another did."""
        with self._transaction() as connection:
            return _write(connection, marks)


def _write(connection: Connection, marks: LetterMarksRow) -> bool:
    own = letter_marks.c.topic == marks.topic
    before = letter_marks.c.version == marks.version - 1
    if marks.version > 1:
        values = asdict(marks)
        return (
            connection.execute(update(letter_marks).where(own, before).values(**values)).rowcount
            > 0
        )
    if read_one(connection, select(letter_marks).where(own), LetterMarksRow) is not None:
        return False
    connection.execute(insert(letter_marks).values(**asdict(marks)))
    return True
