"""The time of the next check and the count of checks of each pending transaction, in ten bytes.

Three columns, from an offset of the half queue on. Entries before the floor are freed from time to
time, so that deciding the oldest costs no more than deciding any other.
"""

import sys
from array import array

COUNT_LIMIT = 255
TRIM_MIN = 4096


class CheckTimes:
    """Times are ms by the board's clock; 0 is none yet."""

    def __init__(self, base: int = 0, dues: bytes = b"", counts: bytes = b"") -> None:
        self._base = base
        self._dues = array("q", dues)
        if sys.byteorder == "big":
            self._dues.byteswap()
        self._counts = bytearray(counts)
        self._waits = bytearray(len(counts))

    def due_ms(self, offset: int) -> int:
        at = offset - self._base
        return self._dues[at] if 0 <= at < len(self._dues) else 0

    def count(self, offset: int) -> int:
        """Number of checks that were begun."""
        at = offset - self._base
        return self._counts[at] if 0 <= at < len(self._counts) else 0

    def waits(self, offset: int) -> bool:
        """Whether a check was begun for which no producer has been asked yet."""
        at = offset - self._base
        return 0 <= at < len(self._waits) and self._waits[at] > 0

    def set(self, offset: int, due_ms: int, count: int) -> None:
        at = offset - self._base
        if at >= 0:
            self._grow(at)
            self._dues[at] = due_ms
            self._counts[at] = min(count, COUNT_LIMIT)

    def reserve(self, end: int) -> None:
        """There are offsets up to `end`."""
        if end > self._base:
            self._grow(end - self._base - 1)

    def settle(self, offset: int, first_ms: int, soon_ms: int, latest_ms: int) -> int:
        """After a restart: when it is checked next, which is `first_ms` if nothing else is known.

        Not after `soon_ms` where it has been checked, and not after `latest_ms` in any case.
        """
        at = offset - self._base
        due_ms = self._dues[at] or first_ms
        if self._counts[at] and due_ms > soon_ms:
            due_ms = soon_ms
        if due_ms > latest_ms:
            due_ms = latest_ms
        self._dues[at] = due_ms
        return due_ms

    def set_waits(self, offset: int, waits: bool) -> None:
        at = offset - self._base
        if at >= 0:
            self._grow(at)
            self._waits[at] = waits

    def trim(self, floor: int) -> None:
        """What is before `floor` is of no interest any more."""
        passed = floor - self._base
        if passed >= TRIM_MIN and passed * 2 >= len(self._dues):
            self._drop(passed)

    def cut(self, end: int) -> None:
        """What is from `end` on is no more."""
        for column in (self._dues, self._counts, self._waits):
            del column[max(0, end - self._base) :]
        self._base = min(self._base, end)

    def snapshot(self, floor: int) -> tuple[int, bytes, bytes]:
        """Base, times and counts, from which these can be built again."""
        self._drop(floor - self._base)
        dues = self._dues
        if sys.byteorder == "big":
            dues = array("q", dues)
            dues.byteswap()
        return self._base, dues.tobytes(), bytes(self._counts)

    def _drop(self, count: int) -> None:
        if count > 0:
            for column in (self._dues, self._counts, self._waits):
                del column[:count]
            self._base += count

    def _grow(self, at: int) -> None:
        missing = at + 1 - len(self._dues)
        if missing > 0:
            self._dues.frombytes(bytes(8 * missing))
            self._counts.extend(bytes(missing))
            self._waits.extend(bytes(missing))
