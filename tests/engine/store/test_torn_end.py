"""The torn end of the log is cut off when a copy of all of it lies beside it, and not before."""

from pathlib import Path

import pytest

from engine.store.files import File, OsFiles
from tests.engine.store.parts import Bench

TORN = b"x" * 100
LOG = "commitlog/00000000000000000000"


class FullFiles(OsFiles):
    """Nothing can be written into `set-aside`."""

    def open(self, path: Path, *, create: bool = False) -> File:
        if create and "set-aside" in path.parts:
            raise OSError(28, "No space left on device")
        return super().open(path, create=create)


def tear(bench: Bench) -> int:
    """Leave bytes behind the last record, as a power loss does; where."""
    bench.open()
    bench.put(b"a")
    end = bench.store.written
    bench.close()
    with (bench.root / LOG).open("r+b") as file:
        file.seek(end)
        file.write(TORN)
    return end


def bodies(bench: Bench) -> list[bytes | None]:
    entries = bench.store.entries("t", 0, 0, 100)
    return [each and each.body for each in bench.store.read_entries(entries, ("t", 0))]


def test_a_torn_end_stays_where_its_copy_cannot_be_written(bench: Bench) -> None:
    end = tear(bench)
    bench.files, plain = FullFiles(), bench.files
    bench.open()
    assert (bench.root / LOG).read_bytes()[end : end + len(TORN)] == TORN
    (damage,) = bench.store.damages
    assert (damage.start, damage.end, damage.copy) == (end, end + len(TORN), "")
    bench.put(b"b")
    assert bodies(bench) == [b"a", b"b"]
    bench.files = plain
    bench.crash()
    assert bodies(bench) == [b"a", b"b"]
    assert (bench.root / LOG).read_bytes()[end : end + len(TORN)] == TORN


def test_a_torn_end_is_copied_in_pieces(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.store.opening.COPY_BYTES_MAX", 30)
    end = tear(bench)
    bench.open()
    copies = [bench.root / damage.copy for damage in bench.store.damages]
    assert b"".join(copy.read_bytes() for copy in copies) == TORN
    assert not (bench.root / LOG).read_bytes()[end:].strip(b"\0")
