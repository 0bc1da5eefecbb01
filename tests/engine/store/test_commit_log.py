"""Segments of the log: no record spans two, and only a successful write uses up an offset."""

import errno
import struct
from pathlib import Path

import pytest

from engine.errors import Busy, Corrupt, Invalid, MessageNotFound
from engine.message import Message
from tests.engine.store.parts import Bench, record_size
from tests.simulation.disk import Disk

SEGMENT = 4096
BLANK_MAGIC = 0xCBD43194


def fill_to(bench: Bench, remaining: int) -> None:
    """Write one record so that exactly this much of the first segment remains."""
    body = SEGMENT - remaining - bench.store.written - record_size(bench, 0)
    bench.put(b"f" * body)
    assert SEGMENT - bench.store.written == remaining


def test_with_7_bytes_to_spare_a_blank_record_closes_the_segment(bench: Bench) -> None:
    store = bench.open(segment_bytes=SEGMENT)
    size = record_size(bench, 100)
    fill_to(bench, size + 7)
    position = store.written
    sent = bench.put(b"m" * 100)
    assert sent.positions == [SEGMENT]
    assert sent.offsets == [1]
    blank = bench.log_bytes()[position : position + 8]
    assert struct.unpack(">iI", blank) == (size + 7, BLANK_MAGIC)
    assert bench.log_bytes()[position + 8 :] == bytes(size + 7 - 8)
    assert bench.bodies()[1] == b"m" * 100


def test_with_8_bytes_to_spare_a_record_fits(bench: Bench) -> None:
    store = bench.open(segment_bytes=SEGMENT)
    size = record_size(bench, 100)
    fill_to(bench, size + 8)
    position = store.written
    sent = bench.put(b"m" * 100)
    assert sent.positions == [position]
    assert bench.log_bytes()[-8:] == bytes(8)
    after = bench.put(b"n")
    assert after.positions == [SEGMENT]
    assert struct.unpack(">iI", bench.log_bytes()[-8:]) == (8, BLANK_MAGIC)


def test_a_batch_whose_third_element_overflows_rolls_as_a_whole(bench: Bench) -> None:
    bench.open(segment_bytes=SEGMENT)
    size = record_size(bench, 50)
    fill_to(bench, 3 * size + 7)
    position = bench.store.written
    sent = bench.put(b"1" * 50, b"2" * 50, b"3" * 50)
    assert sent.positions == [SEGMENT, SEGMENT + size, SEGMENT + 2 * size]
    assert sent.offsets == [1, 2, 3]
    assert struct.unpack_from(">iI", bench.log_bytes(), position) == (3 * size + 7, BLANK_MAGIC)


def test_a_batch_that_leaves_8_bytes_stays_together_in_its_segment(bench: Bench) -> None:
    bench.open(segment_bytes=SEGMENT)
    size = record_size(bench, 50)
    fill_to(bench, 3 * size + 8)
    position = bench.store.written
    sent = bench.put(b"1" * 50, b"2" * 50, b"3" * 50)
    assert sent.positions == [position, position + size, position + 2 * size]


def test_an_id_made_from_a_position_is_made_anew_where_the_batch_rolls(bench: Bench) -> None:
    bench.open(segment_bytes=SEGMENT)
    fill_to(bench, 100)
    sent = bench.put(b"rolls")
    assert sent.messages[0].message_id.endswith(f"{SEGMENT:016X}")


def test_a_rolled_log_reads_the_same_after_a_crash(bench: Bench) -> None:
    bench.open(segment_bytes=SEGMENT)
    bodies = [bytes([number]) * 300 for number in range(40)]
    for body in bodies:
        bench.put(body)
    assert bench.bodies() == bodies
    bench.crash()
    assert bench.bodies() == bodies
    assert bench.store.damages == []
    bench.restart()
    assert bench.bodies() == bodies


def test_what_does_not_fit_a_segment_is_refused_and_leaves_no_blank(bench: Bench) -> None:
    store = bench.open(segment_bytes=SEGMENT)
    bench.put(b"first")
    written = store.written
    room = SEGMENT - 8 - record_size(bench, 0)
    with pytest.raises(Invalid) as refused:
        bench.put(b"x" * (room + 1))
    assert (refused.value.field, refused.value.code) == ("messages", "invalid_size")
    assert store.written == written
    assert bench.put(b"x" * room).positions == [SEGMENT]


def test_a_failed_write_uses_up_no_offset(weak: Bench, disk: Disk) -> None:
    weak.open()
    weak.put(b"0")

    def fail(verb: str, path: Path) -> None:
        if verb == "pwrite" and path.parent.name == "commitlog":
            raise OSError(errno.EIO, "Input/output error")

    disk.fault = fail
    message = Message("t", b"fails", queue=0)
    with pytest.raises(Corrupt, match="cannot be written"):
        weak.store.append([message])
    assert message.message_id == "", "an id that names a place which others get"
    disk.fault = None
    assert weak.store.append([message]).offsets == [1]
    assert weak.put(b"2").offsets == [2]
    weak.crash()
    assert weak.bodies() == [b"0", b"fails", b"2"]


def test_producers_taking_turns_get_gapless_offsets_in_log_order(bench: Bench) -> None:
    store = bench.open()
    offsets: dict[int, list[int]] = {0: [], 1: []}
    positions = []
    for turn in range(1000):
        sent = store.append(
            [Message("t", b"m%d.%d" % (turn, index), queue=turn * index % 2) for index in range(3)]
        )
        for message, offset in zip(sent.messages, sent.offsets, strict=True):
            offsets[message.queue].append(offset)
        positions += sent.positions
    assert sum(map(len, offsets.values())) == 3000
    for queue, given in offsets.items():
        assert given == list(range(len(given)))
        entries = store.entries("t", queue, 0, 3000)
        assert [entry.position for entry in entries] == sorted(e.position for e in entries)
    assert positions == sorted(positions)


def test_a_second_process_is_turned_away(bench: Bench) -> None:
    bench.open()
    other = Bench(bench.root)
    with pytest.raises(Busy) as refused:
        other.open()
    assert refused.value.field == "data"


def test_a_missing_segment_is_told_before_anything_is_touched(bench: Bench) -> None:
    bench.open(segment_bytes=SEGMENT)
    for _ in range(3):
        bench.put(b"x" * 3000)
    bench.close()
    missing = bench.root / "commitlog" / f"{SEGMENT:020d}"
    missing.rename(bench.root / "away")
    with pytest.raises(Corrupt, match="hole"):
        bench.open()
    (bench.root / "away").rename(missing)
    bench.store.close()
    assert len(list(bench.open() and bench.bodies())) == 3


@pytest.mark.parametrize("setting", [SEGMENT // 2, SEGMENT * 2])
def test_another_segment_size_than_the_stores_own_does_it_no_harm(
    bench: Bench, setting: int
) -> None:
    bench.open(segment_bytes=SEGMENT)
    for _ in range(3):
        bench.put(b"x" * 3000)
    bench.close()
    with pytest.raises(Corrupt) as refused:
        bench.open(segment_bytes=setting)
    assert "segment size" in refused.value.remedy or refused.value.field == "segment_bytes"
    bench.store.close()
    bench.open(segment_bytes=SEGMENT)
    assert bench.bodies() == [b"x" * 3000] * 3


def test_a_crash_while_the_end_was_cut_off_leaves_a_store_that_opens(bench: Bench) -> None:
    bench.open(segment_bytes=SEGMENT)
    bench.put(b"kept")
    written = bench.store.written
    bench.close()
    with (bench.root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.truncate(written)
    bench.open()
    assert bench.bodies() == [b"kept"]
    assert bench.put(b"more").positions == [written]
    assert len(bench.log_bytes()) == SEGMENT


@pytest.mark.parametrize("position", [1, 40, 1 << 40, -1])
def test_no_record_is_read_where_none_begins(bench: Bench, position: int) -> None:
    bench.open()
    bench.put(b"only")
    with pytest.raises(MessageNotFound):
        bench.store.read_at(position)
    assert bench.store.read_at(0).body == b"only"
