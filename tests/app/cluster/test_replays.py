"""Replay jobs of several servers before one cluster: who runs them, and what a crash leaves."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.cluster.administration import ClusterAdministration
from app.cluster.client import ClusterClient
from app.cluster.messaging import ClusterMessaging
from app.cluster.replays.copies import InDoubt, JobCopies
from app.db.cluster_job_store import ClusterJobStore
from app.db.rows import DatabaseError
from app.db.worker import DatabaseWorker
from engine.broker import NewReplay, ReplayJob, ReplayState, ReplayTo
from engine.errors import Conflict, NotFound
from engine.message import Message
from tests.app.maker import Maker
from tests.app.test_messaging import maker_of
from tests.remoting.port import Running, opened

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

COUNT = 40


class Killed(BaseException):
    """The server ends here."""


class Dying(JobCopies):
    """Sends as ever, and the server is killed after the fifth."""

    count = 0

    async def send(self, copy: Message) -> None:
        await super().send(copy)
        self.count += 1
        if self.count == 5:
            raise Killed


class Losing(JobCopies):
    """Sends as ever, and loses the answers to some."""

    count = 0

    async def send(self, copy: Message) -> None:
        self.count += 1
        if self.count % 7 == 0:  # never sent
            raise InDoubt("no answer")
        await super().send(copy)
        if self.count % 7 == 3:  # sent
            raise InDoubt("no answer")


@dataclass
class Desk:
    running: Running
    maker: Maker
    messaging: ClusterMessaging
    database: DatabaseWorker
    source: str
    target: str

    def server(self, kind: type[JobCopies] = JobCopies) -> ClusterAdministration:
        """Another server over the same database."""
        administration = ClusterAdministration(
            self.messaging.catalog, self.database, self.running.clock
        )
        administration.runner._copies = kind(self.messaging.catalog)
        return administration

    def job(self, **more: object) -> NewReplay:
        new = NewReplay(source=self.source, to=ReplayTo.TOPIC, to_name=self.target, rate=0)
        return NewReplay(**{name: getattr(new, name) for name in new.__struct_fields__} | more)

    async def copies(self) -> Counter[bytes]:
        """How often each body is in the target."""
        bodies: Counter[bytes] = Counter()
        for queue in range(4):
            offset, end = await self.messaging.queue_bounds(self.target, queue)
            while offset < end:
                page = await self.messaging.pull(self.target, queue, offset, count_max=32)
                bodies.update(each.body for each in page.messages)
                offset = page.next_offset
        return bodies


@pytest.fixture
async def desk(tmp_path: Path, url: str) -> AsyncIterator[Desk]:
    async with opened(tmp_path / "data") as running:
        client = ClusterClient(running.port.address)
        database = DatabaseWorker(url)
        async with ClusterMessaging(client, clock=running.clock) as messaging:
            maker = maker_of(running, messaging)
            source, target = await maker.topic(), await maker.topic()
            for number in range(COUNT):
                await maker.send(source, f"m{number}", queue=number % 4)
            yield Desk(running, maker, messaging, database, source, target)
        await database.close()


async def finish(desk: Desk, server: ClusterAdministration, job_id: str) -> ReplayJob:
    async with asyncio.timeout(30):
        while (job := await server.replays.get(job_id)).state is ReplayState.RUNNING:
            await server.runner.tick()
            desk.running.clock.advance(4)
    return job


EACH_ONCE = {f"m{number}".encode(): 1 for number in range(COUNT)}


async def test_a_dry_run_looks_and_its_beginning_sends_each_once(desk: Desk) -> None:
    server = desk.server()
    dry = await server.replays.create(desk.job(dry_run=True))
    assert (await finish(desk, server, dry.id)).totals == {"eligible": COUNT}
    assert not await desk.copies()
    with pytest.raises(Conflict):
        await server.replays.pause(dry.id)
    await server.replays.begin(dry.id)
    assert (await finish(desk, server, dry.id)).totals == {"sent": COUNT}
    assert await desk.copies() == EACH_ONCE
    page = await server.replays.outcomes(dry.id, outcome="sent", count_max=10)
    assert [each.index for each in page.items] == list(range(10))
    assert page.next == 9
    with pytest.raises(NotFound):
        await server.replays.get("none")


async def test_what_a_killed_server_sent_is_not_sent_again(desk: Desk) -> None:
    dying, other = desk.server(Dying), desk.server()
    job = await dying.replays.create(desk.job())
    with pytest.raises(Killed):
        await dying.runner.tick()
    assert (await desk.copies()).total() == 5
    await other.runner.tick()
    assert (await desk.copies()).total() == 5  # the lease of the killed one holds
    desk.running.clock.advance(16)
    assert (await finish(desk, other, job.id)).totals == {"sent": COUNT}
    assert await desk.copies() == EACH_ONCE


async def test_copies_whose_answers_are_lost_are_sent_once(desk: Desk) -> None:
    server = desk.server(Losing)
    job = await server.replays.create(desk.job())
    await server.runner.tick()
    assert (await server.replays.get(job.id)).waiting == "no answer"
    assert (await finish(desk, server, job.id)).totals == {"sent": COUNT}
    assert await desk.copies() == EACH_ONCE


async def test_outcomes_that_cannot_be_written_are_found_in_the_cluster(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = desk.server()
    calls = 0
    advance = ClusterJobStore.advance

    def failing(store: ClusterJobStore, row: object, owner: str, values: Any, marks: Any) -> bool:
        nonlocal calls
        calls += 1
        if calls == 2:  # the outcomes of the first step
            raise DatabaseError("the database is away")
        return advance(store, row, owner, values, marks)  # type: ignore[arg-type]

    monkeypatch.setattr(ClusterJobStore, "advance", failing)
    job = await server.replays.create(desk.job())
    await server.runner.tick()
    assert (await desk.copies()).total() > 0
    assert (await server.replays.get(job.id)).examined == 0
    assert (await finish(desk, server, job.id)).totals == {"sent": COUNT}
    assert await desk.copies() == EACH_ONCE


async def test_a_command_of_one_server_holds_for_the_other(desk: Desk) -> None:
    one, two = desk.server(), desk.server()
    job = await one.replays.create(desk.job(rate=100.0))
    await one.runner.tick()
    assert (await two.replays.pause(job.id)).state is ReplayState.PAUSED
    sent = (await desk.copies()).total()
    assert sent < COUNT
    desk.running.clock.advance(60)
    await one.runner.tick()
    assert (await desk.copies()).total() == sent
    await one.replays.resume(job.id)
    await two.replays.change_rate(job.id, 0)
    assert (await finish(desk, two, job.id)).totals == {"sent": COUNT}
    assert await desk.copies() == EACH_ONCE
    fresh = await two.replays.create(desk.job(fresh_only=True))
    assert (await finish(desk, one, fresh.id)).totals == {"sent_before": COUNT}
