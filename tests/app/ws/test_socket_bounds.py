"""What an unfinished WebSocket message may hold: shares, a time limit, pings that nobody reads."""

import gc
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.network import websocket_protocol
from engine.broker import TopicConfig
from kitemq.protocol.frames import HelloFrame, WelcomeFrame, encode
from kitemq.protocol.sends import SentFrame
from tests.app.ws.test_socket import Peer, send_of
from tests.app.ws.test_socket_calls import opened
from tests.live import LiveServer
from tests.patience import until

MIB = 1024 * 1024
UPGRADE = (
    b"GET /ws/v1 HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
BINARY, CONTINUED, CLOSE, PING, FINAL = 2, 0, 8, 9, 0x80


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    server = LiveServer(tmp_path / "data", request_bytes_max=2 * MIB, inflight_bytes_max=4 * MIB)
    server.start()
    yield server
    server.stop()


def head(kind: int, size: int, *, is_final: bool = True) -> bytes:
    """The head of a masked frame whose mask changes nothing."""
    return struct.pack(">BBQ", kind | (FINAL if is_final else 0), 0xFF, size) + bytes(4)


@contextmanager
def connected(server: LiveServer, source: str = "127.0.0.1") -> Iterator[socket.socket]:
    where = ("127.0.0.1", server.port)
    with closing(socket.create_connection(where, 30, source_address=(source, 0))) as link:
        link.sendall(UPGRADE)
        assert link.recv(4096).startswith(b"HTTP/1.1 101")
        yield link


def close_code(link: socket.socket) -> int:
    """The code that the server closes a connection with; 1006 where it says none."""
    data = b""
    try:
        while more := link.recv(4096):
            data += more
    except ConnectionError:
        pass
    place = data.rfind(b"\x88")
    return int.from_bytes(data[place + 2 : place + 4], "big") if place >= 0 else 1006


def held(server: LiveServer) -> int:
    assert server.app is not None
    budget = server.app.services.request_limits.budget
    return int(server.call(lambda: budget.used_bytes))


def make_orders(server: LiveServer) -> None:
    server.call(lambda: server.broker.create_topic(TopicConfig("orders")))


def stored(server: LiveServer) -> int:
    return int(
        server.call(lambda: sum(q.max_offset for q in server.broker.topic_stats("orders").queues))
    )


def test_an_unfinished_message_is_held_until_its_connection_ends(server: LiveServer) -> None:
    with connected(server) as link:
        link.sendall(head(BINARY, 2 * MIB) + bytes(MIB))
        until(lambda: held(server) >= MIB)
    until(lambda: held(server) == 0)


def test_the_connection_that_takes_more_than_its_addresss_share_is_closed_and_others_go_on(
    server: LiveServer,
) -> None:
    with ExitStack() as stack:
        first, second = (stack.enter_context(connected(server)) for _ in range(2))
        first.sendall(head(BINARY, 2 * MIB) + bytes(MIB + MIB // 2))
        until(lambda: held(server) >= MIB + MIB // 2)
        second.sendall(head(BINARY, 2 * MIB) + bytes(MIB))
        assert close_code(second) == 1013
        peer = Peer(stack.enter_context(opened(server)))
        assert peer.ask(HelloFrame("small"), WelcomeFrame).client == "small"
        assert len(peer.ask(send_of(b"1", topic="orders"), SentFrame, request=2).offsets) == 1
        first.sendall(bytes(MIB // 2))  # whole now
        until(lambda: held(server) == 0)
    until(lambda: held(server) == 0)


@pytest.mark.parametrize("size", [0, 1])
def test_a_message_of_very_many_fragments_closes_its_connection(
    server: LiveServer, size: int
) -> None:
    """Each of them costs memory and time, also without any data."""
    with connected(server) as link:
        part = bytes((CONTINUED, 0x80 | size)) + bytes(4 + size)
        link.sendall(bytes((BINARY, 0x80)) + bytes(4) + part * 1100)
        assert close_code(link) == 1008
    until(lambda: held(server) == 0)


def test_a_burst_of_pings_closes_its_connection(server: LiveServer) -> None:
    with connected(server) as link:
        link.sendall((bytes((PING | FINAL, 0x80)) + bytes(4)) * 1000)
        assert close_code(link) == 1008


def test_frames_that_wait_for_their_turn_are_all_taken(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order, whether the client waits for the answers or closes at once."""
    monkeypatch.setattr(websocket_protocol, "TURN_S", -1.0)  # a slice in each turn of the loop
    monkeypatch.setattr(websocket_protocol, "SLICE_BYTES", 100)
    count = 300
    frames = [encode(number, send_of(b"%d" % number, topic="orders")) for number in range(count)]
    with opened(server) as client:
        peer = Peer(client)
        for frame in frames:
            client.send(frame)
        assert [peer.hear(SentFrame)[0] for _ in frames] == list(range(count))
    with connected(server) as link:
        link.sendall(b"".join(head(BINARY, len(frame)) + frame for frame in frames))
        link.shutdown(socket.SHUT_WR)
        until(lambda: stored(server) == 2 * count)


def test_a_message_that_does_not_arrive_in_time_is_closed(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket_protocol, "MESSAGE_S", 0.05)
    with connected(server) as link:
        link.sendall(head(BINARY, 1000) + bytes(10))
        assert close_code(link) == 1008
    until(lambda: held(server) == 0)


def test_pings_of_who_reads_nothing_are_answered_no_more(server: LiveServer) -> None:
    writing: list[Any] = []
    with connected(server) as link:
        ping = bytes((PING | FINAL, 0x80 | 125)) + bytes(129)
        link.settimeout(1)
        try:
            for _ in range(1000):
                link.sendall(ping * 1000)
        except OSError:
            pass
        assert server.app is not None

        def look() -> None:
            import gc

            writing.extend(
                each.transport.get_write_buffer_size()
                for each in gc.get_objects()  # isinstance fails at dead weak proxies
                if issubclass(type(each), websocket_protocol.BoundedWebSocketProtocol)
                and not each.disconnected
            )

        server.call(look)
    assert all(size < 2 * MIB for size in writing), writing


def test_a_message_of_very_many_small_frames_holds_nobody_up(server: LiveServer) -> None:
    """Nor does it pile up answers that its client does not read."""
    assert server.app is not None
    with connected(server) as link:
        link.settimeout(1)
        link.sendall(head(BINARY, 2 * MIB) + bytes(2 * MIB))  # 233,000 frames of nothing
        with opened(server) as client:
            peer = Peer(client)
            for number in range(20):
                peer.ask(send_of(b"1", topic="orders"), SentFrame, request=number + 1)
        worst_s = server.call(lambda: server.app.services.heartbeat.worst_ever_s)
    assert worst_s < 2, "each of them takes some microseconds"


def test_messages_behind_one_that_takes_several_turns_keep_their_order(server: LiveServer) -> None:
    """One WebSocket message of more frames than a turn works on, and others in the same write."""
    make_orders(server)
    numbers = range(1, 3101)
    sends = [encode(number, send_of(b"%d" % number, topic="orders")) for number in numbers]
    first, others = b"".join(sends[:3000]), sends[3000:]
    with connected(server) as link:
        link.sendall(b"".join(head(BINARY, len(message)) + message for message in (first, *others)))
        until(lambda: stored(server) == len(numbers))

    def bodies() -> list[list[int]]:
        broker = server.broker
        return [
            [
                int(broker.message("orders", queue.queue, offset).body)
                for offset in range(queue.max_offset)
            ]
            for queue in broker.topic_stats("orders").queues
        ]

    for queue in server.call(bodies):
        assert queue == sorted(queue)


def test_what_a_client_sent_before_it_closed_is_stored(server: LiveServer) -> None:
    """Also where messages wait behind one that takes several turns."""
    make_orders(server)
    send = encode(1, send_of(b"x", topic="orders"))
    first, others = send * 3000, [send] * 100
    with connected(server) as link:
        messages = b"".join(head(BINARY, len(each)) + each for each in (first, *others))
        link.sendall(messages + bytes((CLOSE | FINAL, 0x80)) + bytes(4))
    until(lambda: stored(server) == 3100)
    until(lambda: held(server) == 0)


def test_a_closed_connection_leaves_nothing_to_the_garbage_collector(server: LiveServer) -> None:
    """The collector hardly ever looks at what is old, so that it does not hold up the loop."""

    def live_and_close() -> None:
        with opened(server) as client:
            peer = Peer(client)
            for _ in range(16):  # each queue has its files after the first time
                client.send(encode(1, send_of(b"1", topic="orders")))
                peer.hear(SentFrame)
        until(lambda: held(server) == 0)

    live_and_close()
    gc.collect()
    gc.disable()
    try:
        live_and_close()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = {type(each) for each in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not [kind for kind in kinds if kind.__module__.startswith(("app.", "engine."))]
