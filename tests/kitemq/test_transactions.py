"""Transactions with the SDK: what is committed, what is not, and who answers for the dead."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kitemq import (
    AsyncTransactionProducer,
    Check,
    Client,
    Decision,
    Invalid,
    NotFound,
    Refused,
    Stopped,
    TimedOut,
    TransactionProducer,
    TransactionState,
    Unreachable,
    link,
)
from kitemq.model.produce import NewMessage
from tests.live import LiveServer

pytestmark = [pytest.mark.anyio, pytest.mark.makers]

COMMITTED, ROLLED_BACK = TransactionState.COMMITTED, TransactionState.ROLLED_BACK


@pytest.fixture
def server(tmp_path: Path, maker_name: str) -> Iterator[LiveServer]:
    """Checks come soon, and often; the topic `t` takes half messages."""
    live = LiveServer(
        tmp_path / "data", maker_name, transaction_timeout_s=0.1, transaction_check_interval_s=0.3
    )
    live.start()
    try:
        with Client(live.url) as client:
            client.topics.create("t", type="TRANSACTION")
        yield live
    finally:
        live.close()


def bodies(server: LiveServer, topic: str = "t") -> list[str]:
    with Client(server.url) as client:
        found = client.deliveries.receive("consumers", topic, max=100)
        if found:
            client.deliveries.ack("consumers", [delivery.receipt for delivery in found])
        return [delivery.body for delivery in found]


def state(server: LiveServer, name: str) -> str:
    with Client(server.url) as client:
        return str(client.transactions.get(name).state)


async def until_state(server: LiveServer, name: str, wanted: TransactionState) -> None:
    async with asyncio.timeout(30):
        while await asyncio.to_thread(state, server, name) != wanted:
            await asyncio.sleep(0.02)


async def test_the_end_of_the_block_commits_and_an_exception_rolls_back(server: LiveServer) -> None:
    async with AsyncTransactionProducer("g", server.url) as producer:
        async with producer.transaction("t", "good", tag="x", keys="k") as good:
            assert await asyncio.to_thread(bodies, server) == []
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction("t", "bad") as bad:
                raise ZeroDivisionError
        async with producer.transaction("t", b"mine") as mine:
            await mine.rollback()
        assert (good.state, bad.state, mine.state) == (COMMITTED, ROLLED_BACK, ROLLED_BACK)
    assert await asyncio.to_thread(bodies, server) == ["good"]


@pytest.mark.capabilities("transaction_queries")
def test_synchronous_code_does_the_same(server: LiveServer) -> None:
    server.stop()
    server._settings = type(server._settings)(  # checks must not decide anything here
        data=server._settings.data, disk_free_min_bytes=0
    )
    server.start()
    with TransactionProducer("g", server.url) as producer:
        with producer.transaction("t", "good", properties={"p": "v"}) as good:
            pass
        with pytest.raises(ZeroDivisionError), producer.transaction("t", "bad") as bad:
            raise ZeroDivisionError
        left = producer.begin("t", "left", transaction_id="LEFT")
        with pytest.raises(KeyboardInterrupt), producer.transaction("t", "cut") as cut:
            raise KeyboardInterrupt
        assert (good.state, bad.state) == (COMMITTED, ROLLED_BACK)
        assert bodies(server) == ["good"]
        assert {state(server, left.id), state(server, cut.id)} == {"pending"}
        assert producer.decide("LEFT", Decision.COMMIT) is COMMITTED
        assert left.commit() is COMMITTED
        with pytest.raises(Refused):
            left.rollback()
    with pytest.raises(Stopped):
        producer.begin("t", "late")


def test_a_refusal_says_what_to_mend(server: LiveServer) -> None:
    with Client(server.url) as client:
        client.topics.create("plain")
    with TransactionProducer("g", server.url) as producer:
        with pytest.raises(Refused, match="NORMAL") as wrong:
            producer.begin("plain", "x")
        assert wrong.value.code == "wrong_message_type"
        with pytest.raises(Invalid):
            producer.begin("t", "x", check_immunity_s=-1)
        with pytest.raises(NotFound):
            producer.decide("NOBODYS", Decision.COMMIT)
    with pytest.raises(Unreachable):
        TransactionProducer("g", "http://127.0.0.1:9").start()


@pytest.mark.capabilities("transaction_queries")
@pytest.mark.parametrize("decision", [Decision.COMMIT, Decision.ROLLBACK])
async def test_a_live_producer_of_the_group_answers_for_one_that_died(
    server: LiveServer, decision: Decision
) -> None:
    asked: list[Check] = []

    def check(check: Check) -> Decision:
        asked.append(check)
        return Decision.UNKNOWN if len(asked) < 3 else decision

    async with AsyncTransactionProducer("g", server.url, checker=check):
        dying = AsyncTransactionProducer("g", server.url, checker=check)
        await dying.start()
        begun = await dying.begin("t", "orphan", tag="x", keys=["k"], properties={"order": "7"})
        connection = dying._link.connection
        assert connection is not None
        dying._link._task.cancel()  # type: ignore[union-attr]
        connection.abort()  # as a killed process leaves it
        wanted = COMMITTED if decision is Decision.COMMIT else ROLLED_BACK
        await until_state(server, begun.id, wanted)
    # On a slow machine it is asked once more while its decision is under way.
    assert [each.number for each in asked] == list(range(1, len(asked) + 1))
    assert len(asked) >= 3
    last = asked[-1]
    assert (last.transaction_id, last.group, last.topic) == (begun.id, "g", "t")
    assert (last.text, last.tag, last.keys, last.properties) == (
        "orphan",
        "x",
        ("k",),
        {"order": "7"},
    )
    expected = ["orphan"] if decision is Decision.COMMIT else []
    assert await asyncio.to_thread(bodies, server) == expected


@pytest.mark.capabilities("transaction_queries")
async def test_a_checker_that_fails_is_asked_again(server: LiveServer) -> None:
    calls: list[int] = []

    async def check(check: Check) -> Decision:
        calls.append(check.number)
        if len(calls) == 1:
            raise RuntimeError("the database is away")
        return Decision.COMMIT

    async with AsyncTransactionProducer("g", server.url, checker=check) as producer:
        begun = await producer.begin("t", "x")
        await until_state(server, begun.id, COMMITTED)
    assert calls[:2] == [1, 2]


@pytest.mark.capabilities("transaction_queries")
async def test_checks_go_on_and_calls_wait_over_a_restart_of_the_server(server: LiveServer) -> None:
    is_back = threading.Event()

    def check(check: Check) -> Decision:
        return Decision.COMMIT if is_back.is_set() else Decision.UNKNOWN

    async with AsyncTransactionProducer("g", server.url, checker=check) as producer:
        begun = await producer.begin("t", "before")
        await asyncio.to_thread(server.stop)
        waiting = asyncio.create_task(producer.begin("t", "during"))
        await asyncio.sleep(0)
        await asyncio.to_thread(server.start)
        is_back.set()
        during = await waiting
        await until_state(server, begun.id, COMMITTED)
        await until_state(server, during.id, COMMITTED)
    assert sorted(await asyncio.to_thread(bodies, server)) == ["before", "during"]


async def test_without_a_server_a_call_ends_after_its_time(server: LiveServer) -> None:
    async with AsyncTransactionProducer("g", server.url, timeout_s=1) as producer:
        await asyncio.to_thread(server.stop)
        with pytest.raises(TimedOut):
            await producer.begin("t", "x")
        await asyncio.to_thread(server.start)


async def test_a_replaced_producer_goes_on_once_its_name_is_free(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "REPLACED_FIRST_S", 0.2)
    first = AsyncTransactionProducer("g", server.url, client="one")
    await first.start()
    async with AsyncTransactionProducer("g", server.url, client="one"):
        async with asyncio.timeout(10):
            while first._link.connection is not None:
                await asyncio.sleep(0.01)
    begun = await first.begin("t", "x")
    assert await begun.rollback() is ROLLED_BACK
    await first.stop()


@pytest.mark.capabilities("transaction_queries")
def test_a_program_without_a_connection_polls_and_an_operator_decides(server: LiveServer) -> None:
    with Client(server.url) as client:
        new = NewMessage("x", transaction_group="g")
        sent = client.messages.send("t", [new, new]).messages
        first, second = (message.message_id for message in sent)
        listed = [item.transaction_id for item in client.transactions.list(group="g")]
        assert listed == [first, second]
        found: list[str] = []
        for _ in range(2000):
            found += [check.transaction_id for check in client.transactions.checks("g")]
            if len(found) >= 2:
                break
        assert found[:2] == [first, second]
        assert client.transactions.decide(first, "commit").state == "committed"
        done = client.transactions.decide(second, "rollback", by="operator")
        assert done.state == "rolled_back"
        assert list(client.transactions.list(given_up=True)) == []
