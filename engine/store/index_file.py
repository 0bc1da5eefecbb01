"""One key index file: RocketMQ's header of 40 bytes, hash slots of 4, items of 20.

The slots of the file being written live in memory; items are appended.

| header field        | bytes | at |      | item field            | bytes | at |
|---------------------|-------|----|------|-----------------------|-------|----|
| first stored ms     | 8     | 0  |      | hash of topic#key     | 4     | 0  |
| last stored ms      | 8     | 8  |      | position in the log   | 8     | 4  |
| first position      | 8     | 16 |      | seconds since first   | 4     | 12 |
| last position       | 8     | 24 |      | older item, same slot | 4     | 16 |
| slots used, at seal | 4     | 32 |
| items + 1           | 4     | 36 |      item 0 is no item: 0 is "none"; `index_mark` is there
"""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from engine.store import kernel
from engine.store.files import File, Files
from engine.store.index_mark import (
    HEADER,
    ITEM,
    SLOT_BYTES,
    IndexMark,
    begin_crc,
    crc_of_range,
    items_at,
    mark_fault,
    marked_items,
    whole_crc,
)
from engine.store.kernel import IndexNumbers
from engine.store.sealed_files import SealedFiles

BUFFER_BYTES_MAX = 64 * 1024
SECONDS_MAX = 0x7FFFFFFF
ITEM_WORDS, OLDER_WORD = 5, 4  # of four bytes
assert ITEM.size == ITEM_WORDS * 4
PAUSE_ITEMS = 500  # items that one step along a chain looks at: a small read each


class IndexView(NamedTuple):
    """What a file had when it was looked at: `slots` None where the file itself has them."""

    path: Path
    slot_count: int
    slots: "array[int] | None"
    next_item: int

    def positions_of(self, files: Files, hashes: Sequence[int], count_max: int) -> list[int]:
        """Some `count_max` positions of keys with any of these hashes; reads the file whole.

        For a thread. That is cheaper than a small read for each of ten thousand hashes and each
        item behind it. None where the file was deleted meanwhile, or has lost them.
        """
        try:
            file = files.open(self.path)
        except FileNotFoundError:
            return []
        at, slots = items_at(self.slot_count), self.slots
        try:
            if slots is None:
                size_bytes = self.slot_count * SLOT_BYTES
                slots = array("i", file.pread(size_bytes, HEADER.size).ljust(size_bytes, b"\0"))
                slots.byteswap()
            items = file.pread(self.next_item * ITEM.size, at)
            items = items[: len(items) // ITEM.size * ITEM.size]
        finally:
            file.close()
        words, end = memoryview(items).cast("I"), len(items) // ITEM.size
        wanted = array("I", hashes)
        wanted.byteswap()
        numbers = map(slots.__getitem__, [hash_ % self.slot_count for hash_ in hashes])
        pairs = [pair for pair in zip(numbers, wanted, strict=True) if 0 < pair[0] < end]
        positions: list[int] = []
        # The newest items of all slots, then those before them.
        while pairs and len(positions) < count_max:
            places = [ITEM_WORDS * number for number, _ in pairs]
            rows = zip(map(words.__getitem__, places), pairs, strict=True)
            positions += [
                ITEM.unpack_from(items, number * ITEM.size)[1]
                for hash_, (number, want) in rows
                if hash_ == want
            ]
            older = array("I", map(words.__getitem__, [place + OLDER_WORD for place in places]))
            older.byteswap()
            pairs = [
                (number, want)
                for number, (newer, want) in zip(older, pairs, strict=True)
                if 0 < number < newer
            ]
        return positions


class IndexFile:
    """One index file; it is open, and its slots are in memory, only while items are added."""

    def __init__(
        self, path: Path, file: File, slot_count: int, item_max: int, sealed: SealedFiles
    ) -> None:
        """Looks at the header in `file` and does not keep it: `sealed` has it, or opens it."""
        self.path = path
        self._file: File | None = None
        self._sealed = sealed
        self._slot_count = slot_count
        self._item_max = item_max
        self._items_at = items_at(slot_count)
        self._crc: int | None = None  # as of the newest item; None: not known
        self._whole_crc = 0
        self.is_marked = False  # known of files that this process writes
        self._slots: array[int] | None = None
        self._buffer = bytearray()
        self._buffer_first = 1
        self.first_ms = self.last_ms = 0
        self.first_position = self.last_position = -1
        self._slots_used = 0
        self.next_item = 1
        self.is_deleted = False  # retention took it: it must not be read any more
        header = file.pread(HEADER.size, 0)
        if len(header) == HEADER.size:
            (
                self.first_ms,
                self.last_ms,
                self.first_position,
                self.last_position,
                self._slots_used,
                next_item,
            ) = HEADER.unpack(header)
            self.next_item = max(1, next_item)
        if self.next_item == 1:
            self.first_position = self.last_position = -1
        self._buffer_first = self.next_item

    @property
    def file(self) -> File:
        """The file, to be used at once; FileNotFoundError when it was deleted."""
        return self._file or self._sealed.get(self.path)

    @property
    def room(self) -> int:
        """Number of further items that fit."""
        return self._item_max - self.next_item

    def fault(self, log_end: int) -> str:
        """In what way the head does not fit the items; empty where it does."""
        if not 1 <= self.next_item <= self._item_max:
            return f"it cannot have {self.next_item - 1} items"
        if self.next_item == 1:
            return "its head says that it has no items"
        if not 0 <= self.first_position <= self.last_position < log_end:
            return f"positions {self.first_position} to {self.last_position} are not in the log"
        if self.first_ms > self.last_ms:
            return "it ends before it begins"
        first, last = self._item(1)[1], self._item(self.next_item - 1)[1]
        if self._item(1)[:2] == (0, 0):
            return "item 1 is missing"
        if (first, last) != (self.first_position, self.last_position):
            return f"its items go from {first} to {last}, its head says something else"
        return ""

    def cut_fault(self, log_end: int) -> str:
        """Which item hides others below `log_end` from `truncate`, in a file without a mark."""
        if self.next_item > self._item_max:
            return f"it cannot have {self.next_item - 1} items"
        if self.next_item == 1:
            return self._hidden_fault(log_end)
        if self.has_mark:
            return ""
        cut, last = 0, -1
        for number, (hash_, position) in enumerate(self._items_on_file(), 1):
            if cut:
                if last < position < log_end:
                    return f"item {cut} does not fit those behind it"
            elif _is_end(hash_, position, last, log_end):
                cut = number
            elif number == 1 and position != self.first_position:
                return f"its items begin at {position}, its head says {self.first_position}"
            else:
                last = position
        hash_, position, *_ = self._item_on_file(self.next_item)
        if not cut and not _is_end(hash_, position, last, log_end):
            return f"its head says {self.next_item - 1} items, but the next one is there"
        return ""

    def _hidden_fault(self, log_end: int) -> str:
        """What is wrong with a head that knows no items."""
        data = self.file.pread(self._item_max * ITEM.size, self._items_at + ITEM.size)
        whole = data[: len(data) - len(data) % ITEM.size] if data.strip(b"\0") else b""
        for number, (hash_, position, _, _) in enumerate(ITEM.iter_unpack(whole), 1):
            if 0 <= position < log_end and (hash_ or position):
                return f"its head says that it has no items, but item {number} is there"
        return ""

    @property
    def size_bytes(self) -> int:
        """Its largest size."""
        return self._items_at + self._item_max * ITEM.size

    def mark_fault(self, *, is_sealed: bool) -> str:
        """What is not as its mark says; see `index_mark.mark_fault`. Reads the whole file."""
        return mark_fault(self.file, self._slot_count, is_sealed=is_sealed)

    def open_for_writing(self, *, trust_slots: bool) -> None:
        """Load the slots, or after a crash build them again from the items."""
        if self._file is None:
            self._file = self._sealed.take(self.path)
        self.file.truncate(self.size_bytes)
        self._load_crc()
        self.is_marked = self.has_mark
        if trust_slots:
            self._slots = array("i", self.file.pread(self._slot_count * SLOT_BYTES, HEADER.size))
            self._slots.byteswap()
            return
        slots = array("i", bytes(self._slot_count * SLOT_BYTES))
        for number, (hash_, _) in enumerate(self._items_on_file(), 1):
            slots[hash_ % self._slot_count] = number
        self._slots = slots

    def _load_crc(self) -> None:
        first, end = (self._items_at + number * ITEM.size for number in (1, self.next_item))
        self._crc = None
        if self.next_item > 1:
            crc = begin_crc(self.first_ms, self.first_position)
            self._crc = crc_of_range(self.file, first, end, crc)

    @property
    def has_mark(self) -> bool:
        """Whether there is a mark, right or wrong."""
        return bool(self.file.pread(ITEM.size, self._items_at).strip(b"\0"))

    def mark(self) -> IndexMark | None:
        """What is to be marked once it is on the disk: all that is written; None if nothing."""
        if self._crc is None or self._buffer:
            return None
        return IndexMark(self.next_item - 1, self._crc, self._whole_crc)

    def set_mark(self, mark: IndexMark | None) -> None:
        """Write a mark whose items are on the disk; None where there is none to believe."""
        self.file.pwrite(mark.packed() if mark else bytes(ITEM.size), self._items_at)
        self.is_marked = mark is not None

    def add(self, hashes: IndexNumbers, positions: IndexNumbers, stored_ms: int) -> None:
        """Add keys of records stored at one moment; at most `room` of them, u32 and i64."""
        slots = self._slots
        assert slots is not None, "index file not open for writing"
        if self.first_position < 0:
            self.first_ms, self.first_position = stored_ms, positions[0]
        seconds = min(max((stored_ms - self.first_ms) // 1000, 0), SECONDS_MAX)
        packed = kernel.index_items(slots, hashes, positions, seconds, self.next_item)
        if self._crc is None:
            self._crc = begin_crc(self.first_ms, self.first_position)
        self._crc, self._whole_crc = crc32(packed, self._crc), 0
        self._buffer += packed
        self.next_item += len(positions)
        self.last_ms, self.last_position = stored_ms, positions[-1]

    @property
    def is_buffer_full(self) -> bool:
        return len(self._buffer) >= BUFFER_BYTES_MAX

    def truncate(self, log_end: int) -> None:
        """Forget items at or past `log_end` and those a power loss left unwritten."""
        count, last = 0, -1
        for hash_, position in self._items_on_file():
            if _is_end(hash_, position, last, log_end):
                break
            count, last = count + 1, position
        self.next_item = self._buffer_first = count + 1
        self.last_position = last
        if not count:
            self.first_position = -1
        self.open_for_writing(trust_slots=False)
        with suppress(OSError):  # a full disk, on which what is forgotten stays behind the end
            if count < marked_items(self.file, self._slot_count):
                # Items that it covers may be others from here on; those left are on the disk.
                self.set_mark(self.mark())
            self.file.pwrite(self._header(), 0)
            # What is forgotten is not to be taken for items that a damaged head hides.
            self.file.truncate(self._items_at + self.next_item * ITEM.size)
            self.file.truncate(self.size_bytes)

    def write(self, *, with_slots: bool = False) -> None:
        """Hand what is buffered to the page cache, the header last."""
        if self._buffer:
            self.file.pwrite(self._buffer, self._items_at + self._buffer_first * ITEM.size)
            self._buffer_first = self.next_item
            self._buffer = bytearray()
        if with_slots and self._slots is not None:
            on_disk = self._slots[:]
            on_disk.byteswap()
            self.file.pwrite(on_disk.tobytes(), HEADER.size)
            self._slots_used = self._slot_count - self._slots.count(0)
        self.file.pwrite(self._header(), 0)

    def _header(self) -> bytes:
        fields = (self.first_ms, self.last_ms, self.first_position, self.last_position)
        return HEADER.pack(*fields, self._slots_used, self.next_item)

    def seal(self) -> None:
        """Write everything and give the slots' memory back; reads go to the file from here on."""
        self.write(with_slots=True)
        if self._slots is not None:
            self._slots.byteswap()
            self._whole_crc = whole_crc(self._header(), self._slots.tobytes())
        self._slots = None
        if self._file is not None:
            self._sealed.put(self.path, self._file)
            self._file = None

    def close(self) -> None:
        """Close it as it is."""
        self._sealed.forget(self.path)
        if self._file is not None:
            self._file.close()
            self._file = None

    def iter_positions(self, hash_: int, begin_ms: int, end_ms: int) -> Iterator[int | None]:
        """Positions whose key has this hash, newest first, at second resolution.

        A None between them says that many items were looked at: a good moment to let others go on.
        """
        slot = hash_ % self._slot_count
        if self._slots is not None:
            number = self._slots[slot]
        else:
            raw = self._read(SLOT_BYTES, HEADER.size + slot * SLOT_BYTES)
            number = int.from_bytes(raw, "big", signed=True)
        examined = 0
        while 0 < number < self.next_item and not self.is_deleted:
            examined += 1
            if examined % PAUSE_ITEMS == 0:
                yield None
                if self.is_deleted:
                    return
            item_hash, position, seconds, older = self._item(number)
            stored_ms = self.first_ms + seconds * 1000
            if stored_ms + 999 < begin_ms:
                return
            if item_hash == hash_ and stored_ms <= end_ms:
                yield position
            if older >= number:
                return
            number = older

    def view(self) -> IndexView:
        """The file as it is now, for another thread."""
        slots = None
        if self._slots is not None:
            with suppress(OSError):  # a full disk: what is buffered is not looked at
                self.write()
            slots = self._slots[:]
        return IndexView(self.path, self._slot_count, slots, self._buffer_first)

    def _item_on_file(self, number: int) -> tuple[int, int, int, int]:
        """The fields of an item, zeros where none was ever written."""
        data = self._read(ITEM.size, self._items_at + number * ITEM.size)
        return ITEM.unpack(data) if len(data) == ITEM.size else (0, 0, 0, 0)

    def _items_on_file(self) -> Iterator[tuple[int, int]]:
        """Hash and position of every item, oldest first; only before anything is added."""
        data = self.file.pread((self.next_item - 1) * ITEM.size, self._items_at + ITEM.size)
        whole = data[: len(data) - len(data) % ITEM.size]
        return ((hash_, position) for hash_, position, _, _ in ITEM.iter_unpack(whole))

    def _item(self, number: int) -> tuple[int, int, int, int]:
        if number >= self._buffer_first:
            return ITEM.unpack_from(self._buffer, (number - self._buffer_first) * ITEM.size)
        return self._item_on_file(number)

    def _read(self, size_bytes: int, position: int) -> bytes:
        try:
            return self.file.pread(size_bytes, position)
        except FileNotFoundError:  # it was deleted: nothing is found in it
            return b""


def _is_end(hash_: int, position: int, last: int, log_end: int) -> bool:
    """Whether an item and all behind it are to be forgotten; `last` is the position before it."""
    return position >= log_end or position < last or (position == 0 and hash_ == 0)
