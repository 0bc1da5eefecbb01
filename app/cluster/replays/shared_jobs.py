"""Replay jobs as SQL has them, for all servers before a cluster; those that changed are read anew.

A server that runs a job holds its lease, and notes before it sends how many messages it is about to
send: so whoever comes after it looks these up in the cluster, and sends none twice.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from app.db.rows import ClusterJobRow, LetterMarksRow
from app.db.worker import DatabaseAsker, DatabaseWorker
from engine.replay.job import JobPlan, ReplayState, StoredJob
from engine.replay.job_store import JOBS_MAX
from engine.replay.outcomes import OutcomeLog

if TYPE_CHECKING:
    from app.db.database import Database

READ_AT_ONCE = 100
LEASE_MS = 15_000
UNAVAILABLE = "replay jobs cannot be read or changed: {error}"


class SharedJob(StoredJob):
    """A job with the row that it was read from, or last written to."""

    row: ClusterJobRow


class SharedJobs:
    """All jobs, each read when its version differs."""

    def __init__(self, database: DatabaseWorker) -> None:
        self._ask = DatabaseAsker(database, UNAVAILABLE, code="jobs_unavailable")
        self._owner = uuid4().hex
        self._jobs: dict[str, SharedJob] = {}
        self._reading = asyncio.Lock()
        self.changed = asyncio.Event()

    async def all(self) -> dict[str, SharedJob]:
        """Every job by its id, the oldest first; Busy."""
        async with self._reading:
            return await self._all()

    async def _all(self) -> dict[str, SharedJob]:
        versions = await self._ask(lambda database: database.cluster_jobs.versions())
        for job_id in self._jobs.keys() - versions.keys():
            self.forget(job_id)
        stale = [
            job_id
            for job_id, version in versions.items()
            if job_id not in self._jobs or self._jobs[job_id].row.version != version
        ]
        for at in range(0, len(stale), READ_AT_ONCE):
            ids = stale[at : at + READ_AT_ONCE]
            for row in await self._ask(partial(_read, ids)):
                self._jobs[row.id] = _job_of(row)
        self._jobs = dict(sorted(self._jobs.items()))
        for job in self._jobs.values():
            job.retried_by = []
        for job in self._jobs.values():
            if job.plan.retry_of in self._jobs:
                self._jobs[job.plan.retry_of].retried_by.append(job.plan.id)
        return self._jobs

    def forget(self, job_id: str) -> None:
        """Read a job anew: what was changed of it here does not hold."""
        self._jobs.pop(job_id, None)

    # -- changing -------------------------------------------------------------------------------

    async def add(self, job: StoredJob) -> None:
        """A new job; the oldest that are over make room for it."""
        row = ClusterJobRow(
            id=job.plan.id,
            source=job.plan.source,
            plan=msgspec.msgpack.encode(job.plan),
            per_s=job.per_s,
            dry_run=job.dry_run,
            decided=job.decided.value,
            outcomes=packed_outcomes(job),
            examined=0,
            ended_ms=job.plan.created_ms if job.is_over else 0,
        )
        over = [each.plan.id for each in self._jobs.values() if each.is_over]
        forgotten = over[: max(0, len(self._jobs) + 1 - JOBS_MAX)]
        await self._ask(lambda database: database.cluster_jobs.add(row, forgotten))
        self.changed.set()

    async def change(self, job: SharedJob, values: Mapping[str, Any]) -> bool:
        """Write a change; False where another server was faster, and the job is read anew."""
        row = job.row
        is_done = await self._ask(
            lambda database: database.cluster_jobs.change(row.id, row.version, values)
        )
        if is_done:
            job.row = replace(row, **values, version=row.version + 1)
            self.changed.set()
        else:
            self.forget(row.id)
        return is_done

    # -- running --------------------------------------------------------------------------------

    async def lease(self, job: SharedJob, now_ms: int) -> bool:
        """Whether this server may run the job for the next 15 seconds."""
        job_id, until_ms = job.plan.id, now_ms + LEASE_MS
        return await self._ask(
            lambda database: database.cluster_jobs.lease(job_id, self._owner, now_ms, until_ms)
        )

    async def release(self) -> None:
        """Let another server run the jobs that this one ran."""
        await self._ask(lambda database: database.cluster_jobs.release(self._owner))

    async def announce(self, job: SharedJob, doubt: int) -> bool:
        """Note that so many messages are about to be sent; False without the lease."""
        return await self._advance(job, {"doubt": doubt}, None)

    async def advance(self, job: SharedJob, doubt: int, marks: LetterMarksRow | None) -> bool:
        """Write the outcomes that the job has now; False without the lease, or its marks."""
        values = {
            "outcomes": packed_outcomes(job),
            "examined": job.cursor,
            "doubt": doubt,
            "ended_ms": job.ended_ms,
            "last_error": job.last_error,
            "waiting": "",
        }
        return await self._advance(job, values, marks)

    async def _advance(
        self, job: SharedJob, values: dict[str, Any], marks: LetterMarksRow | None
    ) -> bool:
        row = job.row
        try:
            is_done = await self._ask(
                lambda database: database.cluster_jobs.advance(row, self._owner, values, marks)
            )
        except BaseException:
            self.forget(row.id)  # what is in memory may be ahead of the row
            raise
        if is_done:  # where somebody changed the job meanwhile, its version says so
            job.waiting = ""
            job.row = replace(row, **values, version=row.version + 1)
            self._jobs[row.id] = job
        else:
            self.forget(row.id)
        return is_done


def _read(job_ids: Sequence[str], database: "Database") -> list[ClusterJobRow]:
    return database.cluster_jobs.read(job_ids)


def _job_of(row: ClusterJobRow) -> SharedJob:
    plan = msgspec.msgpack.decode(row.plan, type=JobPlan)
    job = SharedJob(plan, per_s=row.per_s, dry_run=row.dry_run, decided=ReplayState(row.decided))
    chunks, tail = msgspec.msgpack.decode(row.outcomes, type=tuple[list[bytes], bytes])
    job.outcomes = OutcomeLog(chunks, tail)
    job.row = row
    job.ended_ms, job.last_error, job.waiting = row.ended_ms, row.last_error, row.waiting
    return job


def packed_outcomes(job: StoredJob) -> bytes:
    """The outcomes of a job as its row has them."""
    return msgspec.msgpack.encode(job.outcomes.packed)


def sources_of(jobs: Mapping[str, StoredJob], source: str) -> Sequence[StoredJob]:
    """The jobs, no dry runs, over the messages of a topic, the oldest first."""
    return [job for job in jobs.values() if job.plan.source == source and not job.dry_run]
