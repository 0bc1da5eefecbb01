"""The finished offsets of a queue: a floor, and one byte for each offset above it."""

from engine.errors import Illegal
from engine.legality import unpacked

FINISHED = b"\1"


class FinishedOffsets:
    """Everything before `floor` is finished; offsets past the last mark are not."""

    def __init__(self, floor: int = 0, marks: bytes = b"") -> None:
        self.floor = floor
        self._marks = bytearray(marks)

    @property
    def end(self) -> int:
        """One past the last offset that has a mark."""
        return self.floor + len(self._marks)

    @property
    def marks(self) -> bytearray:
        """The marks, to be kept; not to be changed."""
        return self._marks

    def is_finished(self, offset: int) -> bool:
        at = offset - self.floor
        return at < 0 or (at < len(self._marks) and self._marks[at] > 0)

    def count_unfinished(self, end: int) -> int:
        """Number of unfinished offsets before `end`."""
        return max(0, end - self.floor - self._marks.count(FINISHED))

    def unfinished(self, start: int, count_max: int, end: int) -> list[int]:
        """Offsets from `start` to before `end` that are not finished, at most `count_max`."""
        offsets: list[int] = []
        offset = max(start, self.floor)
        while len(offsets) < count_max and offset < end:
            if not self.is_finished(offset):
                offsets.append(offset)
                offset += 1
                continue
            at = self._marks.find(0, offset - self.floor)
            offset = self.floor + (at if at >= 0 else len(self._marks))
        return offsets

    def mark(self, start: int, count: int) -> None:
        """These are finished; the floor moves on over what is finished without a gap."""
        marks = self._marks
        begin, end = max(0, start - self.floor), start + count - self.floor
        if end <= begin:
            return
        if begin == 0 and end >= len(marks):
            self.floor += end
            marks.clear()
            return
        if begin > len(marks):
            marks.extend(bytes(begin - len(marks)))
        marks[begin:end] = FINISHED * (end - begin)
        if begin == 0:
            passed = marks.find(0)
            passed = passed if passed >= 0 else len(marks)
            del marks[:passed]
            self.floor += passed

    def cut(self, end: int) -> None:
        """The queue ends at `end`: marks past it are of messages that are no more."""
        del self._marks[max(0, end - self.floor) :]
        self.floor = min(self.floor, end)


def check_marks(packed: bytes, most: int) -> None:
    """Raises Illegal for what is not the marks of at most `most` offsets, compressed."""
    if unpacked("marks", packed, most).strip(b"\0\1"):
        raise Illegal("a mark is neither set nor not")
