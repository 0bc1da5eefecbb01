"""The WebSocket endpoint, frame by frame, against a real server."""

import contextlib
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from app.ws.limits import SocketLimits
from engine.broker import GroupConfig
from engine.message import Message
from kitemq.protocol.batches import (
    TO_DEAD_LETTERS,
    AckFrame,
    DeliverFrame,
    ExtendFrame,
    NackFrame,
    ReleaseFrame,
    ResultCode,
    ResultFrame,
    SubscribedFrame,
)
from kitemq.protocol.frames import (
    CreditFrame,
    ErrorFrame,
    Frame,
    HelloFrame,
    SubscribeFrame,
    UnsubscribeFrame,
    WelcomeFrame,
    encode,
)
from kitemq.protocol.sends import DurabilityCode, SendFrame, SentFrame
from kitemq.protocol.stream import SERVER_FRAMES, iter_frames
from tests.engine.test_compression import PACKERS
from tests.live import LiveServer
from tests.patience import until

pytestmark = pytest.mark.makers

T = TypeVar("T", bound=Frame)
WAIT_S = 30.0


class Peer:
    """A client that speaks frames, and remembers those it did not ask for yet."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._read: list[tuple[int, Frame]] = []

    def say(self, *frames: tuple[int, Frame]) -> None:
        self.socket.send(b"".join(encode(request, frame) for request, frame in frames))

    def hear(self, kind: type[T]) -> tuple[int, T]:
        """The next frame of a kind; its request number too."""
        deadline_s = time.monotonic() + WAIT_S
        while True:
            for index, (request, frame) in enumerate(self._read):
                if isinstance(frame, kind):
                    del self._read[index]
                    return request, frame
            data = self.socket.recv(max(0.0, deadline_s - time.monotonic()))
            assert isinstance(data, bytes)
            self._read += list(iter_frames(data, SERVER_FRAMES))  # type: ignore[arg-type]

    def ask(self, frame: Frame, kind: type[T], request: int = 1) -> T:
        self.say((request, frame))
        number, answer = self.hear(kind)
        assert number == request
        return answer

    def hears_nothing(self) -> bool:
        """Whether the server has said nothing else by the time it answers a question."""
        self.ask(UnsubscribeFrame(999), ResultFrame, request=4711)
        return not self._read


@pytest.fixture
def server(tmp_path: Path, maker_name: str) -> Iterator[LiveServer]:
    with LiveServer(tmp_path / "data", maker_name) as live:
        yield live


@pytest.fixture
def meet(server: LiveServer) -> Iterator[Callable[..., Peer]]:
    """Connects a peer; all leave at the end."""
    with contextlib.ExitStack() as stack:

        def connected(client: str = "") -> Peer:
            # Reads one message ahead at most: who does not listen lets the server wait.
            opened = connect(
                server.socket_url, max_size=None, max_queue=1, compression=None, close_timeout=1
            )
            peer = Peer(stack.enter_context(opened))
            if client:
                peer.ask(HelloFrame(client), WelcomeFrame)
            return peer

        yield connected


def send_of(*bodies: bytes, topic: str = "t", **fields: Any) -> SendFrame:
    count = len(bodies)
    columns: dict[str, Any] = {
        "tags": [""] * count,
        "keys": [""] * count,
        "groups": [""] * count,
        "properties": [{}] * count,
        "delay_levels": [0] * count,
        "flags": [0] * count,
        "born_ms": [0] * count,
    }
    return SendFrame(topic, list(bodies), **{**columns, **fields})


def inflight(server: LiveServer, group: str = "g") -> int:
    return int(server.call(lambda: server.broker.lag(group).inflight))


def test_hello_is_answered_with_the_limits(meet: Callable[..., Peer]) -> None:
    limits = SocketLimits()
    welcome = meet().ask(HelloFrame("me"), WelcomeFrame)
    assert (welcome.client, welcome.version) == ("me", 1)
    assert welcome.count_max == limits.count_max
    assert welcome.frame_bytes_max == limits.frame_bytes_max


def test_another_version_is_refused_by_name(meet: Callable[..., Peer]) -> None:
    error = meet().ask(HelloFrame("me", version=9), ErrorFrame)
    assert (error.code, error.field) == ("invalid", "version")


def test_a_send_says_where_each_message_stands(meet: Callable[..., Peer]) -> None:
    peer = meet()
    sent = peer.ask(send_of(b"a", b"b", id_prefix="P", id_first=7), SentFrame)
    assert sent.durability == DurabilityCode.STORED
    assert sent.offsets == [0, 1]
    assert sent.queues[0] == sent.queues[1]
    assert sent.positions[0] < sent.positions[1]
    assert sent.ids == ["", ""]  # the client knows them
    chosen = peer.ask(send_of(b"c"), SentFrame).ids
    assert len(chosen[0]) == 32


@pytest.mark.capabilities("topic_overrides")
def test_a_flushed_send_is_answered_once_it_is_on_the_disk(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    sent = meet().ask(send_of(b"a", durability=DurabilityCode.FLUSHED), SentFrame)
    assert sent.durability == DurabilityCode.FLUSHED
    assert server.call(lambda: server.broker.health().unflushed_bytes) == 0


def test_sends_of_one_turn_are_stored_together_and_answered_one_by_one(
    meet: Callable[..., Peer],
) -> None:
    peer = meet()
    peer.say(*[(number, send_of(b"%d" % number, queue=0)) for number in range(1, 101)])
    answers = [peer.hear(SentFrame) for _ in range(100)]
    assert [request for request, _ in answers] == list(range(1, 101))
    assert [answer.offsets for _, answer in answers] == [[number] for number in range(100)]


def test_a_bad_send_does_not_touch_those_beside_it(meet: Callable[..., Peer]) -> None:
    peer = meet()
    peer.say(
        (1, send_of(b"a", queue=0)),
        (2, send_of(b"b", b"c", queue=0, tags=["ok", "a|b"])),
        (3, send_of(b"d", queue=0)),
    )
    assert peer.hear(SentFrame)[0] == 1
    assert peer.hear(SentFrame)[1].offsets == [1]
    request, error = peer.hear(ErrorFrame)
    assert (request, error.field) == (2, "messages[1].tag")
    assert error.remedy


def test_a_reserved_property_is_refused(meet: Callable[..., Peer]) -> None:
    error = meet().ask(send_of(b"a", properties=[{"KITE_SOURCE": "x"}]), ErrorFrame)
    assert error.code == "reserved_property"


def test_numbers_beyond_the_engines_are_refused_not_crashed(meet: Callable[..., Peer]) -> None:
    peer = meet()
    for fields in ({"flags": [2**40]}, {"born_ms": [-(2**62)]}, {"delay_levels": [-5]}):
        peer.say((1, send_of(b"a", **fields)))
        data = peer.socket.recv(WAIT_S)
        assert isinstance(data, bytes)
        ((_, answer),) = iter_frames(data, SERVER_FRAMES)
        assert isinstance(answer, (ErrorFrame, SentFrame))
        if isinstance(answer, ErrorFrame):
            assert answer.code != "internal_error"


def test_a_message_waits_as_long_as_its_frame_says(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    peer = meet()
    begun_ms = server.call(server.broker._clock.now_ms)
    at_ms = begun_ms + 600_000
    frame = send_of(b"a", b"b", b"c", delay_ms=[0, 300_000, 0], deliver_at_ms=[0, 0, at_ms])
    assert len(peer.ask(frame, SentFrame).offsets) == 3
    page = server.call(server.broker.scheduled)
    assert [item.message.body for item in page.items] == [b"b", b"c"]
    assert begun_ms + 300_000 <= page.items[0].due_ms <= begun_ms + 320_000
    assert page.items[1].due_ms == at_ms
    peer.ask(SubscribeFrame("g", {"t": "*"}, 10, 60_000), SubscribedFrame, request=2)
    assert peer.hear(DeliverFrame)[1].bodies == [b"a"]


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"delay_ms": [-1, 0]}, "messages[0].delay_ms"),
        ({"deliver_at_ms": [0, -1]}, "messages[1].deliver_at_ms"),
        ({"delay_ms": [0, 1], "deliver_at_ms": [0, 1]}, "messages[1].delay_ms"),
        ({"delay_ms": [0, 1], "delay_levels": [1, 1]}, "messages[1].delay_ms"),
        ({"delay_ms": [0, 2**62]}, "messages[1].deliver_at_ms"),
    ],
)
def test_a_time_that_cannot_be_is_refused_with_its_field(
    meet: Callable[..., Peer], columns: dict[str, list[int]], field: str
) -> None:
    zeros = {"delay_ms": [0, 0], "deliver_at_ms": [0, 0]}
    error = meet().ask(send_of(b"a", b"b", **{**zeros, **columns}), ErrorFrame)
    assert error.field == field


def test_a_push_delivers_while_there_is_credit(meet: Callable[..., Peer]) -> None:
    peer = meet("me")
    assert peer.ask(send_of(*[b"%d" % n for n in range(5)]), SentFrame)
    peer.ask(SubscribeFrame("g", {"t": "*"}, 2, 60_000), SubscribedFrame, request=8)
    number, first = peer.hear(DeliverFrame)
    assert number == 8
    assert first.bodies == [b"0", b"1"]
    assert first.attempts == [1, 1]
    assert peer.hears_nothing()
    peer.say((0, CreditFrame(8, 1)))
    assert peer.hear(DeliverFrame)[1].bodies == [b"2"]
    acked = peer.ask(AckFrame("g", first.receipts), ResultFrame)
    assert acked.results == [ResultCode.DONE] * 2
    assert peer.ask(AckFrame("g", first.receipts), ResultFrame).results == [ResultCode.ALREADY] * 2


def test_an_arrival_wakes_a_push_that_waits(meet: Callable[..., Peer]) -> None:
    producer, consumer = meet(), meet()
    producer.ask(send_of(b"0"), SentFrame)
    consumer.ask(SubscribeFrame("g", {"t": "*"}, 10, 60_000), SubscribedFrame)
    assert consumer.hear(DeliverFrame)[1].bodies == [b"0"]
    producer.ask(send_of(b"1"), SentFrame)
    assert consumer.hear(DeliverFrame)[1].bodies == [b"1"]


@pytest.mark.capabilities("uncounted_releases")
def test_every_way_to_settle_has_its_answer(meet: Callable[..., Peer]) -> None:
    peer = meet("me")
    peer.ask(send_of(*[b"%d" % n for n in range(4)]), SentFrame)
    peer.ask(SubscribeFrame("g", {"t": "*"}, 4, 60_000), SubscribedFrame, request=2)
    receipts = peer.hear(DeliverFrame)[1].receipts
    extended = peer.ask(ExtendFrame("g", receipts[:1], 90_000), ResultFrame)
    assert extended.results == [ResultCode.DONE]
    assert extended.invisible_until_ms[0] > 0
    assert peer.ask(ReleaseFrame("g", receipts[1:2]), ResultFrame).results == [ResultCode.DONE]
    nack = NackFrame("g", receipts[2:], [0, -1], [-1, TO_DEAD_LETTERS], ["later", "never"])
    assert peer.ask(nack, ResultFrame).results == [ResultCode.DONE] * 2
    peer.say((0, CreditFrame(2, 10)))
    attempts: list[int] = []
    while len(attempts) < 2:
        attempts += peer.hear(DeliverFrame)[1].attempts
    assert sorted(attempts) == [1, 2]  # the released one, and the failed one


def test_after_unsubscribe_nothing_comes_but_receipts_still_count(
    meet: Callable[..., Peer],
) -> None:
    peer = meet()
    peer.ask(send_of(b"0"), SentFrame)
    peer.ask(SubscribeFrame("g", {"t": "*"}, 10, 60_000), SubscribedFrame, request=2)
    receipts = peer.hear(DeliverFrame)[1].receipts
    peer.ask(UnsubscribeFrame(2), ResultFrame, request=3)
    peer.ask(send_of(b"1"), SentFrame)
    assert peer.hears_nothing()
    assert peer.ask(AckFrame("g", receipts), ResultFrame).results == [ResultCode.DONE]


@pytest.mark.capabilities("member_shares")
def test_a_client_that_comes_back_is_told_what_it_holds(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    peer = meet("me")
    peer.ask(send_of(b"0", b"1"), SentFrame)
    peer.ask(SubscribeFrame("g", {"t": "*"}, 2, 60_000), SubscribedFrame)
    receipts = peer.hear(DeliverFrame)[1].receipts
    peer.socket.socket.close()  # no goodbye
    back = meet("me")
    assert (
        sorted(back.ask(SubscribeFrame("g", {"t": "*"}, 2, 60_000), SubscribedFrame).held)
        == receipts
    )
    assert back.ask(AckFrame("g", receipts), ResultFrame).results == [ResultCode.DONE] * 2


@pytest.mark.capabilities("member_shares")
def test_a_clean_goodbye_puts_back_what_was_held(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    peer = meet("me")
    peer.ask(send_of(b"0"), SentFrame)
    peer.ask(SubscribeFrame("g", {"t": "*"}, 2, 60_000), SubscribedFrame)
    peer.hear(DeliverFrame)
    peer.socket.close()
    until(lambda: inflight(server) == 0)
    other = meet("other")
    other.ask(SubscribeFrame("g", {"t": "*"}, 2, 60_000), SubscribedFrame)
    assert other.hear(DeliverFrame)[1].attempts == [1]


@pytest.mark.capabilities("member_shares")
def test_a_clean_goodbye_puts_back_more_than_one_call_may_name(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    peer = meet("me")
    for _ in range(5):
        peer.ask(send_of(*[b"x"] * 1000), SentFrame)
    peer.ask(SubscribeFrame("g", {"t": "*"}, 5000, 60_000), SubscribedFrame)
    count = 0
    while count < 5000:
        count += len(peer.hear(DeliverFrame)[1].bodies)
    assert inflight(server) == 5000
    peer.socket.close()
    until(lambda: inflight(server) == 0)


def test_a_second_connection_of_a_client_closes_the_first(meet: Callable[..., Peer]) -> None:
    first = meet("me")
    meet("me")
    assert first.hear(ErrorFrame)[1].code == "connection_closed"
    with pytest.raises(ConnectionClosed) as closed:
        first.socket.recv(WAIT_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4001


BIG_COUNT = 400  # of 100,000 bytes: more than sockets and bounds hold together


def subscribed_but_silent(server: LiveServer, meet: Callable[..., Peer]) -> tuple[Peer, int]:
    """A client that does not read, and how many messages it was handed in the end."""
    producer = meet()
    for _ in range(BIG_COUNT // 20):
        producer.ask(send_of(*[bytes([1]) * 100_000] * 20), SentFrame)
    server.call(lambda: server.broker.create_group(GroupConfig("g")))
    slow = meet("slow")
    slow.say((1, SubscribeFrame("g", {"t": "*"}, BIG_COUNT, 60_000)))
    seen: list[int] = []

    def has_settled() -> bool:
        seen.append(inflight(server))
        return len(seen) > 50 and seen[-50] == seen[-1] > 0

    until(has_settled)
    return slow, seen[-1]


def test_a_reader_that_takes_nothing_is_sent_no_more_than_the_bound(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    slow, handed_out = subscribed_but_silent(server, meet)
    assert handed_out < BIG_COUNT
    received = 0
    while received < BIG_COUNT:  # and once it reads, it gets everything
        received += len(slow.hear(DeliverFrame)[1].bodies)


def test_what_never_left_is_given_back_when_a_connection_breaks(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    slow, handed_out = subscribed_but_silent(server, meet)
    # As the kernel does it for a process that died with unread data: a reset, no goodbye.
    slow.socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    slow.socket.socket.close()
    until(lambda: inflight(server) < handed_out)


@pytest.mark.parametrize(
    "garbage", [b"\x00", b"\x02\x00\x00\x00\x01\xff\xff\xff\xff", b"no frame at all, really"]
)
def test_what_cannot_be_cut_into_frames_ends_the_connection(
    meet: Callable[..., Peer], garbage: bytes
) -> None:
    peer = meet()
    peer.socket.send(garbage)
    assert peer.hear(ErrorFrame)[1].code == "connection_closed"
    with pytest.raises(ConnectionClosed) as closed:
        peer.socket.recv(WAIT_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1002


def test_an_unreadable_payload_is_an_error_and_the_connection_goes_on(
    meet: Callable[..., Peer],
) -> None:
    peer = meet()
    peer.socket.send(b"\x05\x00\x00\x00\x07\x00\x00\x00\x01x")
    request, error = peer.hear(ErrorFrame)
    assert (request, error.code) == (7, "invalid")
    assert peer.ask(send_of(b"a"), SentFrame)


def test_a_message_beyond_the_limit_ends_the_connection(meet: Callable[..., Peer]) -> None:
    peer = meet()
    with contextlib.suppress(ConnectionClosed):  # it may hang up while we still talk
        peer.socket.send(bytes(9 * 1024 * 1024))
    with pytest.raises(ConnectionClosed) as closed:
        peer.hear(SentFrame)
    assert closed.value.rcvd is None or closed.value.rcvd.code == 1009


def test_subscriptions_are_bounded(meet: Callable[..., Peer]) -> None:
    peer = meet()
    peer.ask(send_of(b"a"), SentFrame)
    limit = SocketLimits().subscriptions_max
    for number in range(1, limit + 1):
        peer.ask(SubscribeFrame("g", {"t": "*"}, 0, 60_000), SubscribedFrame, request=number)
    error = peer.ask(SubscribeFrame("g", {"t": "*"}, 0, 60_000), ErrorFrame, request=limit + 1)
    assert error.code == "busy"
    assert error.retry_after_ms > 0


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        (SubscribeFrame("", {"t": "*"}, 1, 60_000), "group"),
        (SubscribeFrame("g", {}, 1, 60_000), "topics"),
        (SubscribeFrame("g", {"t": "||"}, 1, 60_000), "filter"),
        (SubscribeFrame("g", {"t": "*"}, 1, 1), "invisible_s"),
    ],
)
def test_a_wrong_subscription_names_its_field(
    meet: Callable[..., Peer], frame: SubscribeFrame, field: str
) -> None:
    peer = meet()
    peer.ask(send_of(b"a"), SentFrame)
    assert field in peer.ask(frame, ErrorFrame).field


def test_pages_of_another_site_cannot_connect(server: LiveServer) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(server.socket_url, origin="https://elsewhere.example")  # type: ignore[arg-type]
    assert refused.value.response.status_code == 403


class Talker:
    """A person with a JSON console."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    def say(self, **fields: Any) -> dict[str, Any]:
        self._socket.send(json.dumps(fields))
        return self.hear()

    def hear(self) -> dict[str, Any]:
        heard: dict[str, Any] = json.loads(self._socket.recv(WAIT_S))
        return heard


def test_the_text_twin_sends_receives_and_settles(server: LiveServer) -> None:
    with connect(server.socket_url) as opened:
        talker = Talker(opened)
        assert talker.say(op="hello", client="me")["op"] == "welcome"
        messages = [
            {"body": "hällo", "tag": "a", "keys": ["k"]},
            {"body": "/w==", "encoding": "base64"},
        ]
        sent = talker.say(op="send", id=1, topic="t", messages=messages)
        assert (sent["op"], sent["id"], sent["durability"]) == ("sent", 1, "stored")
        assert sent["messages"][1]["offset"] == "1"
        subscribe = {"op": "subscribe", "id": 2, "group": "g", "topics": {"t": "*"}, "credit": 2}
        assert talker.say(**subscribe) == {"op": "subscribed", "id": 2, "held": []}
        delivered = talker.hear()
        assert (delivered["op"], delivered["subscription"]) == ("deliver", 2)
        first, second = delivered["messages"]
        assert (first["body"], first["encoding"], first["attempt"]) == ("hällo", "utf-8", 1)
        assert first["properties"]["TAGS"] == "a"
        assert (second["body"], second["encoding"]) == ("/w==", "base64")
        acked = talker.say(op="ack", id=3, group="g", receipts=[first["receipt"]])
        assert acked["results"] == [{"result": "done"}]
        failed = talker.say(
            op="nack", id=4, group="g", receipts=[second["receipt"]], error="no", delay_ms=0
        )
        assert failed["results"] == [{"result": "done"}]
        assert talker.say(op="credit", subscription=2, count=1)["messages"][0]["attempt"] == 2
        assert talker.say(op="unsubscribe", id=5, subscription=2)["op"] == "result"


@pytest.mark.parametrize(
    "text", ["", "no json", "[]", '{"op":"dance"}', '{"op":"ack","group":"g","receipts":["x"]}',
             '{"op":"send","topic":"t","messages":[{"body":"x","encoding":"utf-7"}]}'],
)  # fmt: skip
def test_text_that_is_no_request_is_answered_with_what_is_wrong(
    server: LiveServer, text: str
) -> None:
    with connect(server.socket_url) as opened:
        opened.send(text)
        answer = json.loads(opened.recv(WAIT_S))
        assert (answer["op"], answer["code"]) == ("error", "invalid")
        assert answer["detail"]


@pytest.mark.capabilities("member_shares")
def test_an_operator_disconnects_a_client_and_what_it_held_comes_back(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    peer = meet("me")
    peer.ask(send_of(b"1", b"2"), SentFrame)
    peer.ask(SubscribeFrame("g", {"t": "*"}, 10, 600_000), SubscribedFrame)
    held = 0
    while held < 2:
        held += len(peer.hear(DeliverFrame)[1].bodies)
    with httpx.Client(base_url=server.url, timeout=WAIT_S) as http:
        page = http.get("/clients/me", params={"format": "json"}).json()
        client = page["client"]
        assert (client["memberships"][0]["in_flight"], page["activity"]["sent"]) == (2, 2)
        assert client["why_no_stack"] == "the WebSocket protocol has no such request"
        done = http.post("/api/v1/clients/disconnect", json={"client": "me"}).json()
    assert done == {"client": "me", "connections": 1, "groups": ["g"], "returned": 2, "kept": 0}
    assert peer.hear(ErrorFrame)[1].code == "connection_closed"
    with pytest.raises(ConnectionClosed) as closed:
        peer.socket.recv(WAIT_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4004
    until(lambda: inflight(server) == 0)


def test_a_compressed_body_is_pushed_as_it_was_sent(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    # Small ones on the loop; a large one, by a thread, holds up neither order nor credit.
    texts = [b"small " * 100, bytes(range(256)) * 8000, b"last"]

    def store() -> None:
        for text, flag in zip(texts, (0x301, 0x001, 0x201), strict=True):
            server.broker.send([Message("t", PACKERS[flag](text), queue=0, sys_flag=flag)])
        server.broker.send([Message("t", b"broken", queue=0, sys_flag=0x301)])

    peer = meet("c1")
    peer.ask(send_of(b"first"), SentFrame)
    server.call(store)
    peer.ask(SubscribeFrame("g", {"t": "*"}, 10, 60_000), SubscribedFrame, request=7)
    got: list[tuple[bytes, int]] = []
    while len(got) < 5:
        _, frame = peer.hear(DeliverFrame)
        got += zip(frame.bodies, frame.sys_flags, strict=True)
    assert sorted(got) == sorted(
        [(b"first", 0), *((text, 0) for text in texts), (b"broken", 0x301)]
    )


@pytest.mark.capabilities("uncounted_releases")
def test_bodies_too_large_for_one_frame_are_pushed_in_several(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    def store() -> None:
        for number in range(3):
            body = PACKERS[0x301](b"%d" % number * 3 * 1024 * 1024)
            server.broker.send([Message("t", body, queue=0, sys_flag=0x301)])

    peer = meet("c1")
    peer.ask(send_of(b"first"), SentFrame)
    server.call(store)
    peer.ask(SubscribeFrame("g", {"t": "*"}, 10, 60_000), SubscribedFrame, request=7)
    heads: list[bytes] = []
    while len(heads) < 4:
        _, frame = peer.hear(DeliverFrame)
        assert sum(map(len, frame.bodies)) <= 4 * 1024 * 1024
        assert frame.attempts == [1] * len(frame.bodies)
        heads += [body[:1] for body in frame.bodies]
    assert sorted(heads) == [b"0", b"1", b"2", b"f"]
