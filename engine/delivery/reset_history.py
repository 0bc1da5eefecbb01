"""The resets of each group's past, newest last, so that they can be looked up and undone.

Bounded: of a group its last 100 are kept, and of these no more than name 10,000 queues together
(the newest always). The progress store owns it and changes it by journalled entries only.
"""

from collections.abc import Iterator, Sequence

import msgspec

from engine.delivery.changes import Reset
from engine.errors import Conflict, NotFound

RESETS_KEPT_MAX = 100
QUEUES_KEPT_MAX = 10_000


class ResetHistory:
    """By group; numbers grow within a group and are never given twice while it exists."""

    def __init__(self) -> None:
        self._resets: dict[str, dict[int, Reset]] = {}

    def next_number(self, group: str) -> int:
        """Number of the group's next reset."""
        return self.last_number(group) + 1

    def last_number(self, group: str) -> int:
        """Number of its last reset; 0 where there was none."""
        return next(reversed(self._resets.get(group, {0: None})))

    def find(self, group: str, number: int) -> Reset | None:
        return self._resets.get(group, {}).get(number)

    def get(self, group: str, number: int) -> Reset:
        """One by its number; raises NotFound where it is not remembered."""
        reset = self.find(group, number)
        if reset is None:
            raise NotFound(
                f"group {group!r} has no reset {number}",
                field="id",
                remedy="the history lists those that are remembered",
            )
        return reset

    def undoable(self, group: str, number: int) -> Reset:
        """The same; raises Conflict too where it was undone."""
        reset = self.get(group, number)
        if reset.undone_by:
            raise Conflict(
                f"reset {number} of group {group!r} was undone by reset {reset.undone_by}",
                field="id",
                remedy=f"undo reset {reset.undone_by} to have it again",
            )
        return reset

    def of_group(self, group: str) -> Sequence[Reset]:
        """A group's resets, newest first."""
        return list(self._resets.get(group, {}).values())[::-1]

    def everything(self) -> Iterator[tuple[str, Reset]]:
        """Every reset with its group, in an order in which `keep` builds the same again."""
        for group, resets in self._resets.items():
            for reset in resets.values():
                yield group, reset

    # -- for the progress store ------------------------------------------------------------------

    def add(self, group: str, reset: Reset) -> None:
        """Remember a new one, mark the one that it took back, and let the oldest go."""
        resets = self._resets.get(group, {})
        undone = resets.get(reset.undoes)
        if undone is not None:
            resets[undone.number] = msgspec.structs.replace(undone, undone_by=reset.number)
        self.keep(group, reset)

    def keep(self, group: str, reset: Reset) -> None:
        """Remember one of a snapshot, as it says, and let the oldest go."""
        resets = self._resets.setdefault(group, {})
        resets[reset.number] = reset
        queues = sum(len(each.queues) for each in resets.values())
        while len(resets) > RESETS_KEPT_MAX or (queues > QUEUES_KEPT_MAX and len(resets) > 1):
            oldest = resets.pop(next(iter(resets)))
            queues -= len(oldest.queues)

    def forget_group(self, group: str) -> None:
        self._resets.pop(group, None)

    def forget_topic(self, topic: str) -> None:
        """Queues of a topic that is gone have no place to go back to."""
        for resets in self._resets.values():
            for number, reset in resets.items():
                if any(each.topic == topic for each in reset.queues):
                    left = [each for each in reset.queues if each.topic != topic]
                    resets[number] = msgspec.structs.replace(reset, queues=left)
