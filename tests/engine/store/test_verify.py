"""Verifying a store: sound ones are, and every kind of fault is named with its place."""

import struct

import pytest

from engine.errors import NotFound
from engine.store.commit_log import CommitLog
from engine.store.verify import verify_store
from tests.engine.store.parts import Bench


def filled(bench: Bench) -> None:
    bench.open(segment_bytes=4096, queue_file_entries=7)
    for number in range(40):
        bench.put(b"%d" % number * 50, queue=number % 3, keys=("k",))


def test_a_sound_store_is_sound_while_it_runs_and_after(bench: Bench) -> None:
    filled(bench)
    for ending in (None, bench.crash, bench.restart):
        if ending is not None:
            ending()
        report = verify_store(bench.files, bench.root)
        assert report.is_sound, report.faults
        assert (report.records, report.queues, report.entries) == (40, 3, 40)


@pytest.mark.parametrize("chunk_bytes", [200, 4 << 20])
def test_what_a_running_server_writes_meanwhile_is_no_damage(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    """The end was read as zeros; by the time it is looked at, records lie there and behind it."""
    monkeypatch.setattr("engine.store.verify.PROGRESS_EVERY", 1)
    monkeypatch.setattr("engine.store.recovery.CHUNK_BYTES", chunk_bytes)
    bench.open(segment_bytes=4096)
    bench.put(b"before")
    left = 40

    def write(_: int) -> None:
        nonlocal left
        if left:
            left -= 1
            bench.put(b"meanwhile", b"and more")

    report = verify_store(bench.files, bench.root, progress=write)
    assert report.is_sound, report.faults


def test_verifying_ends_though_the_server_goes_on_writing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server under load wrote faster than its log's end was looked at, and it never came."""
    bench.open(segment_bytes=1 << 20)
    bench.put(b"before")
    read, written = CommitLog.read, 0

    def read_while_another_writes(log: CommitLog, position: int, size_bytes: int) -> bytes:
        nonlocal written
        if log is not bench.store._log and written < 1000:
            written += 1
            bench.put(b"meanwhile")
        return read(log, position, size_bytes)

    monkeypatch.setattr(CommitLog, "read", read_while_another_writes)
    monkeypatch.setattr("engine.store.recovery.CHUNK_BYTES", 4096)
    report = verify_store(bench.files, bench.root)
    assert report.is_sound, report.faults
    assert written < 900


def test_a_store_that_retention_cut_is_sound(bench: Bench) -> None:
    filled(bench)
    bench.checkpoint()
    assert bench.store.expire(bench.store.written) > 0
    report = verify_store(bench.files, bench.root)
    assert report.is_sound, report.faults
    assert 0 < report.records < 40


def test_verifying_changes_nothing(bench: Bench) -> None:
    filled(bench)
    before = {path: path.read_bytes() for path in bench.root.rglob("*") if path.is_file()}
    verify_store(bench.files, bench.root)
    assert {path: path.read_bytes() for path in bench.root.rglob("*") if path.is_file()} == before


def test_where_there_is_no_store_it_says_so(bench: Bench) -> None:
    with pytest.raises(NotFound, match="no commit log"):
        verify_store(bench.files, bench.root)


def test_a_damaged_record_is_told_with_its_stretch(bench: Bench) -> None:
    filled(bench)
    entry = bench.store.entries("t", 1, 3, 1)[0]
    bench.damage(entry.position + 90, b"?")
    report = verify_store(bench.files, bench.root)
    assert report.fault_count == 1
    assert report.faults[0].where == f"log {entry.position}..{entry.position + entry.size_bytes}"
    assert "CRC" in report.faults[0].detail


def change_entry(bench: Bench, queue: int, offset: int, data: bytes) -> None:
    base = offset // 7 * 140
    path = bench.root / "consumequeue" / "t" / str(queue) / f"{base:020d}"
    with path.open("r+b") as file:
        file.seek(offset * 20 - base)
        file.write(data)


def test_an_entry_that_points_elsewhere_is_told(bench: Bench) -> None:
    filled(bench)
    other = bench.store.entries("t", 1, 5, 1)[0]
    change_entry(bench, 1, 3, struct.pack(">qi", other.position, other.size_bytes))
    report = verify_store(bench.files, bench.root)
    assert [fault.where for fault in report.faults] == ["t/1@3"]
    assert "says it is offset 5" in report.faults[0].detail


def test_an_entry_of_another_size_is_told(bench: Bench) -> None:
    filled(bench)
    entry = bench.store.entries("t", 0, 2, 1)[0]
    change_entry(bench, 0, 2, struct.pack(">qi", entry.position, entry.size_bytes + 1))
    report = verify_store(bench.files, bench.root)
    assert [fault.where for fault in report.faults] == ["t/0@2"]


def test_a_message_that_its_queue_does_not_have_is_told(bench: Bench) -> None:
    filled(bench)
    last = bench.store.bounds("t", 2)[1] - 1
    change_entry(bench, 2, last, bytes(20))
    report = verify_store(bench.files, bench.root)
    assert [fault.where for fault in report.faults] == ["t/2"]
    assert f"offset {last} is in the log but not in the queue" in report.faults[0].detail


def test_progress_is_told_on_the_way(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.store.verify.PROGRESS_EVERY", 10)
    filled(bench)
    told: list[int] = []
    verify_store(bench.files, bench.root, progress=told.append)
    assert len(told) == 4
    assert told == sorted(told)


def test_only_so_many_faults_are_listed_but_all_are_counted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.store.verify.FAULTS_MAX", 2)
    filled(bench)
    for offset in range(5):
        change_entry(bench, 0, offset, struct.pack(">qi", 0, 1))
    report = verify_store(bench.files, bench.root)
    assert (len(report.faults), report.fault_count) == (2, 5)


def test_an_entry_with_the_hash_of_another_tag_is_told(bench: Bench) -> None:
    filled(bench)
    change_entry(bench, 1, 3, bench_entry(bench, 1, 3)[:12] + struct.pack(">q", 7))
    report = verify_store(bench.files, bench.root)
    assert [fault.where for fault in report.faults] == ["t/1@3"]
    assert "its tag hash or due time is 7" in report.faults[0].detail


def bench_entry(bench: Bench, queue: int, offset: int) -> bytes:
    entry = bench.store.entries("t", queue, offset, 1)[0]
    return struct.pack(">qiq", *entry[1:])
