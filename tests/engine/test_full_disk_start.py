"""A start on a disk without a byte of room: everything can be read, and it heals by itself."""

import errno
from pathlib import Path

import pytest

from engine.broker import Broker
from engine.errors import DiskFull, EngineError
from engine.message import Message
from engine.store.files import File, OsFile, OsFiles
from tests.engine.conftest import Engine


def refuse(path: Path | None = None) -> OSError:
    return OSError(errno.ENOSPC, "No space left on device", *([str(path)] if path else []))


class FullFile(OsFile):
    def __init__(self, files: "FullFiles", inner: File) -> None:
        super().__init__(inner._fd)  # type: ignore[attr-defined]
        self._files = files

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        if self._files.is_full:
            raise refuse()
        super().pwrite(data, position)


class FullFiles(OsFiles):
    """While `is_full` nothing new can be made, and nothing written."""

    is_full = True

    def open(self, path: Path, *, create: bool = False) -> File:
        if self.is_full and create and not path.exists():
            raise refuse(path)
        return FullFile(self, super().open(path, create=create))

    def make_directory(self, path: Path) -> None:
        if self.is_full and not path.exists():
            raise refuse(path)
        super().make_directory(path)


BODIES = [b"%d" % number for number in range(50)]


def fill(broker: Broker) -> None:
    """A bit of everything that a start takes up again."""
    broker.send([Message("orders", body, queue=0, keys=(body.decode(),)) for body in BODIES])
    broker.send([Message("later", b"timed", queue=0, delay_level=3)])
    receipts = broker.receive("g", {"orders": "*"}, count_max=20, invisible_s=60)
    broker.ack("g", [delivery.receipt for delivery in receipts[:10]])


def read(broker: Broker) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < 1000:
        result = broker.pull("orders", 0, len(found), count_max=100, bytes_max=1 << 20)
        if not result.messages:
            break
        found += [message.body for message in result.messages]
    return found


def begun_again(engine: Engine, how: str, files: OsFiles) -> Broker:
    assert engine.broker is not None
    if how == "stopped":
        engine.broker.stop()
    engine.close()
    if how == "killed before its queues were written":
        for path in (engine.root / "consumequeue" / "orders" / "0").iterdir():
            path.write_bytes(b"")
    return engine.start(files)


@pytest.mark.parametrize("how", ["stopped", "killed", "killed before its queues were written"])
def test_a_start_on_a_full_disk_reads_refuses_writes_and_heals(engine: Engine, how: str) -> None:
    fill(engine.start())
    files = FullFiles()
    broker = begun_again(engine, how, files)
    assert read(broker) == BODIES
    engine.tick()
    with pytest.raises(DiskFull):
        broker.send([Message("orders", b"refused", queue=0)])
    for _ in range(3):
        engine.tick(5.0)
    files.is_full = False
    for _ in range(3):
        engine.tick(5.0)
    assert read(broker) == BODIES
    broker.send([Message("orders", b"taken", queue=0)])
    assert read(broker) == [*BODIES, b"taken"]
    taken = broker.receive("g", {"orders": "*"}, count_max=100, invisible_s=60)
    assert len(taken) == 31, "what was acknowledged or is in flight stays so"
    broker = engine.restart()
    assert read(broker) == [*BODIES, b"taken"]
    assert broker.health().damages == []


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_second_start_on_a_full_disk_finds_what_the_first_found(engine: Engine, how: str) -> None:
    fill(engine.start())
    begun_again(engine, how, FullFiles())
    broker = begun_again(engine, "killed", FullFiles())
    assert read(broker) == BODIES
    broker = begun_again(engine, "killed", OsFiles())
    assert read(broker) == BODIES
    assert len(broker.receive("g", {"orders": "*"}, count_max=100, invisible_s=60)) >= 30


def test_an_empty_directory_on_a_full_disk_is_a_sentence(engine: Engine) -> None:
    with pytest.raises(EngineError) as caught:
        engine.start(FullFiles())
    assert "No space left" in caught.value.detail
    assert caught.value.remedy
