"""Consume queues: for each queue of a topic, the list of its messages in the log.

An entry is 20 bytes, RocketMQ's 8/4/8. Files hold a fixed number of entries and are named by the
byte offset of their first one. Entries whose record retention took stay countable: offsets never
restart. At most `open_files_max` files are open at once over all queues.
"""

import struct
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from engine.store.files import File, Files

ENTRY = struct.Struct(">qiq")  # position in the log, size in bytes, tag hash
assert ENTRY.size == 20
FILLER_BYTES = 0x7FFFFFFF  # the size of an entry that stands for a record which is not known
FILL_COUNT_MAX = 100_000
PROBE_BYTES = 64 * 1024
PAGE_BYTES = 4096
HEAD_ENTRIES = 200
NAME_DIGITS = 20


class QueueId(NamedTuple):
    """One queue of a topic."""

    topic: str
    queue: int


class Entry(NamedTuple):
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


_to_entry = partial(tuple.__new__, Entry)


@lru_cache(maxsize=512)
def entries_layout(count: int) -> struct.Struct:
    """`count` entries in one go."""
    return struct.Struct(">" + ENTRY.format[1:] * count)


class QueueFiles:
    """Opens consume queue files on demand and closes the least used beyond the limit."""

    def __init__(self, files: Files, root: Path, file_entries: int, open_max: int) -> None:
        self.files = files
        self.root = root
        self.file_bytes = file_entries * ENTRY.size
        self._open_max = open_max
        self._open: OrderedDict[tuple[QueueId, int], File] = OrderedDict()
        self._unsynced: dict[tuple[QueueId, int], None] = {}
        self._named: set[tuple[QueueId, int]] = set()  # files whose names are on the disk

    def get(self, queue: QueueId, base: int, *, create: bool = False) -> File | None:
        """The file of `queue` that starts at byte `base`; None when it is not there."""
        key = (queue, base)
        file = self._open.get(key)
        if file is None:
            file = self._open_file(key, create=create)
            if file is None:
                return None
            self._open[key] = file
            if len(self._open) > self._open_max:
                _, oldest = self._open.popitem(last=False)
                oldest.close()
        else:
            self._open.move_to_end(key)
        return file

    def mark_unsynced(self, queue: QueueId, base: int) -> None:
        self._unsynced[queue, base] = None

    def take_unsynced(self) -> "Unsynced":
        """What changed; the caller syncs it, or gives it back."""
        keys = list(self._unsynced)
        unnamed = [key for key in keys if key not in self._named]
        directories = {self.directory(queue): None for queue, _ in unnamed}
        directories |= {directory.parent: None for directory in list(directories)}
        self._unsynced = {}
        self._named.update(unnamed)
        return Unsynced(keys, [*directories, self.root] if directories else [])

    def give_back(self, unsynced: "Unsynced") -> None:
        """It could not be synced: the next who takes has to do it."""
        self._unsynced.update(dict.fromkeys(unsynced.keys))
        self._named.difference_update(unsynced.keys)

    def sync(self, unsynced: "Unsynced") -> None:
        """Bring these files to disk with descriptors of its own: safe off the owner's thread."""
        for directory in unsynced.directories:
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

    def path(self, queue: QueueId, base: int) -> Path:
        return self.directory(queue) / f"{base:0{NAME_DIGITS}d}"

    def directory(self, queue: QueueId) -> Path:
        return self.root / queue.topic / str(queue.queue)

    def bases(self, queue: QueueId) -> list[int]:
        """First bytes of the files that there are of a queue, ascending."""
        names = self.files.names(self.directory(queue))
        return [int(name) for name in names if len(name) == NAME_DIGITS and name.isdigit()]

    def forget_file(self, queue: QueueId, base: int) -> None:
        """Close one file that goes away."""
        file = self._open.pop((queue, base), None)
        if file is not None:
            file.close()
        self._unsynced.pop((queue, base), None)
        self._named.discard((queue, base))

    def forget(self, queue: QueueId) -> None:
        """Close what is open of a queue whose files go away."""
        for key in [key for key in self._open if key[0] == queue]:
            self._open.pop(key).close()
        for key in [key for key in self._unsynced if key[0] == queue]:
            del self._unsynced[key]
        self._named = {key for key in self._named if key[0] != queue}

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def _open_file(self, key: tuple[QueueId, int], *, create: bool) -> File | None:
        path = self.path(*key)
        if not create:
            try:
                return self.files.open(path)
            except FileNotFoundError:
                return None
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
    """Queue files with changes, and directories with new names, that no sync covered yet."""

    keys: list[tuple[QueueId, int]]
    directories: list[Path]


class ConsumeQueue:
    """One queue: `next_offset` is given to the next message, `visible` is one past the readable.

    The two differ only while messages wait for their flush.
    """

    __slots__ = (
        "_files",
        "_first_base",
        "_last_for",
        "_last_ms",
        "_min_for",
        "_min_offset",
        "id",
        "is_gone",
        "next_offset",
        "visible",
    )

    def __init__(self, files: QueueFiles, queue: QueueId, *, oldest: int = 0, end: int = 0) -> None:
        self._files = files
        self.id = queue
        self.visible = end
        self.next_offset = end
        self.is_gone = False  # its topic was deleted: nothing may bring its files back
        self._min_offset = oldest
        self._min_for = 0
        self._first_base = -1  # of the oldest file; below 0: not looked for yet
        self._last_ms: int | None = None
        self._last_for = -1

    def append(self, data: bytes) -> None:
        """Make the next offsets readable, whose packed entries are `data`; a write per file."""
        at = self.visible * ENTRY.size
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
        self.visible = at // ENTRY.size
        if self.next_offset < self.visible:
            self.next_offset = self.visible

    def read(self, offset: int, count_max: int) -> list[Entry]:
        """Readable entries from `offset` on, at most `count_max`; fewer where a file is gone."""
        count = min(count_max, self.visible - offset)
        if count <= 0:
            return []
        at, end = offset * ENTRY.size, (offset + count) * ENTRY.size
        data = b""
        while at < end:
            base = at - at % self._files.file_bytes
            part = self._part(base, at, min(end, base + self._files.file_bytes) - at)
            data = data + part if data else part
            at += len(part)
            if at < end and at < base + self._files.file_bytes:
                break
        count = len(data) // ENTRY.size
        fields = entries_layout(count).unpack_from(data)
        columns = zip(
            range(offset, offset + count), fields[0::3], fields[1::3], fields[2::3], strict=True
        )
        return list(map(_to_entry, columns))

    def entry(self, offset: int) -> Entry | None:
        entries = self.read(offset, 1)
        return entries[0] if entries else None

    def first(self) -> Entry | None:
        """The oldest entry that there is a file for."""
        return self.entry(self._min_offset)

    def min_offset(self, log_oldest: int) -> int:
        """The first offset whose record the log still keeps; `visible` when none is."""
        if self._min_for != log_oldest:
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

    def last_stored_ms(self, stored_ms_at: Callable[[Entry], int | None]) -> int | None:
        """When the last readable message was stored; asks once for as long as it is the last."""
        if self._last_for != self.visible:
            last = self.entry(self.visible - 1) if self.visible else None
            self._last_ms = None if last is None else stored_ms_at(last)
            self._last_for = self.visible
        return self._last_ms

    def first_where(self, holds: Callable[[Entry], bool], low: int) -> int:
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
        """Find both ends from the files alone: the written entries are a prefix of the last."""
        names = self._files.bases(self.id)
        if not names:
            return
        self._min_offset = names[0] // ENTRY.size
        per_file = self._files.file_bytes // ENTRY.size
        first = names[-1] // ENTRY.size
        self.visible = first + per_file
        low, high = first, first + per_file
        head = self.read(first, HEAD_ENTRIES)  # one read finds the end of most queues
        if head and not head[-1].size_bytes:
            high = first + len(head) - 1
        while low < high:
            middle = (low + high) // 2
            known = middle < first + len(head)
            entry = head[middle - first] if known else self.entry(middle)
            if entry is not None and entry.size_bytes > 0:
                low = middle + 1
            else:
                high = middle
        self.visible = self.next_offset = low

    def truncate(self, log_end: int) -> None:
        """Drop the entries whose record begins at or past `log_end`, and what was never written.

        What a power loss left of entries behind the end goes as well: at the next recovery it
        would pass for entries.
        """

        def is_past(entry: Entry) -> bool:
            return entry.position >= log_end or entry.size_bytes == 0

        def is_torn(offset: int) -> bool:
            last, before = self.entry(offset), self.entry(offset - 1)
            if last is None or is_past(last):
                return True
            if offset == self._min_offset or before is None:
                return False
            return is_past(before) or before.position > last.position

        end = self.visible
        self.visible = self.first_where(is_past, self._min_offset)
        while self.visible > self._min_offset and is_torn(self.visible - 1):
            self.visible -= 1
        self.next_offset = self.visible
        at = self.visible * ENTRY.size
        base = at - at % self._files.file_bytes
        if self.visible < end or self._has_more(base, at):
            self._cut(at, end * ENTRY.size)

    def fill_to(self, offset: int, position: int) -> None:
        """Entries without a record up to `offset`, whose record lies at `position`."""
        missing = offset - self.visible
        if 0 < missing <= FILL_COUNT_MAX:
            self.append(ENTRY.pack(position, FILLER_BYTES, 0) * missing)
        elif missing > 0:
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

    def _has_more(self, base: int, at: int) -> bool:
        """Whether anything but zeros follows soon; holes, which most files are, are not read."""
        file = self._files.get(self.id, base)
        at, end = at - base, at - base + PROBE_BYTES
        while file is not None and (at := file.next_data(at)) < end:
            page_end = at - at % PAGE_BYTES + PAGE_BYTES
            data = file.pread(page_end - at, at)
            if data.count(0) < len(data):
                return True
            at = page_end
        return False

    def _part(self, base: int, at: int, size_bytes: int) -> bytes:
        file = self._files.get(self.id, base)
        return b"" if file is None else file.pread(size_bytes, at - base)
