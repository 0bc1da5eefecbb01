"""The REST interface over an open connection of the SDK."""

import pytest

from kitemq.address import socket_url
from kitemq.calls import call_frame, document_of
from kitemq.connection import ServerConnection
from kitemq.errors import Invalid, KiteError, NotFound, ProtocolViolation, TimedOut, Unreachable
from kitemq.protocol.calls import AnswerFrame
from kitemq.protocol.frames import UnsubscribeFrame
from tests.live import LiveServer

pytestmark = [pytest.mark.anyio, pytest.mark.makers]


async def opened(server: LiveServer) -> ServerConnection:
    return await ServerConnection.open(socket_url(server.url), "me", timeout_s=20.0)


async def test_a_call_gives_the_document_or_raises_what_the_server_says(
    server: LiveServer,
) -> None:
    connection = await opened(server)
    created = await connection.call("POST", "/topics", {"name": "orders"})
    assert created["name"] == "orders"
    page = await connection.call("GET", "/topics", params={"q": "ord", "limit": 5})
    assert page["total"] == 1
    assert await connection.call("DELETE", "/topics/orders") == {}
    with pytest.raises(NotFound):
        await connection.call("GET", "/topics/orders")
    with pytest.raises(Invalid) as refused:
        await connection.call("POST", "/topics", {"name": ""})
    assert refused.value.field == "name"
    await connection.close()
    with pytest.raises(Unreachable):
        await connection.call("GET", "/topics")


async def test_a_call_ends_after_its_time(server: LiveServer) -> None:
    connection = await opened(server)
    await connection.call("POST", "/topics", {"name": "orders"})
    wanted = {"topic": "orders", "wait_ms": 20_000}
    with pytest.raises(TimedOut):
        await connection.call("POST", "/groups/g/receive", wanted, timeout_s=0.05)
    assert (await connection.call("GET", "/topics/orders"))["name"] == "orders"
    await connection.close()


async def test_what_is_no_document_is_an_error_of_the_sdk() -> None:
    with pytest.raises(Invalid):
        call_frame("POST", "/topics", {"name": object()})
    for answer in (
        AnswerFrame(200, "text/html", b"<p>"),
        AnswerFrame(200, "x", b"[1]"),
        UnsubscribeFrame(1),
    ):
        with pytest.raises(ProtocolViolation):
            document_of(answer)
    with pytest.raises(KiteError):
        document_of(AnswerFrame(500, "", b""))
