"""The last activity of each group in each queue, which tells a stopped consumer from a stuck one.

Deliveries, pulls, acknowledgements, failures and returns count. In memory only: after a start
nothing is known of a queue until something happens there.
"""

from collections import OrderedDict

NAMES_MAX = 100_000


class Activity:
    """At most `NAMES_MAX` places; then the one that was silent for the longest goes."""

    def __init__(self) -> None:
        self._last: OrderedDict[tuple[str, str, int], int] = OrderedDict()

    def note(self, group: str, topic: str, queue: int, at_ms: int) -> None:
        """Something happened there."""
        place = (group, topic, queue)
        self._last[place] = at_ms
        self._last.move_to_end(place)
        if len(self._last) > NAMES_MAX:
            self._last.popitem(last=False)

    def active_ms(self, group: str, topic: str, queue: int) -> int:
        """When something last happened there, ms since 1970 UTC; 0 where it is not known."""
        return self._last.get((group, topic, queue), 0)

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted."""
        for place in [place for place in self._last if place[1] == topic]:
            del self._last[place]

    def forget_group(self, group: str) -> None:
        """A group was deleted."""
        for place in [place for place in self._last if place[0] == group]:
            del self._last[place]
