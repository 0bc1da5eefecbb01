"""Consume queues: for each queue of a topic, the list of its messages in the log.

An entry is 20 bytes, RocketMQ's 8/4/8. Files hold a fixed number of entries and are named by the
byte offset of their first one. Entries whose record retention took stay countable: offsets never
restart. At most `open_files_max` files are open at once over all queues.
"""

import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from engine.store.files import File, Files

ENTRY = struct.Struct(">qiq")  # position in the log, size in bytes, tag hash
assert ENTRY.size == 20
FILLER = ENTRY.pack(0, 0x7FFFFFFF, 0)  # stands for an offset whose record is not known
FILL_COUNT_MAX = 100_000
NAME_DIGITS = 20


class QueueId(NamedTuple):
    """One queue of a topic."""

    topic: str
    queue: int


class Entry(NamedTuple):
    """A message's place: `offset` in its queue, `position` and `size_bytes` in the log.

    `tag_code` is the Java hash of its tag; in the delay-level topic it is the due time in ms.
    """

    offset: int
    position: int
    size_bytes: int
    tag_code: int


class QueueFiles:
    """Opens consume queue files on demand and closes the least used beyond the limit."""

    def __init__(self, files: Files, root: Path, file_entries: int, open_max: int) -> None:
        self.files = files
        self.root = root
        self.file_bytes = file_entries * ENTRY.size
        self._open_max = open_max
        self._open: OrderedDict[tuple[QueueId, int], File] = OrderedDict()
        self._unsynced: dict[tuple[QueueId, int], None] = {}

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

    def take_unsynced(self) -> list[tuple[QueueId, int]]:
        keys = list(self._unsynced)
        self._unsynced = {}
        return keys

    def sync(self, keys: Sequence[tuple[QueueId, int]]) -> None:
        """Bring these files to disk with descriptors of its own: safe off the owner's thread."""
        for queue, base in keys:
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

    def forget(self, queue: QueueId) -> None:
        """Close what is open of a queue whose files go away."""
        for key in [key for key in self._open if key[0] == queue]:
            self._open.pop(key).close()
        for key in [key for key in self._unsynced if key[0] == queue]:
            del self._unsynced[key]

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
        if file.size() < self.file_bytes:
            file.truncate(self.file_bytes)
        return file


class ConsumeQueue:
    """One queue: `next_offset` is given to the next message, `visible` is one past the readable.

    The two differ only while messages wait for their flush.
    """

    __slots__ = ("_files", "_min_for", "_min_offset", "id", "next_offset", "visible")

    def __init__(self, files: QueueFiles, queue: QueueId, *, oldest: int = 0, end: int = 0) -> None:
        self._files = files
        self.id = queue
        self.visible = end
        self.next_offset = end
        self._min_offset = oldest
        self._min_for = 0

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
        """Readable entries from `offset` on, at most `count_max`; crosses at most one file end."""
        count = min(count_max, self.visible - offset)
        if count <= 0:
            return []
        at = offset * ENTRY.size
        size = count * ENTRY.size
        base = at - at % self._files.file_bytes
        data = self._part(base, at, min(size, base + self._files.file_bytes - at))
        if len(data) < size and at + len(data) == base + self._files.file_bytes:
            data += self._part(base + self._files.file_bytes, at + len(data), size - len(data))
        return [
            Entry(number, *fields)
            for number, fields in enumerate(
                ENTRY.iter_unpack(data[: len(data) - len(data) % ENTRY.size]), offset
            )
        ]

    def entry(self, offset: int) -> Entry | None:
        entries = self.read(offset, 1)
        return entries[0] if entries else None

    def min_offset(self, log_oldest: int) -> int:
        """The first offset whose record the log still keeps; `visible` when none is."""
        if self._min_for != log_oldest:
            self._min_offset = self.first_where(
                lambda entry: entry.position >= log_oldest, self._min_offset
            )
            self._min_for = log_oldest
        return self._min_offset

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
        names = [
            int(name)
            for name in self._files.files.names(self._files.directory(self.id))
            if len(name) == NAME_DIGITS and name.isdigit()
        ]
        if not names:
            return
        self._min_offset = names[0] // ENTRY.size
        per_file = self._files.file_bytes // ENTRY.size
        first = names[-1] // ENTRY.size
        self.visible = first + per_file
        low, high = first, first + per_file
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(middle)
            if entry is not None and entry.size_bytes > 0:
                low = middle + 1
            else:
                high = middle
        self.visible = self.next_offset = low

    def truncate(self, log_end: int) -> None:
        """Drop the entries whose record begins at or past `log_end`, and what was never written."""
        end = self.visible
        self.visible = self.first_where(
            lambda entry: entry.position >= log_end or entry.size_bytes == 0, self._min_offset
        )
        self.next_offset = self.visible
        self._blank(self.visible, end)

    def fill_to(self, offset: int) -> None:
        """Stand-in entries up to `offset`, for records that recovery could not read."""
        missing = offset - self.visible
        if 0 < missing <= FILL_COUNT_MAX:
            self.append(FILLER * missing)
        elif missing > 0:
            self.visible = self.next_offset = self._min_offset = offset

    def _blank(self, start: int, end: int) -> None:
        at, stop = start * ENTRY.size, end * ENTRY.size
        while at < stop:
            base = at - at % self._files.file_bytes
            size = min(stop, base + self._files.file_bytes) - at
            file = self._files.get(self.id, base)
            if file is not None:
                file.pwrite(bytes(size), at - base)
                self._files.mark_unsynced(self.id, base)
            at += size

    def _part(self, base: int, at: int, size_bytes: int) -> bytes:
        file = self._files.get(self.id, base)
        return b"" if file is None else file.pread(size_bytes, at - base)
