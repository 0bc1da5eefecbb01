"""Files open at rest have a bound, however many segments and index files there are."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from engine.errors import OutOfFiles
from engine.store.files import File, OsFiles
from engine.store.sealed_files import SealedFiles
from engine.store.verify import verify_store
from tests.engine.store.parts import Bench, HeldPool
from tests.simulation.disk import Disk

SEGMENTS = 300
MAX = 8
OTHERS = 12  # the segment and the index file that are written, lock, journal, queue files
BODY_BYTES = 1500
SETTINGS: dict[str, Any] = {
    "segment_bytes": 4096,
    "index_items": 20,
    "open_files_max": 4,
    "log_files_max": MAX,
}


def open_under(root: Path) -> int:
    """How many files the process has open below `root`."""
    found = 0
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are all there is
        try:
            found += Path("/proc/self/fd", name).readlink().is_relative_to(root)
        except OSError:
            continue
    return found


@pytest.fixture
def many(bench: Bench) -> Bench:
    """A store of 300 segments and about 30 index files, everything on the disk."""
    bench.open(**SETTINGS)
    for number in range(2 * SEGMENTS):
        bench.put(b"%d" % number + bytes(BODY_BYTES), keys=[f"k{number}"])
        if number % 10 == 9:
            bench.store.when_flushed(bench.store.written, lambda _: None)
    bench.checkpoint()
    assert len(bench.store.segments()) == SEGMENTS
    assert bench.store.index_file_count > 3 * MAX
    return bench


def positions(bench: Bench) -> list[int]:
    return [entry.position for entry in bench.store.entries("t", 0, 0, 2 * SEGMENTS)]


def test_a_log_of_many_segments_keeps_few_files_open(many: Bench) -> None:
    assert open_under(many.root) <= MAX + OTHERS


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_a_start_of_a_large_log_keeps_few_files_open(many: Bench, how: str) -> None:
    getattr(many, how)()
    assert open_under(many.root) <= MAX + OTHERS
    assert len(many.bodies()) == 2 * SEGMENTS


def test_recovery_without_a_checkpoint_keeps_few_files_open(many: Bench) -> None:
    many.close()
    (many.root / "checkpoint").unlink()
    many.open()
    assert open_under(many.root) <= MAX + OTHERS
    told: list[Exception | None] = []
    many.store.when_flushed(many.store.written, told.append)
    assert told == [None]
    assert open_under(many.root) <= MAX + OTHERS
    bodies = many.bodies()
    assert len(bodies) == 2 * SEGMENTS
    assert None not in bodies


def test_reading_all_of_a_large_log_keeps_few_files_open(many: Bench) -> None:
    bodies = many.bodies()
    assert [body and body.rstrip(b"\0") for body in bodies] == [
        b"%d" % number for number in range(2 * SEGMENTS)
    ]
    assert open_under(many.root) <= MAX + OTHERS
    for place in positions(many)[::-7]:
        assert many.store.read_at(place).position == place
        assert open_under(many.root) <= MAX + OTHERS


def test_a_search_of_all_index_files_keeps_few_files_open(many: Bench) -> None:
    found = positions(many)
    for number in (0, 1, 299, 599):
        assert many.store.positions_of_key("t", f"k{number}") == [found[number]]
        assert [
            place for place in many.store.places_of_key("t", f"k{number}") if place is not None
        ] == [found[number]]
    assert open_under(many.root) <= MAX + OTHERS


def test_a_check_of_a_large_log_keeps_few_files_open(many: Bench) -> None:
    many.store.stop()
    seen: list[int] = []
    report = verify_store(
        OsFiles(),
        many.root,
        look_at=lambda message, report: seen.append(open_under(many.root)),
        index_slots=101,
        index_items=20,
    )
    many.open()
    assert (report.records, report.faults) == (2 * SEGMENTS, [])
    assert max(seen) <= 16 + OTHERS


def test_a_segment_that_retention_takes_during_a_check_is_no_fault(many: Bench) -> None:
    """The check opens segments when it comes to them."""
    taken: list[int] = []

    def take(message: object, report: object) -> None:
        if not taken:
            taken.append(many.store.expire(many.store.segments()[SEGMENTS // 2]))

    report = verify_store(OsFiles(), many.root, look_at=take, index_slots=101, index_items=20)
    assert taken == [SEGMENTS // 2]
    assert report.faults == []
    assert report.records >= SEGMENTS


def test_retention_of_segments_that_are_not_open_deletes_their_files(many: Bench) -> None:
    middle = many.store.segments()[SEGMENTS // 2]
    assert many.store.expire(middle) == SEGMENTS // 2
    assert len(list((many.root / "commitlog").iterdir())) == SEGMENTS - SEGMENTS // 2
    assert open_under(many.root) <= MAX + OTHERS
    bodies = many.bodies()
    assert len(bodies) == SEGMENTS
    assert None not in bodies


def test_a_segment_stays_open_until_its_sync_is_done(bench: Bench) -> None:
    """A descriptor that is closed under a sync may be another file's by then."""
    pool = HeldPool()
    bench.open(pool, **{**SETTINGS, "log_files_max": 1})
    pool.run()
    told: list[Exception | None] = []
    sent = bench.put(b"first" + bytes(BODY_BYTES))
    bench.store.when_flushed(sent.flush_position, told.append)
    for _ in range(20):  # the segment that is to be synced is sealed meanwhile, and is read
        bench.put(bytes(BODY_BYTES))
    assert len(bench.bodies()) == 21
    pool.run()
    assert told == [None]
    bench.store.when_flushed(bench.store.written, told.append)
    pool.run()
    assert told == [None, None]
    assert open_under(bench.root) <= 1 + OTHERS


def test_what_was_sealed_and_closed_before_a_checkpoint_survives_power_loss(
    weak: Bench, disk: Disk
) -> None:
    weak.open(**{**SETTINGS, "log_files_max": 1})
    for number in range(50):
        weak.put(
            bytes(BODY_BYTES),
            keys=[f"k{number}"],
        )
    weak.checkpoint()
    weak.store.when_flushed(weak.store.written, lambda error: None)
    disk.lose_power()
    after = Bench(weak.root, disk.boot())
    after.open(**SETTINGS)
    assert len(after.bodies()) == 50
    for number in range(50):
        assert len(after.store.positions_of_key("t", f"k{number}")) == 1
    assert after.store.damages == []


def test_flushed_means_flushed_in_segments_that_recovery_found(weak: Bench, disk: Disk) -> None:
    """They are closed by then: the sync opens them."""
    weak.open(**SETTINGS)
    for _ in range(20):
        weak.put(bytes(BODY_BYTES))
    disk.kill()
    second = Bench(weak.root, disk.boot())
    second.open(**SETTINGS)
    told: list[Exception | None] = []
    second.store.when_flushed(
        second.put(
            b"x",
        ).flush_position,
        told.append,
    )
    assert told == [None]
    disk.lose_power()
    third = Bench(weak.root, disk.boot())
    third.open(**SETTINGS)
    assert len(third.bodies()) == 21


def test_a_segment_that_becomes_the_last_again_is_written_on(bench: Bench) -> None:
    """A torn record at the beginning of the last segment leaves the one before as the last."""
    bench.open(**SETTINGS)
    for number in range(9):
        bench.put(b"%d" % number + bytes(BODY_BYTES))
    last = bench.store.segments()[-1]
    bench.damage(last, bytes(100))
    bench.crash()
    assert bench.store.segments()[-1] < last
    bench.put(b"more")
    assert len(bench.bodies()) == 9
    bench.restart()
    assert bench.bodies()[-1] == b"more"


class Counting(OsFiles):
    """Once it has opened `allowed` files it refuses one."""

    allowed = 1 << 30

    def open(self, path: Path, *, create: bool = False) -> File:
        if self.allowed <= 0:
            self.allowed = 1
            raise OutOfFiles(OSError(errno.EMFILE, "Too many open files"))
        self.allowed -= 1
        return super().open(path, create=create)


def test_sealed_files_give_way_where_none_can_be_opened(tmp_path: Path) -> None:
    files = Counting()
    paths = [tmp_path / str(number) for number in range(9)]
    for path in paths:
        path.write_bytes(path.name.encode())
    sealed = SealedFiles(files, 100)
    for path in paths[:8]:
        assert sealed.get(path).pread(9, 0) == path.name.encode()
    files.allowed = 0
    assert sealed.get(paths[8]).pread(9, 0) == b"8"
    assert open_under(tmp_path) == 5
    sealed.close()
    assert open_under(tmp_path) == 0


def test_the_file_that_was_used_least_lately_is_closed_first(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(3)]
    for path in paths:
        path.write_bytes(path.name.encode())
    sealed = SealedFiles(OsFiles(), 2)
    first = sealed.get(paths[0])
    second = sealed.get(paths[1])
    assert sealed.get(paths[0]) is first
    sealed.get(paths[2])
    assert sealed.get(paths[0]) is first
    assert sealed.get(paths[1]) is not second
    sealed.close()
