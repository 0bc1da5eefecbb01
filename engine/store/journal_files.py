"""Decides which journal and snapshot files count, and what becomes of damaged ones.

The newest whole snapshot counts, with every journal from its number on. One generation before it
is kept, so that a damaged snapshot costs nothing. A bad frame with a whole one behind it is
stepped over; only the end of the last journal after an unclean stop can be torn. Whatever is cut
off or removed is kept in `set-aside`, and reported.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.errors import Corrupt
from engine.store.damage import COPY_BYTES_MAX, Damage, DamageLog
from engine.store.files import Files, read_whole
from engine.store.journal_entries import JournalFrame, Predecessor
from engine.store.journal_frames import JournalFrames, read_frames

REPAIR = "kitemq store repair --data {}"
HEAD_BYTES = 64  # of a file that may begin with a `Predecessor`


class JournalPlace(NamedTuple):
    """An end of the journal: the number of a file, and how long it was."""

    number: int
    size_bytes: int


class JournalContent(NamedTuple):
    """What the files hold; `number` is the journal to go on with.

    `is_damaged` says that more is missing than the end which a power loss may tear off.
    """

    frames: list[JournalFrame]
    number: int
    is_damaged: bool


def file_numbers(files: Files, directory: Path, kind: str) -> list[int]:
    """Numbers of the files that there are of a kind ("journal" or "snapshot"), ascending."""
    prefix = f"progress.{kind}."
    return sorted(
        int(name[len(prefix) :])
        for name in files.names(directory)
        if name.startswith(prefix) and name[len(prefix) :].isdigit()
    )


def file_path(directory: Path, kind: str, number: int) -> Path:
    """Where a file of a kind lies."""
    return directory / f"progress.{kind}.{number:010d}"


def is_whole_snapshot(frames: JournalFrames) -> bool:
    """Whether nothing of a snapshot is missing."""
    return frames.is_ended and not frames.gaps


def first_fault(frames: JournalFrames) -> int:
    """The offset at which a file stops being whole."""
    return frames.gaps[0].start if frames.gaps else frames.end


def size_before(files: Files, directory: Path, number: int) -> int:
    """How long the journal before this one was when this one began; 0 where it does not say."""
    try:
        file = files.open(file_path(directory, "journal", number))
    except FileNotFoundError:
        return 0
    try:
        payloads = read_frames(file.pread(HEAD_BYTES, 0)).payloads
        begin = payloads[0].data if payloads and not payloads[0].at else b""
        return msgspec.msgpack.decode(begin, type=Predecessor).size_bytes
    except msgspec.MsgspecError:
        return 0
    finally:
        file.close()


class JournalReader:
    """Reads one directory once, at a start."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        damage_log: DamageLog,
        *,
        synced: JournalPlace | None = None,
        stopped: JournalPlace | None = None,
    ) -> None:
        """`synced` was on the disk at the last checkpoint, `stopped` is the end of a clean stop."""
        self._files = files
        self._directory = directory
        self._damages = damage_log
        self._synced = synced
        self._stopped = stopped
        self._frames: list[JournalFrame] = []
        self._is_damaged = False

    def read(self) -> JournalContent:
        """Every frame that counts, in order; Corrupt where the state cannot be rebuilt."""
        base, bad = self._read_snapshots()
        numbers = [number for number in self._numbers("journal") if number >= base]
        self._check_chain(base, numbers, bad)
        for number in bad:
            self._set_aside(self._path("snapshot", number), *bad[number])
        newest_bad = max(bad, default=base)
        last = base
        for number in numbers:
            last = number
            is_last = number == numbers[-1]
            # A snapshot behind it, though damaged, says that all of this one was written.
            is_settled = number < newest_bad
            if self._read_journal(number, is_last=is_last, is_settled=is_settled):
                continue
            self._drop(each for each in numbers if each > number)
            break
        self._check_stopped(last)
        return JournalContent(self._frames, last, self._is_damaged)

    def _read_snapshots(self) -> tuple[int, dict[int, tuple[int, int]]]:
        """The number of the newest whole one, and the bad stretches of those after it."""
        bad: dict[int, tuple[int, int]] = {}
        for number in reversed(self._numbers("snapshot")):
            data = read_whole(self._files, self._path("snapshot", number))
            frames = read_frames(data)
            if is_whole_snapshot(frames):
                self._add("snapshot", number, frames)
                return number, bad
            bad[number] = (first_fault(frames), len(data))
        return 0, bad

    def _check_chain(self, base: int, numbers: list[int], bad: dict[int, tuple[int, int]]) -> None:
        """Raise Corrupt where the files do not lead from a known state to the last change."""
        if not numbers and not bad:
            return  # a new directory
        expected = range(base, max([*numbers, *bad]) + 1)
        missing = sorted(set(expected) - set(numbers))
        if not missing:
            return
        path = self._path("snapshot", max(bad)) if bad else self._path("journal", missing[0])
        at, reason = (bad[max(bad)][0], "is damaged") if bad else (0, "is missing")
        raise Corrupt(
            f"{self._damages.name_of(path)} {reason} at offset {at}, and no older files are left "
            "to rebuild topics, groups and their progress from",
            field="data",
            remedy=f"run `{REPAIR.format(self._directory.parent)}`: it keeps what it removes, and "
            "says what is missing",
        )

    def _read_journal(self, number: int, *, is_last: bool, is_settled: bool) -> bool:
        """Add what a journal holds; whether the next one counts. A torn end is cut off."""
        path = self._path("journal", number)
        data = read_whole(self._files, path)
        frames = read_frames(data)
        self._add("journal", number, frames)
        for gap in frames.gaps:
            self._tell(path, gap.start, gap.end, data, "changes that cannot be read")
            self._is_damaged = True
        end = max(len(data), size_before(self._files, self._directory, number + 1))
        if frames.end == end:
            return True
        was_synced = self._synced is not None and (
            number < self._synced.number
            or (number == self._synced.number and frames.end < self._synced.size_bytes)
        )
        is_torn = self._stopped is None and not was_synced and not is_settled
        self._is_damaged |= not is_torn
        if not is_torn and not is_last:
            self._tell(path, frames.end, end, data, "changes that cannot be read")
            return True
        detail = "the end was not written whole" if is_torn else "changes that cannot be read"
        if self._tell(path, frames.end, end, data, detail):
            file = self._files.open(path)
            file.truncate(frames.end)
            file.close()
        return False

    def _tell(self, path: Path, start: int, end: int, data: bytes, detail: str) -> bool:
        """Record a bad stretch of a file; whether its bytes may be cut off, being kept or zeros."""
        data = data[start:end]
        copy = self._damages.try_copy(f"{path.name}.{start}-{start + len(data)}", data)
        file = self._damages.name_of(path)
        self._damages.add(Damage(start, end, detail, file, copy))
        is_whole = bool(copy) and len(data) <= COPY_BYTES_MAX
        return is_whole or not data.strip(b"\0")

    def _drop(self, numbers: Iterable[int]) -> None:
        """Put journals away that build on an end which is lost."""
        for number in numbers:
            path = self._path("journal", number)
            size = len(read_whole(self._files, path))
            if size:
                self._set_aside(path, 0, size, "it builds on changes that a power loss took")
            else:
                self._files.remove(path)

    def _set_aside(self, path: Path, start: int, end: int, detail: str = "") -> None:
        copy = self._damages.move_aside(path)
        detail = detail or "this snapshot cannot be read; an older one was used instead"
        self._damages.add(Damage(start, end, detail, self._damages.name_of(path), copy))
        self._is_damaged = True

    def _check_stopped(self, last: int) -> None:
        """After a clean stop the journal ends where it ended then."""
        if self._stopped is None or self._is_damaged:
            return
        path, end = self._path("journal", last), self._stopped
        size = len(read_whole(self._files, path)) if self._files.exists(path) else 0
        if last < end.number or (last == end.number and size < end.size_bytes):
            self._is_damaged = True
            detail = f"the journal ends at {size}; at the clean stop it ended behind that"
            self._damages.add(Damage(size, end.size_bytes, detail, self._damages.name_of(path)))

    def _add(self, kind: str, number: int, frames: JournalFrames) -> None:
        name = self._damages.name_of(self._path(kind, number))
        self._frames += [JournalFrame(name, *payload) for payload in frames.payloads]

    def _numbers(self, kind: str) -> list[int]:
        return file_numbers(self._files, self._directory, kind)

    def _path(self, kind: str, number: int) -> Path:
        return file_path(self._directory, kind, number)
