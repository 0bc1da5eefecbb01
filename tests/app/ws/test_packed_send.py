"""Columns and objects are two roads to one end: equal bytes on disk, equal answers and errors."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.host import EngineHost
from app.send_batcher import SendBatcher
from app.turn_end import TurnEnd
from app.ws import packed_send
from app.ws.packed_send import PackedSend, PackedSendFrame
from app.ws.shapes import DURABILITIES, build_messages, error_frame, sent_frame
from engine.broker import Broker, TopicConfig, TopicType
from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.events import EngineEvent
from engine.store.pool import InlinePool
from kitemq.protocol.columns import ProtocolError
from kitemq.protocol.frames import Frame
from kitemq.protocol.sends import DurabilityCode, SendFrame
from tests.engine.store.kernel.twins import TWINS, using

COUNT_MIN = 4
REMOTE = "127.0.0.1:5000"
ODD_TOPICS = ("ordered", "shut", "%RETRY%g", "")
LIMITS = (0, 1, -1, (1 << 31) - 1, 1 << 31, -(1 << 31) - 1, (1 << 63) - 1)


@st.composite
def frames(draw: st.DrawFn, *, is_odd: bool) -> SendFrame:
    """Mostly plain messages; odd ones may have to be refused."""
    count = draw(st.integers(COUNT_MIN - 1, COUNT_MIN + 4))

    def column(values: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> list[Any]:
        values = values | odd if is_odd else values
        if draw(st.booleans()):
            return [draw(values)] * count
        return draw(st.lists(values, min_size=count, max_size=count))

    tags = st.sampled_from(("", "a", "blue-1", "x" * 40))
    keys = st.lists(st.sampled_from(("k1", "order-7", "z")), max_size=3).map(" ".join)
    maps = st.sampled_from(({}, {"colour": "blue"}, {"a": "1", "ü": "ß"}))
    odd_text = st.sampled_from((" a", "a|b", "ü", "a  b", "\x07", "k " * 70, "t" * 5000))
    odd_maps = st.sampled_from(({"KEYS": "x"}, {"a": ""}, {"WAIT": "false"}, {"a": "\x01"}))
    frame = SendFrame(
        draw(st.sampled_from(("plain", "plain", "new", *(ODD_TOPICS * is_odd)))),
        column(st.binary(min_size=1, max_size=90), st.just(b"")),
        column(tags, odd_text),
        column(keys, odd_text),
        column(st.sampled_from(("", "", "", "g1")), st.just("g2")),
        [dict(each) for each in column(maps, odd_maps)],
        column(st.sampled_from((0, 0, 0, 3)), st.just(99)),
        column(st.integers(-5, 5), st.sampled_from(LIMITS)),
        column(st.integers(0, 1 << 41), st.sampled_from(LIMITS)),
        draw(st.sampled_from((0, 0, 1, 2, 3) if is_odd else (0, 1, 2))),
        draw(st.sampled_from((-1, -1, 0, 2, 3, 99) if is_odd else (-1, 0, 2))),
        draw(st.sampled_from(("", "A0B1C2", "0123456789ABCDEF01234567", *(("ü", "a-b") * is_odd)))),
        draw(st.sampled_from((0, 255, 4093, *(((1 << 32) - 2,) * is_odd)))),
    )
    if is_odd and draw(st.booleans()):
        delays = draw(st.lists(st.sampled_from((0, 0, 500, -1)), min_size=count, max_size=count))
        return SendFrame(**{**_fields(frame), "delay_ms": delays, "deliver_at_ms": [0] * count})
    return frame


def _fields(frame: SendFrame) -> dict[str, Any]:
    return {name: getattr(frame, name) for name in frame.__struct_fields__}


class Road:
    """A broker, and what it was told and said."""

    def __init__(self, root: Path, segment_bytes: int) -> None:
        self.root = root
        self.events: list[EngineEvent] = []
        self.packed = 0
        config = EngineConfig(
            data=root,
            segment_bytes=segment_bytes,
            disk_free_min_bytes=0,
            index_slots=50,
            index_items=40,
            queue_file_entries=100,
        )
        self.broker = Broker(config, clock=ManualClock(), pool=InlinePool())
        self.broker.start()
        self.broker.create_topic(TopicConfig("plain", write_queues=3, read_queues=3))
        self.broker.create_topic(TopicConfig("ordered", type=TopicType.FIFO))
        self.broker.create_topic(TopicConfig("shut", permission=4))
        self.broker._parts.events.subscribe(self.events.append)

    def take(
        self, payload: bytes, parser: Any, answers: list[Frame | str], turn: SendBatcher
    ) -> None:
        """Do what a session does with a SEND."""
        index = len(answers)
        answers.append("nothing")
        try:
            frame = parser.parse(payload, 0)
        except ProtocolError as error:
            answers[index] = str(error)
            return

        def done(part: Any, error: EngineError | None) -> None:
            if error is not None:
                answers[index] = error_frame(error)
            else:
                answers[index] = sent_frame(part, with_ids=not frame.id_prefix)

        try:
            if isinstance(frame, PackedSendFrame):
                self.packed += 1
                durability = DURABILITIES[DurabilityCode(frame.durability)]
                turn.add_columns(frame.columns(REMOTE), durability, done)
                return
            messages = build_messages(frame, REMOTE, 0)
            if frame.durability not in DURABILITIES:
                answers[index] = "durability"
                return
            turn.add(messages, DURABILITIES[DurabilityCode(frame.durability)], done)
        except EngineError as error:
            answers[index] = error_frame(error)

    async def turn(self, payloads: list[bytes], parser: Any) -> list[Frame | str]:
        """The answers to frames that came in one turn of the loop."""
        host = cast(
            EngineHost,
            SimpleNamespace(
                broker=self.broker, loop=asyncio.get_running_loop(), turn_end=TurnEnd()
            ),
        )
        answers: list[Frame | str] = []
        batcher = SendBatcher(host)
        for payload in payloads:
            self.take(payload, parser, answers, batcher)
        await asyncio.sleep(0)
        while self.broker.tick() <= 0:  # the flush
            pass
        return answers

    def stop(self) -> dict[str, bytes]:
        """End it; the files of messages as they are."""
        self.broker.stop()
        parts = ("commitlog", "consumequeue", "index")
        paths = [path for part in parts for path in (self.root / part).rglob("*")]
        return {
            str(path.relative_to(self.root)): path.read_bytes() for path in paths if path.is_file()
        }


@pytest.fixture(autouse=True, scope="module")
def _small_batches_as_columns() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed_send, "COLUMNS_COUNT_MIN", COUNT_MIN)
        yield


@pytest.fixture(params=sorted(TWINS))
def twin(request: pytest.FixtureRequest) -> Iterator[str]:
    with using(request.param):
        yield request.param


def both_roads(turns: list[list[SendFrame]], segment_bytes: int = 1 << 20) -> int:
    """Send the same on both roads and compare all that can be; how many came as columns."""
    with TemporaryDirectory() as folder:
        packed = Road(Path(folder) / "packed", segment_bytes)
        plain = Road(Path(folder) / "plain", segment_bytes)
        for turn in turns:
            payloads = [frame.payload() for frame in turn]
            answers = asyncio.run(packed.turn(payloads, PackedSend()))
            assert answers == asyncio.run(plain.turn(payloads, SendFrame))
        assert packed.events == plain.events
        assert packed.stop() == plain.stop()
        return packed.packed


# A refused send makes its neighbours go again, perhaps to the next queue: it comes alone.
TURNS = st.lists(frames(is_odd=False), min_size=1, max_size=3) | frames(is_odd=True).map(
    lambda frame: [frame]
)


@settings(max_examples=25, deadline=None)
@given(turns=st.lists(TURNS, min_size=1, max_size=4))
@pytest.mark.parametrize("name", sorted(TWINS))
def test_both_roads_store_and_answer_the_same(name: str, turns: list[list[SendFrame]]) -> None:
    with using(name):
        both_roads(turns)


def sample(count: int, topic: str = "plain", **fields: Any) -> SendFrame:
    empty = [""] * count
    columns = [b"x" * 200] * count, empty, empty, empty, [{}] * count, *([[0] * count] * 3)
    frame = SendFrame(topic, *columns, id_prefix="ABCD")  # type: ignore[arg-type]
    return SendFrame(**{**_fields(frame), **fields})


@pytest.mark.usefixtures("twin")
def test_plain_frames_of_some_size_come_as_columns() -> None:
    assert both_roads([[sample(COUNT_MIN)], [sample(COUNT_MIN - 1)]]) == 1
    assert both_roads([[sample(256), sample(100)], [sample(4096, bodies=[b"x"] * 4096)]]) == 3


@pytest.mark.usefixtures("twin")
def test_batches_that_do_not_fit_a_segment_go_to_the_next() -> None:
    assert both_roads([[sample(30)] for _ in range(12)], 16 * 1024) == 12


@pytest.mark.usefixtures("twin")
def test_what_has_to_be_looked_at_by_message_does_not_come_as_columns() -> None:
    maps = [{"n": str(number)} for number in range(8)]
    for special in (
        {"groups": ["g"] * 8},
        {"properties": maps},
        {"delay_levels": [0] * 7 + [1]},
        {"delay_ms": [5] * 8, "deliver_at_ms": [0] * 8},
        {"durability": 7},
        {"id_first": (1 << 32) - 4},
    ):
        assert both_roads([[sample(8, **special)]]) == 0


@pytest.mark.usefixtures("twin")
def test_a_frame_that_is_cut_off_anywhere_is_as_unreadable_as_before() -> None:
    frame = sample(4, tags=["a", "b", "", "cc"], keys=["k"] * 4, born_ms=[1, 2, 3, 4])
    payload = frame.payload()
    for data in (*(payload[:size] for size in range(len(payload))), payload + b"\0"):
        errors = []
        for parser in (PackedSend(), SendFrame):
            with pytest.raises(ProtocolError) as caught:
                parser.parse(data, 0)
            errors.append(str(caught.value))
        assert errors[0] == errors[1]
