"""While no file can be opened, writes wait or answer busy; nothing is taken for damage.

EMFILE and ENFILE come from opening: a thousand connections once made every write fail until a
restart, as a directory that could not be opened was taken for a failed sync.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import Busy, OutOfFiles
from engine.message import Durability, Message
from engine.store import flush
from engine.store.files import OsFiles
from engine.store.flush import PATIENCE_TICKS
from tests.engine.store.parts import Bench
from tests.simulation.disk import Disk

SHORTAGES = [errno.EMFILE, errno.ENFILE, errno.ENOMEM]


def no_files(number: int, *, place: str = "") -> Callable[[str, Path], None]:
    """A fault: nothing under `place` can be opened."""

    def fault(verb: str, path: Path) -> None:
        if verb in ("open", "create", "sync_directory") and place in str(path):
            raise OSError(number, os.strerror(number))

    return fault


def send(bench: Bench, *bodies: bytes, durability: Durability = Durability.STORED) -> int:
    messages = [Message("t", body, queue=0) for body in bodies]
    return bench.store.append(messages, durability=durability).flush_position


@pytest.mark.parametrize("number", SHORTAGES)
def test_a_flush_that_cannot_open_a_directory_is_tried_again(
    weak: Bench, disk: Disk, number: int
) -> None:
    weak.open()
    send(weak, b"before")
    disk.fault = no_files(number)
    told: list[Exception | None] = []
    weak.store.when_flushed(send(weak, b"safe", durability=Durability.FLUSHED), told.append)
    assert (told, weak.store.refusal()) == ([], "")
    assert weak.bodies() == [b"before"], "what is not flushed is not shown"
    disk.fault = None
    weak.store._flusher.tick()
    assert told == [None]
    assert weak.bodies() == [b"before", b"safe"]
    disk.lose_power()
    after = Bench(weak.root, disk.boot())
    after.open()
    assert after.bodies() == [b"before", b"safe"], "flushed means flushed"


def test_what_a_sync_could_not_open_is_synced_by_the_next(weak: Bench, disk: Disk) -> None:
    """Also the changes of the journal that were promised with it."""
    weak.open()
    weak.store.journal._must_sync = True
    disk.fault = no_files(errno.EMFILE, place="config")
    told: list[Exception | None] = []
    weak.store.when_flushed(send(weak, b"x"), told.append)
    assert told == []
    synced: list[str] = []
    disk.fault = lambda verb, path: synced.append(path.name) if "sync" in verb else None
    weak.store._flusher.tick()
    assert told == [None]
    assert {"config", "commitlog"} <= set(synced)


def test_who_waits_for_a_flush_is_told_to_come_again_where_it_lasts(
    weak: Bench, disk: Disk
) -> None:
    weak.open()
    send(weak, b"before")
    disk.fault = no_files(errno.EMFILE)
    told: list[Exception | None] = []
    weak.store.when_flushed(send(weak, b"x", durability=Durability.FLUSHED), told.append)
    waits = {weak.store._flusher.tick() for _ in range(PATIENCE_TICKS)}
    assert waits == {flush.RETRY_S}
    assert [type(error) for error in told] == [OutOfFiles]
    assert isinstance(told[0], Busy)
    disk.fault = None
    assert weak.store._flusher.tick() > flush.RETRY_S
    assert weak.bodies() == [b"before", b"x"]


@pytest.mark.parametrize("number", SHORTAGES)
@pytest.mark.parametrize("place", ["commitlog", "consumequeue", "index", "config", ""])
def test_nothing_is_lost_or_damaged_while_no_file_can_be_opened(
    weak: Bench, disk: Disk, place: str, number: int
) -> None:
    """Rolls of the log, new queues, checkpoints and compactions all meet it."""
    weak.open(open_files_max=2)
    accepted = [b"before"]
    send(weak, b"before")
    for round_number in range(6):
        disk.fault = no_files(number, place=place) if round_number % 2 else None
        for piece in range(8):
            body = b"%d-%d " % (round_number, piece) * 1000
            try:
                send(weak, body)
            except Busy:
                continue
            accepted.append(body)
        weak.checkpoint()
        try:
            weak.store.journal.compact()
        except OutOfFiles:
            continue
    disk.fault = None
    weak.store.watch_disk()
    assert weak.store.refusal() == ""
    accepted.append(b"after")
    send(weak, b"after")
    assert weak.bodies() == accepted
    weak.restart()
    assert weak.bodies() == accepted
    assert weak.store.damages == []


def test_a_compaction_that_can_open_no_journal_closes_none_twice(weak: Bench, disk: Disk) -> None:
    weak.open()
    disk.fault = no_files(errno.EMFILE, place="progress.journal")
    for _ in range(3):
        with pytest.raises(OutOfFiles):
            weak.store.journal.compact()
    assert weak.store.journal._older == []
    disk.fault = None
    weak.store.journal.compact()
    assert weak.store.journal.failure == ""


def test_queue_files_give_up_what_is_open_for_what_has_to_be(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.open(open_files_max=100)
    for queue in range(10):
        bench.put(b"%d" % queue, queue=queue)
    files = bench.store._queue_files
    assert len(files._open) == 10
    opened, refused = os.open, [True]

    def open_one(*given: object, **named: object) -> int:
        if refused.pop() if refused else False:
            raise OSError(errno.EMFILE, "Too many open files")
        return opened(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", open_one)
    bench.put(b"one more", queue=10)
    assert bench.bodies(queue=10) == [b"one more"]
    assert len(files._open) == 6


@pytest.mark.parametrize("number", SHORTAGES)
def test_the_systems_own_errors_become_one_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    files = OsFiles()
    for use in (files.open, files.sync_directory, files.lock):
        with pytest.raises(OutOfFiles, match="no file can be opened") as caught:
            use(tmp_path)
        assert caught.value.errno == number
        assert "ulimit -n" in caught.value.remedy
