"""The progress journal: what was appended is there after any crash, in order and once."""

import errno
import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from engine.errors import DiskFull
from engine.store.files import Files, OsFiles, make_lasting_directory
from engine.store.journal import Journal, JournalEntry, JournalPlace
from engine.store.pool import InlinePool, Pool
from tests.engine.store.parts import HeldPool
from tests.simulation.disk import Crash, Disk


class Set(JournalEntry, frozen=True, tag="set"):
    """A name got a value; as if from a record that ends at `record_end`."""

    name: str
    value: int
    record_end: int = 0

    @property
    def follows(self) -> int:
        return self.record_end


class Part:
    """Keeps names and values in a journal."""

    def __init__(
        self,
        files: Files,
        root: Path,
        pool: Pool | None = None,
        *,
        trusted: int | None = None,
        synced: JournalPlace | None = None,
        stopped: JournalPlace | None = None,
    ) -> None:
        self.values: dict[str, int] = {}
        self.applied = 0
        self.journal = Journal(files, root, pool or InlinePool(), compact_bytes=200)
        self.journal.register((Set,), self._apply, self._snapshot)
        if trusted is not None:
            self.journal.trusted = trusted
        self.journal.synced, self.journal.stopped = synced, stopped
        self.loaded = self.journal.load()

    def set(self, name: str, value: int, *, record_end: int = 0, is_owed: bool = False) -> None:
        entry = Set(name, value, record_end)
        self.journal.append(entry, is_owed=is_owed)
        self._apply(entry)

    def _apply(self, entry: Set) -> None:
        self.values[entry.name] = entry.value
        self.applied += 1

    def _snapshot(self) -> Iterable[JournalEntry]:
        return [Set(name, value) for name, value in self.values.items()]


def journal_path(root: Path, number: int = 0) -> Path:
    return root / f"progress.journal.{number:010d}"


def test_what_was_appended_is_applied_again_in_order(tmp_path: Path) -> None:
    part = Part(OsFiles(), tmp_path)
    part.set("a", 1)
    part.journal.append_all([Set("b", 2), Set("a", 3)])
    again = Part(OsFiles(), tmp_path)
    assert again.values == {"a": 3, "b": 2}
    assert again.loaded == 3


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_torn_last_frame_is_cut_off_and_written_over(tmp_path: Path, cut: int) -> None:
    part = Part(OsFiles(), tmp_path)
    part.set("a", 1)
    part.set("b", 2)
    whole = journal_path(tmp_path).read_bytes()
    journal_path(tmp_path).write_bytes(whole[:-cut])
    again = Part(OsFiles(), tmp_path)
    assert "b" not in again.values
    again.set("c", 3)
    expected = {"a": 1, "c": 3} if "a" in again.values else {"c": 3}
    assert Part(OsFiles(), tmp_path).values == expected


def test_a_grown_journal_is_replaced_by_a_snapshot(tmp_path: Path) -> None:
    part = Part(OsFiles(), tmp_path)
    for number in range(100):
        part.set("a", number)
        part.journal.tick()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 4, names  # this generation, and the one before it
    part.set("b", 7)
    again = Part(OsFiles(), tmp_path)
    assert again.values == {"a": 99, "b": 7}
    assert again.loaded < 40


def test_changes_made_while_the_snapshot_is_written_are_kept(tmp_path: Path) -> None:
    pool = HeldPool()
    part = Part(OsFiles(), tmp_path, pool)
    part.set("a", 1)
    part.journal.compact()
    part.set("b", 2)
    assert Part(OsFiles(), tmp_path).values == {"a": 1, "b": 2}, "before the snapshot"
    pool.run()
    assert Part(OsFiles(), tmp_path).values == {"a": 1, "b": 2}, "and after it"


def test_a_snapshot_waits_for_the_logs_flush(tmp_path: Path) -> None:
    part = Part(OsFiles(), tmp_path)
    waiting = []
    part.journal.when_flushed = waiting.append
    part.set("a", 1)
    part.journal.compact()
    assert not list(tmp_path.glob("*snapshot*"))
    waiting[0](None)
    assert len(list(tmp_path.glob("*snapshot*"))) == 1


def test_a_crash_at_any_step_of_a_compaction_changes_nothing() -> None:
    steps = 0
    for is_power in (False, True):
        for crash_in in range(1, 30):
            disk = Disk(random.Random(crash_in))
            files = disk.boot()
            make_lasting_directory(files, Path("/j"))
            part = Part(files, Path("/j"))
            for number in range(3):
                part.set(f"n{number}", number)
            for unsynced in part.journal.take_unsynced():
                unsynced.sync()
            disk.crash_in = crash_in
            try:
                part.journal.compact()
                part.set("after", 1)
            except Crash:
                steps += 1
            disk.lose_power() if is_power else disk.kill()
            again = Part(disk.boot(), Path("/j"))
            again.values.pop("after", None)
            assert again.values == {f"n{number}": number for number in range(3)}, crash_in
    assert steps > 10


def test_a_second_crash_after_a_half_done_compaction_changes_nothing(tmp_path: Path) -> None:
    pool = HeldPool()
    part = Part(OsFiles(), tmp_path, pool)
    part.set("a", 1)
    part.journal.compact()  # its snapshot is never written
    part.set("b", 2)
    second = Part(OsFiles(), tmp_path, pool)
    second.set("c", 3)
    second.journal.compact()
    third = Part(OsFiles(), tmp_path)
    assert third.values == {"a": 1, "b": 2, "c": 3}
    third.journal.compact()
    third.journal.compact()
    assert Part(OsFiles(), tmp_path).values == third.values
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("seed", range(10))
def test_a_sync_after_a_killed_compaction_covers_the_older_journal_too(seed: int) -> None:
    disk = Disk(random.Random(seed))
    files = disk.boot()
    make_lasting_directory(files, Path("/j"))
    part = Part(files, Path("/j"), HeldPool())
    part.set("a", 1)
    part.journal.compact()  # its snapshot is never written
    part.set("b", 2)
    disk.kill()
    Part(disk.boot(), Path("/j")).journal.sync()
    disk.lose_power()
    assert Part(disk.boot(), Path("/j")).values == {"a": 1, "b": 2}


def test_what_follows_a_lost_end_of_an_older_journal_is_lost_as_well(tmp_path: Path) -> None:
    """As a message that was handed out counts as done where the next one was, too."""
    part = Part(OsFiles(), tmp_path, HeldPool())
    part.set("a", 1)
    kept = journal_path(tmp_path).stat().st_size
    part.set("b", 2)
    part.journal.compact()  # its snapshot is never written
    part.set("c", 3)
    with journal_path(tmp_path).open("r+b") as file:
        file.truncate(kept)
    again = Part(OsFiles(), tmp_path)
    assert again.values == {"a": 1}
    assert again.journal.is_damaged
    again.set("d", 4)
    assert Part(OsFiles(), tmp_path).values == {"a": 1, "d": 4}


@pytest.mark.parametrize("synced", [JournalPlace(0, 1000), JournalPlace(1, 0)])
def test_what_follows_an_older_journal_that_was_on_the_disk_counts(
    tmp_path: Path, synced: JournalPlace
) -> None:
    """Its end was damaged since."""
    part = Part(OsFiles(), tmp_path, HeldPool())
    part.set("a", 1)
    part.journal.compact()
    part.set("c", 3)
    journal_path(tmp_path).write_bytes(b"")
    again = Part(OsFiles(), tmp_path, synced=synced)
    assert again.values == {"c": 3}
    assert again.journal.is_damaged


def test_a_refused_change_never_comes_to_life() -> None:
    disk = Disk(random.Random(1))
    part = Part(disk.boot(), Path("/j"))
    part.set("a", 1)
    disk.room_bytes = 0
    with pytest.raises(DiskFull):
        part.journal.append_all([Set("x", number) for number in range(200)])
    disk.room_bytes = 1 << 60
    part.set("b", 2)
    disk.kill()
    assert Part(disk.boot(), Path("/j")).values == {"a": 1, "b": 2}


def test_an_owed_change_is_in_force_and_written_when_there_is_room() -> None:
    disk = Disk(random.Random(1))
    part = Part(disk.boot(), Path("/j"))
    full = OSError(errno.ENOSPC, "No space left on device")

    def fail(verb: str, path: Path) -> None:
        if verb == "pwrite":
            raise full

    disk.fault = fail
    part.set("a", 1, is_owed=True)
    part.set("b", 2, is_owed=True)
    assert part.journal.is_behind
    with pytest.raises(DiskFull):
        part.set("c", 3)
    disk.fault = None
    part.journal.tick()
    assert not part.journal.is_behind
    disk.kill()
    assert Part(disk.boot(), Path("/j")).values == {"a": 1, "b": 2}


def test_a_change_that_follows_from_a_record_in_doubt_is_left_out(tmp_path: Path) -> None:
    part = Part(OsFiles(), tmp_path)
    part.set("sure", 1, record_end=100)
    part.set("doubt", 2, record_end=101)
    again = Part(OsFiles(), tmp_path, trusted=100)
    assert again.values == {"sure": 1}
    again.set("doubt", 3, record_end=101)  # found in the log by recovery
    # Later the log is whole far beyond 101, with other records: what was left out stays out.
    last = Part(OsFiles(), tmp_path, trusted=1000)
    assert last.values == {"sure": 1, "doubt": 3}
    assert last.applied == 2


def test_where_the_end_of_a_journal_is_lost_the_next_one_does_not_count(tmp_path: Path) -> None:
    pool = HeldPool()
    part = Part(OsFiles(), tmp_path, pool)
    part.set("a", 1)
    part.set("a", 2)
    part.journal.compact()  # the snapshot is never written
    part.set("a", 3)
    journal_path(tmp_path).write_bytes(journal_path(tmp_path).read_bytes()[:-1])
    again = Part(OsFiles(), tmp_path)
    assert again.values == {"a": 1}
    again.set("b", 4)
    assert Part(OsFiles(), tmp_path).values == {"a": 1, "b": 4}


def test_a_lasting_change_goes_with_the_next_flush_whatever_a_checkpoint_took(
    tmp_path: Path,
) -> None:
    part = Part(OsFiles(), tmp_path)
    part.journal.take_lasting()
    assert part.journal.take_lasting() == []
    part.journal.append(Set("a", 1), is_lasting=True)
    assert part.journal.take_unsynced(), "a checkpoint's, which may be slow"
    assert part.journal.take_lasting(), "the flush does not rely on it"
    assert part.journal.take_lasting() == []


def test_a_failed_snapshot_is_told_and_tried_again(tmp_path: Path) -> None:
    disk = Disk(random.Random(1))
    part = Part(disk.boot(), Path("/j"))
    part.set("a", 1)

    def fail(verb: str, path: Path) -> None:
        if verb == "create" and "snapshot" in path.name:
            raise OSError(errno.EIO, "Input/output error")

    disk.fault = fail
    part.journal.compact()
    assert "snapshot not written" in part.journal.failure
    part.set("b", 2)
    disk.fault = None
    part.journal.compact()
    assert part.journal.failure == ""
    disk.kill()
    assert Part(disk.boot(), Path("/j")).values == {"a": 1, "b": 2}
