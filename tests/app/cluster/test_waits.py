"""Long polls that share their requests: who is woken, and what a wake that is lost becomes."""

import asyncio

import pytest

from app.cluster.verbs import waits as module
from app.cluster.verbs.waits import ClusterWaits
from engine.errors import Busy

pytestmark = pytest.mark.anyio
LIMIT_S = 30.0


class ScriptedBroker:
    """Says that there is something as often as it is told to, and counts who asks."""

    def __init__(self) -> None:
        self.requests = 0
        self._some: asyncio.Queue[bool] = asyncio.Queue()

    def say(self, *answers: bool) -> None:
        for each in answers:
            self._some.put_nowait(each)

    async def ask(self) -> bool:
        self.requests += 1
        return await self._some.get()


async def woken(count: int, events: list[int]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while len(events) < count:
            await asyncio.sleep(0.001)


async def test_those_who_wait_for_the_same_share_one_request() -> None:
    waits, broker, events = ClusterWaits(), ScriptedBroker(), list[int]()
    for number in range(20):
        waits.begin("key", broker.ask, lambda number=number: events.append(number))  # type: ignore[misc]
    await asyncio.sleep(0)
    assert broker.requests == 1
    broker.say(False, True)
    await woken(module.WAKES_MAX, events)
    assert events == list(range(module.WAKES_MAX))
    assert len(waits) == 20 - module.WAKES_MAX
    broker.say(True, True)
    await woken(20, events)
    assert len(waits) == 0
    await waits.close()


async def test_one_who_leaves_is_not_woken_and_the_next_is() -> None:
    waits, broker, events = ClusterWaits(), ScriptedBroker(), list[int]()
    first = waits.begin("key", broker.ask, lambda: events.append(1))
    waits.begin("key", broker.ask, lambda: events.append(2))
    first.cancel()
    first.cancel()
    broker.say(True)
    await woken(1, events)
    assert events == [2]
    assert not first.is_woken
    await waits.close()


async def test_when_the_last_leaves_nobody_asks_any_more() -> None:
    waits, broker = ClusterWaits(), ScriptedBroker()
    wait = waits.begin("key", broker.ask, lambda: None)
    await asyncio.sleep(0)
    wait.cancel()
    again = waits.begin("key", broker.ask, lambda: None)
    await asyncio.sleep(0.01)
    assert (len(waits), broker.requests) == (1, 2)
    broker.say(True)
    async with asyncio.timeout(LIMIT_S):
        while not again.is_woken:
            await asyncio.sleep(0.001)
    await waits.close()


async def test_a_drain_ends_who_waits_and_lets_nobody_wait_any_more() -> None:
    waits, broker = ClusterWaits(), ScriptedBroker()
    waiting = [asyncio.create_task(waits.until("key", broker.ask, 600)) for _ in range(3)]
    async with asyncio.timeout(LIMIT_S):
        while len(waits) < 3:
            await asyncio.sleep(0.001)
        waits.drain()
        assert [await each for each in waiting] == [False] * 3
        assert not await waits.until("key", broker.ask, 600)
    assert len(waits) == 0
    await waits.close()


async def test_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUESTS_MAX", 2)
    monkeypatch.setattr(module, "WAITS_MAX", 3)
    waits, broker = ClusterWaits(), ScriptedBroker()
    for key in "aab":
        waits.begin(key, broker.ask, lambda: None)
    with pytest.raises(Busy):
        waits.begin("a", broker.ask, lambda: None)
    monkeypatch.setattr(module, "WAITS_MAX", 100)
    with pytest.raises(Busy):
        waits.begin("c", broker.ask, lambda: None)
    assert not await waits.until("a", broker.ask, 0.01)
    assert len(waits) == 3
    await waits.close()
