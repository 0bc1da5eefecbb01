"""Checking a store: every record, and that every queue entry points at its own record.

Reads only, takes no lock, so that a running server's store may be checked too: what is written
behind the end found at the beginning is left for the next time.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from engine.errors import NotFound
from engine.store.commit_log import NAME_DIGITS, CommitLog
from engine.store.consume_queue import ENTRY, ConsumeQueue, QueueFiles, QueueId
from engine.store.files import Files
from engine.store.recovery import Damage, Scan

FAULTS_MAX = 1000
PROGRESS_EVERY = 20_000
ENTRIES_AT_ONCE = 10_000


class Fault(msgspec.Struct, frozen=True):
    """Something that does not agree: where, and in what way."""

    where: str
    detail: str


class Report(msgspec.Struct):
    """What a check found; at most 1,000 faults are listed, all are counted."""

    records: int = 0
    bytes: int = 0
    queues: int = 0
    entries: int = 0
    faults: list[Fault] = []
    fault_count: int = 0

    @property
    def is_sound(self) -> bool:
        return self.fault_count == 0

    def add(self, where: str, detail: str) -> None:
        self.fault_count += 1
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(Fault(where, detail))


def verify_store(
    files: Files, root: Path, *, progress: Callable[[int], None] | None = None
) -> Report:
    """Check the store under `root`; `progress` is told the bytes checked now and then.

    NotFound when there is no store. Takes about a second for 100,000 messages.
    """
    names = [n for n in files.names(root / "commitlog") if len(n) == NAME_DIGITS and n.isdigit()]
    if not names:
        raise NotFound(
            f"there is no commit log under {root}",
            field="data",
            remedy="name the data directory of a server that has stored something",
        )
    first = files.open(root / "commitlog" / names[0])
    segment_bytes = first.size()
    first.close()
    log = CommitLog(files, root / "commitlog", segment_bytes)
    log.open()
    try:
        report = Report()
        log.written = log.bases()[-1] + segment_bytes
        places = _check_records(log, report, progress)
        _check_queues(files, root, log, places, report)
    finally:
        log.close()
    return report


def _check_records(
    log: CommitLog, report: Report, progress: Callable[[int], None] | None
) -> dict[tuple[str, int], tuple[int, int]]:
    """Walk the log; returns, for each queue, its first and last offset found in it."""
    scan = Scan(log, log.oldest, log.written)
    seen: dict[tuple[str, int], tuple[int, int]] = {}
    for message in scan.records():
        report.records += 1
        key = (message.topic, message.queue)
        first, _ = seen.get(key, (message.offset, 0))
        seen[key] = (first, message.offset)
        if progress is not None and report.records % PROGRESS_EVERY == 0:
            progress(message.position - log.oldest)
    report.bytes = scan.end - log.oldest
    for damage in scan.damages:
        report.add(_stretch(damage), damage.detail)
    return seen


def _check_queues(
    files: Files,
    root: Path,
    log: CommitLog,
    seen: dict[tuple[str, int], tuple[int, int]],
    report: Report,
) -> None:
    queue_root = root / "consumequeue"
    for topic in files.names(queue_root):
        for name in filter(str.isdigit, files.names(queue_root / topic)):
            entries = _file_entries(files, queue_root / topic / name)
            queue = ConsumeQueue(
                QueueFiles(files, queue_root, entries, open_max=4), QueueId(topic, int(name))
            )
            queue.recover()
            report.queues += 1
            _check_queue(queue, log, report)
            last = seen.get((topic, int(name)), (0, -1))[1]
            if last >= queue.visible:
                report.add(f"{topic}/{name}", f"offset {last} is in the log but not in the queue")


def _check_queue(queue: ConsumeQueue, log: CommitLog, report: Report) -> None:
    offset = queue.min_offset(log.oldest)
    while entries := queue.read(offset, ENTRIES_AT_ONCE):
        for entry in entries:
            if entry.position >= log.written:  # in a segment that a running server began since
                return
            report.entries += 1
            head = log.read(entry.position, 40)
            if len(head) < 40 or int.from_bytes(head[:4], "big") != entry.size_bytes:
                report.add(
                    f"{queue.id.topic}/{queue.id.queue}@{entry.offset}",
                    f"no record of {entry.size_bytes} bytes lies at {entry.position}",
                )
            elif (stated := int.from_bytes(head[20:28], "big")) != entry.offset:
                report.add(
                    f"{queue.id.topic}/{queue.id.queue}@{entry.offset}",
                    f"the record at {entry.position} says it is offset {stated}",
                )
        offset = entries[-1].offset + 1


def _file_entries(files: Files, directory: Path) -> int:
    names = files.names(directory)
    if not names:
        return 1
    file = files.open(directory / names[0])
    try:
        return max(1, file.size() // ENTRY.size)
    finally:
        file.close()


def _stretch(damage: Damage) -> str:
    return f"log {damage.start}..{damage.end}"
