"""SENDs that come with one read: answered and stored as those that come one by one."""

import gc
import itertools
import socket
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher
from hypothesis import given, settings
from hypothesis import strategies as st

from app.security import passwords
from app.ws.packed_send import ID_NUMBERS
from app.ws.send_runs import SendRuns
from app.ws.session import Session
from engine.broker import TopicConfig
from engine.events import EngineEvent, SendRefused
from engine.message import UNIQ_KEY, StoredMessage
from kitemq.protocol.columns import U16
from kitemq.protocol.frames import Frame, UnsubscribeFrame, encode
from kitemq.protocol.sends import SendFrame, SentFrame
from kitemq.protocol.stream import SERVER_FRAMES, UnreadableFrame, iter_frames
from tests.app.ws.test_access_socket import PASSWORD, token_of
from tests.app.ws.test_socket_bounds import UPGRADE
from tests.live import LiveServer
from tests.patience import until

ID_PREFIX = "0123456789ABCDEF0123"
Answers = dict[int, Frame | str]
topics = map("topic-{}".format, itertools.count())


class Link:
    """A connection whose writes are the test's own: one of them is one read of the server."""

    def __init__(self, port: int, head: bytes = UPGRADE) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 30)
        self._socket.sendall(head)
        assert self._socket.recv(4096).startswith(b"HTTP/1.1 101")
        self._data = b""

    def ask(self, frames: Sequence[bytes]) -> Answers:
        """The answer to each of these frames, by request number."""
        self.write(frames)
        return self.read(len(frames))

    def write(self, frames: Sequence[bytes]) -> None:
        """Send frames, and leave their answers for later."""
        self._socket.sendall(b"".join(map(masked, frames)))

    def read(self, count: int) -> Answers:
        """The next answers, by request number."""
        answers: Answers = {}
        while len(answers) < count:
            for request, frame in iter_frames(self._message(), SERVER_FRAMES):
                assert request not in answers, "answered twice"
                answers[request] = str(frame) if isinstance(frame, UnreadableFrame) else frame
        return answers

    def close(self) -> None:
        self._socket.close()

    def _message(self) -> bytes:
        """The next binary message of the server."""
        while True:
            data = self._data
            if len(data) >= 4:
                size, start = data[1], 2
                if size == 126:
                    size, start = U16.unpack_from(data, 2)[0], 4
                if len(data) >= start + size:
                    assert data[0] == 0x82
                    self._data = data[start + size :]
                    return data[start : start + size]
            more = self._socket.recv(1 << 16)
            assert more, "the server closed the connection"
            self._data += more


def masked(payload: bytes) -> bytes:
    """A binary message whose mask changes nothing."""
    size = len(payload)
    head = bytes((0x82, 0x80 | size)) if size < 126 else b"\x82\xfe" + U16.pack(size)
    return head + bytes(4) + payload


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    live = LiveServer(tmp_path_factory.mktemp("runs") / "data")
    live.start()
    yield live
    live.stop()


@contextmanager
def linked(server: LiveServer) -> Iterator[Link]:
    link = Link(server.port)
    try:
        yield link
    finally:
        link.close()


@contextmanager
def runs_counted() -> Iterator[list[int]]:
    """How many messages each run has that is stored."""
    counts: list[int] = []
    send_run = Session._send_run

    def counted(session: Session, run: Any) -> None:
        counts.append(run.message_count)
        send_run(session, run)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "_send_run", counted)
        yield counts


@contextmanager
def refusals_counted(server: LiveServer) -> Iterator[list[SendRefused]]:
    """What the engine says of refused sends."""
    refused: list[SendRefused] = []

    def hear(event: EngineEvent) -> None:
        if isinstance(event, SendRefused):
            refused.append(event)

    events = server.broker.events
    server.call(lambda: events.subscribe(hear))
    yield refused
    server.call(lambda: events.unsubscribe(hear))


def send(
    topic: str, *bodies: bytes, id_first: int = 0, prefix: str = ID_PREFIX, **more: Any
) -> SendFrame:
    none, zeros = [""] * len(bodies), [0] * len(bodies)
    columns = {"tags": none, "keys": none, "groups": none, "properties": [{} for _ in bodies]}
    numbers = {"delay_levels": zeros, "flags": zeros, "born_ms": zeros}
    return SendFrame(
        topic, list(bodies), id_prefix=prefix, id_first=id_first, **(columns | numbers | more)
    )


@st.composite
def sends(draw: st.DrawFn) -> list[SendFrame]:
    """SENDs that mostly continue each other, and some that are special or in error."""
    next_id, frames = draw(st.sampled_from((0, 4093, ID_NUMBERS - 5))), []
    prefix = draw(st.sampled_from((ID_PREFIX, ID_PREFIX, "")))
    for _ in range(draw(st.integers(1, 12))):
        count = draw(st.sampled_from((1, 1, 1, 1, 3)))
        odd = draw(st.integers(0, 9)) == 0
        bodies = draw(st.lists(st.binary(min_size=not odd, max_size=99), min_size=count,
                               max_size=count))  # fmt: skip
        more: dict[str, Any] = {"born_ms": [draw(st.sampled_from((0, 7, 8)))] * count}
        if draw(st.integers(0, 4)) == 0:
            more["tags"] = [draw(st.sampled_from(("a", "b", "c d"[:: 1 if odd else 3])))] * count
        if odd:
            more |= draw(
                st.sampled_from(
                    (
                        {"queue": 99},
                        {"durability": 3},
                        {"delay_levels": [3] * count},
                        {"groups": ["g"] * count},
                        {"properties": [{"KEYS": "x"}] * count},
                        {"flags": [1 << 40] * count},
                        {"born_ms": [-5] * count},
                    )
                )
            )
        frames.append(send("", *bodies, id_first=next_id, prefix=prefix, **more))
        next_id = (next_id + (count if draw(st.integers(0, 5)) else 1000)) % ID_NUMBERS
    return frames


def requests_of(frames: Sequence[SendFrame], topic: str) -> list[bytes]:
    """The frames for a topic, numbered from 1."""
    fields = [{name: getattr(each, name) for name in each.__struct_fields__} for each in frames]
    named = [SendFrame(**{**each, "topic": topic}) for each in fields]
    return [encode(number, frame) for number, frame in enumerate(named, 1)]


def comparable(answers: Answers, topic: str) -> dict[int, Any]:
    """The answers without what depends on the topic's name and on what else lies in the log."""
    return {request: _comparable(answer, topic) for request, answer in answers.items()}


def _comparable(answer: Frame | str, topic: str) -> Any:
    if not isinstance(answer, SentFrame):
        return str(answer).replace(topic, "")
    is_delayed = any(answer.queues)  # in a queue that all topics share
    offsets = [] if is_delayed else answer.offsets
    return answer.durability, answer.queues, offsets, len(answer.ids)


def new_topic(server: LiveServer) -> str:
    """A topic with one queue."""
    topic = next(topics)
    config = TopicConfig(topic, read_queues=1, write_queues=1)
    server.call(lambda: server.broker.create_topic(config))
    return topic


def pulled(server: LiveServer, topic: str) -> list[StoredMessage]:
    """All messages of the topic's only queue."""
    messages: list[StoredMessage] = []
    while True:
        at = len(messages)
        result = server.call(lambda at=at: server.broker.pull(topic, 0, at, count_max=100))
        if not result.messages:
            return messages
        messages += result.messages


def stored(server: LiveServer, topic: str) -> list[dict[str, Any]]:
    """What lies in the topic's only queue, but for what differs by itself."""
    names = ("body", "tag", "keys", "flag", "message_group", "offset")
    return [
        {name: getattr(each, name) for name in names}
        | {name: value for name, value in each.properties.items() if name != UNIQ_KEY}
        | {"id": each.message_id.startswith(ID_PREFIX) and each.message_id}
        | {"born_ms": each.born_ms if each.born_ms < 10 else 0}
        for each in pulled(server, topic)
    ]


@settings(max_examples=60, deadline=None)
@given(frames=sends())
def test_one_read_or_many_are_answered_and_stored_alike(
    server: LiveServer, frames: list[SendFrame]
) -> None:
    together, singly = new_topic(server), new_topic(server)
    with linked(server) as link:
        answers = link.ask(requests_of(frames, together))
        one_by_one: Answers = {}
        for request in requests_of(frames, singly):
            one_by_one |= link.ask([request])
    assert comparable(answers, together) == comparable(one_by_one, singly)
    assert stored(server, together) == stored(server, singly)


def test_sends_that_continue_each_other_are_stored_as_one_batch(server: LiveServer) -> None:
    topic = new_topic(server)
    frames = [send(topic, b"%d" % n, id_first=n, born_ms=[1 + n // 3]) for n in range(40)]
    requests = [encode(100 + n, frame) for n, frame in enumerate(frames)]
    with runs_counted() as counts, linked(server) as link:
        answers = link.ask(requests)
        again = link.ask([encode(n, send(topic, b"x", id_first=500 + n)) for n in range(7)])
    assert counts == [40, 7]
    assert sorted(answers) == list(range(100, 140))
    first = [answers[request] for request in sorted(answers)]
    assert [each.offsets for each in first] == [[n] for n in range(40)]  # type: ignore[union-attr]
    assert [each.offsets for _, each in sorted(again.items())] == [  # type: ignore[union-attr]
        [n] for n in range(40, 47)
    ]
    # The position that each answer tells is where the message stands.
    messages = pulled(server, topic)
    for answer, message in zip(first, messages, strict=False):
        assert isinstance(answer, SentFrame)
        assert answer.positions == [message.position]
    bodies = [each.body for each in messages]
    assert bodies == [b"%d" % n for n in range(40)] + [b"x"] * 7
    assert messages[39].message_id == f"{ID_PREFIX}{39:08X}"


def test_a_run_ends_where_ids_leap_or_another_frame_comes(server: LiveServer) -> None:
    topic = new_topic(server)
    ids = [0, 1, 2, 3, 10, 11, 12, 13, 14, 15, 16, 17]
    frames: list[Frame] = [send(topic, b"x", id_first=number) for number in ids]
    frames.insert(9, UnsubscribeFrame(999))
    with runs_counted() as counts, linked(server) as link:
        answers = link.ask([encode(number, frame) for number, frame in enumerate(frames)])
    assert counts == [4, 5, 3]
    offsets = [each.offsets for _, each in sorted(answers.items()) if isinstance(each, SentFrame)]
    assert offsets == [[n] for n in range(12)]


def test_sends_whose_ids_pass_32_bits_are_refused_alone(server: LiveServer) -> None:
    topic = new_topic(server)
    frames = [
        send(topic, *[b"x"] * 3, id_first=first) for first in (0, ID_NUMBERS - 5, ID_NUMBERS - 2)
    ]
    with linked(server) as link:
        answers = link.ask([encode(n, frame) for n, frame in enumerate(frames)])
        answers |= link.ask([encode(9, frames[2])])
    codes = [getattr(answer, "code", "sent") for _, answer in sorted(answers.items())]
    assert codes == ["sent", "sent", "invalid", "invalid"]
    assert len({message.message_id for message in pulled(server, topic)}) == 6


def test_what_follows_a_run_with_an_error_is_stored_behind_it(server: LiveServer) -> None:
    topic = new_topic(server)
    frames = [send(topic, b"" if n == 7 else b"%d" % n, id_first=n) for n in range(20)]
    frames += [send(topic, b"%d" % n, id_first=n, tags=["later"]) for n in range(20, 40)]
    with linked(server) as link:
        answers = link.ask([encode(n, frame) for n, frame in enumerate(frames)])
    assert getattr(answers[7], "code", "sent") == "invalid_size"
    assert [each.body for each in pulled(server, topic)] == [b"%d" % n for n in range(40) if n != 7]


@pytest.mark.parametrize("size", [2, 3, 5, 40])
def test_each_error_of_a_run_is_told_to_its_send_alone(server: LiveServer, size: int) -> None:
    for wrong in ({0}, {size - 1}, set(range(0, size, 2)), set(range(size))):
        topic = new_topic(server)
        frames = [
            send(topic, *[b"" if n in wrong else b"%d" % n] * 3, id_first=3 * n)
            for n in range(size)
        ]
        with linked(server) as link, refusals_counted(server) as refused:
            answers = link.ask([encode(n, frame) for n, frame in enumerate(frames)])
        codes = {n for n, answer in answers.items() if not isinstance(answer, SentFrame)}
        assert codes == wrong
        assert {getattr(answers[n], "field", "") for n in wrong} <= {"messages[0].body"}
        assert [each.body for each in pulled(server, topic)] == [
            b"%d" % n for n in range(size) if n not in wrong for _ in range(3)
        ]
        expected = [f"{ID_PREFIX}{3 * n + i:08X}" for n in sorted(wrong) for i in range(3)]
        assert [name for event in refused for name in event.message_ids] == expected


@pytest.mark.parametrize("where", ["body", "properties"])
def test_a_connection_keeps_little_of_a_large_send(where: str) -> None:
    runs, text = SendRuns(8 << 20), "x" * 500_000
    tracemalloc.start()
    try:
        frame = send("topic", text.encode() if where == "body" else b"x")
        if where == "properties":
            frame = send("topic", b"x", properties=[{"name": text}])
        assert runs.begin(encode(1, frame))
        assert len(runs.end()) == 1
        del frame
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("fragments", [1, 3])
def test_an_idle_connection_keeps_nothing_of_its_last_message(
    server: LiveServer, fragments: int
) -> None:
    topic, size_bytes = new_topic(server), 3_000_000
    with linked(server) as link:
        link.ask([encode(1, send(topic, b"first"))])
        tracemalloc.start()
        try:
            payload = encode(2, send(topic, b"x" * size_bytes))
            part_bytes = -(-len(payload) // fragments)
            for number, at in enumerate(range(0, len(payload), part_bytes), 1):
                part = payload[at : at + part_bytes]
                opcode = (0x02 if number == 1 else 0x00) | (0x80 if number == fragments else 0)
                head = bytes((opcode, 0xFF)) + len(part).to_bytes(8, "big") + bytes(4)
                link._socket.sendall(head + part)
            link._message()
            del payload, part

            def is_free() -> bool:
                # The server may load modules meanwhile, which are many small blocks.
                gc.collect()
                blocks = tracemalloc.take_snapshot().traces
                return max(block.size for block in blocks) < part_bytes // 4

            until(is_free, "it is kept")
        finally:
            tracemalloc.stop()


def test_a_run_that_is_cut_anywhere_by_reads_loses_nothing(server: LiveServer) -> None:
    topic = new_topic(server)
    frames = [send(topic, b"body %d" % n, id_first=n) for n in range(8)]
    data = b"".join(masked(encode(n, frame)) for n, frame in enumerate(frames))
    with linked(server) as link:
        for cut in range(0, len(data), 37):
            link._socket.sendall(data[:cut])
            link._socket.sendall(data[cut:])
            answers = 0
            while answers < len(frames):
                answers += len(list(iter_frames(link._message(), SERVER_FRAMES)))
    rounds = len(range(0, len(data), 37))
    bodies = [each.body for each in pulled(server, topic)]
    assert sorted(bodies) == sorted([b"body %d" % n for n in range(8)] * rounds)


def test_each_send_of_a_run_without_the_right_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_hasher", lambda: cheap)
    server = LiveServer(tmp_path / "data", admin_password=PASSWORD)
    server.start()
    try:
        with httpx.Client(base_url=server.url, headers={"origin": server.url}, timeout=30) as admin:
            form = {"name": "admin", "password": PASSWORD, "next": "/"}
            assert admin.post("/login", data=form).status_code == 303
            token = token_of(admin, "produce:topic:orders")["token"]
        head = UPGRADE[:-2] + f"Authorization: Bearer {token}\r\n\r\n".encode()
        link = Link(server.port, head)
        frames = [send("payments", b"x", id_first=n) for n in range(6)]
        frames += [send("orders", b"x", id_first=n) for n in range(6)]
        with runs_counted() as counts:
            answers = link.ask([encode(n, frame) for n, frame in enumerate(frames)])
        link.close()
        assert counts == [6, 6]
        codes = [getattr(answer, "code", "sent") for _, answer in sorted(answers.items())]
        assert codes == ["right_missing"] * 6 + ["sent"] * 6
    finally:
        server.stop()
