"""Consume queues: RocketMQ's 20-byte entries, and offsets that never restart."""

import struct

import pytest

from engine.broker import Broker, TopicConfig, TopicType
from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.message import Message
from engine.store.files import OsFiles
from engine.store.pool import InlinePool
from tests.engine.store.parts import Bench, record_size


def raw(bench: Bench, queue: int = 0, base: int = 0) -> bytes:
    path = bench.root / "consumequeue" / "t" / str(queue) / f"{base:020d}"
    return path.read_bytes()


def test_an_entry_is_position_size_and_tag_hash_in_8_4_8_bytes(bench: Bench) -> None:
    store = bench.open()
    sent = store.append(
        [
            Message("t", b"1", queue=0, tag="a"),
            Message("t", b"22", queue=0),
            Message("t", b"333", queue=0, tag="Aa"),
        ]
    )
    ends = [*sent.positions[1:], store.written]
    sizes = [end - start for start, end in zip(sent.positions, ends, strict=True)]
    entries = [struct.unpack_from(">q i q", raw(bench).ljust(60), at) for at in (0, 20, 40)]
    assert entries == list(zip(sent.positions, sizes, (97, 0, 2112), strict=True))
    assert raw(bench)[12:20] == (97).to_bytes(8, "big")


def test_a_negative_tag_hash_is_sign_extended(bench: Bench) -> None:
    bench.open()
    bench.put(b"x", tag="polygenelubricants")
    assert raw(bench)[12:20] == b"\xff\xff\xff\xff\x80\0\0\0"


def test_a_delay_levels_queue_holds_the_due_time_instead(bench: Bench) -> None:
    clock = ManualClock()
    config = EngineConfig(data=bench.root, segment_bytes=1 << 16, disk_free_min_bytes=0)
    broker = Broker(config, clock=clock, pool=InlinePool(), files=OsFiles())
    broker.start()
    broker.create_topic(TopicConfig("later", type=TopicType.DELAY))
    broker.send([Message("later", b"x", tag="a", delay_level=3)])
    path = bench.root / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "2" / f"{0:020d}"
    assert struct.unpack_from(">q", path.read_bytes(), 12) == (clock.now_ms() + 10_000,)
    broker.stop()


def test_a_queue_goes_on_in_the_next_file(bench: Bench) -> None:
    store = bench.open(queue_file_entries=4)
    for number in range(10):
        bench.put(b"%d" % number)
    names = sorted(path.name for path in (bench.root / "consumequeue" / "t" / "0").iterdir())
    assert names == [f"{base:020d}" for base in (0, 80, 160)]
    assert [entry.offset for entry in store.entries("t", 0, 2, 100)] == list(range(2, 10))
    bench.crash()
    assert bench.bodies() == [b"%d" % number for number in range(10)]


def test_few_files_are_open_at_once_however_many_queues(bench: Bench) -> None:
    store = bench.open(open_files_max=3)
    for queue in range(20):
        bench.put(b"%d" % queue, queue=queue)
    for queue in range(20):
        assert bench.bodies(queue=queue) == [b"%d" % queue]
    assert len(store._queue_files._open) <= 3


def expired(bench: Bench) -> int:
    """100 messages, then retention takes all but the last segment, which holds another topic's."""
    bench.open(segment_bytes=4096)
    for number in range(100):
        bench.put(b"%d" % number)
    while bench.store.written // 4096 == bench.store.entries("t", 0, 99, 1)[0].position // 4096:
        bench.put(b"rolls" * 100, topic="other")
    bench.clock.advance(10.0)
    bench.checkpoint()
    return bench.store.expire(bench.store.written)


def test_an_emptied_queue_goes_on_counting(bench: Bench) -> None:
    assert expired(bench) > 0
    assert bench.store.bounds("t", 0) == (100, 100)
    assert bench.store.entries("t", 0, 10, 10) == []
    assert bench.put(b"next").offsets == [100]
    assert bench.store.bounds("t", 0) == (100, 101)
    assert [entry.offset for entry in bench.store.entries("t", 0, 10, 10)] == [100]


@pytest.mark.parametrize("ending", ["crash", "restart"])
def test_an_emptied_queue_goes_on_counting_after_a_restart(bench: Bench, ending: str) -> None:
    expired(bench)
    bench.crash() if ending == "crash" else bench.restart()
    assert bench.store.bounds("t", 0) == (100, 100)
    assert bench.put(b"next").offsets == [100]
    assert bench.bodies() == [b"next"]


def test_retention_never_takes_the_last_segment(bench: Bench) -> None:
    bench.open(segment_bytes=4096)
    bench.put(b"only")
    bench.checkpoint()
    assert bench.store.expire(1 << 40) == 0
    assert bench.bodies() == [b"only"]


def test_retention_takes_nothing_that_recovery_would_begin_with(bench: Bench) -> None:
    bench.open(segment_bytes=4096)
    for _ in range(3):
        bench.put(b"x" * 3000)
    assert bench.store.expire(bench.store.written) == 0, "no checkpoint was made yet"
    bench.checkpoint()
    assert bench.store.expire(bench.store.written) == 2


def test_an_offset_is_found_by_time(bench: Bench) -> None:
    bench.open()
    begin_ms = bench.clock.now_ms()
    for number in range(5):
        bench.put(b"%d" % number)
        bench.clock.advance(1.0)
    at = bench.store.offset_at_time
    assert [at("t", 0, begin_ms + ms) for ms in (-1, 0, 1, 1000, 3999, 4001)] == [0, 0, 1, 1, 4, 5]
    assert at("nowhere", 0, begin_ms) == 0


def test_an_unknown_queue_has_no_bounds_and_no_entries(bench: Bench) -> None:
    store = bench.open()
    assert store.bounds("nowhere", 3) == (0, 0)
    assert store.entries("nowhere", 3, 0, 10) == []
    assert store.queues_of("nowhere") == []


def test_a_record_takes_what_the_layout_says(bench: Bench) -> None:
    bench.open()
    bench.put(b"12345")
    assert bench.store.written == record_size(bench, 5)
