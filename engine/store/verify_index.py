"""Checks key index files: chains, slots and positions agree with each other and the log.

A part of `verify`. The text of keys is in the records alone; what is compared here is structure,
which few flipped bits leave as it is; the CRCs of a file's mark tell of the others.
"""

import struct
from array import array
from collections.abc import Callable
from pathlib import Path

from engine.store.commit_log import CommitLog
from engine.store.files import File, Files
from engine.store.index_file import IndexFile
from engine.store.index_mark import HEADER, ITEM, SLOT_BYTES, items_at, mark_fault
from engine.store.record import HEAD_BYTES_MAX, place_in
from engine.store.sealed_files import SealedFiles

ITEMS_AT_ONCE = 10_000
Tell = Callable[[str, str], None]


def check_index(
    files: Files,
    root: Path,
    log: CommitLog,
    tell: Tell,
    *,
    sealed: SealedFiles,
    slots: int,
    items: int,
    newest: int | None,
) -> int:
    """Check every index file of this shape; returns how many there were of it.

    The checkpoint says that `newest` is there, unless retention took it, and has a mark.
    """
    directory, count = root / "index", 0
    names = [name for name in files.names(directory) if name.isdigit()]
    is_due = newest is not None and (not names or int(names[0]) < newest)
    if is_due and f"{newest:017d}" not in names:
        tell(f"index/{newest:017d}", "it is missing")
    for name in names:
        path = directory / name
        try:
            file = sealed.open(path)
        except FileNotFoundError:  # retention took it
            continue
        try:
            if file.size() != items_at(slots) + items * ITEM.size:
                continue
            count += 1
            is_sealed = name != names[-1] or not files.exists(root / "abort")
            index = IndexFile(path, file, slots, items, sealed)
            fault = index.fault(log.written) if is_sealed else ""
            fault = fault or mark_fault(file, slots, is_sealed=is_sealed)
            if int(name) == newest and not index.has_mark:
                fault = fault or "it has lost its mark"
            check = IndexCheck(file, log, f"index/{name}", tell, slots)
            check.run(is_sealed=is_sealed, fault=fault if files.exists(path) else "")
        except FileNotFoundError:  # retention took it meanwhile
            continue
        finally:
            file.close()
    return count


class IndexCheck:
    """One file."""

    def __init__(self, file: File, log: CommitLog, where: str, tell: Tell, slots: int) -> None:
        self._file = file
        self._log = log
        self._where = where
        self._tell = tell
        self._slots = slots

    def run(self, *, is_sealed: bool, fault: str) -> None:
        """Tell the first thing that does not agree; the slots only where they are written.

        `fault` is what head and mark show: reported where no single item or slot is wrong.
        """
        begin = items_at(self._slots)
        header = HEADER.unpack(self._file.pread(HEADER.size, 0))
        latest: dict[int, int] = {}
        number, last, next_item = 1, 0, header[5]
        while number < next_item:
            count = min(ITEMS_AT_ONCE, next_item - number)
            data = self._file.pread(count * ITEM.size, begin + number * ITEM.size)
            if len(data) < ITEM.size:
                self._tell(self._where, f"item {number} of {next_item - 1} is missing")
                return
            for hash_, position, _, older in ITEM.iter_unpack(data[: len(data) // 20 * 20]):
                slot = hash_ % self._slots
                detail = self._fault(slot, position, older, last, latest)
                if detail:
                    self._tell(f"{self._where} item {number}", detail)
                    return
                latest[slot], last = number, position
                number += 1
        if not (is_sealed and self._check_slots(latest)) and fault:
            self._tell(self._where, fault)

    def _fault(
        self, slot: int, position: int, older: int, last: int, latest: dict[int, int]
    ) -> str:
        if older != latest.get(slot, 0):
            return f"its chain leads to {older}, not to {latest.get(slot, 0)}"
        if position < last:
            return f"position {position} comes after {last}"
        if self._log.oldest <= position < self._log.written:
            place = place_in(self._log.read(position, HEAD_BYTES_MAX))
            if place is None or place[3] != position:
                self._log.forget_deleted()
                return f"no record lies at {position}" if position >= self._log.oldest else ""
        return ""

    def _check_slots(self, latest: dict[int, int]) -> bool:
        """Whether a slot was reported."""
        table = array("i", self._file.pread(self._slots * SLOT_BYTES, HEADER.size))
        if struct.pack("=i", 1) != struct.pack(">i", 1):
            table.byteswap()
        for slot, number in enumerate(table):
            if number != latest.get(slot, 0):
                self._tell(
                    f"{self._where} slot {slot}", f"{number} instead of {latest.get(slot, 0)}"
                )
                return True
        return False
