"""Replay jobs as people order them: created, begun, paused, resumed, stopped, all audited."""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial

import msgspec

from app.capabilities import require
from app.db.rows import Actor
from app.host import EngineHost
from app.messaging import Messaging
from app.services.audit import Audit
from engine.broker import NewReplay, ReplayJob, RetryRequest
from kitemq.model.conversion import convert
from kitemq.model.dead_letters import DeadLetterCounts

SUMS = ("examined", "redriven", "returned", "dismissed")
WORDS = ("reasons", "error_classes", "topics", "clients")


class Replays:
    """Orders jobs for a person or a program, who is named in the trail and on the job."""

    def __init__(self, host: EngineHost, messaging: Messaging, audit: Audit) -> None:
        self._host = host
        self._messaging = messaging
        self._audit = audit

    async def create(self, actor: Actor, new: NewReplay) -> ReplayJob:
        """Create a job or a dry run; raises what `Replays.create` of the engine does."""
        require(self._messaging.capabilities, "dead_letter_replays", field="source")
        new = msgspec.structs.replace(new, created_by=actor.name)
        action = "replay.preview" if new.dry_run else "replay.create"
        async with self._audit.change(actor, action, new.source) as change:
            change.after = job = self._host.broker.replays.create(new)
        return job

    async def begin(self, actor: Actor, job_id: str) -> ReplayJob:
        """Do a dry run in earnest."""
        return await self._change(actor, "begin", job_id, self._host.broker.replays.begin)

    async def retry(self, actor: Actor, job_id: str, how: RetryRequest) -> ReplayJob:
        """Try again what failed in a job, and nothing else; raises what the engine's `retry` does.

        The failures are gathered in steps that let others in between.
        """
        replays = self._host.broker.replays
        runs = []
        start: int | None = 0
        while start is not None:
            failures = replays.failed(job_id, start)
            runs += failures.runs
            start = failures.next
            await asyncio.sleep(0)
        how = msgspec.structs.replace(how, created_by=actor.name)
        action = "replay.preview" if how.dry_run else "replay.retry"
        before = replays.get(job_id)
        async with self._audit.change(actor, action, job_id, before=before) as change:
            change.after = job = replays.retry(job_id, runs, how)
        return job

    async def pause(self, actor: Actor, job_id: str) -> ReplayJob:
        """Let a job rest."""
        return await self._change(actor, "pause", job_id, self._host.broker.replays.pause)

    async def resume(self, actor: Actor, job_id: str) -> ReplayJob:
        """Let a job go on."""
        return await self._change(actor, "resume", job_id, self._host.broker.replays.resume)

    async def stop(self, actor: Actor, job_id: str) -> ReplayJob:
        """End a job."""
        return await self._change(actor, "stop", job_id, self._host.broker.replays.stop)

    async def change_rate(self, actor: Actor, job_id: str, rate: float) -> ReplayJob:
        """Change how fast a job sends."""
        change = partial(self._host.broker.replays.change_rate, rate=rate)
        return await self._change(actor, "change_rate", job_id, change)

    async def _change(
        self, actor: Actor, action: str, job_id: str, change: Callable[[str], ReplayJob]
    ) -> ReplayJob:
        before = self._host.broker.replays.get(job_id)
        entry = self._audit.change(actor, f"replay.{action}", job_id, before=before)
        async with entry as audited:
            audited.after = job = change(job_id)
        return job

    async def count_dead_letters(self, group: str, newest: int) -> DeadLetterCounts:
        """Counts over the newest dead letters, in steps that let others in between."""
        dead_letters = self._host.broker.dead_letters
        states = dead_letters.states(group).counts()
        sums: Counter[str] = Counter()
        by_word: dict[str, Counter[str]] = {name: Counter() for name in WORDS}
        after: int | None = None
        while sums["examined"] < newest:
            tally = dead_letters.tally(group, after=after, count_max=newest - sums["examined"])
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
