"""Retention by topic: moves the begin of each queue past messages that are too old.

Where that is shorter than the broker's, messages can no longer be read once they are older, and
their bytes go with their segment. Where it is longer, the oldest message that is still wanted
holds its segment, and with it everything behind.
"""

from collections.abc import Iterator
from itertools import islice

from engine.clock import Clock
from engine.retention.trims import Trims
from engine.store.store import Store
from engine.topic.catalog import Catalog

QUEUES_AT_ONCE = 50


class TopicAges(dict[str, int]):
    """By topic: the position of the oldest message that its own age still keeps."""


class Ages:
    """Looks at a bounded number of queues in each `step`; a round is over when all had their turn.

    `held` is what the last whole round found.
    """

    def __init__(self, store: Store, catalog: Catalog, trims: Trims, clock: Clock) -> None:
        self._store = store
        self._catalog = catalog
        self._trims = trims
        self._clock = clock
        self._places_to_read: Iterator[tuple[str, int]] | None = None
        self._result = TopicAges()
        self.held = TopicAges()

    def step(self) -> dict[str, int]:
        """Go on with the round, or begin one; how many messages of which topics became too old.

        `is_over` says whether the round is. Raises DiskFull where the journal cannot be written.
        """
        if self._places_to_read is None:
            self._places_to_read, self._result = iter(self._places()), TopicAges()
        queues = list(islice(self._places_to_read, QUEUES_AT_ONCE))
        begins: dict[str, int] = {}
        for topic, queue in queues:
            count = self._look(topic, queue)
            if count:
                begins[topic] = begins.get(topic, 0) + count
        if len(queues) < QUEUES_AT_ONCE:
            self._places_to_read, self.held = None, self._result
        return begins

    @property
    def is_over(self) -> bool:
        return self._places_to_read is None

    def _places(self) -> list[tuple[str, int]]:
        return [
            (config.name, queue)
            for config in self._catalog.with_own_age()
            for queue in range(max(config.read_queues, config.write_queues))
        ]

    def _look(self, topic: str, queue: int) -> int:
        """Let one queue begin where it should; how many messages it lost by that."""
        config = self._catalog.find(topic)
        if config is None or config.retention_ms is None:  # changed since the round began
            return 0
        first, end = self._store.bounds(topic, queue)
        begin = first
        if config.retention_ms and first < end:
            before_ms = self._clock.now_ms() - config.retention_ms
            begin = self._store.offset_at_time(topic, queue, before_ms)
        if begin > first:
            self._trims.trim(topic, {queue: begin}, is_lasting=False)
        entries = self._store.entries(topic, queue, begin, 1) if begin < end else []
        if entries:
            self._result[topic] = min(
                entries[0].position, self._result.get(topic, entries[0].position)
            )
        return begin - first
