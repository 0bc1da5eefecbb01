"""Messages by id or key: the index says where they may lie, in bounded steps.

Whoever owns the engine calls `step` until it says that something is to be read, has `unread` read
(off the owner's thread, where it may be cold), and hands it to `take`; until `is_over`.
"""

from collections.abc import Callable, Iterator, Sequence

from engine.message import StoredMessage

FOUND_MAX = 64
READ_MAX = 64  # records that are read together


class Lookup:
    """Looks on until `count_max` (64 at most) messages are found or no place is left."""

    def __init__(
        self,
        places: Iterator[int | None],
        accepts: Callable[[StoredMessage], bool],
        count_max: int = FOUND_MAX,
    ) -> None:
        """`places` are positions, each once or more; a None between them ends a step."""
        self._places = places
        self._accepts = accepts
        self._count_max = max(1, min(count_max, FOUND_MAX))
        self._seen: set[int] = set()
        self._is_exhausted = False
        self.unread: list[int] = []
        self.found: list[StoredMessage] = []

    @property
    def is_over(self) -> bool:
        """Whether everything was found, or as much as was asked for."""
        is_full = len(self.found) >= self._count_max
        return is_full or (self._is_exhausted and not self.unread)

    @property
    def is_cut(self) -> bool:
        """Whether there may be more than was asked for."""
        return not self._is_exhausted or bool(self.unread)

    def step(self) -> bool:
        """Look for more places; whether to call again before `unread` is read."""
        for place in self._places:
            if place is None:
                return True
            if place not in self._seen:
                self._seen.add(place)
                self.unread.append(place)
                if len(self.unread) >= READ_MAX:
                    return False
        self._is_exhausted = True
        return False

    def take(self, messages: Sequence[StoredMessage | None]) -> None:
        """What was read of `unread`: that which is really meant is kept, in this order."""
        self.unread = []
        for index, message in enumerate(messages):
            if message is not None and self._accepts(message):
                if len(self.found) >= self._count_max:
                    self.unread = [each.position for each in messages[index:] if each is not None]
                    return
                self.found.append(message)
