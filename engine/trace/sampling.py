"""Selects the traced messages: a share of each topic, the same in every stage and group.

Whether a message belongs to the sample is decided by its offset alone. Failures, decisions, and all
that happens in the system's topics (retries, dead letters, transactions), are kept of every message
of a topic that is traced at all.
"""

from collections.abc import Iterable
from typing import Protocol

from engine.errors import Invalid
from engine.topic.catalog import TopicConfig
from engine.topic.names import CLIENT_TRACE_TOPIC, TRACE_TOPIC, is_system_topic
from engine.trace.rows import ALL, Row, is_never_sampled_out, runs

GOLDEN = 2654435769  # 2^32 / golden ratio: neighbours land far apart, so any stretch is sampled
MASK = 0xFFFFFFFF
UNTRACED = frozenset({TRACE_TOPIC, CLIENT_TRACE_TOPIC})  # else each trace would cause the next


class TopicConfigs(Protocol):
    """What sampling asks of the catalog."""

    version: int

    def find(self, name: str) -> TopicConfig | None: ...

    def all(self, *, system: bool = False) -> list[TopicConfig]: ...


class TraceSampler:
    """Asks the catalog once for each topic and change."""

    def __init__(self, topics: TopicConfigs, default: float) -> None:
        """`default` is the share, from 0 to 1, of topics that have none of their own."""
        if not 0 <= default <= 1:
            raise Invalid(
                f"trace_sample is {default}",
                field="trace_sample",
                remedy="give the share of messages to trace, from 0 (none) to 1 (all)",
            )
        self._topics = topics
        self.default = default
        self._shares: dict[str, int] = {}
        self._version = -1

    def share(self, topic: str) -> int:
        """How many of ten thousand messages of a topic are traced."""
        if self._topics.version != self._version:
            self._version = self._topics.version
            self._shares.clear()
        share = self._shares.get(topic)
        if share is None:
            share = self._shares[topic] = round(self.rate(topic) * ALL)
        return share

    def is_sampled(self, topic: str, offset: int) -> bool:
        """Whether everything that happens to this message is kept."""
        return _is_in(offset, self.share(topic))

    def sift(self, rows: Iterable[Row]) -> Iterable[Row]:
        """What of these rows is to be kept."""
        kept: list[Row] = []
        for row in rows:
            share = self.share(row.topic)
            if share == ALL or (share and is_never_sampled_out(row)):
                kept.append(row)
            elif share:
                offsets = range(row.first, row.first + row.message_count)
                for first, count in runs([each for each in offsets if _is_in(each, share)]):
                    kept.append(row._replace(first=first, message_count=count, sample=share))
        return kept

    def rate(self, topic: str) -> float:
        """The share, from 0 to 1, of a topic's messages that are traced."""
        if topic in UNTRACED:
            return 0.0
        config = self._topics.find(topic)
        own = None if config is None else config.trace_sample
        if own is not None:
            return own
        if self.default or not is_system_topic(topic):
            return self.default
        # What failed or waits goes on being traced, though by default nothing is.
        return 1.0 if any(each.trace_sample for each in self._topics.all()) else 0.0


def _is_in(offset: int, share: int) -> bool:
    return (offset * GOLDEN & MASK) * ALL < share << 32
