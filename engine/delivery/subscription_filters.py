"""The filter that each group last used in each topic, and how many open messages match it.

Lag counts by it where that is cheap: a tag filter needs only the hashes in the consume queue. The
counts are cached and follow the group's cursor and the queue's end, so that a second count examines
only the entries in between.
"""

import msgspec

from engine.delivery.filter import Filter, TagFilter
from engine.delivery.queue_progress import QueueProgress
from engine.delivery.values import LagBasis
from engine.store.store import Store

ENTRIES_MAX = 10_000  # that are examined for one queue; where more are open, all are counted
GROUPS_MAX = 100_000
COUNTS_MAX = 10_000


class _FilterCount(msgspec.Struct, gc=False):
    """`count` of the entries from `low` to `high` - 1 have one of the filter's tags."""

    match: TagFilter
    low: int
    high: int
    count: int


class SubscriptionFilters:
    """In memory only: after a restart a group's filter is known once it asks for messages."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._filters: dict[str, dict[str, Filter]] = {}
        self._counts: dict[tuple[str, str, int], _FilterCount] = {}

    def note(self, group: str, topic: str, match: Filter) -> None:
        """A client of the group asked for messages of a topic with this filter."""
        filters = self._filters.get(group)
        if filters is None:
            if len(self._filters) >= GROUPS_MAX:
                return
            filters = self._filters[group] = {}
        if filters.get(topic) is not match:
            filters[topic] = match

    def count(self, progress: QueueProgress, low: int, high: int) -> tuple[int, LagBasis]:
        """How many messages from offset `low` to `high` - 1 are still to come, and what counts.

        Tags with the same hash count as one, as in the consume queue.
        """
        match = self._filters.get(progress.group, {}).get(progress.topic)
        if progress.is_retry or (match is not None and match.is_all) or low >= high:
            return max(0, high - low), LagBasis.MATCHING
        if not isinstance(match, TagFilter) or high - low > ENTRIES_MAX:
            return high - low, LagBasis.ALL
        return self._count_tags(progress, match, low, high), LagBasis.MATCHING

    def forget_group(self, group: str) -> None:
        """A group was deleted."""
        self._filters.pop(group, None)
        for place in [place for place in self._counts if place[0] == group]:
            del self._counts[place]

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: its offsets may begin anew."""
        for filters in self._filters.values():
            filters.pop(topic, None)
        for place in [place for place in self._counts if place[1] == topic]:
            del self._counts[place]

    def _count_tags(self, progress: QueueProgress, match: TagFilter, low: int, high: int) -> int:
        place = (progress.group, progress.topic, progress.queue)
        known = self._counts.pop(place, None)
        if known is None or not self._follows(known, match, low, high):
            known = _FilterCount(match, low, high, self._examine(progress, match, low, high))
        else:
            known.count -= self._examine(progress, match, known.low, low)
            known.count += self._examine(progress, match, known.high, high)
            known.low, known.high = low, high
        if len(self._counts) >= COUNTS_MAX:
            del self._counts[next(iter(self._counts))]
        self._counts[place] = known
        return known.count

    def _follows(self, known: _FilterCount, match: TagFilter, low: int, high: int) -> bool:
        """Whether less is to be examined if it is moved on than if it is made anew."""
        is_ahead = known.low <= low <= known.high <= high
        is_less = (low - known.low) + (high - known.high) < high - low
        return known.match == match and is_ahead and is_less

    def _examine(self, progress: QueueProgress, match: TagFilter, low: int, high: int) -> int:
        """Retention may have taken what lies at `low`: entries then begin later."""
        entries = self._store.entries(progress.topic, progress.queue, low, high - low)
        return sum(match.may_match(entry.tag_code) for entry in entries if entry.offset < high)
