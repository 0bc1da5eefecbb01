"""Copies of replay jobs in SQL, updated when the engine's journal changes.

The journal is the source of truth, including every outcome; see ADR 13.
"""

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import Connection, and_, delete, insert, or_, select, update

from app.db.rows import JobFilter, JobRow
from app.db.store import TableStore
from app.db.tables import replay_jobs

JOBS_MAX = 10_000  # rows that are kept; the engine itself keeps 1,000 jobs
PAGE_MAX = 200


class ReplayStore(TableStore):
    """The part of the database that holds copies of replay jobs."""

    def write(self, jobs: Sequence[JobRow]) -> None:
        """Write the copies of at most 200 jobs; idempotent."""
        if not jobs:
            return
        with self._transaction() as connection:
            statement = select(replay_jobs.c.id).where(
                replay_jobs.c.id.in_([job.id for job in jobs])
            )
            stored_ids = set(connection.execute(statement).scalars())
            for job in jobs:
                if job.id in stored_ids:
                    same = replay_jobs.c.id == job.id
                    connection.execute(update(replay_jobs).where(same).values(**asdict(job)))
                else:
                    connection.execute(insert(replay_jobs).values(**asdict(job)))
            if len(stored_ids) < len(jobs):
                _trim(connection)

    def get(self, job_id: str) -> JobRow | None:
        """One job; None if it has no copy."""
        same = replay_jobs.c.id == job_id.replace("\0", "\ufffd")
        return self._read_one(select(replay_jobs).where(same), JobRow)

    def find(self, filter: JobFilter, limit: int, after: tuple[int, str] | None) -> list[JobRow]:
        """The newest jobs, at most 200; `after` is (created_ms, id) of the previous page's last."""
        columns = replay_jobs.c
        statement = select(replay_jobs).order_by(columns.created_ms.desc(), columns.id.desc())
        for column, value in (
            (columns.source, filter.source),
            (columns.state, filter.state),
            (columns.created_by, filter.created_by),
        ):
            if value:
                statement = statement.where(column == value.replace("\0", "\ufffd"))
        if filter.from_ms is not None:
            statement = statement.where(columns.created_ms >= filter.from_ms)
        if filter.to_ms is not None:
            statement = statement.where(columns.created_ms < filter.to_ms)
        if after is not None:
            at_ms, last = after
            same = and_(columns.created_ms == at_ms, columns.id < last)
            statement = statement.where(or_(columns.created_ms < at_ms, same))
        return self._read(statement.limit(min(limit, PAGE_MAX)), JobRow)


def _trim(connection: Connection) -> None:
    """Delete the oldest jobs over the limit."""
    columns = replay_jobs.c
    newest = select(columns.created_ms).order_by(columns.created_ms.desc())
    cutoff_ms = connection.execute(newest.offset(JOBS_MAX - 1).limit(1)).scalar()
    if cutoff_ms is not None:
        connection.execute(delete(replay_jobs).where(columns.created_ms < cutoff_ms))
