"""Replay jobs as people order them: created, begun, paused, resumed, stopped, all audited."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import msgspec

from app.host import EngineHost
from app.services.audit import Actor, Audit
from engine.broker import NewReplay, ReplayJob, RetryRequest

KIND = "replay"


@dataclass
class DeadLetterTotals:
    """What the newest dead letters of a group have in common; `examined` of `total` were read."""

    total: int
    examined: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    topics: Counter[str] = field(default_factory=Counter)
    clients: Counter[str] = field(default_factory=Counter)
    redriven: int = 0
    returned: int = 0
    dismissed: int = 0


class Replays:
    """Orders jobs for a person or a program, who is named in the trail and on the job."""

    def __init__(self, host: EngineHost, audit: Audit) -> None:
        self._host = host
        self._audit = audit

    async def create(self, actor: Actor, new: NewReplay) -> ReplayJob:
        """Create a job or a dry run; raises what `Replays.create` of the engine does."""
        new = msgspec.structs.replace(new, created_by=actor.name)
        action = "replay.preview" if new.dry_run else "replay.create"
        async with self._audit.change(actor, action, KIND, new.source) as change:
            change.after = job = self._host.broker.replays.create(new)
        return job

    async def begin(self, actor: Actor, job_id: str) -> ReplayJob:
        """Do a dry run in earnest."""
        before = self._host.broker.replays.get(job_id)
        async with self._audit.change(actor, "replay.begin", KIND, job_id, before=before) as change:
            change.after = job = self._host.broker.replays.begin(job_id)
        return job

    async def retry(self, actor: Actor, job_id: str, how: RetryRequest) -> ReplayJob:
        """Try again what failed in a job, and nothing else; raises what the engine's `retry` does.

        The failures are gathered in steps that let others in between.
        """
        replays = self._host.broker.replays
        runs = []
        start: int | None = 0
        while start is not None:
            found = replays.failed(job_id, start)
            runs += found.runs
            start = found.next
            await asyncio.sleep(0)
        how = msgspec.structs.replace(how, created_by=actor.name)
        action = "replay.preview" if how.dry_run else "replay.retry"
        before = replays.get(job_id)
        async with self._audit.change(actor, action, KIND, job_id, before=before) as change:
            change.after = job = replays.retry(job_id, runs, how)
        return job

    async def pause(self, actor: Actor, job_id: str) -> ReplayJob:
        """Let a job rest."""
        before = self._host.broker.replays.get(job_id)
        async with self._audit.change(actor, "replay.pause", KIND, job_id, before=before) as change:
            change.after = job = self._host.broker.replays.pause(job_id)
        return job

    async def resume(self, actor: Actor, job_id: str) -> ReplayJob:
        """Let a job go on."""
        before = self._host.broker.replays.get(job_id)
        async with self._audit.change(
            actor, "replay.resume", KIND, job_id, before=before
        ) as change:
            change.after = job = self._host.broker.replays.resume(job_id)
        return job

    async def stop(self, actor: Actor, job_id: str) -> ReplayJob:
        """End a job."""
        before = self._host.broker.replays.get(job_id)
        async with self._audit.change(actor, "replay.stop", KIND, job_id, before=before) as change:
            change.after = job = self._host.broker.replays.stop(job_id)
        return job

    async def change_rate(self, actor: Actor, job_id: str, rate: float) -> ReplayJob:
        """Change how fast a job sends."""
        before = self._host.broker.replays.get(job_id)
        async with self._audit.change(
            actor, "replay.change_rate", KIND, job_id, before=before
        ) as change:
            change.after = job = self._host.broker.replays.change_rate(job_id, rate)
        return job

    async def count_dead_letters(self, group: str, newest: int) -> DeadLetterTotals:
        """Counts over the newest dead letters, in steps that let others in between."""
        dead_letters = self._host.broker.dead_letters
        counts = DeadLetterTotals(dead_letters.page(group, count_max=1).count)
        after: int | None = None
        while counts.examined < newest:
            tally = dead_letters.tally(group, after=after, count_max=newest - counts.examined)
            counts.examined += tally.examined
            counts.reasons.update(tally.reasons)
            counts.topics.update(tally.topics)
            counts.clients.update(tally.clients)
            counts.redriven += tally.redriven
            counts.returned += tally.returned
            counts.dismissed += tally.dismissed
            after = tally.next
            if after is None:
                break
            await asyncio.sleep(0)
        return counts
