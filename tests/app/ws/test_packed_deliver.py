"""Deliveries by column and by message are two roads to one end: equal frames, equal progress."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.ws.packed_deliver import AckRunFrame, PackedAck, PackedDeliverFrame
from app.ws.push import Deliveries, deliver_frame
from app.ws.shapes import receipts_of
from engine.broker import (
    Broker,
    DeliveryColumns,
    GroupConfig,
    Mode,
    Nack,
    Receipt,
    ReceiptRun,
    TopicConfig,
)
from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.events import EngineEvent, MessagesDelivered
from engine.message import Message
from engine.store.pool import InlinePool
from kitemq.protocol.batches import AckFrame, DeliverFrame
from kitemq.protocol.batches import Receipt as WireReceipt
from kitemq.protocol.columns import ProtocolError
from tests.engine.delivery.by_message import by_message
from tests.engine.store.kernel.twins import TWINS, using

INVISIBLE_S = 30.0
GROUP, TOPIC = "g", "orders"


class Road:
    """A broker on a directory of its own, and what it said."""

    def __init__(
        self, root: Path, mode: Mode = Mode.CLUSTERING, *, segment_bytes: int = 1 << 16
    ) -> None:
        self.clock = ManualClock()
        self.events: list[EngineEvent] = []
        config = EngineConfig(data=root, segment_bytes=segment_bytes, disk_free_min_bytes=0)
        self.broker = Broker(config, clock=self.clock, pool=InlinePool())
        self.broker.start()
        self.broker.create_topic(TopicConfig(TOPIC, write_queues=2, read_queues=2))
        self.broker.create_group(GroupConfig(GROUP, mode=mode))
        self.broker._parts.events.subscribe(self.events.append)

    def take(self, count_max: int = 8, filter: str = "*", *, columns: bool = True) -> Deliveries:
        verb: Callable[..., Deliveries]
        verb = self.broker.receive_columns if columns else self.broker.receive
        limits = {"count_max": count_max, "invisible_s": INVISIBLE_S}
        return verb(GROUP, {TOPIC: filter}, client="c", **limits)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        while self.broker.tick() <= 0:
            pass


@pytest.fixture
def road(tmp_path: Path) -> Iterator[Road]:
    road = Road(tmp_path)
    yield road
    road.broker.stop()


MESSAGES = st.builds(
    Message,
    topic=st.just(TOPIC),
    body=st.binary(min_size=1, max_size=40) | st.just(b"x" * 3000),
    tag=st.sampled_from(("", "", "a", "blue-1", "ß")),
    keys=st.sampled_from(((), ("k1",), ("k1", "k2"))),
    properties=st.sampled_from(({}, {"colour": "blue"}, {"ü": "ß"})).map(dict),
    message_id=st.sampled_from(("", "A1")),
    queue=st.sampled_from((0, 0, 1)),
    flag=st.integers(-5, 5),
    sys_flag=st.sampled_from((0, 0, 0, 0, 8)),
    born_ms=st.integers(0, 1 << 41),
    born_host=st.sampled_from(("", "10.1.2.3:4", "[::1]:5")),
)
BATCHES = st.lists(st.lists(MESSAGES, min_size=1, max_size=6), min_size=1, max_size=4)


def of_one_queue(batch: list[Message]) -> list[Message]:
    for each in batch:
        each.queue = batch[0].queue
    return batch


@settings(max_examples=20, deadline=None)
@given(batches=BATCHES, count_max=st.integers(1, 12))
@pytest.mark.parametrize("name", sorted(TWINS))
def test_a_frame_of_columns_has_the_bytes_of_one_of_messages(
    name: str, batches: list[list[Message]], count_max: int
) -> None:
    with using(name), TemporaryDirectory() as folder:
        road = Road(Path(folder))
        for batch in batches:
            road.broker.send(of_one_queue(batch))
        while deliveries := road.take(count_max):
            if not isinstance(deliveries, DeliveryColumns):
                continue
            objects = by_message(road.broker, deliveries)
            frame = deliver_frame(deliveries)
            assert isinstance(frame, PackedDeliverFrame)
            assert frame.payload() == deliver_frame(objects).payload()
            assert len(objects) <= count_max
            heard = [event for event in road.events if isinstance(event, MessagesDelivered)]
            by_run = heard[-len(deliveries.runs) :]
            assert [each.offsets for each in by_run] == [
                tuple(run.receipts.offsets) for run in deliveries.runs
            ]
            messages = [each.message for each in objects]
            for name in ("born_ms", "stored_ms"):
                column = [ms for event in by_run for ms in getattr(event, name)]
                assert column == [getattr(message, name) for message in messages]
            size_bytes = sum(message.size_bytes for message in messages)
            assert sum(event.size_bytes for event in by_run) == size_bytes
        road.broker.stop()


@settings(max_examples=20, deadline=None)
@given(
    batches=BATCHES,
    count_max=st.integers(1, 12),
    failing=st.integers(2, 5),
    filter=st.sampled_from(("*", "*", "*", "a || blue-1", "SQL92: colour = 'blue'")),
)
@pytest.mark.parametrize("name", sorted(TWINS))
def test_both_roads_deliver_the_same_and_come_to_the_same_progress(
    name: str, batches: list[list[Message]], count_max: int, failing: int, filter: str
) -> None:
    """Every so many messages fail once, and come again as retries."""
    results = []
    with using(name), TemporaryDirectory() as folder:
        for columns in (True, False):
            road = Road(Path(folder) / str(columns))
            taken: list[tuple[object, ...]] = []
            for batch in batches:
                road.broker.send([Message(**_fields(each)) for each in of_one_queue(batch)])
                drain(road, taken, failing, filter=filter, count_max=count_max, columns=columns)
            road.pass_time(20)
            drain(road, taken, 0, filter=filter, count_max=count_max, columns=columns)
            lag = road.broker.lag(GROUP)
            results.append((sorted(taken), lag))
            road.broker.stop()
    assert results[0] == results[1]


def drain(road: Road, taken: list[Any], failing: int, **options: Any) -> None:
    """Take all that there is; settle what does not fail."""
    filter = options.pop("filter")
    while deliveries := road.take(filter=filter, **options):
        frame = DeliverFrame.parse(deliver_frame(deliveries).payload(), 0)
        columns = (frame.attempts, frame.flags, frame.properties, frame.bodies)
        rows = zip(frame.receipts, *columns, strict=True)
        taken += [(*receipt[:3], *rest) for receipt, *rest in rows]
        receipts = receipts_of(frame.receipts)
        nacks = [each for each in receipts if failing and each.offset % failing == 0]
        road.broker.nack(GROUP, [Nack(receipt, delay_level=1) for receipt in nacks])
        acks = [each for each in receipts if each not in nacks]
        if acks:
            road.broker.ack(GROUP, parsed_acks(acks))


def _fields(message: Message) -> dict[str, Any]:
    return {name: getattr(message, name) for name in message.__struct_fields__}


def parsed_acks(receipts: list[Receipt]) -> Any:
    """As the server reads them from an ACK."""
    frame = PackedAck().parse(AckFrame(GROUP, list(receipts)).payload(), 0)
    assert isinstance(frame, (AckRunFrame, AckFrame))
    return frame.receipts if isinstance(frame, AckRunFrame) else receipts_of(frame.receipts)


def plain(count: int, **fields: Any) -> list[Message]:
    return [Message(TOPIC, b"x" * 200, queue=0, **fields) for _ in range(count)]


@pytest.mark.parametrize("name", sorted(TWINS))
def test_plain_messages_come_as_columns(name: str, road: Road) -> None:
    with using(name):
        road.broker.send(plain(30, tag="a", keys=("k",)))
        deliveries = road.take(20)
        assert isinstance(deliveries, DeliveryColumns)
        assert [len(run.receipts) for run in deliveries.runs] == [20]


def test_one_frame_has_the_columns_of_several_queues(road: Road) -> None:
    road.broker.send(plain(3))
    road.broker.send([Message(TOPIC, b"y", queue=1, flag=1) for _ in range(2)])
    deliveries = road.take(20)
    assert isinstance(deliveries, DeliveryColumns)
    assert sorted(len(run.receipts) for run in deliveries.runs) == [2, 3]
    frame = deliver_frame(by_message(road.broker, deliveries))
    assert deliver_frame(deliveries).payload() == frame.payload()


@pytest.mark.parametrize(
    ("fields", "filter"),
    [({"sys_flag": 1}, "*"), ({"tag": "ß"}, "*"), ({}, "SQL92: a IS NULL"), ({"tag": "a"}, "a")],
)
def test_special_messages_do_not_come_as_columns(
    road: Road, fields: dict[str, Any], filter: str
) -> None:
    road.broker.send(plain(3, **fields))
    assert isinstance(road.take(filter=filter), list)


def test_what_comes_again_does_not_come_as_columns(road: Road) -> None:
    road.broker.send(plain(3))
    first = road.take(2)
    assert isinstance(first, DeliveryColumns)
    road.broker.release(GROUP, first.runs[0].receipts)
    again = road.take(3)
    assert isinstance(again, list)
    assert [each.receipt.offset for each in again] == [0, 1, 2]


def test_columns_end_before_a_special_message_which_is_next(road: Road) -> None:
    road.broker.send([*plain(3), *plain(1, tag="ß"), *plain(2)])
    first, second = road.take(6), road.take(6)
    while not second:
        second = road.take(6)
    assert isinstance(first, DeliveryColumns)
    assert first.runs[0].receipts.offsets == range(3)
    assert isinstance(second, list)
    assert [each.receipt.offset for each in second] == [3, 4, 5]


def test_columns_hold_no_more_than_a_call_may_read(road: Road) -> None:
    for _ in range(120):
        road.broker.send([Message(TOPIC, b"x" * 40_000, queue=0)])
    sizes = []
    while deliveries := road.take(1024):
        assert isinstance(deliveries, DeliveryColumns)
        sizes.append(sum(run.columns.size_bytes for run in deliveries.runs))
    assert max(sizes) <= 4 * 1024 * 1024
    assert sum(sizes) > 4 * 1024 * 1024


RECEIPTS = st.lists(
    st.tuples(
        st.sampled_from(("t", "u")), st.integers(0, 1), st.integers(-1, 4), st.integers(6, 7)
    ),
    max_size=6,
)
NEIGHBOURS = st.builds(
    lambda topic, queue, first, count, serial: [
        (topic, queue, first + number, serial) for number in range(count)
    ],
    st.sampled_from(("t", "", "ü")),
    st.sampled_from((0, 1, -1)),
    st.integers(-2, 1 << 50),
    st.integers(1, 5),
    st.integers(-1, 1 << 60),
)


@given(receipts=RECEIPTS | NEIGHBOURS, extra=st.binary(max_size=2))
def test_an_ack_is_read_as_the_same_receipts(receipts: list[WireReceipt], extra: bytes) -> None:
    payload = AckFrame("g", receipts).payload() + extra
    try:
        expected = AckFrame.parse(payload, 0)
    except ProtocolError as error:
        with pytest.raises(ProtocolError, match=str(error)):
            PackedAck().parse(payload, 0)
        return
    frame: Any = PackedAck().parse(payload, 0)
    assert frame.group == expected.group
    assert list(map(tuple, frame.receipts)) == expected.receipts


@pytest.mark.parametrize("offset", [0, 7])
def test_an_ack_of_one_message_is_a_run(offset: int) -> None:
    frame = PackedAck().parse(AckFrame("g", [("t", 2, offset, 9)]).payload(), 0)
    assert frame == AckRunFrame("g", ReceiptRun("t", 2, range(offset, offset + 1), 9))


def test_an_ack_of_neighbours_is_a_run() -> None:
    frame = PackedAck().parse(AckFrame("g", [("t", 2, 7, 9), ("t", 2, 8, 9)]).payload(), 0)
    assert frame == AckRunFrame("g", ReceiptRun("t", 2, range(7, 9), 9))


@settings(max_examples=30, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("mode", list(Mode))
def test_a_run_is_settled_as_its_receipts_are(mode: Mode, data: st.DataObject) -> None:
    """Over what is done, in flight with several serials, released, held longer, or to come."""
    with TemporaryDirectory() as folder:
        roads = [Road(Path(folder) / name, mode) for name in ("runs", "lists")]
        results: list[list[Any]] = [[], []]
        serials: list[int] = []
        for road in roads:
            road.broker.send(plain(8))
            road.events.clear()
        for number in range(data.draw(st.integers(2, 7))):
            step = data.draw(st.sampled_from(("take", "ack", "ack", "release", "extend")))
            step = step if number else "take"
            count = data.draw(st.integers(1, 6))
            first = data.draw(st.integers(0, 5))
            serial = data.draw(st.sampled_from([*serials, 5]))
            run = ReceiptRun(TOPIC, 0, range(first, first + count), serial)
            for road, answers in zip(roads, results, strict=True):
                receipts = run if road is roads[0] else list(run)
                if step == "take":
                    taken = road.take(count, columns=False)
                    assert isinstance(taken, list)
                    answers.extend(each.receipt for each in taken)
                    serials += [each.receipt.serial for each in taken]
                elif step == "ack":
                    answers.extend(road.broker.ack(GROUP, receipts))
                elif step == "release":
                    answers.extend(road.broker.release(GROUP, receipts))
                else:
                    answers.extend(road.broker.extend(GROUP, list(run), 60))
        assert results[0] == results[1]
        assert roads[0].events == roads[1].events
        assert roads[0].broker.lag(GROUP) == roads[1].broker.lag(GROUP)
        for road in roads:
            road.broker.stop()


@pytest.mark.parametrize("name", sorted(TWINS))
@pytest.mark.parametrize(("size", "is_columns"), [(10, True), (3, False)])
def test_batches_that_lie_far_apart_in_the_log_come_by_column_where_they_are_large(
    name: str, size: int, is_columns: bool, tmp_path: Path
) -> None:
    with using(name):
        road = Road(tmp_path, segment_bytes=1 << 20)
        for _ in range(3):
            road.broker.send([Message(TOPIC, b"x", queue=0) for _ in range(size)])
            for _ in range(4):
                road.broker.send([Message(TOPIC, bytes(3000), queue=1) for _ in range(15)])
        deliveries = road.broker.receive_columns(GROUP, {TOPIC: "*"}, count_max=3 * size)
        assert isinstance(deliveries, DeliveryColumns) is is_columns
        if isinstance(deliveries, DeliveryColumns):
            assert list(deliveries.runs[0].receipts.offsets) == list(range(size))
        road.broker.stop()
