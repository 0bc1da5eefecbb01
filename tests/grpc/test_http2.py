"""HTTP/2 as the endpoint speaks it: flow control, pings, and clients that break its rules."""

import asyncio
import struct
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.grpc import http2_connection
from app.grpc.http2_connection import HEADER_BYTES_MAX, OWN_WINDOW, RESETS_MAX, Http2Connection
from app.network import connection_limits
from protocol.http2 import frames
from protocol.http2.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES_MAX,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW,
    Http2Code,
    Setting,
    frame,
)
from protocol.http2.hpack import HeaderDecoder, encode
from protocol.rocketmq.messages import ReceiveMessageResponse, SendMessageRequest
from tests.attack.http2 import call_headers
from tests.grpc.endpoint import Running, message_of, receive_of
from tests.grpc.memory_transport import MemoryTransport, connection_of

pytestmark = pytest.mark.anyio
RECEIVE = "/apache.rocketmq.v2.MessagingService/ReceiveMessage"
TELEMETRY = "/apache.rocketmq.v2.MessagingService/Telemetry"


def transport_of(connection: Http2Connection) -> MemoryTransport:
    return cast("MemoryTransport", connection.transport)


def opened(running: Running, **values: int) -> Http2Connection:
    """A connection whose client has these settings, behind the first words of both sides."""
    connection = connection_of(running)
    given_settings = {Setting[name]: value for name, value in values.items()}
    connection.data_received(PREFACE + frames.settings(given_settings))
    kinds = [kind for kind, *_ in transport_of(connection).frames()]
    assert kinds == [SETTINGS, frames.WINDOW_UPDATE, SETTINGS]
    return connection


def call(stream: int, message: bytes | None, path: str = "", **more: str) -> bytes:
    """A call's headers and, if there is one, its whole request."""
    block = call_headers(path, **more) if path else call_headers(**more)
    headers = frame(HEADERS, END_HEADERS, stream, block)
    if message is None:
        return headers
    return headers + frame(
        DATA, END_STREAM, stream, b"\0" + struct.pack(">I", len(message)) + message
    )


def send_of(body: bytes) -> bytes:
    return cast(
        "bytes", SendMessageRequest(messages=[message_of("orders", body)]).SerializeToString()
    )


async def written(connection: Http2Connection, count: int) -> list[tuple[int, int, int, bytes]]:
    """The next frames, once there are so many."""
    found: list[tuple[int, int, int, bytes]] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += transport_of(connection).frames()
            await asyncio.sleep(0)
    return found


def goodbye(connection: Http2Connection) -> tuple[Http2Code, str]:
    """Code and text of the GOAWAY that ended the connection."""
    assert transport_of(connection).is_closing()
    kind, _, _, payload = list(transport_of(connection).frames())[-1]
    assert kind == frames.GOAWAY
    return Http2Code(int.from_bytes(payload[4:8], "big")), payload[8:].decode()


async def test_a_call_is_answered_by_headers_message_and_status(running: Running) -> None:
    connection = opened(running)
    connection.data_received(call(1, send_of(b"1")))
    headers, data, status = await written(connection, 3)
    decoder = HeaderDecoder(HEADER_BYTES_MAX)
    assert decoder.decode(headers[3]) == [(":status", "200"), ("content-type", "application/grpc")]
    assert data[3][:5] == b"\0" + struct.pack(">I", len(data[3]) - 5)
    assert (status[:3], decoder.decode(status[3])) == (
        (HEADERS, END_HEADERS | END_STREAM, 1),
        [("grpc-status", "0")],
    )


async def test_a_method_that_is_none_and_a_compressed_message_are_refused(running: Running) -> None:
    connection = opened(running)
    connection.data_received(call(1, None, "/nothing/Here"))
    compressed = b"\1" + struct.pack(">I", 3) + b"abc"
    connection.data_received(call(3, None) + frame(DATA, END_STREAM, 3, compressed))
    statuses = {
        stream: dict(HeaderDecoder(HEADER_BYTES_MAX).decode(payload)).get("grpc-status")
        for kind, flags, stream, payload in await written(connection, 3)
        if kind == HEADERS and flags & END_STREAM
    }
    assert statuses == {1: "12", 3: "12"}


async def test_of_headers_of_one_name_the_last_counts(running: Running) -> None:
    """Go's client signs again when it repeats a call, and sends both signatures."""
    connection = opened(running)
    block = call_headers() + encode([("x-mq-client-id", "the-last")])
    request = send_of(b"1")
    whole = frame(DATA, END_STREAM, 1, b"\0" + struct.pack(">I", len(request)) + request)
    connection.data_received(frame(HEADERS, END_HEADERS, 1, block) + whole)
    await written(connection, 3)
    (client,) = running.grpc_server.backend.clients.all()
    assert client.name == "the-last"


async def test_an_answer_waits_for_the_room_that_its_client_makes(running: Running) -> None:
    body = bytes(range(256)) * 400
    await running.stub.send("orders", body)
    await running.stub.receive("g", "other")
    connection = opened(running, INITIAL_WINDOW_SIZE=1000)
    request = receive_of("g", "orders").SerializeToString()
    connection.data_received(call(1, request, RECEIVE))
    got, statuses = b"", []
    async with asyncio.timeout(30):
        while not statuses:
            for kind, flags, _, payload in transport_of(connection).frames():
                if kind == DATA:
                    assert len(payload) <= 1000
                    got += payload
                    connection.data_received(frames.window_update(1, len(payload)))
                    connection.data_received(frames.window_update(0, len(payload)))
                elif kind == HEADERS and flags & END_STREAM:
                    statuses.append(payload)
            await asyncio.sleep(0)
    messages = []
    while got:
        size = struct.unpack_from(">I", got, 1)[0]
        messages.append(ReceiveMessageResponse.FromString(got[5 : 5 + size]).message.body)
        got = got[5 + size :]
    assert [each for each in messages if each] == [body]


async def test_a_client_that_makes_no_room_loses_its_call_and_no_message(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http2_connection, "STALL_S", 0.0)
    await running.stub.send("orders", bytes(10_000))
    await running.stub.receive("g", "other")
    connection = opened(running, INITIAL_WINDOW_SIZE=100)
    connection.data_received(call(1, receive_of("g", "orders").SerializeToString(), RECEIVE))
    await written(connection, 2)
    connection.check(connection.now_s + 1)
    assert [kind for kind, *_ in await written(connection, 1)] == [RST_STREAM]
    (again,) = await running.stub.receive("g", "orders")
    assert again.system_properties.delivery_attempt == 1


async def test_a_client_that_sends_more_than_it_may_is_stopped(running: Running) -> None:
    connection = opened(running)
    begin = frame(DATA, 0, 1, b"\0" + struct.pack(">I", 10))
    full = frame(DATA, 0, 1, bytes(FRAME_BYTES_MAX))
    # A message of 10 bytes lets in no more than what each stream may have.
    connection.data_received(call(1, None, TELEMETRY) + begin)
    (stream,) = connection._streams.values()
    stream.own_window = FRAME_BYTES_MAX - 1
    connection.data_received(full)
    codes = [payload for kind, _, _, payload in transport_of(connection).frames()]
    assert Http2Code.FLOW_CONTROL_ERROR.to_bytes(4, "big") in codes
    connection._own_window = FRAME_BYTES_MAX - 1
    connection.data_received(full)
    assert goodbye(connection)[0] is Http2Code.FLOW_CONTROL_ERROR


async def test_a_large_message_is_let_in_as_a_whole(running: Running) -> None:
    connection = opened(running)
    size = 500_000
    connection.data_received(call(1, None) + frame(DATA, 0, 1, b"\0" + struct.pack(">I", size)))
    ((kind, _, stream, payload),) = transport_of(connection).frames()
    assert (kind, stream) == (frames.WINDOW_UPDATE, 1)
    assert int.from_bytes(payload, "big") == size - (WINDOW - 5)


async def test_calls_that_are_taken_back_by_the_thousand_end_the_connection(
    running: Running,
) -> None:
    connection = opened(running)
    for number in range(RESETS_MAX + 1):
        stream = 2 * number + 1
        connection.data_received(call(stream, None) + frames.reset(stream, Http2Code.CANCEL))
    assert goodbye(connection) == (
        Http2Code.ENHANCE_YOUR_CALM,
        "too many calls are taken back",
    )
    await connection.closed
    assert running.app.services.request_limits.requests == 0


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(HEADERS, 0, 1, bytes(9)) + frame(9, 0, 1, bytes(16_000)) * 3, "ENHANCE_YOUR_CALM"),
        (frame(HEADERS, 0, 1, bytes(9)) + frame(DATA, 0, 1), "PROTOCOL_ERROR"),
        (frame(HEADERS, END_HEADERS, 1, b"\x80"), "COMPRESSION_ERROR"),
        (frame(HEADERS, END_HEADERS, 2, call_headers()), "PROTOCOL_ERROR"),
        (frame(HEADERS, END_HEADERS | 8, 1, b"\xff"), "PROTOCOL_ERROR"),
        (frame(DATA, 0, 1, b"x"), "PROTOCOL_ERROR"),
        (frame(DATA, 0, 0, bytes(FRAME_BYTES_MAX + 1)), "FRAME_SIZE_ERROR"),
        (frame(RST_STREAM, 0, 1, bytes(3)), "FRAME_SIZE_ERROR"),
        (frame(frames.PING, 0, 0, bytes(7)), "FRAME_SIZE_ERROR"),
        (frame(SETTINGS, 0, 0, bytes(5)), "FRAME_SIZE_ERROR"),
        (frames.settings({Setting.INITIAL_WINDOW_SIZE: 1 << 31}), "FLOW_CONTROL_ERROR"),
        (frames.settings({Setting.MAX_FRAME_SIZE: 1}), "PROTOCOL_ERROR"),
        (frames.window_update(0, 0x7FFFFFFF), "FLOW_CONTROL_ERROR"),
        (frame(frames.PUSH_PROMISE, 0, 1, bytes(4)), "PROTOCOL_ERROR"),
    ],
)
async def test_a_client_that_breaks_the_rules_is_told_which(
    running: Running, data: bytes, code: str
) -> None:
    connection = opened(running)
    connection.data_received(data)
    assert goodbye(connection)[0].name == code


async def test_headers_that_are_too_large_end_the_connection(running: Running) -> None:
    connection = opened(running)
    block = call_headers() + b"\x00\x01x\x64" + bytes(100)
    connection.data_received(frame(HEADERS, END_HEADERS, 1, block))
    assert not transport_of(connection).is_closing()
    many = call_headers() + (b"\x00\x01x\x64" + bytes(100)) * (HEADER_BYTES_MAX // 133 + 1)
    connection.data_received(
        frame(HEADERS, 0, 3, many[:FRAME_BYTES_MAX])
        + frame(frames.CONTINUATION, END_HEADERS, 3, many[FRAME_BYTES_MAX:])
    )
    assert goodbye(connection)[0] is Http2Code.ENHANCE_YOUR_CALM


async def test_a_ping_is_answered_and_a_silent_client_is_pinged_and_left(running: Running) -> None:
    connection = opened(running)
    connection.data_received(call(1, None, TELEMETRY))
    connection.data_received(frame(frames.PING, 0, 0, b"12345678"))
    answers = [each for each in transport_of(connection).frames() if each[0] == frames.PING]
    assert answers == [(frames.PING, ACK, 0, b"12345678")]
    silent_s = connection.now_s + http2_connection.KEEPALIVE_S + 1
    connection.check(silent_s)
    ((kind, flags, _, payload),) = await written(connection, 1)
    assert (kind, flags) == (frames.PING, 0)
    connection.data_received(frame(frames.PING, ACK, 0, payload))
    connection.check(silent_s + http2_connection.KEEPALIVE_ANSWER_S + 1)
    assert not transport_of(connection).is_closing(), "it answered"
    now_s = connection.now_s + http2_connection.KEEPALIVE_S + 1
    connection.check(now_s)
    connection.check(now_s + http2_connection.KEEPALIVE_ANSWER_S + 1)
    assert transport_of(connection).is_closing()


async def test_a_client_that_says_nothing_does_not_keep_its_connection(running: Running) -> None:
    connection = connection_of(running)
    connection.check(connection.now_s + http2_connection.PREFACE_S + 1)
    assert transport_of(connection).is_closing()
    refusals = running.app.services.connection_limits.refusals
    assert refusals.counts[connection_limits.HEADER_TIMEOUT] == 1


async def test_a_call_ends_at_its_deadline(running: Running) -> None:
    await running.stub.send("orders", b"1")
    await running.stub.receive("g", "orders")
    connection = opened(running)
    request = receive_of("g", "orders", wait_s=20).SerializeToString()
    connection.data_received(call(1, request, RECEIVE, grpc_timeout="15S"))
    await running.until_parked()
    connection.check(connection.now_s + 16)
    assert RST_STREAM in [kind for kind, *_ in await written(connection, 1)]
    async with asyncio.timeout(30):
        while running.app.services.host.waiting_count:
            await asyncio.sleep(0)


PIECES = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.builds(
            frame,
            st.integers(0, 10),
            st.integers(0, 255),
            st.integers(0, 9),
            st.one_of(st.binary(max_size=60), st.just(call_headers()), st.just(bytes(4))),
        ),
    ),
    max_size=12,
)


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(pieces=PIECES, has_begun=st.booleans())
async def test_nonsense_ends_a_connection_or_is_answered_and_holds_nothing_afterwards(
    running: Running, pieces: list[bytes], has_begun: bool
) -> None:
    connection = opened(running) if has_begun else connection_of(running)
    for piece in pieces:
        if transport_of(connection).is_closing():
            break
        connection.data_received(piece)
    assert len(connection._input) <= FRAME_BYTES_MAX + 9
    assert connection._own_window <= OWN_WINDOW
    transport_of(connection).close()
    await connection.closed
    await asyncio.sleep(0)
    assert connection.held_bytes == 0
    assert running.app.services.request_limits.requests == 0
