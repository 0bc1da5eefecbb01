"""Decides where the copy of a message goes, or why it cannot be sent."""

from collections.abc import Callable

from engine.errors import Invalid
from engine.message import Message, StoredMessage
from engine.replay.conditions import origin_of
from engine.replay.copying import copy_for, retry_copy_for
from engine.replay.job import JobPlan, ReplayTo
from engine.replay.outcomes import ReplayOutcome
from engine.replay.selection_planner import ReplayTopics
from engine.store.record import encode_properties
from engine.topic.catalog import TopicType
from engine.topic.names import DEAD_LETTER_PREFIX, is_system_topic, retry_topic


class NotReplayable(Exception):
    """Why a message is not sent."""

    def __init__(self, outcome: ReplayOutcome, detail: str = "") -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = detail


class CopyPlanner:
    """Makes copies for the topics and groups that there are."""

    def __init__(self, catalog: ReplayTopics, has_group: Callable[[str], bool]) -> None:
        self._catalog = catalog
        self._has_group = has_group

    def copy(self, plan: JobPlan, stored: StoredMessage) -> Message:
        """The copy of a record; raises NotReplayable."""
        if plan.to is ReplayTo.GROUP:
            if not self._has_group(plan.to_name):
                raise NotReplayable(ReplayOutcome.GROUP_GONE)
            self._check_there(origin_of(stored))
            copy = retry_copy_for(plan.id, stored, retry_topic(plan.to_name))
        else:
            name = plan.to_name if plan.to is ReplayTo.TOPIC else origin_of(stored)
            copy = copy_for(plan.id, stored, name)
            self._address(copy, stored)
        try:
            encode_properties(copy)
        except Invalid as error:
            raise NotReplayable(ReplayOutcome.REFUSED, error.detail) from None
        return copy

    def _check_there(self, name: str) -> None:
        if not name:
            raise NotReplayable(ReplayOutcome.NO_ORIGIN)
        if self._catalog.find(name) is None:
            raise NotReplayable(ReplayOutcome.TOPIC_GONE)

    def _address(self, copy: Message, stored: StoredMessage) -> None:
        """See that the topic takes it, and choose the queue where order depends on it."""
        self._check_there(copy.topic)
        topic = self._catalog.get(copy.topic)
        if is_system_topic(topic.name):
            raise NotReplayable(ReplayOutcome.REFUSED, f"{topic.name!r} is the system's own topic")
        if not topic.is_writable:
            raise NotReplayable(ReplayOutcome.NOT_WRITABLE)
        if topic.type is TopicType.FIFO and not copy.message_group:
            raise NotReplayable(
                ReplayOutcome.REFUSED,
                f"{topic.name!r} is a FIFO topic, the message has no message group",
            )
        if not copy.message_group and not stored.topic.startswith(DEAD_LETTER_PREFIX):
            copy.queue = stored.queue % topic.write_queues  # one queue's order stays one's
