"""Copies of the replay jobs in SQL, where they can be asked for when the engine has forgotten them.

The engine's journal is the truth. Every few seconds what differs from the last copy is written
again, after a start everything; so a copy that a crash or a failing database kept from being made
is made later, and none is ever wrong for good.
"""

import asyncio
import contextlib
import logging

import msgspec

from app.administration import ReplayVerbs
from app.db.rows import DatabaseError, JobFilter, JobRow, json_text
from app.db.worker import DatabaseAsker, DatabaseWorker
from app.tasks import end_tasks
from engine.broker import ReplayJob
from engine.errors import Busy, Invalid
from kitemq.model.conversion import convert
from kitemq.model.numbers import is_whole

log = logging.getLogger("kitemq.replays")

INTERVAL_S = 5.0
STEP_JOBS = 100  # read and written in one go
ERROR_CHARS_MAX = 2000
SELECTION = (
    "filter", "reason", "origin_topic", "error_class", "error", "client", "failures",
    "dead_letter_state", "fresh_only",
)  # fmt: skip


class ReplayCopies:
    """Keeps the copies while the server runs, and finds them; on the loop's thread."""

    def __init__(self, jobs: ReplayVerbs, database: DatabaseWorker) -> None:
        self._jobs = jobs
        self._database = database
        self._ask = DatabaseAsker(
            database,
            "the history of replay jobs cannot be read",
            remedy="see the server's log about its database, then try again; GET /replays "
            "has the jobs that the engine keeps",
            code="history_unavailable",
        )
        self._written: dict[str, ReplayJob] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to copy; the first time after one interval."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Copy once more, then leave off."""
        await end_tasks(self._task)
        with contextlib.suppress(DatabaseError, Busy):
            await self.copy()

    async def copy(self) -> None:
        """Write what has changed since it was written last; raises DatabaseError.

        The jobs are read in steps, between which others go on.
        """
        job_ids: set[str] = set()
        after = ""
        while True:
            jobs = await self._jobs.list(after=after, count_max=STEP_JOBS)
            job_ids.update(job.id for job in jobs)
            changed = [job for job in jobs if self._is_news(job)]
            if changed:
                await self._write(changed)
            if len(jobs) < STEP_JOBS:
                break
            after = jobs[-1].id
            await asyncio.sleep(0)
        self._written = {id: job for id, job in self._written.items() if id in job_ids}

    async def get(self, job_id: str) -> JobRow | None:
        """The copy of one job; None where there is none, or no longer. Raises Busy."""
        return await self._ask(lambda db: db.replays.get(job_id))

    async def find(
        self, criteria: JobFilter, limit: int, after: tuple[int, str] | None
    ) -> list[JobRow]:
        """The newest jobs that are wanted; see `ReplayStore.find`. Raises Busy."""
        return await self._ask(lambda db: db.replays.find(criteria, limit, after))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            try:
                await self.copy()
            except (DatabaseError, Busy) as error:
                log.warning("replay jobs cannot be copied into the database now: %s", error)
            except Exception:
                log.exception("replay jobs could not be copied into the database")

    def _is_news(self, job: ReplayJob) -> bool:
        return self._written.get(job.id) != _lasting(job)

    async def _write(self, jobs: list[ReplayJob]) -> None:
        rows = [_row(job) for job in jobs]
        await self._database.run(lambda database: database.replays.write(rows))
        self._written.update({job.id: _lasting(job) for job in jobs})


def parse_cursor(cursor: str) -> tuple[int, str] | None:
    """When the last job of the page before was made, and its id; None without one. Invalid."""
    if not cursor:
        return None
    at_ms, _, job_id = cursor.partition("-")
    is_time = is_whole(at_ms)
    if not (is_time and job_id.isascii() and job_id.isalnum() and len(job_id) <= 64):
        raise Invalid(
            f"{cursor[:40]!r} is no cursor", field="cursor", remedy="begin without a cursor"
        )
    return int(at_ms), job_id


def _lasting(job: ReplayJob) -> ReplayJob:
    """The job without what is true for a moment only, and without what is not copied."""
    return msgspec.structs.replace(job, waiting="", seconds_left=None, retried_by=())


def _row(job: ReplayJob) -> JobRow:
    selection = {name: getattr(job, name) for name in SELECTION}
    return convert(
        job,
        JobRow,
        name=job.name[:200],
        target=str(job.to),
        target_name=job.to_name,
        selection_json=json_text(selection),
        per_s=job.rate,
        state=str(job.state),
        totals_json=json_text(job.totals),
        created_by=job.created_by[:255],
        last_error=job.last_error[:ERROR_CHARS_MAX].replace("\0", "\ufffd"),
    )
