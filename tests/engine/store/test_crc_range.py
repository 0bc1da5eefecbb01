"""From where on records have a CRC: one that hides its own is damaged, an earlier one is not."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.store.checkpoint import read_checkpoint
from engine.store.encode import plain_tail
from engine.store.record import CRC_NAME
from engine.store.verify import verify_store
from tests.engine.store.parts import Bench

LOG = "commitlog/00000000000000000000"
FOREIGN = b"a\x02other\x01thing\x02"  # as long as the name and more: no likeness to it


def hide_crc(root: Path, nth: int) -> None:
    """Write foreign text over the name of a record's CRC, whose properties end in it then."""
    path = root / LOG
    data = bytearray(path.read_bytes())
    at = -1
    for _ in range(nth + 1):
        at = data.index(CRC_NAME, at + 1)
    data[at : at + len(FOREIGN)] = FOREIGN
    path.write_bytes(bytes(data))


def bodies(bench: Bench) -> list[bytes | None]:
    entries = bench.store.entries("t", 0, 0, 100)
    return [each and each.body for each in bench.store.read_entries(entries, ("t", 0))]


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("nth", [0, 1, 2])
def test_a_record_whose_crc_is_hidden_is_damaged(bench: Bench, is_clean: bool, nth: int) -> None:
    bench.open()
    for body in (b"a", b"b", b"c"):
        bench.put(body)
    if is_clean:
        bench.store.stop()
    bench.close()
    hide_crc(bench.root, nth)
    assert not verify_store(bench.files, bench.root, patience_s=()).is_sound
    bench.open()
    assert b"abc"[nth : nth + 1] not in bodies(bench)
    assert bench.store.damages


def test_a_running_store_delivers_no_record_whose_crc_was_hidden(bench: Bench) -> None:
    bench.open()
    bench.put(b"a")
    hide_crc(bench.root, 0)
    assert bodies(bench) == [None]
    entry = bench.store.entries("t", 0, 0, 1)[0]
    assert bench.store.reader_of([entry], [("t", 0)])() == [None]
    assert bench.store.reader_at([entry.position])() == [None]


@contextmanager
def without_crcs(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Records as an earlier version, or another broker, writes them."""
    plain_tail.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr("engine.store.encode.CRC_BYTES", 0)
        yield patch
    plain_tail.cache_clear()


def test_records_of_an_earlier_version_stay_readable(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with without_crcs(monkeypatch):
        bench.open()
        bench.put(b"a")
        bench.put(b"b")
        bench.store.stop()
    (bench.root / "checkpoint").unlink()
    (bench.root / "clean").unlink()
    bench.open()
    bench.put(b"c")
    for go_on in (bench.crash, bench.restart, bench.crash):
        go_on()
        assert bodies(bench) == [b"a", b"b", b"c"]
        assert not bench.store.damages
        assert verify_store(bench.files, bench.root, patience_s=()).is_sound


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_another_broker_appended_is_not_called_damaged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, is_clean: bool
) -> None:
    """Apache RocketMQ's writes its own fields of the checkpoint, and leaves ours alone."""
    bench.open()
    bench.put(b"ours")
    bench.store.stop()
    mark = (bench.root / "checkpoint").read_bytes()
    with without_crcs(monkeypatch) as theirs:
        theirs.setattr("engine.store.opening.StoreOpening._settle_crcs", lambda self: None)
        bench.open()
        bench.put(b"theirs")
        bench.close()
    changed = (1 << 40).to_bytes(8, "big") + mark[8:]
    (bench.root / "checkpoint").write_bytes(changed)
    assert verify_store(bench.files, bench.root, patience_s=()).is_sound
    bench.open()
    assert bodies(bench) == [b"ours", b"theirs"]
    assert not bench.store.damages
    bench.put(b"again")
    if is_clean:
        bench.restart()
    else:
        bench.crash()
    assert bodies(bench) == [b"ours", b"theirs", b"again"]
    since = read_checkpoint(bench.files, bench.root / "checkpoint").checkpoint.crc_since
    assert since == bench.store.entries("t", 0, 2, 1)[0].position
    hide_crc(bench.root, 1)
    assert bodies(bench) == [b"ours", b"theirs", None]
