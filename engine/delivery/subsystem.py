"""Builds the parts of delivery and connects them; `engine.broker` passes its calls on to them."""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.config import EngineConfig
from engine.context import EngineContext
from engine.delivery.broadcast import Broadcasts
from engine.delivery.changes import (
    CursorAdvanced,
    DeliverySettled,
    GroupCleared,
    OrderEnded,
    TopicCleared,
)
from engine.delivery.deadlines import Deadlines
from engine.delivery.expire import Expirer
from engine.delivery.failure import FailureHandler
from engine.delivery.group import GroupCatalog, GroupConfig
from engine.delivery.inflight import Inflight
from engine.delivery.locks import QueueLocks
from engine.delivery.long_polling import LongPoll, LongPolling, Wake
from engine.delivery.members import Members
from engine.delivery.message_state import Transition
from engine.delivery.min_offset_corrector import MinOffsetCorrector
from engine.delivery.offsets import ConsumerOffsets
from engine.delivery.progress_store import ProgressStore
from engine.delivery.pull import Pull
from engine.delivery.queue_progress import QueueProgress, owner_of
from engine.delivery.receive import Receiver
from engine.delivery.receive_targets import ReceiveTargets, readable_topic
from engine.delivery.resets import OffsetResets
from engine.delivery.retry import RetryLevels
from engine.delivery.start import Starts
from engine.errors import Paused
from engine.message import StoredMessage
from engine.run_length import to_runs
from engine.service import Service
from engine.store.journal import JournalEntry
from engine.topic.names import retry_topic


class DeliverySubsystem:
    """Build it before the journal is loaded, `start` it after recovery.

    Its parts are public: `groups`, `receives`, `inflight`, `failures`, `pulls`, `offsets`,
    `resets`, `long_polling`, `members`, `broadcasts`.
    """

    def __init__(
        self,
        config: EngineConfig,
        context: EngineContext,
        *,
        groups: GroupCatalog,
        locks: QueueLocks,
        levels: RetryLevels,
    ) -> None:
        self._store = context.store
        self._catalog = context.catalog
        self._clock = context.clock
        self._deadlines = Deadlines()
        self.groups = groups
        self.progress_store = ProgressStore(
            context.store.journal, self._deadlines, window=config.inflight_max
        )
        self.broadcasts = Broadcasts(
            self.progress_store,
            groups,
            context.clock,
            clients_max=config.broadcast_clients_max,
            timeout_s=config.broadcast_client_timeout_s,
        )
        starts = Starts(context.store, recent_bytes=config.recent_bytes)
        self.receive_targets = ReceiveTargets(
            groups, context.catalog, self.progress_store, context.store, self.broadcasts, starts
        )
        self.min_offset_corrector = MinOffsetCorrector(
            context.store, self.progress_store, context.clock, context.events
        )
        self.receives = Receiver(
            context, self.progress_store, self.receive_targets, self.min_offset_corrector
        )
        self.inflight = Inflight(
            self.progress_store, groups, self.broadcasts, context.clock, context.events
        )
        self.failures = FailureHandler(context, groups, self.progress_store, self.inflight, levels)
        filters = self.receive_targets.filters
        self.pulls = Pull(context, groups, self.progress_store, filters)
        self.offsets = ConsumerOffsets(
            context, groups, self.progress_store, self.broadcasts, starts, filters
        )
        self.long_polling = LongPolling(
            context.store,
            self.receives,
            total_max=config.long_polls_max,
            per_key_max=config.long_polls_per_key_max,
        )
        self.members = Members(
            groups,
            context.catalog,
            context.clock,
            context.events,
            timeout_s=config.member_timeout_s,
            members_max=config.members_max,
        )
        self.locks = locks
        self.resets = OffsetResets(
            context,
            groups,
            self.progress_store,
            self.offsets,
            starts,
            self.long_polling.queue_reset,
        )
        self._expirer = Expirer(self._deadlines, self.progress_store, self.failures, context.clock)

    def services(self) -> list[Service]:
        """The services to tick."""
        return [self._expirer, self.min_offset_corrector, self.members, self.broadcasts, self.locks]

    def replayed(self, message: StoredMessage) -> None:
        """During recovery, for every record that has a source."""
        self.failures.replayed(message)

    def start(self) -> None:
        """After recovery: forget progress of what is gone, and listen from now on."""
        self.progress_store.start(self._clock.now_ms())
        groups, topics = self.progress_store.names()
        for group in sorted(groups):
            if self.groups.find(owner_of(group)) is None:
                self.progress_store.write(GroupCleared(group))
        # A retry topic comes into being with its first message.
        own = {retry_topic(group) for group in groups}
        for topic in sorted(topics - own):
            if self._catalog.find(topic) is None:
                self.progress_store.write(TopicCleared(topic))
        for group in sorted(groups):
            for progress in self.progress_store.of_group(group):
                self._draw_back(progress)
        self.broadcasts.start(self.progress_store.names()[0])
        self.broadcasts.is_connected = self.members.is_connected
        self.broadcasts.on_forgotten = lambda name: self.long_polling.groups_changed([name])
        self.members.on_sign = self.broadcasts.seen
        self.members.on_goodbye = self.locks.unlock_all
        self.progress_store.on_ready = self._ready
        self._deadlines.on_first = self._expirer.wake
        self._store.on_visible.append(self.long_polling.arrived)

    def wait_to_receive(
        self,
        group: str,
        topics: Mapping[str, str],
        wake: Wake,
        client: str = "",
        queue: int | None = None,
    ) -> LongPoll:
        """Wait until a receive of these may find something; see `LongPolling.wait_to_receive`.

        In a group that is paused this means its end: no error, though a receive raises Paused.
        """
        try:
            receive_targets = self.receive_targets.of(group, topics, client, queue)
        except Paused:
            return self.long_polling.wait_to_receive(group, (), wake)
        return self.long_polling.wait_to_receive(
            receive_targets[0].progress.group, receive_targets, wake, queue
        )

    def wait_to_pull(
        self, topic: str, queue: int, offset: int, expression: str, wake: Wake
    ) -> LongPoll:
        """Wait for a message at or past `offset` that may match; see `LongPolling.wait_to_pull`."""
        readable_topic(self._catalog, topic)
        return self.long_polling.wait_to_pull(topic, queue, offset, expression, wake)

    def change_group(self, name: str, /, **changes: Any) -> GroupConfig:
        """Change a group's settings; raises GroupNotFound, Invalid."""
        was_ordered = self.groups.get(name).ordered
        changed = self.groups.change(name, **changes)
        names = self.broadcasts.names(name)
        if was_ordered and not changed.ordered:
            for each in names:
                self.progress_store.write(
                    OrderEnded(each), is_owed=True
                )  # the group is changed already
        self.long_polling.groups_changed(names)
        return changed

    def pause(self, name: str, topic: str = "") -> GroupConfig:
        """Deliver nothing more to a group, or nothing of one topic; in flight stays in flight."""
        if not topic:
            return self.change_group(name, consume_enabled=False)
        self._catalog.get(topic)
        paused = {*self.groups.get(name).paused_topics, topic}
        return self.change_group(name, paused_topics=tuple(sorted(paused)))

    def resume(self, name: str, topic: str = "") -> GroupConfig:
        """End a pause of the group, or of one topic; all waiting receives are woken."""
        if not topic:
            return self.change_group(name, consume_enabled=True)
        left = set(self.groups.get(name).paused_topics) - {topic}
        return self.change_group(name, paused_topics=tuple(sorted(left)))

    def delete_group(self, name: str) -> None:
        """Delete a group and its progress; its retry and dead-letter topics are the caller's."""
        self.groups.get(name)
        names = self.broadcasts.names(name)
        for each in names:
            self.progress_store.write(GroupCleared(each))
        self.locks.forget(name)
        self.groups.delete(name)
        self.receives.forget(name)
        self.receive_targets.filters.forget_group(name)
        self.members.forget(name)
        self.broadcasts.forget(name)
        self.long_polling.groups_changed(names)

    def topic_deletion_entries(self, topic: str) -> Sequence[JournalEntry]:
        """What is to be journalled along with a topic's deletion, before `forget_topic`."""
        return [TopicCleared(topic)]

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: forget all progress in it and wake the calls that wait on it."""
        self.progress_store.apply(TopicCleared(topic))
        self.receive_targets.filters.forget_topic(topic)
        self.long_polling.topic_deleted(topic)

    def groups_of(self, topic: str) -> Sequence[str]:
        """The groups that have consumed from a topic, by name."""
        return self.progress_store.groups_of(topic)

    def _ready(self, group: str, topic: str, count: int) -> None:
        self.long_polling.ready(group, topic, count)

    def _draw_back(self, progress: QueueProgress) -> None:
        """A power loss may have cut the log shorter than progress: what comes anew must count."""
        end = self._store.bounds(progress.topic, progress.queue)[1]
        place = (progress.group, progress.topic, progress.queue)
        lost = sorted(offset for offset in progress.slots if offset >= end)
        if lost:
            self.progress_store.write(DeliverySettled(*place, to_runs(lost), Transition.DROP))
        if progress.cursor > end:
            self.progress_store.write(CursorAdvanced(*place, end))
