"""Journal entries of transactions."""

from engine.errors import Illegal
from engine.finished_offsets import check_marks
from engine.legality import check_all, check_columns, check_number, check_runs
from engine.store.journal import JournalEntry

DUE_BYTES = 8

HALVES = 0  # the queue of half messages
GIVEN_UP = 1  # the queue of those whose checks were given up


class HalvesFinished(JournalEntry, frozen=True, tag="halves_finished", array_like=True):
    """These need no decision any more, by queue: first offset and count, again and again.

    `record_end` is where the log ended after what they became was written, 0 if it was nothing.
    """

    half_offsets: list[int]
    given_up: list[int]
    record_end: int = 0

    @property
    def follows(self) -> int:
        return self.record_end


class HalvesCut(JournalEntry, frozen=True, tag="halves_cut", array_like=True):
    """A queue ends at `offset`: a power loss took what came after."""

    kind: int
    offset: int


class HalvesChecked(JournalEntry, frozen=True, tag="halves_checked", array_like=True):
    """A check of these began, or was given to a program: how many they had, when the next is due.

    `record_end` is the end of the last of their records.
    """

    offsets: list[int]
    counts: list[int]
    due_ms: int
    record_end: int

    @property
    def follows(self) -> int:
        return self.record_end


class HalvesKept(JournalEntry, frozen=True, tag="halves_kept", array_like=True):
    """All of one queue: the floor, the marks above it, and the checks from `base` on.

    `dues` are 8 bytes each in the machine's order, `counts` one; compressed where many are equal.
    """

    kind: int
    floor: int
    marks: bytes
    base: int = 0
    dues: bytes = b""
    counts: bytes = b""


def check_half_messages(
    entry: HalvesFinished | HalvesCut | HalvesChecked | HalvesKept, offset_max: int
) -> None:
    """Raises Illegal for what no queue of transactions can hold.

    Marks and checks cost bytes of memory, and no message has an offset past `offset_max`.
    """
    check_number("record_end", entry.follows)
    if isinstance(entry, HalvesFinished):
        check_runs(entry.half_offsets, offset_max, "half_offsets")
        check_runs(entry.given_up, offset_max, "given_up")
    elif isinstance(entry, HalvesChecked):
        check_all("offsets", entry.offsets, offset_max)
        check_all("counts", entry.counts)
        check_number("due_ms", entry.due_ms)
        if len(entry.counts) != len(entry.offsets):
            raise Illegal(f"{len(entry.counts)} counts for {len(entry.offsets)} offsets")
    else:
        check_number("kind", entry.kind, GIVEN_UP)
        if isinstance(entry, HalvesCut):
            check_number("offset", entry.offset)
        else:
            _check_times(entry, offset_max)


def _check_times(entry: HalvesKept, offset_max: int) -> None:
    check_number("floor", entry.floor, offset_max)
    check_marks(entry.marks, offset_max - entry.floor)
    check_number("base", entry.base, entry.floor)
    check_columns(DUE_BYTES, dues=entry.dues)
    if len(entry.dues) != DUE_BYTES * len(entry.counts):
        raise Illegal(f"{len(entry.dues)} bytes of times for {len(entry.counts)} counts")
