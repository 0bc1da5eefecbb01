"""Requests of gRPC that do not arrive whole: what they may hold, and who may begin one at all."""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import grpc.aio
import pytest

from app.grpc import http2_connection
from app.grpc.http2_connection import Http2Connection
from app.grpc.http2_stream import FRAME_BYTES
from app.security.byte_budget import RefusalReason
from protocol.http2.frames import PREFACE
from protocol.rocketmq.messages import SendMessageRequest
from protocol.rocketmq.numbers import Code
from tests.attack.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    RST_STREAM,
    SETTINGS,
    Connection,
    call_headers,
    frame,
)
from tests.grpc.endpoint import OPTIONS, Running, Stub, message_of, receive_of
from tests.grpc.memory_transport import connection_of
from tests.grpc.test_endpoint import PASSWORD, key_for, signed

pytestmark = pytest.mark.anyio
MIB = 1024 * 1024
LIMITS = {"request_bytes_max": MIB, "inflight_bytes_max": 4 * MIB}  # a connection: 1 MiB
WAIT_S = 30.0


# -- counting --------------------------------------------------------------------------------------


def message(size: int, sent: int) -> bytes:
    """The beginning of a message."""
    return b"\0" + struct.pack(">I", size) + bytes(sent)


def begun(stream: int) -> bytes:
    return frame(HEADERS, END_HEADERS, stream, call_headers())


def fed(running: Running, data: bytes, *, at_once: int = 100_000) -> Http2Connection:
    """A connection that has read `data` behind what HTTP/2 begins with."""
    connection = connection_of(running)
    data = PREFACE + frame(SETTINGS) + data
    for start in range(0, len(data), at_once):
        connection.data_received(data[start : start + at_once])
    return connection


@pytest.mark.parametrize("at_once", [1, 7, 100_000])
async def test_what_has_arrived_of_messages_counts_until_they_are_whole(
    running: Running, at_once: int
) -> None:
    half = begun(1) + frame(DATA, 0, 1, message(1000, 400)) + frame(DATA, 0, 1, bytes(100))
    assert fed(running, half, at_once=at_once).held_bytes == 505 + 2 * FRAME_BYTES
    assert held(running) == 505 + 2 * FRAME_BYTES
    whole = fed(running, half + frame(DATA, 0, 1, bytes(500)), at_once=at_once)
    assert whole.held_bytes == 0
    whole = fed(running, begun(3) + frame(DATA, END_STREAM, 3, message(10, 10)), at_once=at_once)
    assert whole.held_bytes == 0


@pytest.mark.parametrize("end", [frame(RST_STREAM, 0, 1, bytes(4)), frame(DATA, END_STREAM, 1)])
async def test_a_stream_that_its_client_ends_holds_nothing(running: Running, end: bytes) -> None:
    connection = fed(running, begun(1) + frame(DATA, 0, 1, message(1000, 400)))
    assert held(running) == connection.held_bytes > 0
    connection.data_received(end)
    assert held(running) == connection.held_bytes == 0


async def test_a_call_that_is_answered_holds_nothing_of_what_still_comes(running: Running) -> None:
    connection = fed(running, begun(1) + frame(DATA, 0, 1, message(1000, 400)))
    (stream,) = connection._streams.values()
    assert stream.receiver is not None
    assert stream.receiver.refuse(RefusalReason.ALL)
    assert held(running) == connection.held_bytes == 0
    connection.data_received(frame(DATA, 0, 1, bytes(100)))  # it was on its way: nobody keeps it
    assert held(running) == connection.held_bytes == 0


async def test_frames_without_data_count_as_well(running: Running) -> None:
    empty = begun(1) + frame(DATA, 0, 1) * 1000
    assert fed(running, empty).held_bytes == 1000 * FRAME_BYTES


async def test_what_a_connection_held_comes_back_with_its_end(running: Running) -> None:
    connection = fed(running, begun(1) + frame(DATA, 0, 1, message(1000, 400)))
    assert held(running) > 0
    connection.transport.close()
    await connection.closed
    assert held(running) == running.app.services.request_limits.requests == 0


# -- the endpoint ------------------------------------------------------------------------------


@contextmanager
def raw(running: Running, source: str = "127.0.0.1") -> Iterator[Connection]:
    host, port = running.port.address.split(":")
    with closing(socket.create_connection((host, int(port)), 10, (source, 0))) as link:
        yield Connection(link)


def held(running: Running) -> int:
    return int(running.app.services.request_limits.budget.used_bytes)


async def push(connection: Connection, streams: int, size: int, each: int) -> None:
    """Begin so many messages of `size`, and send `each` of them as far as the server lets us."""

    def run() -> None:
        numbers = [2 * number + 1 for number in range(streams)]
        for number in numbers:
            connection.open(number)
            connection.put(number, message(size, 0))
        left = dict.fromkeys(numbers, each)
        for _ in range(400):
            for number in list(left):
                left[number] -= connection.put(number, bytes(min(left[number], 16_384)))
                if left[number] <= 0 or connection.streams[number].is_over:
                    del left[number]
            connection.poll()
            if not left or connection.is_over:
                break
        connection.poll()

    await asyncio.to_thread(run)


async def until_true(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            await asyncio.sleep(0.01)


async def test_calls_beyond_a_connections_share_are_told_to_slow_down_and_others_go_on(
    open_endpoint: Any,
) -> None:
    async with open_endpoint(**LIMITS) as running:
        with raw(running) as connection:
            await push(connection, 40, MIB // 2, MIB // 2 - 1)
            assert held(running) <= MIB + MIB // 2
            codes = running.grpc_server.backend.figures.calls
            assert codes["SendMessage", "TOO_MANY_REQUESTS"] > 0
            assert running.app.services.request_limits.budget.refused["connection"] > 0
            assert (await running.stub.send("orders", b"small")).status.code == Code.OK
        await until_true(lambda: held(running) == 0)


async def test_a_stranger_holds_nothing_and_a_known_caller_is_served(open_endpoint: Any) -> None:
    async with open_endpoint(admin_password=PASSWORD, **LIMITS) as running:
        known = signed(running, await key_for(running, "admin"))
        with raw(running) as connection:
            await push(connection, 20, MIB // 2, MIB // 4)
            await until_true(lambda: held(running) == 0)
            assert running.app.services.request_limits.requests == 0, (
                "no call of a stranger waits for more"
            )
        assert (await known.send("orders", bytes(MIB // 2))).status.code == Code.OK


async def test_a_connection_that_cannot_be_told_otherwise_is_closed_with_a_reason(
    open_endpoint: Any,
) -> None:
    async with open_endpoint(**LIMITS) as running:
        budget = running.app.services.request_limits.budget
        others = budget.reserve("127.0.0.1", "", bool)
        others.add(3 * MIB)
        telemetry = "/apache.rocketmq.v2.MessagingService/Telemetry"
        with raw(running) as connection:
            connection.open(1, telemetry)
            await asyncio.to_thread(connection.put, 1, message(MIB, 0) + bytes(16_000))

            def talk() -> None:
                while not connection.is_over:
                    connection.put(1, bytes(16_384))
                    connection.poll()

            await asyncio.wait_for(asyncio.to_thread(talk), WAIT_S)
            assert connection.goodbye[4:8] == b"\0\0\0\x0b"  # ENHANCE_YOUR_CALM
            assert b"holds too many bytes" in connection.goodbye
        others.close()
        await until_true(lambda: held(running) == 0)


async def test_a_request_that_does_not_arrive_ends_its_call(
    open_endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http2_connection, "REQUEST_S", 0.05)
    async with open_endpoint() as running:
        with raw(running) as connection:
            await push(connection, 1, 1000, 10)
            async with asyncio.timeout(WAIT_S):
                while not connection.streams[1].is_over:
                    await asyncio.to_thread(connection.poll)
        assert running.grpc_server.backend.figures.calls["SendMessage", "REQUEST_TIMEOUT"] == 1
        assert running.app.services.request_limits.requests == 0


async def test_a_streams_message_that_is_never_whole_ends_its_connection(
    open_endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream cannot be told otherwise."""
    monkeypatch.setattr(http2_connection, "REQUEST_S", 0.05)
    async with open_endpoint() as running:
        with raw(running) as connection:
            connection.open(1, "/apache.rocketmq.v2.MessagingService/Telemetry")
            await asyncio.to_thread(connection.put, 1, message(1000, 10))
            await until_true(lambda: held(running) > 0)
            async with asyncio.timeout(WAIT_S):
                while not connection.is_over:
                    await asyncio.to_thread(connection.poll)
            assert b"in time" in connection.goodbye
        await until_true(lambda: held(running) == 0)


async def test_a_poll_with_a_second_request_is_refused(open_endpoint: Any) -> None:
    """It would be held for as long as the poll waits."""
    async with open_endpoint() as running:
        request = receive_of("g", "orders", wait_s=20).SerializeToString()
        whole = b"\0" + struct.pack(">I", len(request)) + request
        path = "/apache.rocketmq.v2.MessagingService/ReceiveMessage"
        with raw(running) as connection:
            connection.open(1, path)
            await asyncio.to_thread(connection.put, 1, whole + whole)
            async with asyncio.timeout(WAIT_S):
                while not connection.streams[1].is_over:
                    await asyncio.to_thread(connection.poll)
        assert running.grpc_server.backend.figures.calls["ReceiveMessage", "BAD_REQUEST"] == 1


async def test_a_call_without_a_request_is_refused(open_endpoint: Any) -> None:
    async with open_endpoint() as running:
        with raw(running) as connection:
            connection.open(1)
            await asyncio.to_thread(connection.send, frame(DATA, END_STREAM, 1))
            async with asyncio.timeout(WAIT_S):
                while not connection.streams[1].is_over:
                    await asyncio.to_thread(connection.poll)
        assert running.grpc_server.backend.figures.calls["SendMessage", "BAD_REQUEST"] == 1


async def test_many_large_sends_at_once_on_one_connection_are_stored_or_told_to_slow_down(
    open_endpoint: Any,
) -> None:
    async with open_endpoint(**LIMITS) as running:
        async with grpc.aio.insecure_channel(running.port.address, options=OPTIONS) as channel:
            stub = Stub(channel, "large")
            calls = [
                stub.ask(
                    "SendMessage",
                    SendMessageRequest(messages=[message_of("big", bytes(700_000), number=number)]),
                )
                for number in range(12)
            ]
            codes = [answer.status.code for answer in await asyncio.gather(*calls)]
            assert set(codes) <= {Code.OK, Code.TOO_MANY_REQUESTS}
            assert Code.OK in codes
            assert (await stub.send("big", bytes(700_000), number=99)).status.code == Code.OK
        await until_true(lambda: held(running) == 0)
