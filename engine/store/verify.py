"""Checking a store: every record, that it has its queue entry and that this points at it, and every
file beside them.

Reads only, takes no lock, so that a running server's store may be checked too: what is written
behind the end found at the beginning is left for the next time.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from engine.errors import Corrupt, NotFound
from engine.message import StoredMessage
from engine.store.commit_log import NAME_DIGITS, CommitLog
from engine.store.consume_queue import ENTRY, ConsumeQueue, QueueEntry, QueueFiles, QueueId
from engine.store.damage import Damage
from engine.store.decoding import decode
from engine.store.entry_codes import EntryCodes
from engine.store.files import Files
from engine.store.journal_entries import JournalFrame
from engine.store.record import BLANK_BYTES_MIN, HEAD_BYTES_MAX, place_in
from engine.store.recovery import LogScan
from engine.store.sealed_files import SealedFiles
from engine.store.verify_index import check_index
from engine.store.verify_progress import ProgressCheck, check_marks, set_aside_count

FAULTS_MAX = 1000
PROGRESS_EVERY = 20_000
ENTRIES_AT_ONCE = 10_000
BEHIND_BYTES = 64 * 1024  # behind the last whole record: anything there is none
PATIENCE_S = (0.1, 0.4, 1.5)  # in all, for a server that has yet to make a record readable
TAGS_ALONE = EntryCodes({}, {})
OPEN_MAX = 16  # segments
INDEX_SLOTS, INDEX_ITEMS = 500_000, 1_000_000

Begins = Callable[[Sequence[JournalFrame]], dict[str, int]]


class Fault(msgspec.Struct, frozen=True):
    """Something that does not agree: where, and in what way."""

    where: str
    detail: str


class VerifyReport(msgspec.Struct):
    """Result of a check; at most 1,000 faults are listed, all are counted."""

    records: int = 0
    bytes: int = 0
    queues: int = 0
    entries: int = 0
    files: int = 0  # read beside log and queues
    set_aside: int = 0  # copies of damaged bytes that wait to be looked at
    faults: list[Fault] = []
    fault_count: int = 0
    notes: list[str] = []  # what another broker left, and is no fault; at most 1,000

    @property
    def is_sound(self) -> bool:
        return self.fault_count == 0

    def add(self, where: str, detail: str) -> None:
        self.fault_count += 1
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(Fault(where, detail))

    def note(self, text: str) -> None:
        if len(self.notes) < FAULTS_MAX:
            self.notes.append(text)


class VerifyTally(msgspec.Struct):
    """Records of one queue in the log: their number, and the last offset."""

    offsets: int = 0
    last: int = -1


class ExpectedEntries(msgspec.Struct):
    """What the queues should hold, by the records that were found."""

    begins: dict[str, int] | None  # by topic: the position from which on its records count
    floors: dict[tuple[str, int], int]  # the first offset that a queue has a file for
    tallies: dict[tuple[str, int], VerifyTally] = {}

    def add(self, message: StoredMessage) -> None:
        key = (message.topic, message.queue)
        if self.begins is None:
            is_wanted = key in self.floors
        else:
            is_wanted = message.position >= self.begins.get(message.topic, NEVER)
        if is_wanted and message.offset >= self.floors.get(key, 0):
            tally = self.tallies.setdefault(key, VerifyTally())
            tally.offsets += message.offset != tally.last
            tally.last = message.offset


NEVER = 1 << 62


def verify_store(
    files: Files,
    root: Path,
    *,
    progress: Callable[[int], None] | None = None,
    begins_in: Begins | None = None,
    look_at: Callable[[StoredMessage, VerifyReport], None] | None = None,
    codes: EntryCodes = TAGS_ALONE,
    index_slots: int = INDEX_SLOTS,
    index_items: int = INDEX_ITEMS,
    patience_s: Sequence[float] = PATIENCE_S,
) -> VerifyReport:
    """Check the store under `root`; `progress` is called with the bytes checked now and then.

    `begins_in` says from the journal's frames that count, in order, which topics there are and from
    which position on; without it those count that have queues, and messages are not counted.
    `look_at` is shown every record, `codes` knows the third field of entries.
    NotFound when there is no store. Takes about two seconds for 50,000 messages.
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
    sealed = SealedFiles(files, OPEN_MAX)
    log = CommitLog(files, root / "commitlog", segment_bytes, sealed)
    report = VerifyReport()
    journal = ProgressCheck(files, root, report.add)
    journal.check()
    report.files = journal.file_count
    report.set_aside = set_aside_count(files, root)
    begins = None if begins_in is None else begins_in(list(journal.frames()))
    log.open()
    try:
        log.written = log.bases()[-1] + segment_bytes
        marked = check_marks(files, root, log.written, report.add)
        log.crc_range = marked.crc_range
        if marked.is_foreign:
            report.note("another broker has written here since KiteMQ did")
        expected = ExpectedEntries(begins, _floors(files, root))
        for topic in sorted({topic for topic, _ in expected.floors}.difference(begins or ())):
            if begins is not None:
                report.note(f"consumequeue/{topic}: a topic that the journal does not know")
        _check_records(log, report, expected, progress, look_at)
        _check_queues(
            files=files,
            root=root,
            log=log,
            expected=expected,
            report=report,
            codes=codes,
            patience_s=patience_s,
        )
        report.files += check_index(
            files,
            root,
            log,
            report.add,
            sealed=sealed,
            slots=index_slots,
            items=index_items,
            newest=None if marked.is_foreign else marked.checkpoint.index_file,
        )
    finally:
        log.close()
        sealed.close()
    return report


def _floors(files: Files, root: Path) -> dict[tuple[str, int], int]:
    """Of each queue: the first offset that it has a file for."""
    floors: dict[tuple[str, int], int] = {}
    queue_root = root / "consumequeue"
    for topic in files.names(queue_root):
        for name in filter(str.isdigit, files.names(queue_root / topic)):
            bases = [int(each) for each in files.names(queue_root / topic / name) if each.isdigit()]
            floors[topic, int(name)] = min(bases, default=0) // ENTRY.size
    return floors


def _check_records(
    log: CommitLog,
    report: VerifyReport,
    expected: ExpectedEntries,
    progress: Callable[[int], None] | None,
    look_at: Callable[[StoredMessage, VerifyReport], None] | None,
) -> None:
    """Walk the log, and note what the queues should have of it."""
    scan = LogScan(log, log.oldest, log.written, log.crc_range)
    for message in scan.records():
        report.records += 1
        expected.add(message)
        if look_at is not None:
            look_at(message, report)
        if progress is not None and report.records % PROGRESS_EVERY == 0:
            progress(message.position - log.oldest)
    log.forget_deleted()  # retention of a running server took them meanwhile
    report.bytes = scan.end - log.oldest
    for damage in scan.damages:
        if damage.end > log.oldest:
            report.add(_stretch(damage), damage.detail)
    for hole in scan.holes:
        report.note(f"{_stretch(hole)}: {hole.detail}")
    behind = log.tail(scan.end, BEHIND_BYTES)
    # A running server may have begun a record: by now it is whole.
    if behind and next(LogScan(log, scan.end, log.written, log.crc_range).records(), None) is None:
        detail = scan.detail if len(behind) > BLANK_BYTES_MIN else "there are bytes behind the end"
        report.add(f"log {scan.end}..{scan.end + len(behind)}", detail)


def _check_queues(
    files: Files,
    root: Path,
    log: CommitLog,
    expected: ExpectedEntries,
    report: VerifyReport,
    codes: EntryCodes,
    patience_s: Sequence[float],
) -> None:
    queue_root = root / "consumequeue"
    waits_s = list(patience_s) if files.exists(root / "abort") else []
    keys = set(_floors(files, root)) | set(expected.tallies)
    for topic, number in sorted(keys):
        entries = _file_entries(files, queue_root / topic / str(number))
        queue = ConsumeQueue(
            QueueFiles(files, queue_root, entries, open_max=4), QueueId(topic, number)
        )
        tally = expected.tallies.get((topic, number), VerifyTally())
        queue.recover()
        while tally.last >= queue.visible and waits_s:
            time.sleep(waits_s.pop(0))  # it is stored, and not readable yet
            queue.recover()
        report.queues += 1
        entry_count = _check_queue(queue, log, report, codes, tally.last)
        if tally.last >= queue.visible:
            detail = f"offset {tally.last} is in the log but not in the queue"
            report.add(f"{topic}/{number}", detail)
        elif expected.begins is not None and entry_count < tally.offsets:
            detail = f"the log has {tally.offsets} messages, the queue {entry_count}"
            report.add(f"{topic}/{number}", detail)


def _check_queue(
    queue: ConsumeQueue, log: CommitLog, report: VerifyReport, codes: EntryCodes, last: int
) -> int:
    """Compare every entry with its record; how many there are up to offset `last`."""
    offset, entry_count = queue.min_offset(log.oldest), 0
    topic, number = queue.id
    while entries := queue.read(offset, ENTRIES_AT_ONCE):
        for entry in entries:
            if entry.offset > last and entry.position >= log.written:
                return entry_count  # in a segment that a running server began since
            report.entries += 1
            fault = _fault(queue.id, entry, log, codes)
            if fault and not _is_expired(entry.position, log):
                report.add(f"{topic}/{number}@{entry.offset}", fault)
            entry_count += entry.offset <= last
        offset = entries[-1].offset + 1
    return entry_count


def _is_expired(position: int, log: CommitLog) -> bool:
    """Whether retention of a running server took what lay there."""
    log.forget_deleted()
    return position < log.oldest


def _fault(queue: QueueId, entry: QueueEntry, log: CommitLog, codes: EntryCodes) -> str:
    """In what way an entry does not fit its record; empty where it does."""
    place = place_in(log.read(entry.position, HEAD_BYTES_MAX))
    if place is None or place[0] != entry.size_bytes or place[3] != entry.position:
        return f"no record of {entry.size_bytes} bytes lies at {entry.position}"
    if place[2] != entry.offset:
        return f"the record at {entry.position} says it is offset {place[2]}"
    if place[1] != queue.queue:
        return f"the record at {entry.position} says it is of queue {place[1]}"
    try:
        message = decode(log.read(entry.position, entry.size_bytes), crc_range=log.crc_range)
    except Corrupt:
        return ""  # reported with the log
    if message.topic != queue.topic:
        return f"the record at {entry.position} says it is of topic {message.topic}"
    if not codes.fits(message, entry.tag_code):
        right = codes.code_of(message)
        return f"its tag hash or due time is {entry.tag_code}, by its record it is {right}"
    return ""


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
