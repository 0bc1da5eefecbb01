"""Copies of replay jobs in SQL, updated when the engine's journal changes.

The journal is the source of truth, including every outcome; see ADR 13.
"""

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import and_, insert, or_, select, update

from app.db.rows import JobFilter, JobRow
from app.db.store import PAGE_MAX, TableStore, matching, storable, trim
from app.db.tables import replay_jobs

JOBS_MAX = 10_000  # rows that are kept; the engine itself keeps 1,000 jobs


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
                trim(connection, replay_jobs.c.created_ms, JOBS_MAX)

    def get(self, job_id: str) -> JobRow | None:
        """One job; None if it has no copy."""
        same = replay_jobs.c.id == storable(job_id)
        return self._read_one(select(replay_jobs).where(same), JobRow)

    def find(self, filter: JobFilter, limit: int, after: tuple[int, str] | None) -> list[JobRow]:
        """The newest jobs, at most 200; `after` is (created_ms, id) of the previous page's last."""
        columns = replay_jobs.c
        statement = select(replay_jobs).order_by(columns.created_ms.desc(), columns.id.desc())
        statement = statement.where(*matching(replay_jobs, filter, at="created_ms"))
        if after is not None:
            at_ms, last = after
            same = and_(columns.created_ms == at_ms, columns.id < last)
            statement = statement.where(or_(columns.created_ms < at_ms, same))
        return self._read(statement.limit(min(limit, PAGE_MAX)), JobRow)
