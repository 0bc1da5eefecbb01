"""Replay jobs as people order them: created, begun, paused, resumed, stopped, all audited."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from app.administration import Administration
from app.capabilities import require
from app.db.rows import Actor
from app.messaging import Messaging
from app.services.audit import Audit
from engine.broker import NewReplay, ReplayJob, RetryRequest
from kitemq.model.conversion import convert
from kitemq.model.dead_letters import DeadLetterCounts

SUMS = ("examined", "redriven", "returned", "dismissed")
WORDS = ("reasons", "error_classes", "topics", "clients")


class Replays:
    """Orders jobs for a person or a program, who is named in the trail and on the job."""

    def __init__(self, messaging: Messaging, administration: Administration, audit: Audit) -> None:
        self._administration = administration
        self._messaging = messaging
        self._audit = audit
        self._jobs = jobs = administration.replays
        self.get, self.list, self.outcomes = jobs.get, jobs.list, jobs.outcomes

    async def create(self, actor: Actor, new: NewReplay) -> ReplayJob:
        """Create a job or a dry run; raises what `Replays.create` of the engine does."""
        require(self._messaging.capabilities, "dead_letter_replays", field="source")
        new = msgspec.structs.replace(new, created_by=actor.name)
        action = "replay.preview" if new.dry_run else "replay.create"
        async with self._audit.change(actor, action, new.source) as change:
            change.after = job = await self._jobs.create(new)
        return job

    async def begin(self, actor: Actor, job_id: str) -> ReplayJob:
        """Do a dry run in earnest."""
        return await self._change(actor, "begin", job_id, self._jobs.begin)

    async def retry(self, actor: Actor, job_id: str, how: RetryRequest) -> ReplayJob:
        """Try again what failed in a job, and nothing else; raises what the engine's `retry` does.

        The failures are gathered in steps that let others in between.
        """
        jobs = self._jobs
        runs = []
        start: int | None = 0
        while start is not None:
            failures = await jobs.failed(job_id, start)
            runs += failures.runs
            start = failures.next
            await asyncio.sleep(0)
        how = msgspec.structs.replace(how, created_by=actor.name)
        action = "replay.preview" if how.dry_run else "replay.retry"
        before = await jobs.get(job_id)
        async with self._audit.change(actor, action, job_id, before=before) as change:
            change.after = job = await jobs.retry(job_id, runs, how)
        return job

    async def pause(self, actor: Actor, job_id: str) -> ReplayJob:
        """Let a job rest."""
        return await self._change(actor, "pause", job_id, self._jobs.pause)

    async def resume(self, actor: Actor, job_id: str) -> ReplayJob:
        """Let a job go on."""
        return await self._change(actor, "resume", job_id, self._jobs.resume)

    async def stop(self, actor: Actor, job_id: str) -> ReplayJob:
        """End a job."""
        return await self._change(actor, "stop", job_id, self._jobs.stop)

    async def change_rate(self, actor: Actor, job_id: str, rate: float) -> ReplayJob:
        """Change how fast a job sends."""
        change = partial(self._jobs.change_rate, rate=rate)
        return await self._change(actor, "change_rate", job_id, change)

    async def _change(
        self, actor: Actor, action: str, job_id: str, change: Callable[[str], Awaitable[ReplayJob]]
    ) -> ReplayJob:
        before = await self._jobs.get(job_id)
        entry = self._audit.change(actor, f"replay.{action}", job_id, before=before)
        async with entry as audited:
            audited.after = job = await change(job_id)
        return job

    async def count_dead_letters(self, group: str, newest: int) -> DeadLetterCounts:
        """Counts over the newest dead letters, in steps that let others in between."""
        dead_letters = self._administration.dead_letters
        states = (await dead_letters.states(group)).counts()
        sums: Counter[str] = Counter()
        by_word: dict[str, Counter[str]] = {name: Counter() for name in WORDS}
        after: int | None = None
        while sums["examined"] < newest:
            count_max = newest - sums["examined"]
            tally = await dead_letters.tally(group, after=after, count_max=count_max)
            for name in SUMS:
                sums[name] += getattr(tally, name)
            for name, counter in by_word.items():
                counter.update(getattr(tally, name))
            after = tally.next
            if after is None:
                break
            await asyncio.sleep(0)
        return convert(
            None,
            DeadLetterCounts,
            total=states.total,
            states=msgspec.structs.asdict(states),
            **by_word,
            **{name: sums[name] for name in SUMS},
        )
