"""Consume queues: for each queue of a topic, the list of its messages in the log.

An entry is 20 bytes, RocketMQ's 8/4/8. Files hold a fixed number of entries and are named by the
byte offset of their first one. Entries whose record retention took stay countable: offsets never
restart. At most `open_files_max` files are open at once over all queues.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from engine.store.files import File, Files
from engine.store.open_files import OpenFiles

ENTRY = struct.Struct(">qiq")  # position in the log, size in bytes, tag hash
assert ENTRY.size == 20
FILLER_BYTES = 0x7FFFFFFF  # the size of an entry that stands for a record which is not known
FILL_COUNT_MAX = 100_000
PROBE_BYTES = 64 * 1024
PROBE_COUNT = PROBE_BYTES // ENTRY.size
PAGE_BYTES = 4096
ZEROS = bytes(PAGE_BYTES)
STALE_BYTES_MAX = 24 * ENTRY.size  # of a queue, kept by recovery to compare
ITER_COUNT = 5000
NAME_DIGITS = 20


class QueueId(NamedTuple):
    """One queue of a topic."""

    topic: str
    queue: int


class QueueEntry(NamedTuple):
    """A message's place: `offset` in its queue, `position` and `size_bytes` in the log.

    `tag_code` is the Java hash of its tag; in the delay-level topic it is the due time in ms.
    Where recovery found no record, an entry without one keeps the place.
    """

    offset: int
    position: int
    size_bytes: int
    tag_code: int

    @property
    def has_record(self) -> bool:
        return self.size_bytes != FILLER_BYTES


_to_entry = partial(tuple.__new__, QueueEntry)


@lru_cache(maxsize=512)
def entries_layout(count: int) -> struct.Struct:
    """`count` entries in one go."""
    return struct.Struct(">" + ENTRY.format[1:] * count)


class QueueFiles(OpenFiles[tuple[QueueId, int]]):
    """Opens consume queue files on demand and closes the least used beyond the limit."""

    def __init__(self, files: Files, root: Path, file_entries: int, open_max: int) -> None:
        super().__init__(open_max)
        self.files = files
        self.root = root
        self.file_bytes = file_entries * ENTRY.size
        self._unsynced: dict[tuple[QueueId, int], None] = {}
        self._durable_names: set[tuple[QueueId, int]] = set()  # files whose names are on the disk
        self._last_directory: tuple[QueueId, Path] | None = None  # a start asks for each twice

    def get(self, queue: QueueId, base: int, *, create: bool = False) -> File | None:
        """The file of `queue` that starts at byte `base`; None when it is not there."""
        key = (queue, base)
        file = self._open.get(key)
        if file is None:
            file = self._make_room(partial(self._open_file, key, create=create))
            if file is not None:
                self.put(key, file)
        else:
            self._open.move_to_end(key)
        return file

    def mark_unsynced(self, queue: QueueId, base: int) -> None:
        self._unsynced[queue, base] = None

    def take_unsynced(self) -> "Unsynced":
        """What changed; the caller syncs it, or gives it back."""
        keys = list(self._unsynced)
        unnamed = [key for key in keys if key not in self._durable_names]
        self._unsynced = {}
        self._durable_names.update(unnamed)
        return Unsynced(keys, unnamed)

    def give_back(self, unsynced: "Unsynced") -> None:
        """It could not be synced: the next caller of `take_unsynced` has to do it."""
        self._unsynced.update(dict.fromkeys(unsynced.keys))
        self._durable_names.difference_update(unsynced.keys)

    def sync(self, unsynced: "Unsynced") -> None:
        """Bring these files to disk with descriptors of its own: safe off the owner's thread."""
        for directory in self._directories(unsynced.unnamed):
            with suppress(FileNotFoundError):  # its topic was deleted meanwhile
                self.files.sync_directory(directory)
        for queue, base in unsynced.keys:
            path = self.path(queue, base)
            try:
                file = self.files.open(path)
            except FileNotFoundError:
                continue  # its topic was deleted meanwhile
            try:
                file.sync()
            finally:
                file.close()

    def _directories(self, unnamed: list[tuple[QueueId, int]]) -> list[Path]:
        """Where new names stand, those of the directories included; the deepest come first."""
        queues = {self.directory(queue): None for queue, _ in unnamed}
        topics = {directory.parent: None for directory in queues}
        return [*queues, *topics, self.root] if queues else []

    def path(self, queue: QueueId, base: int) -> Path:
        return self.directory(queue) / f"{base:0{NAME_DIGITS}d}"

    def directory(self, queue: QueueId) -> Path:
        last = self._last_directory
        if last is None or last[0] != queue:
            last = self._last_directory = queue, self.root.joinpath(queue.topic, str(queue.queue))
        return last[1]

    def bases(self, queue: QueueId) -> list[int]:
        """First bytes of the files that there are of a queue, ascending."""
        names = self.files.names(self.directory(queue))
        return [int(name) for name in names if len(name) == NAME_DIGITS and name.isdigit()]

    def forget_file(self, queue: QueueId, base: int) -> None:
        """Close one file that goes away."""
        self._forget((queue, base))
        self._unsynced.pop((queue, base), None)
        self._durable_names.discard((queue, base))

    def forget(self, queue: QueueId) -> None:
        """Close what is open of a queue whose files go away."""
        for key in [key for key in self._open if key[0] == queue]:
            self._open.pop(key).close()
        for key in [key for key in self._unsynced if key[0] == queue]:
            del self._unsynced[key]
        self._durable_names = {key for key in self._durable_names if key[0] != queue}

    def _open_file(self, key: tuple[QueueId, int], *, create: bool) -> File | None:
        path = self.path(*key)
        if not create:
            try:
                return self.files.open(path)
            except FileNotFoundError:
                return None
        try:
            file = self.files.open(path, create=True)
        except FileNotFoundError:
            self.files.make_directory(path.parent)
            file = self.files.open(path, create=True)
        try:
            if file.size() < self.file_bytes:
                file.truncate(self.file_bytes)
        except OSError:
            file.close()
            raise
        return file


class Unsynced(NamedTuple):
    """Queue files with changes that no sync covered yet; `unnamed` are those with new names."""

    keys: list[tuple[QueueId, int]]
    unnamed: list[tuple[QueueId, int]]


class QueueCut(NamedTuple):
    """Entries that were dropped: up to where in the log they point.

    `is_damaged`: some of them should not have had to go, since their records lie before the cut.
    """

    claimed: int
    is_damaged: bool


NO_CUT = QueueCut(0, is_damaged=False)


class ConsumeQueue:
    """One queue: `next_offset` is given to the next message, `visible` is one past the readable.

    The two differ only while messages wait for their flush.
    """

    __slots__ = (
        "_files",
        "_first_base",
        "_head",
        "_head_first",
        "_last_for",
        "_last_ms",
        "_min_for",
        "_min_offset",
        "_stale",
        "_stale_end",
        "_unwritten",
        "id",
        "is_deleted",
        "next_offset",
        "visible",
    )

    def __init__(self, files: QueueFiles, queue: QueueId, *, oldest: int = 0, end: int = 0) -> None:
        self._files = files
        self.id = queue
        self.visible = end
        self.next_offset = end
        self.is_deleted = False  # its topic was deleted: nothing may bring its files back
        self._unwritten = (
            b""  # the newest entries, where a full disk kept recovery from writing them
        )
        self._min_offset = oldest
        self._min_for = 0
        self._first_base = -1  # of the oldest file; below 0: not looked for yet
        self._last_ms: int | None = None
        self._last_for = -1
        self._head = b""  # in recovery: the first page of the last file, which is most of them
        self._head_first = 0  # the offset with which it begins
        self._stale = b""  # in recovery: entries that lie at `visible` in its file
        self._stale_end: int | None = None  # in recovery: what lies up to there may be stale

    def append(self, data: bytes) -> None:
        """Make the next offsets readable, whose packed entries are `data`; a write per file.

        What was only kept is written first. OSError: nothing of `data` is readable.
        """
        # A single message is written at once, too. To keep its 20 bytes until a page is full was
        # tried: it saves one of the 45 to 170 us of a request, and binds every reader of the files.
        at = self.visible * ENTRY.size - len(self._unwritten)
        data = self._unwritten + data
        file_bytes = self._files.file_bytes
        while data:
            base = at - at % file_bytes
            part = data[: base + file_bytes - at]
            file = self._files.get(self.id, base, create=True)
            assert file is not None
            file.pwrite(part, at - base)
            self._files.mark_unsynced(self.id, base)
            at += len(part)
            data = data[len(part) :]
        self._unwritten = b""
        self.visible = at // ENTRY.size
        if self.next_offset < self.visible:
            self.next_offset = self.visible

    def append_again(self, data: bytes) -> None:
        """`append` in recovery: entries that lie there already are not written once more.

        They count as changed all the same: whether they were ever synced is unknown.
        """
        if self._unwritten or not self._stale.startswith(data):
            self._stale = b""
            self.append(data)
            return
        self._stale = self._stale[len(data) :]
        self._files.mark_unsynced(self.id, self.base_of(self.visible))
        self.visible += len(data) // ENTRY.size
        self.next_offset = max(self.next_offset, self.visible)

    def keep(self, data: bytes) -> None:
        """Make the next offsets readable though the disk has no room: `append` writes them."""
        self._unwritten += data
        self.visible += len(data) // ENTRY.size
        self.next_offset = max(self.next_offset, self.visible)

    def read(self, offset: int, count_max: int) -> list[QueueEntry]:
        """Readable entries from `offset` on, at most `count_max`; fewer where a file is gone."""
        data = self.read_packed(offset, count_max)
        count = len(data) // ENTRY.size
        if count == 1:
            return [QueueEntry(offset, *ENTRY.unpack(data))]
        fields = entries_layout(count).unpack_from(data)
        columns = zip(
            range(offset, offset + count), fields[0::3], fields[1::3], fields[2::3], strict=True
        )
        return list(map(_to_entry, columns))

    def read_packed(self, offset: int, count_max: int) -> bytes:
        """What `read` gives, as it lies in the files."""
        count = min(count_max, self.visible - offset)
        if count <= 0:
            return b""
        at, end = offset * ENTRY.size, (offset + count) * ENTRY.size
        data = b""
        while at < end:
            base = at - at % self._files.file_bytes
            part = self._part(base, at, min(end, base + self._files.file_bytes) - at)
            data = data + part if data else part
            at += len(part)
            if at < end and at < base + self._files.file_bytes and at != self._unwritten_from:
                break
        return data[: len(data) - len(data) % ENTRY.size]

    def entry(self, offset: int) -> QueueEntry | None:
        entries = self.read(offset, 1)
        return entries[0] if entries else None

    def base_of(self, offset: int) -> int:
        """The first byte of the file that holds the entry of `offset`."""
        return offset * ENTRY.size // self._files.file_bytes * self._files.file_bytes

    def first(self) -> QueueEntry | None:
        """The oldest entry that there is a file for."""
        return self.entry(self._min_offset)

    def min_offset(self, log_oldest: int) -> int:
        """The first offset whose record the log still keeps; `visible` when none is."""
        if self._min_for != log_oldest:
            first = self.first()
            if first is not None and first.position >= log_oldest:
                self._min_for = log_oldest  # nothing was taken: a damaged entry misleads no reader
                return self._min_offset
            self._min_offset = self.first_where(
                lambda entry: entry.position >= log_oldest, self._min_offset
            )
            self._min_for = log_oldest
        return self._min_offset

    def trim(self, offset: int) -> None:
        """What lies before `offset` is not to be read any more; never goes past the readable."""
        self._min_offset = max(self._min_offset, min(offset, self.visible))

    def take_obsolete(self, durable: int) -> list[Path]:
        """Files before the first readable offset, closed; the caller moves them away.

        At least one is left that holds an entry of a record before position `durable`, which no
        power loss takes: the queue's offsets are counted by it.
        """
        file_bytes = self._files.file_bytes
        begin = self._min_offset * ENTRY.size
        if 0 <= begin - begin % file_bytes <= self._first_base:
            return []
        bases = self._files.bases(self.id)
        if not bases:
            return []
        low = bases[0] // ENTRY.size
        lasting = self.first_where(lambda entry: entry.position >= durable, low)
        keep = min(self._min_offset, max(lasting - 1, low)) * ENTRY.size
        obsolete = [base for base in bases if base + file_bytes <= keep]
        if obsolete and not any(base <= keep < base + file_bytes for base in bases):
            obsolete.pop()  # after a gap in the offsets: the only one before it
        for base in obsolete:
            self._files.forget_file(self.id, base)
        self._first_base = bases[len(obsolete)] if len(obsolete) < len(bases) else -1
        return [self._files.path(self.id, base) for base in obsolete]

    def last_stored_ms(self, stored_ms_at: Callable[[QueueEntry], int | None]) -> int | None:
        """When the last readable message was stored; asks once for as long as it is the last."""
        if self._last_for != self.visible:
            last = self.entry(self.visible - 1) if self.visible else None
            self._last_ms = None if last is None else stored_ms_at(last)
            self._last_for = self.visible
        return self._last_ms

    def first_where(self, holds: Callable[[QueueEntry], bool], low: int) -> int:
        """The first offset from `low` on for which a test holds that holds for all after it."""
        high = self.visible
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(middle)
            if entry is not None and holds(entry):
                high = middle
            else:
                low = middle + 1
        return low

    def recover(self) -> None:
        """Find both ends from the files alone: the written entries are a prefix of the last.

        One read tells all of most queues. It is kept for `truncate`, which follows.
        """
        names = self._files.bases(self.id)
        if not names:
            return
        self._min_offset = names[0] // ENTRY.size
        per_file = self._files.file_bytes // ENTRY.size
        first = names[-1] // ENTRY.size
        self._head = self._part(names[-1], names[-1], min(PAGE_BYTES, self._files.file_bytes))
        self._head_first = first
        self.visible = first + per_file
        low, high = first, first + per_file
        known = len(self._head) // ENTRY.size
        for _, size_bytes, _ in ENTRY.iter_unpack(self._head[: known * ENTRY.size]):
            if size_bytes <= 0:
                high = low
                break
            low += 1
        while low < high:
            middle = (low + high) // 2
            if self._recovered(middle):
                low = middle + 1
            else:
                high = middle
        self.visible = self.next_offset = low

    def first_recovered(self) -> QueueEntry | None:
        """What `first` says, after `recover` and before `truncate`, mostly without a read."""
        return self._recovered_entry(self._min_offset)

    def truncate(self, log_end: int) -> "QueueCut":
        """Drop the entries whose record begins at or past `log_end`, and what was never written.

        They stay in the files until `cut_stale`: recovery mostly writes the same ones again.
        """

        def is_past(entry: QueueEntry) -> bool:
            return entry.position >= log_end or entry.size_bytes == 0

        def is_torn(offset: int) -> bool:
            last = self._recovered_entry(offset)
            if last is None or is_past(last):
                return True
            before = self._recovered_entry(offset - 1) if offset > self._min_offset else None
            return before is not None and (is_past(before) or before.position > last.position)

        end = self.visible
        if end > self._min_offset and is_torn(end - 1):
            self.visible = self.first_where(is_past, self._min_offset)
            while self.visible > self._min_offset and is_torn(self.visible - 1):
                self.visible -= 1
            self.next_offset = self.visible
        cut = NO_CUT
        if self.visible < end or self._has_more():
            at = (self.visible - self._head_first) * ENTRY.size
            if at >= 0:
                part = self._head[at : (end - self._head_first) * ENTRY.size]
                self._stale = part[: min(len(part) // ENTRY.size * ENTRY.size, STALE_BYTES_MAX)]
            cut, written_end = self._cut_entries(log_end, end + PROBE_COUNT)
            self._stale_end = max(end, written_end)
        self._head = b""
        return cut

    def cut_stale(self) -> None:
        """Zero what `truncate` dropped and nothing has replaced; the end of recovery.

        What a power loss left of entries behind the end goes as well: at the next recovery it
        would pass for entries.
        """
        end, self._stale_end, self._stale = self._stale_end, None, b""
        if end is None or self.visible == end:  # `truncate` saw that nothing follows there
            return
        if self.visible < end or self._has_more():
            self._cut(self.visible * ENTRY.size, end * ENTRY.size)

    def _cut_entries(self, log_end: int, end: int) -> tuple["QueueCut", int]:
        """What the entries from `visible` to `end`, which are to go, say of the log.

        And one past the last of them of which anything was written.
        """
        visible, claimed, is_damaged, written_end = self.visible, 0, False, 0
        self.visible = end
        offset = visible
        while (offset := self._next_data(offset)) < end:
            at = (offset * ENTRY.size) % self._files.file_bytes
            data = self.read_packed(offset, -(-(PAGE_BYTES - at % PAGE_BYTES) // ENTRY.size))
            if not data:
                break
            # Most of it was never written: a step for each of its entries would make a start slow.
            count = -(-_end_of_data(data) // ENTRY.size)
            for position, size_bytes, _ in ENTRY.iter_unpack(data[: count * ENTRY.size]):
                if 0 < size_bytes != FILLER_BYTES:
                    claimed = max(claimed, position + size_bytes)
                    is_damaged |= 0 <= position < log_end
            if count:
                written_end = offset + count
            offset += len(data) // ENTRY.size
        self.visible = visible
        return QueueCut(claimed, is_damaged), written_end

    def _next_data(self, offset: int) -> int:
        """The first entry from `offset` on that may be other than zeros, in the same file.

        Without one the next file's first; `offset` where there is no file.
        """
        base = self.base_of(offset)
        file = self._files.get(self.id, base)
        if file is None:
            return offset
        at = file.next_data(offset * ENTRY.size - base)
        return (base + min(at, self._files.file_bytes)) // ENTRY.size

    def put(self, offset: int, data: bytes) -> bytes:
        """Write packed entries over those from a readable `offset` on; returns what lay there."""
        self._min_offset = min(self._min_offset, offset)
        at, before = offset * ENTRY.size, b""
        while data:
            base = at - at % self._files.file_bytes
            part = data[: base + self._files.file_bytes - at]
            file = self._files.get(self.id, base, create=True)
            assert file is not None
            before += file.pread(len(part), at - base)
            file.pwrite(part, at - base)
            self._files.mark_unsynced(self.id, base)
            at += len(part)
            data = data[len(part) :]
        return before

    def fill_to(self, offset: int, position: int) -> None:
        """Entries without a record up to `offset`, whose record lies at `position`."""
        missing, self._stale = offset - self.visible, b""
        if 0 < missing <= FILL_COUNT_MAX:
            self.append(ENTRY.pack(position, FILLER_BYTES, 0) * missing)
        elif missing > 0:
            self.cut_stale()
            self.visible = self.next_offset = self._min_offset = offset

    def _cut(self, at: int, end: int) -> None:
        """Zeros from byte `at` on, in each file up to the one that holds byte `end`.

        On the disk at once: the next process could not tell that this one owed a sync.
        """
        file_bytes = self._files.file_bytes
        base = at - at % file_bytes
        while base <= max(at, end):
            file = self._files.get(self.id, base)
            if file is not None:
                file.truncate(max(0, at - base))
                file.truncate(file_bytes)
                file.sync()
            base += file_bytes

    def _has_more(self) -> bool:
        """Whether anything but zeros follows soon; holes, which most files are, are not read."""
        file_bytes = self._files.file_bytes
        at = self.visible * ENTRY.size
        base = at - at % file_bytes
        file = self._files.get(self.id, base)
        at, end = at - base, at - base + PROBE_BYTES
        head = self._head if base == self._head_first * ENTRY.size else b""
        if at < len(head):
            if head[at:] != ZEROS[at : len(head)]:
                return True
            at = len(head)
        while file is not None and (at := file.next_data(at)) < end:
            page_end = at - at % PAGE_BYTES + PAGE_BYTES
            data = file.pread(page_end - at, at)
            if data.count(0) < len(data):
                return True
            at = page_end
        return False

    @property
    def _unwritten_from(self) -> int:
        """The byte from which on entries are in memory only; past the end where none are."""
        return self.visible * ENTRY.size - len(self._unwritten)

    def _recovered(self, offset: int) -> bool:
        """Whether something was written at `offset`."""
        entry = self._recovered_entry(offset)
        return entry is not None and entry.size_bytes > 0

    def _recovered_entry(self, offset: int) -> QueueEntry | None:
        """The entry at `offset`, from what recovery read already where it can be."""
        at = (offset - self._head_first) * ENTRY.size
        if 0 <= at <= len(self._head) - ENTRY.size and offset < self.visible:
            return QueueEntry(offset, *ENTRY.unpack_from(self._head, at))
        return self.entry(offset)

    def _part(self, base: int, at: int, size_bytes: int) -> bytes:
        if self._unwritten:
            begin = at - self._unwritten_from
            if begin >= 0:
                return self._unwritten[begin : begin + size_bytes]
            size_bytes = min(size_bytes, -begin)
        file = self._files.get(self.id, base)
        return b"" if file is None else file.pread(size_bytes, at - base)


def _end_of_data(data: bytes) -> int:
    """One past the last byte that is no zero; of a page, faster than rstrip alone."""
    end, step = len(data), PAGE_BYTES
    while step >= ENTRY.size:
        while end >= step and data[end - step : end] == ZEROS[:step]:
            end -= step
        step //= 2
    return len(data[:end].rstrip(b"\0"))


def iter_entries(queue: ConsumeQueue, offset: int) -> Iterator[QueueEntry]:
    """Readable entries from `offset` on, as far as there are files."""
    while entries := queue.read(offset, ITER_COUNT):
        yield from entries
        offset = entries[-1].offset + 1
