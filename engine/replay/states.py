"""The state of each dead letter: open, resent or dismissed.

A note dismisses, a replay job resends; a note stands above a job. Where a group's
`dismiss_when_resent` is set, what was resent counts as dismissed.
"""

import re
from collections.abc import Callable, Hashable, Iterator
from enum import StrEnum
from itertools import repeat

import msgspec

from engine.replay.dismissals import DismissalStore
from engine.replay.dismissed_offsets import DismissedOffsets
from engine.replay.offset_bits import CHUNK, FULL, OffsetBits
from engine.replay.resent import ResentStore
from engine.topic.names import DEAD_LETTER_PREFIX

RUN = re.compile("1+")


class DeadLetterState(StrEnum):
    """The state of a dead letter."""

    OPEN = "open"  # waits for a decision
    RESENT = "resent"  # a replay job sent it again
    DISMISSED = "dismissed"  # a person said that nothing is to be done, or the group's setting does


class StateCounts(msgspec.Struct, frozen=True):
    """How many dead letters have each state."""

    open: int = 0
    resent: int = 0
    dismissed: int = 0

    @property
    def total(self) -> int:
        return self.open + self.resent + self.dismissed


class LetterStates:
    """States of the dead letters from offset `first` to `end` - 1, as of now. Immutable."""

    def __init__(
        self, first: int, end: int, bits: tuple[OffsetBits, DismissedOffsets], *, settles: bool
    ) -> None:
        """`bits` are what was resent and what is dismissed; `settles`: the one is the other."""
        self.first = first
        self.end = end
        self._resent, self._dismissed = bits
        self._settles = settles

    def of(self, offset: int) -> DeadLetterState:
        """The state of one dead letter."""
        if self._dismissed.note_of(offset) is not None:
            return DeadLetterState.DISMISSED
        if not self._resent.has(offset):
            return DeadLetterState.OPEN
        return DeadLetterState.DISMISSED if self._settles else DeadLetterState.RESENT

    def counts(self, first: int = 0) -> StateCounts:
        """How many have each state, from an offset on; a million take less than a millisecond."""
        first = max(first, self.first)
        counts = {
            state.value: sum(bits.bit_count() for _, bits in self._chunks(state, first, self.end))
            for state in (DeadLetterState.RESENT, DeadLetterState.DISMISSED)
        }
        return StateCounts(open=max(0, self.end - first) - sum(counts.values()), **counts)

    def marked(self, first: int) -> dict[int, DeadLetterState]:
        """The state of each from an offset on that is not open."""
        marks: dict[int, DeadLetterState] = {}
        for state in (DeadLetterState.RESENT, DeadLetterState.DISMISSED):
            for run in self.runs(state, self.end, first):
                marks.update(zip(run, repeat(state), strict=False))
        return marks

    def mark(self, first: int) -> Hashable:
        """A value that changes with any state from an offset on."""
        states = (DeadLetterState.RESENT, DeadLetterState.DISMISSED)
        return tuple(tuple(self._chunks(state, first, self.end)) for state in states)

    def runs(self, state: DeadLetterState, end: int, first: int = 0) -> Iterator[range]:
        """The stretches of offsets from `first` to before `end` that have a state, ascending."""
        for number, bits in self._chunks(state, max(first, self.first), min(end, self.end)):
            for run in RUN.finditer(f"{bits:b}"[::-1]):
                yield range(number * CHUNK + run.start(), number * CHUNK + run.end())

    def _chunks(self, state: DeadLetterState, first: int, end: int) -> Iterator[tuple[int, int]]:
        for number in range(first // CHUNK, (end - 1) // CHUNK + 1) if first < end else ():
            resent, dismissed = self._resent.chunk(number), self._dismissed.bits.chunk(number)
            if self._settles:
                resent, dismissed = 0, resent | dismissed
            bits = {
                DeadLetterState.OPEN: FULL & ~(resent | dismissed),
                DeadLetterState.RESENT: resent & ~dismissed,
                DeadLetterState.DISMISSED: dismissed,
            }[state]
            low, high = max(0, first - number * CHUNK), min(CHUNK, end - number * CHUNK)
            yield number, (bits >> low << low) & (1 << high) - 1


class DeadLetterStates:
    """Puts together what was resent, what is dismissed, and the group's setting."""

    def __init__(
        self,
        resent: ResentStore,
        dismissals: DismissalStore,
        settles: Callable[[str], bool],
    ) -> None:
        """`settles` tells whether a group dismisses what is resent."""
        self._resent = resent
        self._dismissals = dismissals
        self._settles = settles

    def of(self, topic: str, bounds: tuple[int, int]) -> LetterStates:
        """States of a dead-letter topic with these bounds."""
        return LetterStates(
            *bounds,
            (self._resent.bits_of(topic).copy(), self._dismissals.dismissed_offsets(topic)),
            settles=self._settles(topic.removeprefix(DEAD_LETTER_PREFIX)),
        )
