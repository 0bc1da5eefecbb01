"""The key index: maps a message's id or key to positions in the log.

A row of RocketMQ's index files (`index_file`). Only hashes are kept, so that a caller compares the
text. Several messages with one key are found newest first.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from engine.store.encode import Keys
from engine.store.files import ByPath, DirectoryNames, File, Files, Syncable
from engine.store.hashing import (
    MASK,
    PAIR_HASHES,
    POWER_2,
    POWER_4,
    SIGN,
    absolute_hash,
    continue_hash,
    unsigned_hash,
)
from engine.store.index_file import IndexFile, IndexView
from engine.store.index_mark import IndexMark
from engine.store.kernel import IndexNumbers
from engine.store.sealed_files import SealedFiles

NAME_FORMAT = "%Y%m%d%H%M%S%f"
TOPICS_MAX = 20_000
ANSWERS_MAX = 8  # keys that were looked up last in thousands of topics
CHECKED_BYTES_MAX = 256 * 1024 * 1024  # of index files, newest first, that a start reads to check
_PAIRS = {f"{number:02X}": hash_ for number, hash_ in enumerate(PAIR_HASHES)}


def key_hash(topic: str, key: str) -> int:
    """abs(hashCode(topic#key)), 0 where Java's abs would overflow."""
    return absolute_hash(unsigned_hash(f"{topic}#{key}"))


def _continued(prefixes: Iterable[int], key: str) -> list[int]:
    """`key_hash` of a key in topics with these hashes of "topic#"."""
    units = len(key.encode("utf-16-be", "surrogatepass")) // 2
    power, own = pow(31, units, 1 << 32), unsigned_hash(key)
    return [absolute_hash((prefix * power + own) & MASK) for prefix in prefixes]


class KeyIndex:
    """All index files; adding is idempotent by position, so that a re-dispatch repeats nothing."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        slot_count: int,
        item_max: int,
        sealed: SealedFiles,
    ) -> None:
        """`sealed` may be shared; its creator closes it."""
        self._files = files
        self._directory = directory
        self._sealed_files = sealed
        self._slot_count = slot_count
        self._item_max = item_max
        self._index_files: list[IndexFile] = []
        self._topics: dict[str, int] = {}
        self._answers: dict[tuple[tuple[int, ...], str, int], dict[Path, list[int]]] = {}
        self._pending: list[tuple[IndexNumbers, IndexNumbers, int]] = []  # no file for them yet
        self._sealed: list[Path] = []  # no sync covered them yet
        self._marks: list[tuple[IndexFile, IndexMark]] = []  # to be written once that is synced
        self._has_new_names = False
        self.marked: int | None = None  # the newest file whose mark is on the disk, by its name

    def open(self, *, is_clean: bool) -> None:
        """Look at what is there; after a crash the last file's slots are rebuilt from its items."""
        self._files.make_directory(self._directory)
        for name in self._files.names(self._directory):
            if name.isdigit():
                path = self._directory / name
                self._index_files.append(self._index_file(path, self._sealed_files.get(path)))
        if self._index_files:
            self._index_files[-1].open_for_writing(trust_slots=is_clean)
        self._has_new_names = not is_clean  # changes that the last process did not come to sync

    def fault(self, log_end: int, *, is_clean: bool, newest: int | None) -> str:
        """Which file is not as it was written, and why; empty if none.

        The checkpoint says that `newest` is there, unless retention took it, and has a mark. What
        lies below `log_end` was on the disk when the checkpoint was written; except after a clean
        stop more may have been written since, whole or not. Reads three small pieces of each file,
        and all of the last one and of the newest 256 MiB; opens none for writing.
        """
        names = self._names()
        if newest is not None and f"{newest:017d}" not in names:
            if not names or int(names[0]) < newest:
                return f"{newest:017d} is missing"
            newest = None
        is_sealed, left_bytes = is_clean, CHECKED_BYTES_MAX
        for name in reversed(names):
            path = self._directory / name
            file = self._index_file(path, self._sealed_files.get(path))
            left_bytes -= file.size_bytes
            is_read = left_bytes >= 0 or not is_sealed
            fault = file.fault(log_end) if is_sealed else file.cut_fault(log_end)
            fault = fault or (file.mark_fault(is_sealed=is_sealed) if is_read else "")
            if int(name) == newest and not file.has_mark:
                fault = fault or "it has lost its mark"
            if fault:
                self._forget_files()
                return f"{name}: {fault}"
            # A file that is followed by one below the checkpoint was full and on the disk then.
            is_sealed |= file.next_item > 1 and file.first_position < log_end
        return ""

    def _names(self) -> list[str]:
        return [name for name in self._files.names(self._directory) if name.isdigit()]

    def _forget_files(self) -> None:
        """Let go of every file: the caller moves them away."""
        for name in self._files.names(self._directory):
            self._sealed_files.forget(self._directory / name)

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
                hashes.append(absolute_hash(continue_hash(prefix, key)))
                places.append(position)
            if not message_id:
                continue
            head, high, low = message_id[:-4], message_id[-4:-2], message_id[-2:]
            if head != last_head:  # ids of one sender share all but a short counter
                last_head, head_hash = head, continue_hash(prefix, head) * POWER_4
            if head and low in _PAIRS and high in _PAIRS:
                hash_ = (head_hash + _PAIRS[high] * POWER_2 + _PAIRS[low]) & MASK
            else:
                hash_ = continue_hash(prefix, message_id)
            hashes.append(hash_ if hash_ < SIGN else absolute_hash(hash_))
            places.append(position)
        self.add_hashed(array("I", hashes), array("q", places), stored_ms)

    def add_hashed(self, hashes: IndexNumbers, places: IndexNumbers, stored_ms: int) -> None:
        """The same where the hashes (u32) and positions (i64) are known already."""
        file = self._index_files[-1] if self._index_files else None
        if file is None or self._pending or not 0 < len(places) <= file.room:
            self._pending.append((hashes, places, stored_ms))
            self._add_pending()
            return
        file.add(hashes, places, stored_ms)  # as nearly always
        if file.is_buffer_full:
            file.write()

    def _add_pending(self) -> None:
        while self._pending:
            hashes, positions, stored_ms = self._pending[0]
            if not len(positions):
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
        """The same over many topics at once, where the topic is unknown."""
        hashes = _continued(map(self._topic_prefix, topics), key)
        return self._positions(hashes, count_max=count_max, begin_ms=0, end_ms=1 << 62)

    def finders(
        self, topics: Sequence[str], key: str, count_max: int
    ) -> "Iterator[int | Callable[[], list[int]]]":
        """The same for thousands of topics: work for a thread, one file at a time, newest first."""
        prefixes = tuple(map(self._topic_prefix, topics))
        question = (prefixes, key, count_max)
        if question not in self._answers:
            while len(self._answers) >= ANSWERS_MAX:
                del self._answers[next(iter(self._answers))]
            self._answers[question] = {}
        answers = self._answers[question]  # of files that are full: they say the same again
        hashes: list[int] = []

        def find(view: IndexView) -> list[int]:
            if not hashes:
                hashes.extend(_continued(prefixes, key))
            positions = view.positions_of(self._files, hashes, count_max)
            if view.slots is None:
                answers[view.path] = positions
            return positions

        for file in self._index_files[::-1]:
            if file.path in answers:
                yield from answers[file.path]
            elif file.first_position >= 0 and not file.is_deleted:
                yield partial(find, file.view())

    def _positions(
        self, hashes: Sequence[int], *, count_max: int, begin_ms: int, end_ms: int
    ) -> list[int]:
        positions: list[int] = []
        for file in reversed(self._index_files):
            if file.first_position < 0 or file.first_ms > end_ms or file.last_ms + 999 < begin_ms:
                continue
            for hash_ in hashes:
                for position in file.iter_positions(hash_, begin_ms, end_ms):
                    if position is None:
                        continue
                    positions.append(position)
                    if len(positions) >= count_max:
                        return positions
        return positions

    def iter_places(
        self, topic: str, key: str, *, begin_ms: int, end_ms: int
    ) -> Iterator[int | None]:
        """The same as `positions` bit by bit; a None after at most 500 small reads.

        May be left alone between any two steps, and ends early where retention took the rest.
        """
        hash_ = key_hash(topic, key)
        for file in self._index_files[::-1]:
            if file.is_deleted:
                return  # and so are the older ones
            if file.first_position < 0 or file.first_ms > end_ms or file.last_ms + 999 < begin_ms:
                continue
            yield from file.iter_positions(hash_, begin_ms, end_ms)
            yield None

    @property
    def file_count(self) -> int:
        """Number of files that a search without a time reads."""
        return len(self._index_files)

    def write(self) -> None:
        """Buffered items to the page cache."""
        self._add_pending()
        if self._index_files:
            self._index_files[-1].write()

    def write_slots(self) -> None:
        """The same with the slots of the file being written, which live in memory alone.

        KiteMQ makes them anew after a crash; Apache RocketMQ's broker believes those in the file.
        """
        self._add_pending()
        if self._index_files:
            self._index_files[-1].write(with_slots=True)

    def take_unsynced(self) -> list[Syncable]:
        """What a checkpoint has to bring to disk; the caller syncs it, or gives it back."""
        paths = [*self._sealed, *(file.path for file in self._index_files[-1:])]
        unsynced = set(paths)
        known = ((file, file.mark()) for file in self._index_files if file.path in unsynced)
        self._marks = [(file, mark) for file, mark in known if mark is not None]
        files: list[Syncable] = [ByPath(self._files, path) for path in paths]
        if self._has_new_names:
            files.append(DirectoryNames(self._files, self._directory))
        self._sealed = []
        self._has_new_names = False
        return files

    def mark_synced(self) -> None:
        """What was taken last is on the disk: mark it, so that a start can tell it is unchanged.

        Where the disk refuses, the marks before stay, which cover less.
        """
        marks, self._marks = self._marks, []
        for file, mark in marks:
            if file.is_marked:  # with its items that mark was synced
                self.marked = int(file.path.name)
            if not file.is_deleted:
                with suppress(OSError):
                    file.set_mark(mark)

    def give_back(self) -> None:
        """It could not be synced: the next caller of `take_unsynced` has to do all of it."""
        self._marks = []
        self._sealed = [file.path for file in self._index_files[:-1]]
        self._has_new_names = True

    def truncate(self, log_end: int) -> None:
        """Forget keys of records at or past `log_end`; a re-dispatch adds those that are left."""

        def is_past(file: IndexFile) -> bool:
            return file.first_position >= log_end or file.next_item == 1

        self._answers.clear()  # files that were full may get others
        while self._index_files and is_past(self._index_files[-1]):
            file = self._index_files.pop()
            file.close()
            self._files.remove(file.path)
            self._has_new_names = True
        if self._index_files:
            self._index_files[-1].truncate(log_end)

    def expire(self, log_oldest: int) -> list[Path]:
        """Let go of files that only point below `log_oldest`; their paths, to be deleted."""
        paths = []
        while len(self._index_files) > 1 and self._index_files[0].last_position < log_oldest:
            file = self._index_files.pop(0)
            self._sealed = [path for path in self._sealed if path != file.path]
            file.is_deleted = True
            file.close()
            paths.append(file.path)
        return paths

    def close(self) -> None:
        """Bring everything to disk, slots included, and close."""
        self._add_pending()
        if self._index_files:
            self._index_files[-1].seal()
        for unsynced in self.take_unsynced():
            unsynced.sync()
        self.mark_synced()
        for file in self._index_files[-1:]:
            ByPath(self._files, file.path).sync()
            self.marked = int(file.path.name) if file.is_marked else None
        for file in self._index_files:
            file.close()
        self._index_files = []

    def _writable(self, stored_ms: int) -> IndexFile:
        if not self._index_files or self._index_files[-1].room <= 0:
            created = self._create(stored_ms)
            if self._index_files:
                self._index_files[-1].seal()
                self._sealed.append(self._index_files[-1].path)
            self._index_files.append(created)
            self._has_new_names = True
        return self._index_files[-1]

    def _create(self, stored_ms: int) -> IndexFile:
        stamp = datetime.fromtimestamp(stored_ms / 1000, UTC).strftime(NAME_FORMAT)[:17]
        newest = int(self._index_files[-1].path.name) if self._index_files else 0
        path = self._directory / f"{max(int(stamp), newest + 1):017d}"
        opened = self._sealed_files.open(path, create=True)
        self._sealed_files.put(path, opened)
        file = self._index_file(path, opened)
        try:
            file.open_for_writing(trust_slots=True)
        except OSError:
            file.close()
            raise
        return file

    def _index_file(self, path: Path, file: File) -> IndexFile:
        return IndexFile(path, file, self._slot_count, self._item_max, self._sealed_files)

    def _topic_prefix(self, topic: str) -> int:
        prefix = self._topics.get(topic)
        if prefix is None:
            if len(self._topics) >= TOPICS_MAX:
                self._topics.clear()
            prefix = self._topics[topic] = unsigned_hash(f"{topic}#")
        return prefix
