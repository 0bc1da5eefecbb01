"""Clients that ask for more than the server does at once."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.remoting.errors import FLOW_CONTROL
from protocol.remoting.codes import RequestCode, ResponseCode
from tests.remoting.port import Client, Running, pulling, sending
from tests.remoting.server_process import served
from tests.remoting.test_java import VERSIONS, driver_of

SENDS = 3000


@pytest.fixture
def open_small(open_port: Callable[..., Any]) -> Callable[..., Any]:
    """Opens a port where one address may have few requests under way, and sends take their time."""

    @asynccontextmanager
    async def opened(**changes: Any) -> AsyncIterator[Running]:
        async with open_port(client_requests_max=64, durability="flushed", **changes) as running:
            yield running

    return opened


async def answers_to_sends(client: Client, count: int) -> Counter[int]:
    """Send so many messages at once; how often each code came."""
    numbers = [
        client.begin(RequestCode.SEND_MESSAGE_V2, sending("orders"), b"x") for _ in range(count)
    ]
    return Counter([(await client.answer(number)).code for number in numbers])


@pytest.mark.anyio
async def test_sends_ahead_of_their_answers_wait_instead_of_failing(
    open_small: Callable[..., Any],
) -> None:
    async with open_small() as running:
        client = await running.connect()
        assert await answers_to_sends(client, SENDS) == {ResponseCode.SUCCESS: SENDS}
        assert running.broker.topic_stats("orders").messages == SENDS
        assert running.app.services.request_limits.requests == 0


@pytest.mark.anyio
async def test_held_pulls_leave_room_for_other_requests(open_small: Callable[..., Any]) -> None:
    async with open_small() as running:
        client = await running.connect()
        await client.send("orders", b"1", queue=0)
        for _ in range(100):
            client.begin(RequestCode.PULL_MESSAGE, pulling("billing", "orders", 1, sysFlag=6))
        await running.until_parked(100)
        assert await answers_to_sends(client, 10) == {ResponseCode.SUCCESS: 10}


@pytest.mark.anyio
async def test_an_address_over_its_share_is_told_of_flow_control(
    open_port: Callable[..., Any],
) -> None:
    async with open_port() as running:
        client = await running.connect()
        limits = running.app.services.request_limits
        for _ in range(running.app.services.settings.client_requests_max):
            limits.enter("127.0.0.1")
        requests = {
            RequestCode.SEND_MESSAGE_V2: sending("orders"),
            RequestCode.PULL_MESSAGE: pulling("billing", "orders", 0),
        }
        for code, fields in requests.items():
            answer = await client.ask(code, fields, b"x")
            assert answer.code == ResponseCode.SYSTEM_BUSY
            assert answer.remark.startswith(FLOW_CONTROL)
            assert "system busy" in answer.remark
        limits.leave("127.0.0.1")
        assert await answers_to_sends(client, 1) == {ResponseCode.SUCCESS: 1}


@pytest.mark.slow
def test_java_producers_ahead_of_their_answers_lose_nothing(tmp_path: Path) -> None:
    options = ("--durability", "flushed", "--client-requests-max", "8")
    with served(tmp_path / "data", options) as server:
        for version in VERSIONS:
            java = driver_of(version, server.address, tmp_path)
            topic = f"orders-{version.replace('.', '-')}"
            assert java.said("ACCEPTED", "ahead", topic, SENDS) == [[str(SENDS)]]
