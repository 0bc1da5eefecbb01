"""Checks the files besides messages: journal, snapshots, `clean`, checkpoint, index, copies.

A part of `verify`; reads only, beside a running server too.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from engine.store.checkpoint import Marked, read_checkpoint, read_clean
from engine.store.damage import SET_ASIDE
from engine.store.files import Files, read_whole
from engine.store.journal_entries import JournalFrame
from engine.store.journal_files import (
    file_numbers,
    file_path,
    first_fault,
    is_whole_snapshot,
    size_before,
)
from engine.store.journal_frames import JournalFrames, read_frames

Tell = Callable[[str, str], None]


class ProgressCheck:
    """The journal of a directory, read once."""

    def __init__(self, files: Files, root: Path, tell: Tell) -> None:
        """`tell` is given where a fault lies, and what it is."""
        self._files = files
        self._directory = root / "config"
        self._is_running = files.exists(root / "abort")
        self._tell = tell
        self.file_count = 0
        self._payloads: dict[tuple[int, str], JournalFrames] = {}

    def check(self) -> None:
        """Read every file of it and tell what cannot be read."""
        for number in file_numbers(self._files, self._directory, "snapshot"):
            payload = self._read("snapshot", number)
            if payload is not None and not is_whole_snapshot(payload):
                self._tell_at("snapshot", number, first_fault(payload), "this snapshot is damaged")
        numbers = file_numbers(self._files, self._directory, "journal")
        for number in numbers:
            payload, size = self._read("journal", number), self._size("journal", number)
            if payload is None:
                continue
            if (lost := size_before(self._files, self._directory, number + 1) - size) > 0:
                self._tell_at("journal", number, size, f"{lost} bytes at the end are missing")
            for gap in payload.gaps:
                detail = f"{gap.end - gap.start} bytes of changes cannot be read"
                self._tell_at("journal", number, gap.start, detail)
            if payload.end < size:
                payload = self._read("journal", number)  # a server may just have written it
                if payload is not None and payload.end < size:
                    detail = f"{size - payload.end} bytes at the end cannot be read"
                    self._tell_at("journal", number, payload.end, detail)
        self._check_chain(numbers)

    def frames(self) -> Iterator[JournalFrame]:
        """All frames that count, in order: of the newest whole snapshot and what follows it."""
        base = max(
            (
                number
                for (number, kind), frames in self._payloads.items()
                if kind == "snapshot" and is_whole_snapshot(frames)
            ),
            default=0,
        )
        for kind in ("snapshot", "journal"):
            for number, each in sorted(self._payloads):
                if each == kind and (number == base or (kind == "journal" and number > base)):
                    file = f"config/{file_path(self._directory, kind, number).name}"
                    for payload in self._payloads[number, each].payloads:
                        yield JournalFrame(file, *payload)

    def _check_chain(self, numbers: list[int]) -> None:
        snapshots = file_numbers(self._files, self._directory, "snapshot")
        first = min(snapshots, default=0)
        for number in sorted(set(range(first, max([*numbers, first]) + 1)) - set(numbers)):
            if numbers or snapshots:
                self._tell_at("journal", number, 0, "this journal is missing")

    def _read(self, kind: str, number: int) -> JournalFrames | None:
        try:
            data = read_whole(self._files, file_path(self._directory, kind, number))
        except FileNotFoundError:  # a running server had no more use for it
            return None
        self.file_count += (number, kind) not in self._payloads
        frames = self._payloads[number, kind] = read_frames(data)
        return frames

    def _size(self, kind: str, number: int) -> int:
        try:
            file = self._files.open(file_path(self._directory, kind, number))
        except FileNotFoundError:
            return 0
        try:
            return file.size()
        finally:
            file.close()

    def _tell_at(self, kind: str, number: int, at: int, detail: str) -> None:
        path = file_path(self._directory, kind, number)
        if self._is_running and not self._files.exists(path) and "missing" not in detail:
            return
        self._tell(f"config/{path.name} at {at}", detail)


def check_marks(files: Files, root: Path, log_end: int, tell: Tell) -> Marked:
    """Check `clean` and the checkpoint against each other and the log; what the latter says."""
    marked = read_checkpoint(files, root / "checkpoint")
    is_theirs = marked.is_foreign and not any(
        file_numbers(files, root / "config", kind) for kind in ("journal", "snapshot")
    )
    if marked.fault and not is_theirs:
        tell("checkpoint", marked.fault)
    elif marked.checkpoint.confirmed > log_end:
        tell("checkpoint", f"it says {marked.checkpoint.confirmed}, the log ends at {log_end}")
    clean, fault = read_clean(files, root / "clean")
    if fault:
        tell("clean", fault)
    elif clean is not None and not files.exists(root / "abort"):
        if clean.written != marked.checkpoint.confirmed and not marked.fault:
            tell("clean", f"it says {clean.written}, the checkpoint something else")
        elif clean.written > log_end:
            tell("clean", f"it says {clean.written}, the log ends at {log_end}")
    return marked


def set_aside_count(files: Files, root: Path) -> int:
    """How many copies of damaged bytes there are, left for a person to look at."""
    return len(files.names(root / SET_ASIDE))
