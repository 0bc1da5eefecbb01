"""A topic of a cluster is looked through page by page, and followed, in the order of storing."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.cluster.client import ClusterClient
from app.cluster.host import ClusterHost
from app.cluster.messaging import ClusterMessaging
from app.cluster.search import ClusterSearch
from app.server_host import RollSource
from app.services.tail import Tail
from app.settings import Settings
from engine.broker import ScanQuery
from engine.errors import Invalid
from engine.message import Message, StoredMessage
from tests.app.maker import Maker, cluster_administration
from tests.app.test_messaging import maker_of
from tests.remoting.port import opened

COUNT = 90


@dataclass
class Desk:
    maker: Maker
    search: ClusterSearch
    topic: str

    async def pages(self, query: ScanQuery, count_max: int) -> list[StoredMessage]:
        """All messages that a search finds, by pages of so many."""
        items: list[StoredMessage] = []
        cursor, scanned = "", -1
        while True:
            page = await self.search.scan(query, count_max=count_max, cursor=cursor)
            assert len(page.items) <= count_max
            assert page.scanned > scanned
            items += page.items
            assert page.matched == len(items)
            if page.next_cursor is None:
                assert page.scanned == page.total
                return items
            cursor, scanned = page.next_cursor, page.scanned


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with opened(tmp_path / "data") as running:
        client = ClusterClient(running.port.address)
        async with ClusterMessaging(client, clock=running.clock) as messaging:
            maker = maker_of(running, messaging)
            administration = cluster_administration(messaging)
            settings = Settings(data=tmp_path / "own")
            source = RollSource(())
            host = ClusterHost(
                settings, messaging, administration, roll_source=source, clock=running.clock
            )
            search = ClusterSearch(host, messaging, administration)
            topic = await maker.topic(3)
            for number in range(COUNT):
                tag = "a" if number % 3 else "b"
                body = f"order {number}".encode()
                await messaging.send([Message(topic, body, tag=tag, queue=number * 7 % 3)])
                if number % 4 == 0:  # several of a millisecond, and in several queues
                    running.clock.advance(0.001)
            running.clock.advance(0.5)
            yield Desk(maker, search, topic)


@pytest.mark.anyio
@pytest.mark.parametrize("is_newest_first", [False, True])
@pytest.mark.parametrize("count_max", [7, 200])
async def test_each_message_comes_once_and_in_order(
    desk: Desk, count_max: int, is_newest_first: bool
) -> None:
    query = ScanQuery(desk.topic, is_newest_first=is_newest_first)
    items = await desk.pages(query, count_max)
    assert sorted(int(each.body.split()[1]) for each in items) == list(range(COUNT))
    times = [each.stored_ms for each in items]
    assert times == sorted(times, reverse=is_newest_first)


@pytest.mark.anyio
async def test_conditions_hold_and_a_cursor_belongs_to_its_search(desk: Desk) -> None:
    some = await desk.pages(ScanQuery(desk.topic, filter="b", contains="order 3"), 4)
    assert [int(each.body.split()[1]) for each in some] == [3, 30, 33, 36, 39]
    whole = await desk.pages(ScanQuery(desk.topic), 200)
    middle_ms = whole[COUNT // 2].stored_ms
    late = await desk.pages(ScanQuery(desk.topic, begin_ms=middle_ms), 9)
    assert late == [each for each in whole if each.stored_ms >= middle_ms]
    early = await desk.pages(ScanQuery(desk.topic, end_ms=middle_ms), 9)
    assert early == [each for each in whole if each.stored_ms < middle_ms]
    page = await desk.search.scan(ScanQuery(desk.topic), count_max=5)
    another = ScanQuery(desk.topic, contains="5")
    for cursor in (page.next_cursor, "x"):
        with pytest.raises(Invalid) as refusal:
            await desk.search.scan(another, count_max=5, cursor=cursor or "")
        assert refusal.value.field == "cursor"


@pytest.mark.anyio
async def test_a_tail_has_each_message_once_and_goes_on_at_its_mark(desk: Desk) -> None:
    messaging = desk.maker.messaging
    tail = await Tail.begin(messaging, [desk.topic], lookback=COUNT, now_ms=0)
    messages: list[StoredMessage] = []
    while len(messages) < COUNT:
        messages += (await tail.read()).messages
    times = [each.stored_ms for each in messages]
    assert times == sorted(times)
    assert len({(each.queue, each.offset) for each in messages}) == COUNT
    await desk.maker.send(desk.topic, "new", queue=1)
    again = await Tail.begin(messaging, [desk.topic], mark=tail.mark, now_ms=0)
    assert [each.body for each in (await again.read()).messages] == [b"new"]
