"""Resolves a replay request to the messages it selects and the topic they may go to.

A selection is fixed when its job is created: messages that arrive later are not in it.
"""

from collections.abc import Callable
from itertools import islice
from typing import Protocol

from engine.delivery.filter import parse_filter
from engine.errors import Forbidden, GroupNotFound, Invalid, QueueNotFound, Refused
from engine.replay.conditions import check_texts
from engine.replay.dismissed_offsets import DismissedOffsets
from engine.replay.job import ReplayTo
from engine.replay.selection import OffsetRange, count_of, merged, runs_of
from engine.replay.states import DeadLetterState
from engine.replay.values import NewReplay
from engine.topic.catalog import TopicConfig
from engine.topic.names import DEAD_LETTER_PREFIX, is_system_topic

PLACES_MAX = 10_000  # messages named one by one
RANGES_MAX = 1024
SELECTED_MAX = 10_000_000
STRETCHES_MAX = 10_000  # that dismissed dead letters may cut a selection into
RATE_MAX = 1_000_000.0
NAME_CHARS_MAX = 200


class ReplayBounds(Protocol):
    """What is kept of each queue, and what of it was stored when."""

    def bounds(self, topic: str, queue: int) -> tuple[int, int]:
        """The first offset that is kept, and the one after the last."""

    def offset_at_time(self, topic: str, queue: int, time_ms: int) -> int:
        """The first offset that was stored then or later."""


class ReplayTopics(Protocol):
    """Topics by name."""

    def get(self, name: str) -> TopicConfig:
        """The topic; TopicNotFound."""

    def find(self, name: str) -> TopicConfig | None:
        """The topic, if it is there."""


class DismissedLetters(Protocol):
    """What is dismissed."""

    def dismissed_offsets(self, topic: str) -> DismissedOffsets:
        """What is dismissed of a topic."""


class SelectionPlanner:
    """Looks into the topics; changes nothing."""

    def __init__(
        self,
        store: ReplayBounds,
        catalog: ReplayTopics,
        has_group: Callable[[str], bool],
        dismissals: DismissedLetters,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._has_group = has_group
        self._dismissals = dismissals

    def source(self, name: str) -> TopicConfig:
        """The topic to read from; raises TopicNotFound, Forbidden."""
        topic = self._catalog.get(name)
        if is_system_topic(name) and not name.startswith(DEAD_LETTER_PREFIX):
            raise Forbidden(
                f"messages of {name!r} are not replayed, it is the system's own",
                field="source",
                remedy="name a topic, or the dead letters of a group",
            )
        return topic

    def destination(self, new: NewReplay) -> str:
        """The name of the topic or group, empty for the origin; raises what is wrong with it."""
        if new.to is ReplayTo.ORIGIN:
            return ""
        if new.to is ReplayTo.GROUP:
            name = new.to_name
            if not name and new.source.startswith(DEAD_LETTER_PREFIX):
                name = new.source.removeprefix(DEAD_LETTER_PREFIX)
            if not name:
                raise Invalid("no group is named", field="to_name", remedy="name the group")
            if not self._has_group(name):
                raise GroupNotFound(
                    f"there is no consumer group {name!r}",
                    field="to_name",
                    remedy="create it, or send to the origin",
                )
            return name
        if not new.to_name:
            raise Invalid("no topic is named", field="to_name", remedy="name the topic")
        topic = self._catalog.get(new.to_name)
        if is_system_topic(topic.name) or not topic.is_writable:
            raise Forbidden(
                f"topic {topic.name!r} is the system's own, or not open for writing",
                field="to_name",
                remedy='name another topic; for one group say to "group"',
            )
        return topic.name

    def freeze(self, new: NewReplay, source: TopicConfig) -> list[OffsetRange]:
        """What is chosen of all that is there now.

        Raises Invalid for too much, QueueNotFound, Refused for more than 10,000 stretches between
        dismissed ones.
        """
        runs = self._ranges_of(new, source)
        if count_of(runs) > SELECTED_MAX:
            raise Invalid(
                f"{count_of(runs)} messages are selected, {SELECTED_MAX} is the most",
                field="ranges" if new.ranges else "from_ms",
                remedy="choose a shorter time, or fewer ranges",
            )
        return runs

    def _ranges_of(self, new: NewReplay, source: TopicConfig) -> list[OffsetRange]:
        if new.places:
            for queue, offset in new.places:
                self._check_place(source, queue, offset)
            return runs_of(new.places)
        if new.ranges:
            runs = merged(self._within(source, *each) for each in new.ranges)
        else:
            queues = range(max(source.read_queues, source.write_queues))
            runs = merged(self._stored_between(new, source.name, queue) for queue in queues)
        has_dismissed = new.with_dismissed or new.dead_letter_state is DeadLetterState.DISMISSED
        return runs if has_dismissed else self._undismissed(source.name, runs)

    def _undismissed(self, topic: str, runs: list[OffsetRange]) -> list[OffsetRange]:
        """The runs without dismissed dead letters, which have one queue."""
        dismissed_offsets = self._dismissals.dismissed_offsets(topic)
        if not len(dismissed_offsets):
            return runs
        free = (
            OffsetRange(run.queue, free.start, len(free))
            for run in runs
            for free in dismissed_offsets.free(range(run.first, run.first + run.length))
        )
        ranges = list(islice(free, STRETCHES_MAX + 1))
        if len(ranges) > STRETCHES_MAX:
            raise Refused(
                f"what is not dismissed lies in more than {STRETCHES_MAX:,} stretches",
                field="with_dismissed",
                remedy="choose by a shorter time or by offsets, or send the dismissed ones as well",
            )
        return ranges

    def _check_place(self, source: TopicConfig, queue: int, offset: int) -> None:
        _check_queue(source, queue, "places")
        if not 0 <= offset < self._store.bounds(source.name, queue)[1]:
            raise Invalid(
                f"queue {queue} of {source.name!r} has no message at offset {offset} yet",
                field="places",
                remedy="name messages that are there",
            )

    def _within(self, source: TopicConfig, queue: int, first: int, end: int) -> OffsetRange:
        _check_queue(source, queue, "ranges")
        if not 0 <= first <= end:
            raise Invalid(
                f"{first} to {end} is no range", field="ranges", remedy="give first and end, 0 up"
            )
        low, high = self._store.bounds(source.name, queue)
        first = max(first, low)
        return OffsetRange(queue, first, min(end, high) - first)

    def _stored_between(self, new: NewReplay, topic: str, queue: int) -> OffsetRange:
        first, end = self._store.bounds(topic, queue)
        if new.to_ms:
            end = min(end, self._store.offset_at_time(topic, queue, new.to_ms))
        if new.from_ms:
            first = max(first, self._store.offset_at_time(topic, queue, new.from_ms))
        return OffsetRange(queue, first, end - first)


def check_request(new: NewReplay) -> None:
    """Invalid, with its field, for mistakes that the request alone shows."""
    parse_filter(new.filter)
    check_texts(error_class=new.error_class, error=new.error, client=new.client)
    check_rate(new.rate)
    if len(new.name) > NAME_CHARS_MAX or not (new.name == "" or new.name.isprintable()):
        raise Invalid(
            f"a job's name has at most {NAME_CHARS_MAX} printable characters",
            field="name",
            remedy="choose another name",
        )
    for field, count, most in (
        ("places", len(new.places), PLACES_MAX),
        ("ranges", len(new.ranges), RANGES_MAX),
    ):
        if count > most:
            raise Invalid(
                f"{count} {field}, {most} is the most",
                field=field,
                remedy="create several jobs, or use ranges or a time",
            )
    criteria = [bool(new.places), bool(new.ranges), bool(new.from_ms or new.to_ms)]
    if sum(criteria) > 1:
        raise Invalid(
            "places, ranges and a time exclude each other",
            field="places" if new.places else "ranges",
            remedy="choose by one of them",
        )
    if new.to_ms and new.to_ms < new.from_ms:
        raise Invalid("the time ends before it begins", field="to_ms", remedy="correct the times")


def check_rate(rate: float) -> None:
    """Invalid for what is no rate."""
    if not 0 <= rate <= RATE_MAX:
        raise Invalid(
            f"{rate} messages a second",
            field="rate",
            remedy=f"choose 0 (no limit) to {RATE_MAX:.0f}",
        )


def _check_queue(source: TopicConfig, queue: int, field: str) -> None:
    queues = max(source.read_queues, source.write_queues)
    if not 0 <= queue < queues:
        raise QueueNotFound(
            f"topic {source.name!r} has no queue {queue}",
            field=field,
            remedy=f"choose 0 to {queues - 1}",
        )
