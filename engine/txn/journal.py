"""What the progress journal keeps of transactions."""

from engine.store.journal import JournalEntry

HALVES = 0  # the queue of half messages
GIVEN_UP = 1  # the queue of those whose checks were given up


class HalvesFinished(JournalEntry, frozen=True, tag="halves_finished", array_like=True):
    """These need no decision any more, by queue: first offset and count, again and again.

    `record_end` is where the log ended after what they became was written, 0 if it was nothing.
    """

    halves: list[int]
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
