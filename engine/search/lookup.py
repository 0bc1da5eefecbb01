"""Looks messages up by id or key through the index, in bounded steps.

The owner of the engine calls `step` until it says that something is to be done, has `work` done or
`unread` read (off the owner's thread, where it may be cold), and hands the result to `place` or
`take`; until `is_over`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from engine.message import StoredMessage

Place: TypeAlias = "int | Callable[[], list[int]] | None"

FOUND_MAX = 64
READ_MAX = 64  # records that are read together


class Lookup:
    """Looks for `count_max` (64 at most) messages, and on until it knows whether there are more.

    It counts matches up to `total_max`, all and by topic, and one more if there are more.
    """

    def __init__(
        self,
        places: Iterator[Place],
        accepts: Callable[[StoredMessage], bool],
        count_max: int = FOUND_MAX,
        total_max: int = 0,
    ) -> None:
        """`places` are positions, each once or more; a None between them ends a step.

        So does work for a thread, which finds further positions.
        """
        self._places = places
        self.work: Callable[[], list[int]] | None = None
        self._accepts = accepts
        self._count_max = max(1, min(count_max, FOUND_MAX))
        self.total_max = max(self._count_max, total_max)
        self._positions: set[int] = set()
        self._is_exhausted = False
        self.total = 0
        self.totals: Counter[str] = Counter()  # by topic
        self.unread: list[int] = []
        self.messages: list[StoredMessage] = []

    @property
    def is_over(self) -> bool:
        """Whether everything was found, or one more than was to be counted."""
        return self.total > self.total_max or (self._is_exhausted and not self.unread)

    @property
    def is_counting(self) -> bool:
        """Whether it has its messages and knows of more, so that it only counts on."""
        return self.total > self._count_max

    @property
    def is_cut(self) -> bool:
        """Whether there are more than were found, or may be where the search was left early."""
        return not self.is_over or self.is_counting

    def step(self) -> bool:
        """Look for more places; whether to call again before `work` is done or `unread` is read."""
        for place in self._places:
            if place is None:
                return True
            if not isinstance(place, int):
                self.work = place
                return False
            if place not in self._positions:
                self._positions.add(place)
                self.unread.append(place)
                if len(self.unread) >= READ_MAX:
                    return False
        self._is_exhausted = True
        return False

    def place(self, positions: Sequence[int]) -> None:
        """What `work` found."""
        self.work = None
        self._places = chain(positions, self._places)

    def take(self, messages: Sequence[StoredMessage | None]) -> None:
        """What was read of `unread`: the messages that match are kept, in this order."""
        self.unread = []
        for message in messages:
            if self.total > self.total_max:
                return
            if message is not None and self._accepts(message):
                self.total += 1
                self.totals[message.topic] += 1
                if len(self.messages) < self._count_max:
                    self.messages.append(message)
