"""What the answer to a send says of its durability, as Apache's clients read it (SendStatus).

A standby is played by what the engine hears of one; `tests/app/replication` has real ones.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.remoting import plain_sends
from protocol.remoting.batches import BatchMessage, encode_batch
from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.frames import Command
from tests.remoting.port import LIMIT_S, Client, Running, opened, sending

pytestmark = pytest.mark.anyio
BATCH = encode_batch([BatchMessage(0, b"1", ""), BatchMessage(0, b"2", "")])
COLUMNS = 8  # sends of one read that travel as columns
TIMEOUT_S = 3.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["flushed", "refuse"])
async def running(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Running]:
    monkeypatch.setattr(plain_sends, "COLUMNS_COUNT_MIN", COLUMNS)
    settings: dict[str, Any] = {
        "durability": "replicated",
        "replicated_fallback": request.param,
        "replicated_timeout_s": TIMEOUT_S,
    }
    async with opened(tmp_path / "data", **settings) as running:
        yield running


@pytest.fixture
def falls_back(running: Running) -> bool:
    return running.app.services.settings.replicated_fallback == "flushed"


def begin_all(client: Client) -> list[int]:
    """A single send, a batch, and sends that are stored as columns."""
    single = client.begin(RequestCode.SEND_MESSAGE_V2, sending("orders"), b"0")
    batch = client.begin(RequestCode.SEND_BATCH_MESSAGE, sending("orders", queue=1), BATCH)
    columns = [
        client.begin(RequestCode.SEND_MESSAGE_V2, sending("orders", queue=2), b"x")
        for _ in range(COLUMNS)
    ]
    return [single, batch, *columns]


async def answers(client: Client, numbers: list[int]) -> list[Command]:
    return [await client.answer(each) for each in numbers]


async def until_all_wait(running: Running) -> None:
    """Until the sends are stored, and wait for a standby."""
    async with asyncio.timeout(LIMIT_S):
        while running.broker.statistics.broker().traffic.messages_in.total < 3 + COLUMNS:
            await asyncio.sleep(0.01)
        while not running.broker.replicas._waiting:
            await asyncio.sleep(0.01)


async def all_that_wait(running: Running) -> tuple[Client, list[int]]:
    """Sends of each kind that are stored, and wait for the standby that is there."""
    await running.http.post("/api/v1/topics", json={"name": "orders"})
    client = await running.connect()
    running.broker.replicas.join()
    numbers = begin_all(client)
    await until_all_wait(running)
    return client, numbers


async def test_without_a_standby_a_send_is_stored_with_a_status_or_refused(
    running: Running, falls_back: bool
) -> None:
    await running.http.post("/api/v1/topics", json={"name": "orders"})
    client = await running.connect()
    given = await answers(client, begin_all(client))
    stored = running.broker.topic_stats("orders").messages
    if falls_back:
        assert {each.code for each in given} == {ResponseCode.SLAVE_NOT_AVAILABLE}
        assert all(each.fields["msgId"] and each.fields["queueOffset"] for each in given)
        assert stored == 3 + COLUMNS
        counted = running.app.services.remoting_figures.requests
        sends = {code for request, code in counted if request != RequestCode.GET_ROUTEINFO_BY_TOPIC}
        assert ResponseCode.SUCCESS not in sends
    else:
        assert {each.code for each in given} == {ResponseCode.SYSTEM_BUSY}
        assert stored == 0


async def test_a_standby_that_is_late_is_told_by_the_status(
    running: Running, falls_back: bool
) -> None:
    client, numbers = await all_that_wait(running)
    running.advance(TIMEOUT_S + 0.1)
    given = await answers(client, numbers)
    late = ResponseCode.FLUSH_SLAVE_TIMEOUT if falls_back else ResponseCode.SYSTEM_BUSY
    assert {each.code for each in given} == {late}


async def test_a_standby_in_time_and_a_topic_that_asks_for_less_are_a_success(
    running: Running, falls_back: bool
) -> None:
    client, numbers = await all_that_wait(running)
    running.broker.replicas.report(running.broker.log_end)
    assert {each.code for each in await answers(client, numbers)} == {ResponseCode.SUCCESS}
    running.broker.replicas.leave()
    await running.http.post("/api/v1/topics", json={"name": "light", "durability": "flushed"})
    assert (await client.send("light", b"x")).code == ResponseCode.SUCCESS
    if falls_back:  # who does not wait has no promise that could be broken
        answer = await client.send("orders", b"x", i="WAIT\x01false\x02")
        assert answer.code == ResponseCode.SUCCESS
