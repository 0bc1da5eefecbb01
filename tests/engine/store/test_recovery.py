"""After a crash: nothing twice, nothing half, and what is damaged is stepped over and told."""

import random
import struct
from collections.abc import Callable

import pytest

from engine.events import CorruptRecord
from engine.message import SOURCE, Durability, Message
from engine.store.consume_queue import FILLER_BYTES
from engine.store.verify import verify_store
from tests.engine.store.parts import Bench, HeldPool, record_size
from tests.simulation.disk import Disk


def keyed(bench: Bench, count: int) -> None:
    for number in range(count):
        bench.put(b"body %d" % number, keys=(f"k{number}",), message_id=f"ID{number}")


def found_once(bench: Bench, count: int) -> bool:
    """Whether the index knows each of the first messages exactly once, by key and by id."""
    return all(
        len(bench.store.positions_of_key("t", name)) == 1
        for number in range(count)
        for name in (f"k{number}", f"ID{number}")
    )


def test_a_crash_repeats_nothing_and_loses_nothing(bench: Bench) -> None:
    bench.open()
    keyed(bench, 50)
    for _ in range(3):
        bench.crash()
        assert bench.bodies() == [b"body %d" % number for number in range(50)]
        assert [entry.offset for entry in bench.store.entries("t", 0, 0, 99)] == list(range(50))
        assert found_once(bench, 50)
    assert bench.put(b"next").offsets == [50]


def test_a_crash_after_a_checkpoint_reads_the_tail_only(bench: Bench) -> None:
    bench.open()
    keyed(bench, 20)
    bench.checkpoint()
    keyed_before = bench.store.written
    for number in range(20, 30):
        message_id = f"ID{number}"
        bench.put(b"body %d" % number, keys=(f"k{number}",), message_id=message_id)
    bench.damage(0, bytes(8))  # would be noticed if it were read
    bench.crash()
    assert bench.store.damages == []
    assert keyed_before < bench.store.written
    assert bench.bodies()[1:] == [b"body %d" % number for number in range(1, 30)]
    assert found_once(bench, 30)


def test_the_last_20_bytes_torn_off_cost_the_last_message_only(bench: Bench) -> None:
    bench.open()
    keyed(bench, 10)
    end = bench.store.written
    last = bench.store.entries("t", 0, 9, 1)[0].position
    bench.damage(end - 20, bytes(20))
    bench.crash()
    assert bench.store.written == last, "the log is cut where its last whole record ends"
    assert bench.bodies() == [b"body %d" % number for number in range(9)]
    assert found_once(bench, 9)
    assert bench.store.positions_of_key("t", "k9") == []
    assert not any(bench.log_bytes()[bench.store.written :]), "nothing of it is left behind"
    assert bench.put(b"again").offsets == [9]


@pytest.mark.parametrize("seed", range(30))
def test_a_log_torn_anywhere_keeps_what_lies_before(bench: Bench, seed: int) -> None:
    chance = random.Random(seed)
    bench.open()
    keyed(bench, 8)
    ends = [entry.position + entry.size_bytes for entry in bench.store.entries("t", 0, 0, 8)]
    torn_at = chance.randrange(1, bench.store.written)
    bench.damage(torn_at, bytes(bench.store.written - torn_at))
    bench.crash()
    # Cutting zeros off a record that ends with a zero would cut nothing; these end with 0x02.
    whole = sum(end <= torn_at for end in ends)
    assert bench.bodies() == [b"body %d" % number for number in range(whole)]
    assert found_once(bench, whole)
    damage = bench.store.damages[0]  # what a power loss takes is told, too
    assert damage.start == max([0, *(end for end in ends if end <= torn_at)])


def test_a_topic_whose_name_was_never_written_is_no_record(bench: Bench) -> None:
    bench.open()
    bench.put(b"whole")
    torn = bench.put(b"torn")
    at = torn.positions[0] + record_size(bench, 4) - 44
    bench.damage(at, bytes(44))  # the properties and the name, as a lost sector would
    bench.crash()
    assert bench.bodies() == [b"whole"]


DAMAGES = [
    pytest.param(lambda size: (90, b"?"), "CRC", id="a flipped byte of the body"),
    pytest.param(lambda size: (0, struct.pack(">i", size + 9)), "", id="a flipped length"),
    pytest.param(lambda size: (0, struct.pack(">i", -1)), "", id="a negative length"),
    pytest.param(lambda size: (4, b"\xff"), "", id="a flipped magic"),
    pytest.param(lambda size: (28, b"\x01"), "CRC", id="another position"),
    pytest.param(lambda size: (0, bytes(size)), "", id="nothing but zeros"),
]


@pytest.mark.parametrize(("change", "detail"), DAMAGES)
def test_a_damaged_record_is_stepped_over_and_told(
    bench: Bench, change: Callable[[int], tuple[int, bytes]], detail: str
) -> None:
    bench.open()
    size = record_size(bench, 5)
    sent = bench.put(b"first", b"secnd", b"third")
    at, data = change(size)
    bench.damage(sent.positions[1] + at, data)
    assert bench.bodies() == [b"first", None, b"third"]
    told = [event for event in bench.heard if isinstance(event, CorruptRecord)]
    assert [event.position for event in told] == [sent.positions[1]]
    report = verify_store(bench.files, bench.root)
    assert not report.is_sound
    assert report.records == 2

    bench.heard.clear()
    bench.crash()
    assert bench.bodies() == [b"first", None, b"third"], "its offset stays"
    assert bench.heard == [], "an entry without a record is no news"
    (damage,) = bench.store.damages
    assert (damage.start, damage.end) == (sent.positions[1], sent.positions[2])
    assert detail in damage.detail
    assert bench.put(b"forth").offsets == [3]
    bench.crash()
    assert bench.bodies() == [b"first", None, b"third", b"forth"]


def test_a_stand_in_entry_never_shows_another_message(bench: Bench) -> None:
    bench.open()
    bench.put(b"at position 0", topic="other")
    sent = bench.put(b"a", b"b", b"c")
    bench.damage(sent.positions[1] + 4, b"\0\0\0\0")
    bench.crash()
    entries = bench.store.entries("t", 0, 0, 10)
    assert [entry.has_record for entry in entries] == [True, False, True]
    assert entries[1].size_bytes == FILLER_BYTES
    assert bench.store.read_entries(entries[1:2]) == [None]
    assert bench.store.stored_ms_at(entries[1]) is None


def test_a_record_that_lies_about_its_offset_is_no_record(bench: Bench) -> None:
    bench.open()
    sent = bench.put(b"a", b"b")
    bench.damage(sent.positions[1] + 20, struct.pack(">q", 7))
    assert bench.bodies() == [b"a", None]


def test_damage_in_an_earlier_segment_does_not_hide_the_later_ones(bench: Bench) -> None:
    bench.open(segment_bytes=4096)
    bodies = [bytes([65 + number]) * 1000 for number in range(12)]
    for body in bodies:
        bench.put(body)
    bench.damage(4096, bytes(4096))
    bench.crash()
    found = bench.bodies()
    assert [body for body in found if body] == [b for b in bodies if b in found]
    assert found.count(None) == 3
    assert bench.put(b"next").offsets == [12]


def test_a_crash_in_the_middle_of_recovery_is_recovered_from(bench: Bench) -> None:
    bench.open()
    keyed(bench, 30)
    bench.checkpoint()
    bench.put(b"tail")
    for _ in range(3):
        bench.close()
        with pytest.raises(ZeroDivisionError):
            bench.open(is_wanted=lambda message: bool(1 / 0))
        bench.store.close()
    bench.open()
    assert bench.bodies() == [b"body %d" % number for number in range(30)] + [b"tail"]
    assert found_once(bench, 30)


def test_what_recovery_cuts_off_a_queue_is_on_disk_at_once(weak: Bench, disk: Disk) -> None:
    """The next process could not know that a sync is owed, and would meet the entries again."""
    weak.open()
    weak.put(b"first")
    second = weak.put(b"second")
    weak.close()
    log = weak.files.open(weak.root / "commitlog" / f"{0:020d}")
    log.pwrite(bytes(50), second.positions[0])
    log.close()
    verbs: list[str] = []
    disk.fault = lambda verb, path: (
        verbs.append(verb) if "consumequeue" in str(path) and path.suffix == "" else None
    )
    weak.open()
    assert weak.bodies() == [b"first"]
    assert verbs[verbs.index("truncate") :][:3] == ["truncate", "truncate", "sync"]


def test_records_with_a_source_are_told_and_only_those_since_the_checkpoint(bench: Bench) -> None:
    bench.open()
    bench.put(b"old", properties={SOURCE: "g@t@0@1"})
    bench.checkpoint()
    bench.put(b"new", properties={SOURCE: "g@t@0@2"})
    bench.put(b"plain", properties={"KITE_SOURCES": "none"})
    bench.crash()
    assert [message.body for message in bench.replayed] == [b"new"]
    bench.restart()
    assert bench.replayed == [], "after a clean stop there is nothing to heal"


def test_queues_of_a_topic_that_is_no_more_go(bench: Bench) -> None:
    bench.open()
    bench.put(b"x", topic="gone")
    bench.put(b"y")
    bench.close()
    bench.open(
        begin_of=lambda topic: None if topic == "gone" else 0,
        is_wanted=lambda message: message.topic != "gone",
        is_deleted=lambda topic: topic == "gone",
    )
    assert bench.store.bounds("gone", 0) == (0, 0)
    assert not (bench.root / "consumequeue" / "gone").exists()
    assert bench.bodies() == [b"y"]


def test_a_held_message_of_a_deleted_topic_does_not_bring_its_files_back(bench: Bench) -> None:
    pool = HeldPool()
    store = bench.open(pool)
    sent = store.append([Message("t", b"held", queue=0)], durability=Durability.FLUSHED)
    store.delete_topic("t")
    store.append([Message("t", b"of the new topic", queue=0)])
    store.when_flushed(sent.flush_position, lambda _: None)
    pool.run()
    assert bench.bodies() == [b"of the new topic"]
