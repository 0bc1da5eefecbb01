"""The key index: RocketMQ's file, newest first, seconds for times, hashes only."""

import struct
from itertools import chain

import pytest

from engine.message import Message
from engine.store.encode import is_own_id, position_of_id
from engine.store.key_index import key_hash
from tests.engine.store.parts import Bench

SLOTS = 101
ITEM = struct.Struct(">iqii")
HEADER = struct.Struct(">qqqqii")


def index_files(bench: Bench) -> list[bytes]:
    return [path.read_bytes() for path in sorted((bench.root / "index").iterdir())]


def item(data: bytes, number: int) -> tuple[int, ...]:
    return ITEM.unpack_from(data, HEADER.size + 4 * SLOTS + number * ITEM.size)


def test_a_file_is_header_slots_and_items_as_rocketmq_lays_them_out(bench: Bench) -> None:
    bench.open()
    begin_ms = bench.clock.now_ms()
    first = bench.put(b"1", keys=("k",)).positions[0]
    bench.clock.advance(2.5)
    second = bench.put(b"2", keys=("k", "other")).positions[0]
    bench.store.stop()
    (data,) = index_files(bench)
    assert len(data) == 40 + 4 * SLOTS + 20 * 1000
    header = HEADER.unpack_from(data)
    assert header == (begin_ms, begin_ms + 2500, first, second, 2, 4)
    assert data[40 + 4 * SLOTS :].startswith(b"KIX1"), "RocketMQ never uses item 0: a mark"
    assert item(data, 1) == (key_hash("t", "k"), first, 0, 0)
    assert item(data, 2) == (key_hash("t", "k"), second, 2, 1), "whole seconds, then the older item"
    assert item(data, 3) == (key_hash("t", "other"), second, 2, 0)
    slot = HEADER.size + 4 * (key_hash("t", "k") % SLOTS)
    assert struct.unpack_from(">i", data, slot) == (2,), "the newest"
    bench.open()


def test_the_newest_come_first_and_no_more_than_asked_for(bench: Bench) -> None:
    store = bench.open()
    positions = [bench.put(b"%d" % n, keys=("k",)).positions[0] for n in range(100)]
    assert store.positions_of_key("t", "k", count_max=32) == positions[:-33:-1]
    assert store.positions_of_key("t", "k", count_max=1000) == positions[::-1]


def test_equal_hashes_are_both_given_and_told_apart_by_their_text(bench: Bench) -> None:
    store = bench.open()
    bench.put(b"1", keys=("Aa",))
    bench.put(b"2", keys=("BB",))
    assert key_hash("t", "Aa") == key_hash("t", "BB")
    positions = store.positions_of_key("t", "Aa")
    assert len(positions) == 2
    assert [m.body for m in map(store.read_at, positions) if "Aa" in m.keys] == [b"1"]


def test_keys_with_other_hashes_in_the_same_slot_are_not_given(bench: Bench) -> None:
    store = bench.open(index_slots=1)
    wanted = bench.put(b"1", keys=("one",)).positions
    bench.put(b"2", keys=("two",))
    assert store.positions_of_key("t", "one") == wanted
    assert store.positions_of_key("t", "three") == []
    assert store.positions_of_key("other", "one") == []


def test_a_time_window_counts_whole_seconds(bench: Bench) -> None:
    store = bench.open()
    begin_ms = bench.clock.now_ms()
    positions = []
    for number in range(4):
        positions.append(bench.put(b"%d" % number, keys=("k",)).positions[0])
        bench.clock.advance(0.5)

    def between(low_ms: int, high_ms: int) -> list[int]:
        return store.positions_of_key(
            "t", "k", begin_ms=begin_ms + low_ms, end_ms=begin_ms + high_ms
        )

    assert between(0, 10_000) == positions[::-1]
    assert between(500, 999) == [positions[1], positions[0]], "both are of second 0"
    assert between(1000, 1999) == [positions[3], positions[2]]
    assert between(2000, 9000) == []
    assert between(-9000, -1) == []


def test_a_full_file_is_followed_by_a_new_one(bench: Bench) -> None:
    store = bench.open(index_items=10)
    positions = []
    for number in range(25):
        positions.append(bench.put(b"%d" % number, keys=("k",)).positions[0])
        bench.clock.advance(0.001)
    assert store.positions_of_key("t", "k", count_max=99) == positions[::-1]
    for ending in (bench.crash, bench.restart):
        ending()
        assert bench.store.positions_of_key("t", "k", count_max=99) == positions[::-1]
    assert len(index_files(bench)) == 3, "9 of 10 items are used"


@pytest.mark.parametrize("ending", ["", "crash", "restart"])
def test_whole_files_are_looked_through_for_many_topics(bench: Bench, ending: str) -> None:
    store = bench.open(index_items=40)
    topics, positions = [f"t{number}" for number in range(12)], []
    for number in range(120):  # more items than slots: chains of several keys
        key = "k" if number % 5 == 0 else f"other-{number}"
        position = bench.put(b"%d" % number, topic=topics[number % 12], keys=(key,)).positions[0]
        positions += [position] if key == "k" else []
    if ending:
        getattr(bench, ending)()
        store = bench.store

    def of_files(key: str) -> list[list[int]]:
        """The positions by file, newest first; those known already are one file's."""
        finders = store.finders_of_id(topics, key, 99)
        return [find() if callable(find) else [find] for find in finders]

    by_file = of_files("k")
    assert len(by_file) == 4
    assert sorted(chain.from_iterable(by_file)) == positions
    again = list(store.finders_of_id(topics, "k", 99))
    full = [each for each in again if isinstance(each, int)]
    (newest,) = (each for each in again if not isinstance(each, int))
    assert sorted([*full, *newest()]) == positions, "full files are not read again"
    assert of_files("no-such-key") == [[]] * 4


@pytest.mark.parametrize("size_bytes", [0, 39, 41, 200, 40 + 4 * SLOTS, 40 + 4 * SLOTS + 50])
def test_a_file_that_lost_its_end_meanwhile_hides_no_others(bench: Bench, size_bytes: int) -> None:
    store = bench.open(index_items=10)
    topics = [f"t{number}" for number in range(3)]
    positions = [
        bench.put(b"%d" % n, topic=topics[n % 3], keys=("k",)).positions[0] for n in range(12)
    ]
    finders = list(store.finders_of_id(topics, "k", 99))
    assert len(finders) == 2
    cut = sorted((bench.root / "index").iterdir())[0]
    with cut.open("r+b") as file:
        file.truncate(size_bytes)
    newest, oldest = [find() if callable(find) else [find] for find in finders]
    assert sorted(newest) == positions[9:]
    assert set(oldest) <= set(positions)


def test_a_file_that_was_full_and_is_cut_says_nothing_of_before(bench: Bench) -> None:
    store = bench.open(index_items=10)
    positions = [bench.put(b"%d" % n, keys=("k",)).positions[0] for n in range(12)]

    def places() -> list[int]:
        finders = store.finders_of_id(["t"], "k", 99)
        return list(chain.from_iterable(find() if callable(find) else [find] for find in finders))

    assert sorted(places()) == positions
    store._index.truncate(positions[3])
    assert sorted(places()) == positions[:3]
    store._index.add_all([("t", "", ("other",), each) for each in positions[3:]], 0)
    assert sorted(places()) == positions[:3]


def test_more_keys_than_a_file_holds_in_one_batch_fill_several(bench: Bench) -> None:
    store = bench.open(index_items=10)
    messages = [Message("t", b"x", queue=0, keys=("k", f"n{number}")) for number in range(30)]
    sent = store.append(messages)
    assert store.positions_of_key("t", "k", count_max=99) == sent.positions[::-1]
    assert store.positions_of_key("t", "n29") == sent.positions[29:]


def test_files_made_in_one_millisecond_have_different_names(bench: Bench) -> None:
    bench.open(index_items=3)
    for number in range(8):
        bench.put(b"%d" % number, keys=("k",))
    assert len(index_files(bench)) == 4
    assert len(bench.store.positions_of_key("t", "k")) == 8


@pytest.mark.parametrize("ending", ["crash", "restart"])
def test_nothing_is_found_twice_after_a_restart(bench: Bench, ending: str) -> None:
    bench.open()
    for number in range(40):
        bench.put(b"%d" % number, keys=(f"k{number}",))
        if number == 20:
            bench.checkpoint()
    bench.crash() if ending == "crash" else bench.restart()
    bench.put(b"40", keys=("k40",))
    for number in range(41):
        assert len(bench.store.positions_of_key("t", f"k{number}")) == 1, number


def test_retention_takes_index_files_that_point_at_nothing(bench: Bench) -> None:
    bench.open(index_items=10, segment_bytes=4096)
    for _ in range(60):
        bench.put(b"x" * 300, keys=("k",))
    bench.checkpoint()
    before = len(index_files(bench))
    bench.store.expire(bench.store.written)
    assert len(index_files(bench)) < before
    positions = bench.store.positions_of_key("t", "k", count_max=99)
    assert positions
    assert min(positions) >= bench.store.oldest


def test_a_file_that_retention_took_needs_no_sync_any_more(bench: Bench) -> None:
    bench.open(index_items=10, segment_bytes=4096)
    for _ in range(60):
        bench.put(b"x" * 300, keys=("k",))
    bench.checkpoint()
    for _ in range(20):
        bench.put(b"x" * 300, keys=("k",))
    bench.store._checkpointed = bench.store.written  # as if that one's syncs were under way
    bench.store.expire(bench.store.written)
    bench.restart()
    assert bench.store.positions_of_key("t", "k")


def test_an_id_of_the_brokers_own_needs_no_index(bench: Bench) -> None:
    store = bench.open()
    sent = bench.put(b"x")
    message_id = sent.messages[0].message_id
    assert len(message_id) == 32
    assert is_own_id(message_id, sent.positions[0])
    assert position_of_id(message_id) == sent.positions[0]
    assert store.positions_of_key("t", message_id) == []


def test_ids_of_any_length_and_alphabet_are_found(bench: Bench) -> None:
    store = bench.open()
    ids = ["A", "AB12", "AB13", "x" * 64, "Z" * 32, "0123456789ABCDEF0123456789ABCDEF", "ABC12"]
    places = {each: bench.put(b"x", message_id=each).positions[0] for each in ids}
    for message_id, position in places.items():
        assert store.positions_of_key("t", message_id) == [position], message_id


@pytest.mark.parametrize("text", ["", "12", "G" * 32, "7F" * 16 + "0"])
def test_other_ids_state_no_position(text: str) -> None:
    assert position_of_id(text) is None
