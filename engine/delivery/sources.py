"""Which queues a receive looks into: those of the topics it names, and the group's retries.

Looking into a queue for the first time begins the group's progress there, at the end that the
group was set up to start from.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.delivery.changes import Passed
from engine.delivery.filter import ALL, Filter, parse_filter
from engine.delivery.group import GroupCatalog, GroupConfig, StartAt
from engine.delivery.ledger import Ledger
from engine.delivery.order import OPEN_LANE
from engine.delivery.progress import Progress
from engine.errors import Forbidden, Invalid
from engine.store.store import Store
from engine.topic.catalog import Catalog, TopicConfig, TopicType
from engine.topic.names import retry_topic

TOPICS_MAX = 64
RETRY_QUEUE = 0
NO_LANES = (OPEN_LANE,)


class Source(NamedTuple):
    """One queue to take from, and which lanes of it."""

    progress: Progress
    filter: Filter
    is_fifo: bool
    buckets: tuple[str, ...]


class Sources:
    """Resolves names to progress; raises what tells a caller that a name or right is wrong."""

    def __init__(
        self, groups: GroupCatalog, catalog: Catalog, ledger: Ledger, store: Store
    ) -> None:
        self._groups = groups
        self._catalog = catalog
        self._ledger = ledger
        self._store = store

    def of(self, group: str, topics: Mapping[str, str]) -> list[Source]:
        """Sources for `topics` (name to filter), the group's retries last.

        Raises Invalid, TopicNotFound, GroupNotFound, or Forbidden when either may not be read.
        """
        if not 0 < len(topics) <= TOPICS_MAX:
            raise Invalid(
                f"{len(topics)} topics, it must be 1 to {TOPICS_MAX}",
                field="topics",
                remedy="name the topics to receive from",
            )
        config = consuming_group(self._groups, group)
        retries = retry_topic(group)
        found: list[Source] = []
        for name, expression in topics.items():
            if name == retries:
                raise Invalid(
                    f"{name!r} is received from along with the topics of its messages",
                    field="topics",
                    remedy="name those topics",
                )
            topic = readable_topic(self._catalog, name)
            match, is_fifo = parse_filter(expression), topic.type is TopicType.FIFO
            for queue in range(topic.read_queues):
                progress = self._ledger.find(group, name, queue) or self._begin(config, name, queue)
                found.append(Source(progress, match, is_fifo, NO_LANES))
        progress = self._ledger.find(group, retries, RETRY_QUEUE) or self._begin(
            config, retries, RETRY_QUEUE
        )
        found.append(Source(progress, ALL, False, (OPEN_LANE, *topics)))
        return found

    def _begin(self, group: GroupConfig, topic: str, queue: int) -> Progress:
        """A queue that is added to a topic under consumption is consumed from its beginning."""
        is_new = topic != retry_topic(group.name) and not self._ledger.has_topic(group.name, topic)
        skips = is_new and group.start is StartAt.LATEST
        if skips:
            # All queues of the topic begin now: a later look would take the others for added ones.
            for other in range(self._catalog.get(topic).read_queues):
                end_of_other = self._store.bounds(topic, other)[1]
                self._ledger.write(Passed(group.name, topic, other, end_of_other))
        else:
            first = self._store.bounds(topic, queue)[0]
            self._ledger.write(Passed(group.name, topic, queue, first))
        progress = self._ledger.find(group.name, topic, queue)
        assert progress is not None
        return progress


def consuming_group(groups: GroupCatalog, name: str) -> GroupConfig:
    """The group, created if that is allowed; raises GroupNotFound, or Forbidden when paused."""
    config = groups.ensure(name)
    if not config.consume_enabled:
        raise Forbidden(
            f"consumption is switched off for the group {name!r}",
            field="group",
            remedy="switch it on in the group's settings",
        )
    return config


def readable_topic(catalog: Catalog, name: str) -> TopicConfig:
    """The topic; raises TopicNotFound, or Forbidden when it may not be read."""
    topic = catalog.get(name)
    if not topic.is_readable:
        raise Forbidden(
            f"topic {name!r} is not open for reading", field="topic", remedy="give it permission 4"
        )
    return topic


def topics_of(sources: Sequence[Source]) -> dict[str, Filter]:
    """The topics that sources take from, with their filters."""
    return {source.progress.topic: source.filter for source in sources}
