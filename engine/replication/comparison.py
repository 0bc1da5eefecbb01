"""In what two data directories differ: `kitemq store verify --against`.

The log is compared byte for byte, topics, groups, progress and all else that the journal holds by
value, queues by their entries. Reads only, takes no lock; a server that writes meanwhile makes
differences at the ends.
"""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

import msgspec

from engine.clock import SystemClock
from engine.config import EngineConfig
from engine.container import Container
from engine.delivery.changes import SerialUsed
from engine.errors import NotFound
from engine.store.commit_log import NAME_DIGITS
from engine.store.consume_queue import ENTRY, FILLER_BYTES
from engine.store.files import File, Files
from engine.store.journal import JournalEntry
from engine.store.pool import InlinePool
from engine.store.verify_progress import ProgressCheck

PIECE_BYTES = 1024 * 1024 // ENTRY.size * ENTRY.size
DIFFERENCES_MAX = 1000
TEXT_MAX = 300  # characters of an entry that are shown


class StoreComparison(msgspec.Struct):
    """What was compared, and the differences: at most 1,000 are listed, all are counted."""

    log_bytes: int = 0
    changes: int = 0  # entries that rebuild what the journal says
    queues: int = 0
    differences: list[str] = []
    difference_count: int = 0

    @property
    def is_equal(self) -> bool:
        return not self.difference_count

    def add(self, text: str) -> None:
        self.difference_count += 1
        if len(self.differences) < DIFFERENCES_MAX:
            self.differences.append(text)


class DataDirectory(msgspec.Struct, frozen=True):
    """One of the two directories."""

    files: Files
    root: Path

    def numbered(self, directory: Path) -> list[str]:
        return [name for name in self.files.names(self.root / directory) if name.isdigit()]

    def segments(self) -> list[str]:
        return [n for n in self.numbered(Path("commitlog")) if len(n) == NAME_DIGITS]


def compare(one: DataDirectory, other: DataDirectory) -> StoreComparison:
    """Compare two directories; NotFound where one has no store."""
    for side in (one, other):
        if not side.segments():
            raise NotFound(
                f"there is no commit log under {side.root}",
                field="data",
                remedy="name the data directory of a server that has stored something",
            )
    result = StoreComparison()
    names = {*one.segments()}, {*other.segments()}
    for name in sorted(names[0] ^ names[1]):
        result.add(f"commitlog/{name} is only in the {_ordinal(name not in names[0])}")
    for name in sorted(names[0] & names[1]):
        result.log_bytes += _compare_files(one, other, Path("commitlog") / name, result.add)
    _compare_progress(one, other, result)
    _compare_queues(one, other, result)
    return result


def _ordinal(number: int) -> str:
    return ("first", "second")[number]


def _compare_files(
    one: DataDirectory, other: DataDirectory, path: Path, add: Callable[[str], None]
) -> int:
    """Compare the bytes of one file; how many are not zeros. One difference is told of each."""
    is_queue = path.parts[0] == "consumequeue"
    first, second = one.files.open(one.root / path), other.files.open(other.root / path)
    try:
        if not is_queue and first.size() != second.size():
            add(f"{path} has {first.size()} bytes, in the second {second.size()}")
        size_bytes = 0
        for at, data, against in _pieces(first, second, min(first.size(), second.size())):
            size_bytes += len(data)
            if data != against and not (is_queue and _is_filled(data, against)):
                pairs = zip_longest(data, against)
                same = next(index for index, (a, b) in enumerate(pairs) if a != b)
                add(f"{path} differs at {at + same}")
                break
        return size_bytes
    finally:
        first.close()
        second.close()


def _is_filled(data: bytes, against: bytes) -> bool:
    """Whether entries differ only where one of the two stands for a record that is damaged."""
    if len(data) != len(against) or len(data) % ENTRY.size:
        return False
    pairs = zip(ENTRY.iter_unpack(data), ENTRY.iter_unpack(against), strict=True)
    return all(one == other or FILLER_BYTES in (one[1], other[1]) for one, other in pairs)


def _pieces(first: File, second: File, end: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Both files from the same places on, without the holes that both have."""
    at = 0
    while (at := min(first.next_data(at), second.next_data(at))) < end:
        at -= at % ENTRY.size
        size = min(PIECE_BYTES, end - at)
        yield at, first.pread(size, at), second.pread(size, at)
        at += size


def _compare_progress(one: DataDirectory, other: DataDirectory, result: StoreComparison) -> None:
    entries, others = _state(one), _state(other)
    result.changes = len(entries)
    for number, (has, lacks) in enumerate(((entries, others), (others, entries))):
        for key in has.keys() - lacks.keys():
            text = repr(has[key])[:TEXT_MAX]
            result.add(f"config: only the {_ordinal(number)} has {text}")


def _state(side: DataDirectory) -> dict[bytes, JournalEntry]:
    """What a start would make of the journal, as the entries of its snapshot."""
    names = side.segments()
    segment = side.files.open(side.root / "commitlog" / names[0])
    config = EngineConfig(data=side.root, segment_bytes=segment.size())
    segment.close()
    progress = ProgressCheck(side.files, side.root, lambda where, detail: None)
    progress.check()
    parts = Container(
        config, clock=SystemClock(), pool=InlinePool(), files=side.files, check_running=_nothing
    )
    parts.store.look()
    try:
        parts.store.journal.examine(list(progress.frames()))
        # Serials of deliveries rise with the clock of the start that wrote a snapshot, too.
        entries = (e for e in parts.store.journal.entries() if not isinstance(e, SerialUsed))
        return {msgspec.msgpack.encode(each): each for each in entries}
    finally:
        parts.store.close()


def _nothing() -> None:
    """Nothing is changed here."""


def _compare_queues(one: DataDirectory, other: DataDirectory, result: StoreComparison) -> None:
    names = _queues(one), _queues(other)
    for topic, number in sorted(names[0] | names[1]):
        path = Path("consumequeue") / topic / number
        result.queues += 1
        ends = [_end(side, path) for side in (one, other)]
        if ends[0] != ends[1]:
            result.add(f"{path} ends at {ends[0]}, in the second at {ends[1]}")
        for name in sorted({*one.numbered(path)} & {*other.numbered(path)}):
            _compare_files(one, other, path / name, result.add)


def _queues(side: DataDirectory) -> set[tuple[str, str]]:
    root = Path("consumequeue")
    return {
        (topic, number)
        for topic in side.files.names(side.root / root)
        for number in side.numbered(root / topic)
    }


def _end(side: DataDirectory, path: Path) -> int:
    """One past the last entry that a queue's files have."""
    for name in reversed(side.numbered(path)):
        file = side.files.open(side.root / path / name)
        try:
            at = 0
            end = 0
            while (at := file.next_data(at)) < file.size():
                data = file.pread(PIECE_BYTES, at)
                if data.strip(b"\0"):
                    end = at + len(data.rstrip(b"\0"))
                at += len(data)
        finally:
            file.close()
        if end:
            return (int(name) + end + ENTRY.size - 1) // ENTRY.size
    return 0
