"""The contract of the verbs, answered by KiteMQ's own port in the place of a cluster.

`tests/rocketmq/test_verbs.py` has the whole of it against Apache's brokers.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from app.cluster.client import ClusterClient
from app.cluster.errors import ClusterRefused
from app.cluster.messaging import ClusterMessaging
from engine.broker import AckResult
from engine.errors import Busy, Refused
from engine.message import Durability, Message
from protocol.remoting.codes import ResponseCode
from tests.app import test_messaging as contract
from tests.app.maker import LIMIT_S, Maker
from tests.remoting.port import opened

pytestmark = pytest.mark.anyio

# Nobody makes or reads the topics of retries and dead letters through this port: they are named
# and made otherwise than Apache's.
LEFT_OUT = {
    "test_a_nacked_message_comes_back_then_lies_in_the_dead_letters",
    "test_a_rejected_message_is_dead_at_once",
}


@pytest.fixture
async def maker(tmp_path: Path) -> AsyncIterator[Maker]:
    async with opened(tmp_path / "data") as running:
        client = ClusterClient(running.port.address)
        async with ClusterMessaging(client, clock=running.clock) as messaging:
            maker = contract.maker_of(running, messaging)
            maker.askers = messaging.transactions.askers
            yield maker


@pytest.fixture
async def lacking(tmp_path: Path) -> AsyncIterator[ClusterMessaging]:
    """A cluster whose brokers have neither timer wheel nor recalls nor filters by property."""
    async with opened(tmp_path / "data") as running:
        client = ClusterClient(running.port.address)
        async with ClusterMessaging(client, clock=running.clock) as messaging:
            lacks = {"exact_timers": False, "sql_filters": False, "timer_recalls": False}
            catalog = messaging._catalog
            catalog.capabilities = msgspec.structs.replace(catalog.capabilities, **lacks)
            yield messaging


async def test_what_the_brokers_are_not_set_up_for_is_refused(lacking: ClusterMessaging) -> None:
    calls = {
        "messages[0].deliver_at_ms": lacking.send([Message("orders", b"x", deliver_at_ms=1 << 40)]),
        "filter": lacking.receive("billing", {"orders": "SQL92: a > 5"}),
        "message_id": lacking.recall("A1"),
        "client": lacking.held("billing", "worker"),
        "position": lacking.message_at(0),
        "durability": lacking.send([Message("orders", b"x")], Durability.REPLICATED),
    }
    for field, call in calls.items():
        with pytest.raises(Refused) as error:
            await call
        assert (error.value.code, error.value.field) == ("not_supported", field)
        assert error.value.remedy


async def test_a_drain_ends_receives_and_pulls_that_wait(lacking: ClusterMessaging) -> None:
    await lacking.send([Message("orders", b"x", queue=0)])
    topics = {"orders": "*"}
    receiving = asyncio.create_task(lacking.receive("billing", topics, queue=1, wait_s=600))
    pulling = asyncio.create_task(lacking.pull("orders", 0, 1, wait_s=600))
    async with asyncio.timeout(LIMIT_S):
        while len(lacking._waits) < 2:
            await asyncio.sleep(0.01)
        lacking.drain()
        assert await receiving == []
        page = await pulling
    assert (page.messages, page.next_offset) == ([], 1)


async def test_a_cluster_that_is_away_is_busy() -> None:
    messaging = ClusterMessaging(ClusterClient("127.0.0.1:1"))
    with pytest.raises(Busy) as error:
        await messaging.start()
    assert error.value.code == "cluster_unreachable"
    await messaging.close()


globals().update(
    {
        name: test
        for name, test in vars(contract).items()
        if name.startswith("test_") and name not in LEFT_OUT
    }
)


async def test_brokers_that_take_no_acks_together_get_them_one_by_one(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def unknown(_group: str, broker: str, _acks: object) -> None:
        asked.append(broker)
        raise ClusterRefused("no such request", ResponseCode.REQUEST_CODE_NOT_SUPPORTED)

    assert isinstance(maker.messaging, ClusterMessaging)
    monkeypatch.setattr(maker.messaging._client.deliveries, "ack_together", unknown)
    topic, group = await maker.topic(), await maker.group()
    for _ in range(2):
        await maker.send(topic, "a", "b", "c")
        got = await maker.receive(group, topic, 3, invisible_s=5)
        receipts = [each.receipt for each in got]
        assert await maker.messaging.ack(group, receipts) == [AckResult.DONE] * 3
    await maker.advance(6)
    assert await maker.is_quiet(group, topic)
    assert len(asked) == 1
