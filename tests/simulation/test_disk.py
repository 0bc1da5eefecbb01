"""The disk of the simulation: as the real one where both work, and forgetful where it may be."""

import errno
import random
from pathlib import Path

import pytest

from engine.store.files import Files, OsFiles, make_lasting_directory, read_whole, write_atomic
from tests.simulation.disk import SECTOR_BYTES, Crash, Disk


@pytest.fixture(params=["real", "fake"])
def files(request: pytest.FixtureRequest) -> Files:
    return OsFiles() if request.param == "real" else Disk(random.Random(1)).boot()


@pytest.fixture
def root(files: Files, tmp_path: Path) -> Path:
    make_lasting_directory(files, tmp_path / "data")
    return tmp_path / "data"


def test_a_write_past_the_end_leaves_zeros_before_it(files: Files, root: Path) -> None:
    file = files.open(root / "a", create=True)
    file.pwrite(b"end", 5)
    assert file.pread(100, 0) == b"\0\0\0\0\0end"
    assert file.size() == 8


def test_truncate_cuts_and_grows_with_zeros(files: Files, root: Path) -> None:
    file = files.open(root / "a", create=True)
    file.pwrite(b"content", 0)
    file.truncate(3)
    file.truncate(5)
    assert file.pread(100, 0) == b"con\0\0"


def test_a_file_that_is_not_there_is_an_error_unless_created(files: Files, root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.open(root / "a")
    files.open(root / "a", create=True).close()
    assert files.exists(root / "a")


def test_names_are_sorted_and_none_for_a_directory_that_is_not_there(
    files: Files, root: Path
) -> None:
    for name in "bca":
        files.open(root / name, create=True).close()
    assert files.names(root) == ["a", "b", "c"]
    assert files.names(root / "nowhere") == []


def test_replace_moves_a_directory_with_all_in_it(files: Files, root: Path) -> None:
    files.make_directory(root / "from" / "inner")
    write_atomic(files, root / "from" / "inner" / "a", b"1")
    files.make_directory(root / "to")
    files.replace(root / "from", root / "to" / "there")
    assert not files.exists(root / "from")
    assert read_whole(files, root / "to" / "there" / "inner" / "a") == b"1"


def test_remove_tree_leaves_the_neighbours(files: Files, root: Path) -> None:
    files.make_directory(root / "gone" / "deep")
    files.open(root / "gone" / "deep" / "a", create=True).close()
    files.open(root / "stays", create=True).close()
    files.remove_tree(root / "gone")
    assert files.names(root) == ["stays"]
    files.remove_tree(root / "gone")  # not there any more: no error


def test_a_lock_is_held_until_its_file_is_closed(files: Files, root: Path) -> None:
    held = files.lock(root / "lock")
    assert held is not None
    assert files.lock(root / "lock") is None
    held.close()
    assert files.lock(root / "lock") is not None


def test_a_closed_file_refuses_everything(files: Files, root: Path) -> None:
    file = files.open(root / "a", create=True)
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pread(1, 0)


def fake(seed: int = 1) -> tuple[Disk, Files]:
    disk = Disk(random.Random(seed))
    files = disk.boot()
    make_lasting_directory(files, Path("/data"))
    return disk, files


def test_a_killed_process_leaves_every_finished_write() -> None:
    disk, files = fake()
    files.open(Path("/data/a"), create=True).pwrite(b"kept", 0)
    disk.kill()
    assert read_whole(disk.boot(), Path("/data/a")) == b"kept"


def test_the_write_under_way_at_a_kill_is_torn_somewhere() -> None:
    seen = set()
    for seed in range(40):
        disk, files = fake(seed)
        file = files.open(Path("/data/a"), create=True)
        disk.crash_in = 1
        with pytest.raises(Crash):
            file.pwrite(b"12345", 0)
        disk.kill()
        found = read_whole(disk.boot(), Path("/data/a"))
        assert b"12345".startswith(found)
        seen.add(found)
    assert {b"", b"12345"} < seen


def test_a_dead_process_can_do_nothing_more() -> None:
    disk, files = fake()
    file = files.open(Path("/data/a"), create=True)
    disk.kill()
    with pytest.raises(Crash):
        file.pwrite(b"late", 0)
    with pytest.raises(Crash):
        files.names(Path("/data"))


def lost_power(seed: int, *, sync_file: bool, sync_name: bool) -> bytes | None:
    disk, files = fake(seed)
    file = files.open(Path("/data/a"), create=True)
    file.pwrite(b"x" * 4 * SECTOR_BYTES, 0)
    if sync_file:
        file.sync()
    if sync_name:
        files.sync_directory(Path("/data"))
    disk.lose_power()
    files = disk.boot()
    return read_whole(files, Path("/data/a")) if files.exists(Path("/data/a")) else None


def test_a_power_loss_keeps_what_was_synced_under_a_synced_name() -> None:
    for seed in range(20):
        assert lost_power(seed, sync_file=True, sync_name=True) == b"x" * 4 * SECTOR_BYTES


def test_a_power_loss_tears_what_was_not_synced_by_sectors() -> None:
    found = {lost_power(seed, sync_file=False, sync_name=True) for seed in range(60)}
    assert b"" in found
    assert b"x" * 4 * SECTOR_BYTES in found
    assert any(part and b"\0" in part and b"x" in part for part in found)


def test_a_power_loss_may_take_a_name_that_was_not_synced() -> None:
    found = {lost_power(seed, sync_file=True, sync_name=False) for seed in range(20)}
    assert found == {None, b"x" * 4 * SECTOR_BYTES}


def test_a_full_disk_takes_what_fits_and_overwrites_what_is_there() -> None:
    disk, files = fake()
    file = files.open(Path("/data/a"), create=True)
    file.pwrite(b"a" * SECTOR_BYTES, 0)
    disk.room_bytes = 0
    file.pwrite(b"b", 0)
    with pytest.raises(OSError, match="No space") as refused:
        file.pwrite(b"cc", SECTOR_BYTES - 1)
    assert refused.value.errno == errno.ENOSPC
    assert file.pread(10, SECTOR_BYTES - 1) == b"c"


def test_an_atomic_write_is_the_old_or_the_new_one_after_any_crash() -> None:
    steps = 8
    for crash_in in range(1, steps):
        for seed in range(10):
            disk, files = fake(seed)
            write_atomic(files, Path("/data/a"), b"old")
            disk.crash_in = crash_in
            try:
                write_atomic(files, Path("/data/a"), b"new" * 999)
                is_done = True
            except Crash:
                is_done = False
            disk.lose_power()
            found = read_whole(disk.boot(), Path("/data/a"))
            assert found == b"new" * 999 if is_done else found in (b"old", b"new" * 999)
