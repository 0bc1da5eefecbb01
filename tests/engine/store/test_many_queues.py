"""A start with many queues: what it opens and syncs, and how many files stay open."""

from collections import Counter
from pathlib import Path

import pytest

from engine.broker import Broker, TopicConfig
from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.message import Message
from engine.store.consume_queue import ConsumeQueue, QueueId
from engine.store.files import File, OsFiles
from engine.store.pool import InlinePool

TOPICS, QUEUES = 25, 8
OTHERS = 40  # files beside those of queues: log, index, journal, lock, those of the process


class CountingFiles(OsFiles):
    """The machine's files, which count how often each is opened."""

    def __init__(self) -> None:
        self.opened: Counter[Path] = Counter()

    def open(self, path: Path, *, create: bool = False) -> File:
        self.opened[path] += 1
        return super().open(path, create=create)


def start(data: Path, files: OsFiles, **changes: float) -> Broker:
    config = EngineConfig(data=data, disk_free_min_bytes=0, segment_bytes=1 << 20, **changes)
    broker = Broker(config, clock=ManualClock(), pool=InlinePool(), files=files)
    broker.start()
    return broker


def fill(broker: Broker, topics: int) -> None:
    for number in range(topics):
        broker.create_topic(TopicConfig(f"t{number}", read_queues=QUEUES, write_queues=QUEUES))
        broker.send([Message(f"t{number}", b"x", queue=queue) for queue in range(QUEUES)])


def kill(broker: Broker) -> None:
    """As a killed process leaves it: nothing is flushed, and no mark is written."""
    broker._store.close()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def ends(broker: Broker) -> set[int]:
    names = [f"t{number}" for number in range(TOPICS)]
    return {queue.max_offset for name in names for queue in broker.topic_stats(name).queues}


def test_a_start_after_a_kill_opens_each_queue_once_and_cuts_none(tmp_path: Path) -> None:
    broker = start(tmp_path, OsFiles(), checkpoint_interval_s=1.0)
    fill(broker, TOPICS)
    broker.tick()  # moves the checkpoint on
    kill(broker)
    files = CountingFiles()
    broker = start(tmp_path, files)
    queues = [count for path, count in files.opened.items() if "consumequeue" in path.parts]
    assert queues == [1] * (TOPICS * QUEUES)
    assert ends(broker) == {1}
    broker.stop()


def test_entries_that_recovery_writes_again_are_not_cut_off_before(
    tmp_path: Path, monkeypatch
) -> None:
    broker = start(tmp_path, OsFiles())
    fill(broker, TOPICS)  # no checkpoint: all of it is dispatched again
    kill(broker)
    cut: list[QueueId] = []
    monkeypatch.setattr(ConsumeQueue, "_cut", lambda queue, at, end: cut.append(queue.id))
    broker = start(tmp_path, OsFiles())
    assert cut == []
    assert ends(broker) == {1}
    kill(broker)


def test_open_files_at_rest_are_bounded_however_many_queues_were_used(tmp_path: Path) -> None:
    before = open_files()
    broker = start(tmp_path, OsFiles(), open_files_max=100)
    fill(broker, 10_000 // QUEUES)
    for number in range(10_000 // QUEUES):
        assert broker.pull(f"t{number}", 7, 0).messages
    broker.tick()
    assert 100 <= open_files() - before <= 100 + OTHERS
    kill(broker)


def test_a_start_without_a_checkpoint_opens_each_queue_once_and_writes_none(
    tmp_path: Path,
) -> None:
    broker = start(tmp_path, OsFiles())
    fill(broker, TOPICS)
    kill(broker)
    (tmp_path / "checkpoint").unlink()
    written = {
        path: path.stat().st_mtime_ns
        for path in (tmp_path / "consumequeue").rglob("*")
        if path.is_file()
    }
    assert len(written) == TOPICS * QUEUES
    files = CountingFiles()
    broker = start(tmp_path, files, open_files_max=10)
    assert {files.opened[path] for path in written} == {1}
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert ends(broker) == {1}
    files.opened.clear()
    broker._store.begin_checkpoint(lambda: None)  # syncs them: nobody knows whether that was done
    assert {files.opened[path] for path in written} == {1}
    kill(broker)


def test_a_start_without_a_checkpoint_replaces_an_entry_that_is_not_the_records(
    tmp_path: Path,
) -> None:
    broker = start(tmp_path, OsFiles())
    broker.create_topic(TopicConfig("t", read_queues=1, write_queues=1))
    for number in range(30):
        broker.send([Message("t", b"%d" % number)])
    kill(broker)
    (tmp_path / "checkpoint").unlink()
    path = tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}"
    whole = path.read_bytes()
    for at in (0, 4, 12, 20 * 7 + 3, 20 * 23, 20 * 24, 20 * 29 + 19):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        broker = start(tmp_path, OsFiles())
        assert path.read_bytes() == whole, at
        kill(broker)
        (tmp_path / "checkpoint").unlink()


@pytest.mark.parametrize("offset", [0, 1, 13, 28])
def test_an_entry_in_the_middle_that_was_zeroed_is_there_again_after_a_kill(
    tmp_path: Path, offset: int
) -> None:
    broker = start(tmp_path, OsFiles(), checkpoint_interval_s=1.0)
    broker.create_topic(TopicConfig("t", read_queues=1, write_queues=1))
    for number in range(30):
        broker.send([Message("t", b"%d" % number)])
    broker.tick()  # moves the checkpoint on
    kill(broker)
    path = tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}"
    whole = path.read_bytes()
    path.write_bytes(whole[: offset * 20] + bytes(20) + whole[offset * 20 + 20 :])
    broker = start(tmp_path, OsFiles())
    assert path.read_bytes() == whole
    assert broker.health().damages
    kill(broker)
