"""Key index: from a message's id or key to the places in the log where it may lie.

RocketMQ's index file: a 40-byte header, hash slots of 4 bytes, items of 20. The slots of the file
being written live in memory; items are appended. Only hashes are kept, so that a caller compares
the text. Several messages with one key are found newest first.

| header field        | bytes | at |      | item field            | bytes | at |
|---------------------|-------|----|------|-----------------------|-------|----|
| first stored ms     | 8     | 0  |      | hash of topic#key     | 4     | 0  |
| last stored ms      | 8     | 8  |      | position in the log   | 8     | 4  |
| first position      | 8     | 16 |      | seconds since first   | 4     | 12 |
| last position       | 8     | 24 |      | older item, same slot | 4     | 16 |
| slots used, at seal | 4     | 32 |
| items + 1           | 4     | 36 |      item 0 is never used: 0 is "none"
"""

import struct
from array import array
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from engine.store.encode import Keys
from engine.store.files import File, Files, Names, Syncable
from engine.store.hashing import MASK, extend_hash, unsigned_hash

HEADER = struct.Struct(">qqqqii")
ITEM = struct.Struct(">iqii")
SLOT_BYTES = 4
assert HEADER.size == 40
assert ITEM.size == 20

BUFFER_BYTES_MAX = 64 * 1024
NAME_FORMAT = "%Y%m%d%H%M%S%f"
SECONDS_MAX = 0x7FFFFFFF
TOPICS_MAX = 20_000
PAUSE_ITEMS = 500  # items that one step along a chain looks at: a small read each
POWER_2 = 31**2
POWER_4 = 31**4
SIGN = 1 << 31
# Hashes of all pairs of upper-case hex digits, in which the ids of one sender differ.
_PAIRS = {f"{number:02X}": unsigned_hash(f"{number:02X}") for number in range(256)}


def key_hash(topic: str, key: str) -> int:
    """abs(hashCode(topic#key)), 0 where Java's abs would overflow."""
    return _absolute(unsigned_hash(f"{topic}#{key}"))


class IndexFile:
    """One index file; `slots` is in memory only while items are added."""

    def __init__(self, path: Path, file: File, slot_count: int, item_max: int) -> None:
        self.path = path
        self.file = file
        self._slot_count = slot_count
        self._item_max = item_max
        self._items_at = HEADER.size + slot_count * SLOT_BYTES
        self._slots: array[int] | None = None
        self._buffer = bytearray()
        self._buffer_first = 1
        self.first_ms = self.last_ms = 0
        self.first_position = self.last_position = -1
        self._slots_used = 0
        self.next_item = 1
        self.is_gone = False  # retention took it: nobody may read it any more
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
    def room(self) -> int:
        """How many more items fit."""
        return self._item_max - self.next_item

    def open_for_writing(self, *, trust_slots: bool) -> None:
        """Load the slots, or after a crash build them again from the items."""
        self.file.truncate(self._items_at + self._item_max * ITEM.size)
        if trust_slots:
            self._slots = array("i", self.file.pread(self._slot_count * SLOT_BYTES, HEADER.size))
            self._slots.byteswap()
            return
        slots = array("i", bytes(self._slot_count * SLOT_BYTES))
        for number, (hash_, _) in enumerate(self._items_on_file(), 1):
            slots[hash_ % self._slot_count] = number
        self._slots = slots

    def add(self, hashes: Sequence[int], positions: Sequence[int], stored_ms: int) -> None:
        """Add keys of records stored at one moment; at most `room` of them."""
        slots, count = self._slots, self._slot_count
        assert slots is not None, "index file not open for writing"
        if self.first_position < 0:
            self.first_ms, self.first_position = stored_ms, positions[0]
        seconds = min(max((stored_ms - self.first_ms) // 1000, 0), SECONDS_MAX)
        fields: list[int] = []
        number = self.next_item
        for hash_, position in zip(hashes, positions, strict=True):
            slot = hash_ % count
            fields += (hash_, position, seconds, slots[slot])
            slots[slot] = number
            number += 1
        self._buffer += items_layout(len(positions)).pack(*fields)
        self.next_item = number
        self.last_ms, self.last_position = stored_ms, positions[-1]

    @property
    def is_buffer_full(self) -> bool:
        return len(self._buffer) >= BUFFER_BYTES_MAX

    def truncate(self, log_end: int) -> None:
        """Forget items at or past `log_end` and those a power loss left unwritten."""
        count, last = 0, -1
        for hash_, position in self._items_on_file():
            if position >= log_end or position < last or (position == 0 and hash_ == 0):
                break
            count, last = count + 1, position
        self.next_item = self._buffer_first = count + 1
        self.last_position = last
        self.open_for_writing(trust_slots=False)

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
        header = (self.first_ms, self.last_ms, self.first_position, self.last_position)
        self.file.pwrite(HEADER.pack(*header, self._slots_used, self.next_item), 0)

    def seal(self) -> None:
        """Write everything and give the slots' memory back; reads go to the file from here on."""
        self.write(with_slots=True)
        self._slots = None

    def iter_positions(self, hash_: int, begin_ms: int, end_ms: int) -> Iterator[int | None]:
        """Positions whose key has this hash, newest first, at second resolution.

        A None between them says that many items were looked at: a good moment to let others go on.
        """
        slot = hash_ % self._slot_count
        if self._slots is not None:
            number = self._slots[slot]
        else:
            raw = self.file.pread(SLOT_BYTES, HEADER.size + slot * SLOT_BYTES)
            number = int.from_bytes(raw, "big", signed=True)
        seen = 0
        while 0 < number < self.next_item and not self.is_gone:
            seen += 1
            if seen % PAUSE_ITEMS == 0:
                yield None
                if self.is_gone:
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

    def _items_on_file(self) -> Iterator[tuple[int, int]]:
        """Hash and position of every item, oldest first; only before anything is added."""
        data = self.file.pread((self.next_item - 1) * ITEM.size, self._items_at + ITEM.size)
        whole = data[: len(data) - len(data) % ITEM.size]
        return ((hash_, position) for hash_, position, _, _ in ITEM.iter_unpack(whole))

    def _item(self, number: int) -> tuple[int, int, int, int]:
        if number >= self._buffer_first:
            return ITEM.unpack_from(self._buffer, (number - self._buffer_first) * ITEM.size)
        data = self.file.pread(ITEM.size, self._items_at + number * ITEM.size)
        return ITEM.unpack(data) if len(data) == ITEM.size else (0, 0, 0, 0)


class KeyIndex:
    """All index files; adding is idempotent by position, so that a re-dispatch repeats nothing."""

    def __init__(self, files: Files, directory: Path, slot_count: int, item_max: int) -> None:
        self._files = files
        self._directory = directory
        self._slot_count = slot_count
        self._item_max = item_max
        self._index_files: list[IndexFile] = []
        self._topics: dict[str, int] = {}
        self._pending: list[tuple[list[int], list[int], int]] = []  # no file for them yet
        self._sealed: list[File] = []  # no sync covered them yet
        self._has_new_names = False

    def open(self, *, is_clean: bool) -> None:
        """Open what is there; after a crash the last file's slots are rebuilt from its items."""
        self._files.make_directory(self._directory)
        for name in self._files.names(self._directory):
            if name.isdigit():
                path = self._directory / name
                self._index_files.append(
                    IndexFile(path, self._files.open(path), self._slot_count, self._item_max)
                )
        if self._index_files:
            self._index_files[-1].open_for_writing(trust_slots=is_clean)
        self._has_new_names = not is_clean  # changes that the last process did not come to sync

    def add_all(self, keyed: Sequence[Keys], stored_ms: int) -> None:
        """Index messages stored at one moment: each by its id, where it has one, and its keys.

        After an OSError they are known nevertheless, and `write` or the next call tries the files
        again.
        """
        hashes: list[int] = []
        places: list[int] = []
        last_topic, prefix, last_head, head_hash = "", 0, "", 0
        for topic, message_id, keys, position in keyed:
            if topic != last_topic:
                last_topic, last_head = topic, ""
                prefix = self._topic_prefix(topic)
            for key in keys:
                hashes.append(_absolute(_extend(prefix, key)))
                places.append(position)
            if not message_id:
                continue
            head, high, low = message_id[:-4], message_id[-4:-2], message_id[-2:]
            if head != last_head:  # ids of one sender share all but a short counter
                last_head, head_hash = head, _extend(prefix, head) * POWER_4
            if head and low in _PAIRS and high in _PAIRS:
                hash_ = (head_hash + _PAIRS[high] * POWER_2 + _PAIRS[low]) & MASK
            else:
                hash_ = _extend(prefix, message_id)
            hashes.append(hash_ if hash_ < SIGN else _absolute(hash_))
            places.append(position)
        self._pending.append((hashes, places, stored_ms))
        self._add_pending()

    def _add_pending(self) -> None:
        while self._pending:
            hashes, positions, stored_ms = self._pending[0]
            if not positions:
                del self._pending[0]
                continue
            file = self._writable(stored_ms)
            room = file.room
            file.add(hashes[:room], positions[:room], stored_ms)
            self._pending[0] = (hashes[room:], positions[room:], stored_ms)
            if file.is_buffer_full:
                file.write()

    def positions(
        self, topic: str, key: str, *, count_max: int, begin_ms: int, end_ms: int
    ) -> list[int]:
        """Places to look for `key`, newest first; text must be compared by the caller."""
        hash_ = key_hash(topic, key)
        return self._positions([hash_], count_max=count_max, begin_ms=begin_ms, end_ms=end_ms)

    def positions_in(self, topics: Sequence[str], key: str, count_max: int) -> list[int]:
        """The same over many topics at once, for whoever does not know which."""
        units = len(key.encode("utf-16-be", "surrogatepass")) // 2
        power, own = pow(31, units, 1 << 32), unsigned_hash(key)
        prefixes = (self._topic_prefix(topic) for topic in topics)
        hashes = [_absolute((prefix * power + own) & MASK) for prefix in prefixes]
        return self._positions(hashes, count_max=count_max, begin_ms=0, end_ms=1 << 62)

    def _positions(
        self, hashes: Sequence[int], *, count_max: int, begin_ms: int, end_ms: int
    ) -> list[int]:
        found: list[int] = []
        for file in reversed(self._index_files):
            if file.first_position < 0 or file.first_ms > end_ms or file.last_ms + 999 < begin_ms:
                continue
            for hash_ in hashes:
                for position in file.iter_positions(hash_, begin_ms, end_ms):
                    if position is None:
                        continue
                    found.append(position)
                    if len(found) >= count_max:
                        return found
        return found

    def iter_places(
        self, topic: str, key: str, *, begin_ms: int, end_ms: int
    ) -> Iterator[int | None]:
        """The same as `positions` bit by bit; a None after at most 500 small reads.

        May be left alone between any two steps, and ends early where retention took the rest.
        """
        hash_ = key_hash(topic, key)
        for file in self._index_files[::-1]:
            if file.is_gone:
                return  # and so are the older ones
            if file.first_position < 0 or file.first_ms > end_ms or file.last_ms + 999 < begin_ms:
                continue
            yield from file.iter_positions(hash_, begin_ms, end_ms)
            yield None

    @property
    def file_count(self) -> int:
        """How many files a search without a time looks into."""
        return len(self._index_files)

    def write(self) -> None:
        """Buffered items to the page cache."""
        self._add_pending()
        if self._index_files:
            self._index_files[-1].write()

    def take_unsynced(self) -> list[Syncable]:
        """What a checkpoint has to bring to disk; the caller syncs it, or gives it back."""
        taken: list[Syncable] = [*self._sealed]
        taken += [file.file for file in self._index_files[-1:]]
        if self._has_new_names:
            taken.append(Names(self._files, self._directory))
        self._sealed = []
        self._has_new_names = False
        return taken

    def give_back(self) -> None:
        """It could not be synced: the next who takes has to do it, and all the rest."""
        self._sealed = [file.file for file in self._index_files[:-1]]
        self._has_new_names = True

    def truncate(self, log_end: int) -> None:
        """Forget keys of records at or past `log_end`; a re-dispatch adds those that are left."""

        def is_past(file: IndexFile) -> bool:
            return file.first_position >= log_end or file.next_item == 1

        while self._index_files and is_past(self._index_files[-1]):
            file = self._index_files.pop()
            file.file.close()
            self._files.remove(file.path)
            self._has_new_names = True
        if self._index_files:
            self._index_files[-1].truncate(log_end)

    def expire(self, log_oldest: int) -> list[Path]:
        """Let go of files that only point below `log_oldest`; their paths, to be deleted."""
        paths = []
        while len(self._index_files) > 1 and self._index_files[0].last_position < log_oldest:
            file = self._index_files.pop(0)
            self._sealed = [sealed for sealed in self._sealed if sealed is not file.file]
            file.is_gone = True
            file.file.close()
            paths.append(file.path)
        return paths

    def close(self) -> None:
        """Bring everything to disk, slots included, and close."""
        self._add_pending()
        if self._index_files:
            self._index_files[-1].seal()
        for unsynced in self.take_unsynced():
            unsynced.sync()
        for file in self._index_files:
            file.file.close()
        self._index_files = []

    def _writable(self, stored_ms: int) -> IndexFile:
        if not self._index_files or self._index_files[-1].room <= 0:
            created = self._create(stored_ms)
            if self._index_files:
                self._index_files[-1].seal()
                self._sealed.append(self._index_files[-1].file)
            self._index_files.append(created)
            self._has_new_names = True
        return self._index_files[-1]

    def _create(self, stored_ms: int) -> IndexFile:
        stamp = datetime.fromtimestamp(stored_ms / 1000, UTC).strftime(NAME_FORMAT)[:17]
        newest = int(self._index_files[-1].path.name) if self._index_files else 0
        path = self._directory / f"{max(int(stamp), newest + 1):017d}"
        opened = self._files.open(path, create=True)
        file = IndexFile(path, opened, self._slot_count, self._item_max)
        try:
            file.open_for_writing(trust_slots=True)
        except OSError:
            opened.close()
            raise
        return file

    def _topic_prefix(self, topic: str) -> int:
        prefix = self._topics.get(topic)
        if prefix is None:
            if len(self._topics) >= TOPICS_MAX:
                self._topics.clear()
            prefix = self._topics[topic] = unsigned_hash(f"{topic}#")
        return prefix


@lru_cache(maxsize=512)
def items_layout(count: int) -> struct.Struct:
    """`count` index items in one go."""
    return struct.Struct(">" + ITEM.format[1:] * count)


def _extend(prefix: int, text: str) -> int:
    """Unsigned hash of prefix + text for any text."""
    if text.isascii() and len(text) <= 64:
        return extend_hash(prefix, text)
    units = len(text.encode("utf-16-be", "surrogatepass")) // 2
    return (prefix * pow(31, units, 1 << 32) + unsigned_hash(text)) & MASK


def _absolute(unsigned: int) -> int:
    if unsigned < 0x80000000:
        return unsigned
    return 0 if unsigned == 0x80000000 else (1 << 32) - unsigned
