"""SENDs that come one at a time: stored and answered as others are, by a shorter way."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.host import EngineHost
from app.send_batcher import LoneSends, SendBatcher
from app.turn_end import TurnEnd
from app.ws.lone_sends import LoneFrames, request_of
from app.ws.send_runs import FrameRun, SendRuns, answer_of_one
from app.ws.session import Session
from app.ws.shapes import DURABILITIES, sent_frame
from engine.message import Durability, Message
from kitemq.protocol.frames import Frame, encode
from kitemq.protocol.sends import DurabilityCode, SendFrame
from tests.app.ws.test_packed_send import REMOTE, Road
from tests.app.ws.test_send_runs import (
    Link,
    linked,
    new_topic,
    pulled,
    send,
    server,
)
from tests.engine.store.kernel.twins import TWINS, using
from tests.live import LiveServer
from tests.patience import until

__all__ = ["server"]

FRAME_BYTES_MAX = 1 << 20


class LoneRoad(Road):
    """A broker that gets SENDs one by one, by the shorter way or as a run of one."""

    def send(self, data: bytes, *, is_short: bool) -> bytes:
        """The answer to a frame."""
        return asyncio.run(self._send(data, is_short=is_short))

    async def _send(self, data: bytes, *, is_short: bool) -> bytes:
        host = SimpleNamespace(
            broker=self.broker, loop=asyncio.get_running_loop(), turn_end=TurnEnd()
        )
        batcher = SendBatcher(cast(EngineHost, host))
        run = run_of(data)
        durability = DURABILITIES[DurabilityCode(run.pattern.frame.durability)]
        answers: list[bytes] = []

        def done(part: Any, error: Exception | None) -> None:
            assert error is None
            answers.append(encode(request_of(data), sent_frame(part, with_ids=False)))

        columns = run.columns(REMOTE)
        if not is_short:
            batcher.add_columns(columns, durability, done)
            await asyncio.sleep(0)
        else:
            sender = self.broker.lone_sender(columns, durability)
            assert sender is not None
            lone = LoneFrames(run.pattern, LoneSends(batcher, sender), FRAME_BYTES_MAX)
            assert lone.fits(data)
            place = lone.store(data)
            assert place is not None
            if lone.sender.waits:
                lone.sender.when_accepted(place, done)
            else:
                answers.append(answer_of_one(request_of(data), place, sender.durability))
        while self.broker.tick() <= 0:  # the flush
            pass
        (answer,) = answers
        return answer


def run_of(data: bytes) -> FrameRun:
    """A frame that came alone."""
    runs = SendRuns(FRAME_BYTES_MAX)
    assert runs.begin(data)
    (run,) = runs.end()
    assert isinstance(run, FrameRun)
    return run


SENDS = st.builds(
    lambda body, born_ms, number, **more: send(
        "plain", body, born_ms=[born_ms], id_first=number, **more
    ),
    st.binary(min_size=1, max_size=2000),
    st.sampled_from((0, 7, 1 << 41)),
    st.sampled_from((0, 255, (1 << 32) - 1)),
    tags=st.sampled_from(([""], ["paid"], ["ü"])),
    keys=st.sampled_from(([""], ["k1"], ["k1 ü"])),
    properties=st.sampled_from(([{}], [{"colour": "red"}])),
    flags=st.sampled_from(([0], [-3])),
    queue=st.sampled_from((-1, 2)),
    durability=st.sampled_from((0, 1, 2)),
)


@settings(max_examples=25, deadline=None)
@given(frames=st.lists(SENDS, min_size=1, max_size=40))
@pytest.mark.parametrize("name", sorted(TWINS))
def test_both_ways_store_and_answer_the_same(name: str, frames: list[SendFrame]) -> None:
    with using(name), TemporaryDirectory() as folder:
        short, other = (LoneRoad(Path(folder) / name, 16 * 1024) for name in ("short", "other"))
        for number, frame in enumerate(frames):
            data = encode(number, frame)
            assert short.send(data, is_short=True) == other.send(data, is_short=False)
        assert short.events == other.events
        figures = [road.broker.statistics.broker() for road in (short, other)]
        assert figures[0] == figures[1]
        assert short.stop() == other.stop()


@contextmanager
def short_ways() -> Iterator[list[bool]]:
    """For each SEND that fits, whether it was stored by the shorter way."""
    stored: list[bool] = []
    store = LoneFrames.store

    def counted(lone: LoneFrames, data: bytes) -> Any:
        place = store(lone, data)
        stored.append(place is not None)
        return place

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LoneFrames, "store", counted)
        yield stored


def ask_each(link: Link, frames: list[SendFrame]) -> list[Frame | str]:
    """The answers to frames that are sent one after the other."""
    return [link.ask([encode(n, frame)])[n] for n, frame in enumerate(frames, 1)]


@pytest.mark.parametrize("durability", [0, 2])
def test_from_the_third_on_they_take_the_shorter_way(server: LiveServer, durability: int) -> None:
    topic = new_topic(server)
    frames = [send(topic, b"%d" % n, id_first=n, durability=durability) for n in range(6)]
    with short_ways() as stored, linked(server) as link:
        answers = ask_each(link, frames)
    assert stored == [True] * 4
    assert [getattr(each, "offsets", each) for each in answers] == [[n] for n in range(6)]
    assert [each.body for each in pulled(server, topic)] == [b"%d" % n for n in range(6)]


def test_one_that_is_wrong_is_told_so_and_the_others_go_on(server: LiveServer) -> None:
    topic = new_topic(server)
    frames = [send(topic, b"" if n == 3 else b"x", id_first=n) for n in range(6)]
    frames[4] = send(topic, b"x", born_ms=[-1])
    with linked(server) as link:
        answers = ask_each(link, frames)
    assert [getattr(each, "field", "sent") for each in answers] == [
        *["sent"] * 3,
        "messages[0].body",
        "messages[0].born_ms",
        "sent",
    ]


def test_while_answers_wait_for_a_client_that_does_not_read_none_is_stored_so(
    server: LiveServer,
) -> None:
    topic = new_topic(server)
    frames = [encode(n, send(topic, b"x", id_first=n)) for n in range(1, 9)]
    with short_ways() as stored, linked(server) as link:
        for frame in frames[:3]:
            link.ask([frame])
        (session,) = [
            each for each in gc.get_objects() if type(each) is Session and not each._is_closing
        ]
        protocol = session._socket
        server.call(protocol.pause_writing)
        for number, frame in enumerate(frames[3:], 4):
            link.write([frame])
            until(lambda number=number: len(pulled(server, topic)) == number)
        server.call(protocol.resume_writing)
        assert sorted(link.read(5)) == [4, 5, 6, 7, 8]
    assert stored == [True, True]  # the answer to the second of them waits


def deleted(server: LiveServer, topic: str) -> None:
    server.broker.delete_topic(topic)


def shut(server: LiveServer, topic: str) -> None:
    server.broker.change_topic(topic, permission=4)


def flushed(server: LiveServer, topic: str) -> None:
    server.broker.change_topic(topic, durability=Durability.FLUSHED)


def frozen(server: LiveServer, _: str) -> None:
    assert server.app is not None
    server.app.services.user_directory.freeze(is_read_only=True)


@pytest.mark.parametrize(
    ("change", "code"),
    [(deleted, 1), (shut, "forbidden"), (flushed, 2), (frozen, "read_only")],
)
def test_what_changes_meanwhile_counts_from_the_next_send(
    server: LiveServer, change: Callable[[LiveServer, str], None], code: int | str
) -> None:
    topic = new_topic(server)
    assert server.app is not None
    with short_ways() as stored, linked(server) as link:
        ask_each(link, [send(topic, b"x", id_first=n) for n in range(4)])
        server.call(lambda: change(server, topic))
        (answer,) = ask_each(link, [send(topic, b"y")])
        server.app.services.user_directory.freeze(is_read_only=False)
    assert stored[:2] == [True, True]
    assert getattr(answer, "code", getattr(answer, "durability", 0)) == code


def test_sends_that_wait_for_the_turns_end_go_first() -> None:
    with TemporaryDirectory() as folder:
        road = LoneRoad(Path(folder), 16 * 1024)
        road.send(encode(1, send("plain", b"x")), is_short=True)

        async def both() -> None:
            host = SimpleNamespace(
                broker=road.broker, loop=asyncio.get_running_loop(), turn_end=TurnEnd()
            )
            batcher = SendBatcher(cast(EngineHost, host))
            columns = run_of(encode(2, send("plain", b"y"))).columns(REMOTE)
            sender = road.broker.lone_sender(columns)
            assert sender is not None
            lone = LoneSends(batcher, sender)
            batcher.add([Message("plain", b"first")], None, lambda part, error: None)
            assert lone.send(columns.data, columns.bodies_at, 0, 1) is None
            await asyncio.sleep(0)
            assert lone.send(columns.data, columns.bodies_at, 0, 1) is not None

        asyncio.run(both())
        road.broker.stop()


def test_nothing_is_prepared_for_messages_that_have_to_be_looked_at() -> None:
    with TemporaryDirectory() as folder:
        road = LoneRoad(Path(folder), 16 * 1024)
        for topic in ("ordered", "shut", "unknown"):
            columns = run_of(encode(2, send(topic, b"y"))).columns(REMOTE)
            assert road.broker.lone_sender(columns) is None
        columns = run_of(encode(2, send("plain", b"y"))).columns(REMOTE)
        assert road.broker.lone_sender(columns, Durability.REPLICATED) is None
        road.broker.stop()


def test_a_stopped_broker_stores_nothing_by_the_shorter_way() -> None:
    with TemporaryDirectory() as folder:
        road = LoneRoad(Path(folder), 16 * 1024)
        columns = run_of(encode(2, send("plain", b"y"))).columns(REMOTE)
        sender = road.broker.lone_sender(columns)
        assert sender is not None
        road.broker.refuse_changes()
        assert sender.send(columns.data, columns.bodies_at, 0, 1) is None
        road.broker.stop()
