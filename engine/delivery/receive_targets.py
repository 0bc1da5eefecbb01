"""Resolves a receive to queues: those of the topics it names, and of the group's retry topic.

The first receive from a queue begins the group's progress there, where the group's settings say.
What a receive resolved to is kept, and used again while the same settings apply.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.delivery.broadcast import Broadcasts
from engine.delivery.changes import CursorAdvanced
from engine.delivery.filter import ALL, Filter, check_together, parse_filter
from engine.delivery.group import GroupCatalog, GroupConfig, Mode
from engine.delivery.order import OPEN_LANE
from engine.delivery.progress_store import ProgressStore
from engine.delivery.queue_progress import QueueProgress
from engine.delivery.start import StartAt, Starts
from engine.delivery.subscription_filters import SubscriptionFilters
from engine.errors import Forbidden, Invalid, Paused, QueueNotFound
from engine.store.store import Store
from engine.topic.catalog import Catalog, TopicConfig, TopicType
from engine.topic.names import GROUP_QUEUE, retry_topic

TOPICS_MAX = 64
NO_LANES = (OPEN_LANE,)
KEPT_MAX = 1024  # receives, each of so few queues and with so short names and filters:
KEPT_TARGETS_MAX = 64
KEPT_CHARS_MAX = 2048


class ReceiveTarget(NamedTuple):
    """One queue to take from, and which lanes of it; `is_ordered` keeps message groups in order."""

    progress: QueueProgress
    filter: Filter
    is_ordered: bool
    buckets: tuple[str, ...]


class ResolvedReceive(NamedTuple):
    """What a receive resolved to, and what that follows from."""

    config: GroupConfig
    topics: list[tuple[TopicConfig, Filter]]
    removals: int
    targets: list[ReceiveTarget]


class ReceiveTargets:
    """Resolves names to progress; raises what tells a caller that a name or right is wrong."""

    def __init__(
        self,
        groups: GroupCatalog,
        catalog: Catalog,
        progress_store: ProgressStore,
        store: Store,
        broadcasts: Broadcasts,
        starts: Starts,
    ) -> None:
        self._groups = groups
        self._catalog = catalog
        self._progress_store = progress_store
        self._store = store
        self._broadcasts = broadcasts
        self._starts = starts
        self._resolved: dict[tuple[object, ...], ResolvedReceive] = {}
        self.filters = SubscriptionFilters(store)

    def of(
        self,
        group: str,
        topics: Mapping[str, str],
        client: str = "",
        queue: int | None = None,
    ) -> list[ReceiveTarget]:
        """Sources for `topics` (name to filter), the group's retries last.

        Of each topic all queues, or `queue` alone. `client` names whose progress it is where the
        group broadcasts; then there are no retries. Raises Invalid, TopicNotFound, QueueNotFound,
        GroupNotFound, Forbidden when either may not be read, and Paused when the group or all of
        these topics are.
        """
        key = (group, queue, *topics.items())
        resolved = self._resolved.get(key)
        if resolved is None or not self._is_current(resolved):
            resolved = self._resolve(group, topics, client, queue)
            self._keep(key, resolved)
        return resolved.targets

    def _is_current(self, resolved: ResolvedReceive) -> bool:
        """Whether it would be the same if it were made anew; its filters are noted then."""
        group = resolved.config.name
        is_same = self._groups.find(group) is resolved.config
        if not is_same or resolved.removals != self._progress_store.removals:
            return False
        for settings, match in resolved.topics:
            if self._catalog.find(settings.name) is not settings:
                return False
            self.filters.note(group, settings.name, match)
        return True

    def _keep(self, key: tuple[object, ...], resolved: ResolvedReceive) -> None:
        """Not what depends on the client or on a pause, nor what is large."""
        config = resolved.config
        is_shared = config.mode is Mode.CLUSTERING and not config.paused_topics
        if (
            is_shared
            and len(resolved.targets) <= KEPT_TARGETS_MAX
            and len(str(key)) <= KEPT_CHARS_MAX
        ):
            if len(self._resolved) >= KEPT_MAX:
                self._resolved.clear()
            self._resolved[key] = resolved

    def _resolve(
        self, group: str, topics: Mapping[str, str], client: str, queue: int | None
    ) -> ResolvedReceive:
        if not 0 < len(topics) <= TOPICS_MAX:
            raise Invalid(
                f"{len(topics)} topics, it must be 1 to {TOPICS_MAX}",
                field="topics",
                remedy="name the topics to receive from",
            )
        check_together(topics)
        config = self._groups.ensure(group)
        paused, name, retries = config.paused_topics, group, ""
        if config.mode is Mode.CLUSTERING:
            retries = retry_topic(group)
        else:
            name = self._broadcasts.name_of(config, client)
        targets: list[ReceiveTarget] = []
        filters: list[tuple[TopicConfig, Filter]] = []
        for topic, expression in topics.items():
            if topic == retries:
                raise _retry_topic_alone(topic)
            settings = readable_topic(self._catalog, topic)
            match = parse_filter(expression)
            is_ordered = config.ordered and settings.type is TopicType.FIFO
            if not config.consume_enabled or (paused and topic in paused):
                continue
            self.filters.note(name, topic, match)
            filters.append((settings, match))
            for each in _queues_of(settings, queue):
                progress = self._progress_store.find(name, topic, each) or self._begin(
                    config, name, topic, each
                )
                targets.append(ReceiveTarget(progress, match, is_ordered, NO_LANES))
        if not targets:
            raise paused_error(config, ", ".join(topics))
        if retries:
            progress = self._progress_store.find(group, retries, GROUP_QUEUE) or self._begin(
                config, group, retries, GROUP_QUEUE
            )
            open_topics = [topic for topic in topics if topic not in paused] if paused else topics
            targets.append(ReceiveTarget(progress, ALL, False, (OPEN_LANE, *open_topics)))
        return ResolvedReceive(config, filters, self._progress_store.removals, targets)

    def _begin(self, group: GroupConfig, name: str, topic: str, queue: int) -> QueueProgress:
        """A queue that is added to a topic under consumption is consumed from its beginning."""
        is_new = topic != retry_topic(group.name) and not self._progress_store.has_topic(
            name, topic
        )
        if is_new and group.start is not StartAt.EARLIEST:
            # All queues of the topic begin now: a later look would take the others for added ones.
            for other in range(self._catalog.get(topic).read_queues):
                offset = self._starts.received(group.start, group.start_at_ms, topic, other)
                self._progress_store.write(CursorAdvanced(name, topic, other, offset))
        else:
            first = self._store.bounds(topic, queue)[0]
            self._progress_store.write(CursorAdvanced(name, topic, queue, first))
        progress = self._progress_store.find(name, topic, queue)
        assert progress is not None
        return progress


def _queues_of(topic: TopicConfig, queue: int | None) -> Sequence[int]:
    if queue is None:
        return range(topic.read_queues)
    if not 0 <= queue < topic.read_queues:
        raise QueueNotFound(
            f"topic {topic.name!r} has no queue {queue}",
            field="queue",
            remedy=f"choose 0 to {topic.read_queues - 1}",
        )
    return (queue,)


def consuming_group(groups: GroupCatalog, name: str, topic: str) -> GroupConfig:
    """The group, created if that is allowed; raises GroupNotFound, or Paused."""
    config = groups.ensure(name)
    if not config.consume_enabled or topic in config.paused_topics:
        raise paused_error(config, topic)
    return config


def paused_error(config: GroupConfig, topics: str) -> Paused:
    """Tells that a group is paused, or that it is for these topics."""
    where = f" in {topics}" if config.consume_enabled else ""
    return Paused(
        f"consumption is switched off for the group {config.name!r}{where}",
        field="group",
        remedy="resume it",
    )


def _retry_topic_alone(topic: str) -> Invalid:
    return Invalid(
        f"{topic!r} is received from along with the topics of its messages",
        field="topics",
        remedy="name those topics",
    )


def readable_topic(catalog: Catalog, name: str) -> TopicConfig:
    """The topic; raises TopicNotFound, or Forbidden when it may not be read."""
    topic = catalog.get(name)
    if not topic.is_readable:
        raise Forbidden(
            f"topic {name!r} is not open for reading", field="topic", remedy="give it permission 4"
        )
    return topic


def topics_of(targets: Sequence[ReceiveTarget]) -> dict[str, Filter]:
    """The topics that sources take from, with their filters."""
    return {target.progress.topic: target.filter for target in targets}
