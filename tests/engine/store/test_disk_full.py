"""A full disk refuses whole sends, shows nothing of them, and is forgotten when there is room."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import DiskFull
from engine.message import Message
from tests.engine.store.parts import Bench
from tests.simulation.disk import ROOM_UNLIMITED, SECTOR_BYTES, Disk


def full_at(number: int, place: str = "") -> Callable[[str, Path], None]:
    """A fault: the write or creation with this number (from 1, among those in `place`) fails."""
    left = number

    def fault(verb: str, path: Path) -> None:
        nonlocal left
        if verb in ("pwrite", "create", "truncate") and place in str(path):
            left -= 1
            if left == 0:
                raise OSError(errno.ENOSPC, "No space left on device")

    return fault


def send_again_and_again(bench: Bench, messages: list[Message]) -> None:
    while True:
        bench.store.append(messages)


def batch(count: int = 3) -> list[Message]:
    return [
        Message("t", b"batch %d" % number, queue=number % 2, keys=("k",)) for number in range(count)
    ]


def test_a_full_log_refuses_the_batch_as_a_whole(weak: Bench, disk: Disk) -> None:
    weak.open()
    weak.put(b"before")
    written = weak.store.written
    disk.room_bytes = 0
    with pytest.raises(DiskFull) as refused:
        weak.store.append([Message("t", b"x" * 2000, queue=0) for _ in range(3)])
    assert refused.value.retry_after_s > 0
    assert weak.bodies() == [b"before"], "reads go on"
    assert weak.store.written == written
    disk.room_bytes = ROOM_UNLIMITED
    assert weak.put(b"after").offsets == [1]
    weak.crash()
    assert weak.bodies() == [b"before", b"after"]
    assert weak.store.damages == []


@pytest.mark.parametrize("room", range(0, 14 * SECTOR_BYTES, SECTOR_BYTES))
def test_no_part_of_a_refused_batch_comes_to_life(weak: Bench, disk: Disk, room: int) -> None:
    weak.open()
    weak.put(b"before")
    disk.room_bytes = room
    messages = [Message("t", b"%d" % number * 900, queue=0) for number in range(5)]
    with pytest.raises(DiskFull):
        send_again_and_again(weak, messages)
    seen = weak.bodies()
    disk.kill()
    disk.room_bytes = ROOM_UNLIMITED
    after = Bench(weak.root, disk.boot())
    after.open()
    assert after.bodies() == seen
    assert len(seen) % 5 == 1, "whole batches only"
    assert after.put(b"more").offsets == [len(seen)]


@pytest.mark.parametrize("place", ["commitlog", "consumequeue", "index"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_write_that_finds_no_room_anywhere_loses_nothing_that_was_accepted(
    weak: Bench, disk: Disk, place: str, number: int
) -> None:
    """Once the log has a batch it is accepted: its queue entries wait until there is room."""
    weak.open(segment_bytes=4096, queue_file_entries=2, index_items=3)
    weak.put(b"before", keys=("k",))
    accepted = [b"before"]
    disk.fault = full_at(number, place)
    refused = 0
    for turn in range(8):
        body = b"%d" % turn * 700
        try:
            weak.put(body, keys=("k",))
            accepted.append(body)
        except DiskFull:
            refused += 1
    assert weak.bodies() == accepted
    assert refused <= 1
    disk.fault = None
    weak.put(b"after", keys=("k",))
    accepted.append(b"after")
    assert weak.bodies() == accepted
    assert len(weak.store.positions_of_key("t", "k", count_max=99)) == len(accepted)
    weak.crash()
    assert weak.bodies() == accepted
    assert len(weak.store.positions_of_key("t", "k", count_max=99)) == len(accepted)


def test_a_segment_that_cannot_be_made_refuses_and_is_made_later(weak: Bench, disk: Disk) -> None:
    weak.open(segment_bytes=4096)
    weak.put(b"x" * 3000)
    disk.fault = full_at(1, "00000000000000004096")
    with pytest.raises(DiskFull):
        weak.put(b"y" * 3000)
    assert weak.bodies() == [b"x" * 3000]
    assert weak.put(b"small").offsets == [1], "what still fits the old segment is taken"
    disk.fault = None
    assert weak.put(b"y" * 3000).positions == [4096]
    weak.crash()
    assert weak.bodies() == [b"x" * 3000, b"small", b"y" * 3000]


def test_accepted_messages_show_up_as_soon_as_their_queue_can_be_written(
    weak: Bench, disk: Disk
) -> None:
    store = weak.open()

    def fail(verb: str, path: Path) -> None:
        if "consumequeue" in str(path) and verb in ("pwrite", "create"):
            raise OSError(errno.ENOSPC, "No space left on device")

    disk.fault = fail
    seen: list[int] = []
    store.on_visible.append(lambda topic, queue, first, codes: seen.append(first))
    store.append(batch())
    assert (weak.bodies(), seen) == ([], [])
    with pytest.raises(DiskFull):
        weak.put(b"refused while something waits")
    assert "No space" in store.refusal()
    disk.fault = None
    store.watch_disk()
    assert weak.bodies() == [b"batch 0", b"batch 2"]
    assert weak.bodies(queue=1) == [b"batch 1"]
    assert seen == [0, 0]
    assert store.refusal() == ""
    assert weak.put(b"next").offsets == [2]


def test_a_stop_while_something_waits_for_room_leaves_no_clean_mark(
    weak: Bench, disk: Disk
) -> None:
    store = weak.open()
    disk.fault = full_at(1, "consumequeue")
    store.append(batch(1))
    disk.fault = full_at(1, "consumequeue")  # still no room
    store.stop()
    assert not weak.files.exists(weak.root / "clean")
    disk.fault = None
    weak.is_open = False
    weak.open()
    assert weak.bodies() == [b"batch 0"]


def test_ids_made_for_a_refused_batch_are_taken_back(weak: Bench, disk: Disk) -> None:
    weak.open()
    disk.room_bytes = 0
    messages = batch()
    with pytest.raises(DiskFull):
        weak.store.append(messages)
    assert [message.message_id for message in messages] == ["", "", ""]


def test_sends_are_refused_before_the_disk_is_really_full(weak: Bench, disk: Disk) -> None:
    store = weak.open(disk_free_min_bytes=10_000)
    weak.put(b"before")
    disk.room_bytes = 9_999
    watch = store.services()[2]
    assert watch.name == "disk"
    watch.tick()
    with pytest.raises(DiskFull, match="9999 bytes are free"):
        weak.put(b"refused")
    assert weak.bodies() == [b"before"]
    disk.room_bytes = 10_000
    watch.tick()
    assert weak.put(b"after").offsets == [1]


def test_a_checkpoint_that_failed_for_want_of_room_is_made_later(weak: Bench, disk: Disk) -> None:
    store = weak.open()
    weak.put(b"x", keys=("k",))
    checkpointer = store.services()[1]
    disk.fault = full_at(1, "index")
    with pytest.raises(OSError, match="No space"):
        checkpointer.tick()
    disk.fault = None
    checkpointer.tick()
    assert store._checkpointed == store.written
