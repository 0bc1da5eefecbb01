"""Replay jobs as people order them: created, begun, paused, resumed, stopped, all audited."""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial

import msgspec

from app.administration import Administration
from app.capabilities import require
from app.db.rows import Actor
from app.host import EngineHost
from app.messaging import Messaging, VerbSet, verb
from app.services.audit import Audit
from engine.broker import NewReplay, ReplayJob, ReplayJobs, RetryRequest
from kitemq.model.conversion import convert
from kitemq.model.dead_letters import DeadLetterCounts

SUMS = ("examined", "redriven", "returned", "dismissed")
WORDS = ("reasons", "error_classes", "topics", "clients")


class Replays(VerbSet[ReplayJobs]):
    """Orders jobs for a person or a program, who is named in the trail and on the job."""

    def __init__(
        self,
        host: EngineHost,
        messaging: Messaging,
        administration: Administration,
        audit: Audit,
    ) -> None:
        self._host = host
        self._administration = administration
        self._messaging = messaging
        self._audit = audit

    @property
    def _engine(self) -> ReplayJobs:
        return self._host.broker.replays

    get = verb(ReplayJobs.get)
    list = verb(ReplayJobs.list)
    outcomes = verb(ReplayJobs.outcomes)

    async def create(self, actor: Actor, new: NewReplay) -> ReplayJob:
        """Create a job or a dry run; raises what `Replays.create` of the engine does."""
        require(self._messaging.capabilities, "dead_letter_replays", field="source")
        new = msgspec.structs.replace(new, created_by=actor.name)
        action = "replay.preview" if new.dry_run else "replay.create"
        async with self._audit.change(actor, action, new.source) as change:
            change.after = job = self._engine.create(new)
        return job

    async def begin(self, actor: Actor, job_id: str) -> ReplayJob:
        """Do a dry run in earnest."""
        return await self._change(actor, "begin", job_id, self._engine.begin)

    async def retry(self, actor: Actor, job_id: str, how: RetryRequest) -> ReplayJob:
        """Try again what failed in a job, and nothing else; raises what the engine's `retry` does.

        The failures are gathered in steps that let others in between.
        """
        replays = self._engine
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
        return await self._change(actor, "pause", job_id, self._engine.pause)

    async def resume(self, actor: Actor, job_id: str) -> ReplayJob:
        """Let a job go on."""
        return await self._change(actor, "resume", job_id, self._engine.resume)

    async def stop(self, actor: Actor, job_id: str) -> ReplayJob:
        """End a job."""
        return await self._change(actor, "stop", job_id, self._engine.stop)

    async def change_rate(self, actor: Actor, job_id: str, rate: float) -> ReplayJob:
        """Change how fast a job sends."""
        change = partial(self._engine.change_rate, rate=rate)
        return await self._change(actor, "change_rate", job_id, change)

    async def _change(
        self, actor: Actor, action: str, job_id: str, change: Callable[[str], ReplayJob]
    ) -> ReplayJob:
        before = self._engine.get(job_id)
        entry = self._audit.change(actor, f"replay.{action}", job_id, before=before)
        async with entry as audited:
            audited.after = job = change(job_id)
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
