"""Intake: checks, routes and admits messages, and appends them to the log, all or none.

`send` is for producers, `put` for the engine's own messages (retries, dead letters, messages whose
time has come). What waits, and where, is decided by admission rules that `broker.py` hands in.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from engine.clock import Clock
from engine.errors import EngineError, Forbidden, Invalid
from engine.events import Appended, EventBus, SendRefused
from engine.message import (
    BATCH_BYTES_MAX,
    BATCH_COUNT_MAX,
    WAIT,
    Durability,
    Message,
    PutResult,
)
from engine.message_checks import check_message
from engine.message_columns import MessageColumns, PutColumns
from engine.plain_columns import plain_topic
from engine.replicas import Replicas
from engine.store.store import Store
from engine.topic.catalog import Catalog, TopicConfig
from engine.topic.names import CLOSED_TOPICS, is_group_topic
from engine.topic.route import Router

REFUSED_IDS_MAX = 64


Check = Callable[[int, Message, TopicConfig | None], TopicConfig]


class AdmissionRule(Protocol):
    """Asked for each message that is not plain: it has a delay, or goes to a group's topic."""

    def admit(self, message: Message, now_ms: int) -> Message:
        """The message to store instead, perhaps in a waiting topic; raises Refused or Invalid.

        `message` itself stays as it is: its sender may send it again.
        """


class Intake:
    """Turns messages into records; a refused call stores nothing."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        router: Router,
        clock: Clock,
        events: EventBus,
        *,
        durability: Durability,
        replicas: Replicas,
        rules: Sequence[AdmissionRule] = (),
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._router = router
        self._clock = clock
        self._events = events
        self._durability = durability
        self._replicas = replicas
        self._rules = tuple(rules)

    def send(
        self,
        messages: Sequence[Message],
        *,
        durability: Durability | None = None,
        own: Mapping[str, str] | None = None,
        is_joined: bool = False,
    ) -> PutResult:
        """Accept a producer's messages; at most 4,096 and 4 MiB of bodies at once.

        Sets `queue` and `born_ms` where the producer did not. Invalid names the
        field as `messages[3].tag`; TopicNotFound, Forbidden and DiskFull speak for the whole call.
        `own` are properties which the engine adds to each, reserved names among them. A refusal of
        several sends together (`is_joined`) is no event.
        """
        check = self._check_message if own is None else partial(self._check_and_add, own)
        try:
            _check_batch(messages)
            if self._store.crowding:
                self._store.check_room()
            waits = any(message.properties.get(WAIT) != "false" for message in messages)
            return self._accept(messages, durability, check, waits=waits)
        except EngineError as error:
            if self._events.has_subscribers and not is_joined:
                self._events.emit(_refused(messages, error, self._clock.now_ms()))
            raise

    def send_columns(
        self,
        batches: Sequence[MessageColumns],
        *,
        durability: Durability | None = None,
        is_joined: bool = False,
    ) -> PutColumns | None:
        """Accept batches of one topic, all or none, within the limits of one `send`.

        None, and nothing is done, where one is not plain or is to be refused: `send` says why.
        """
        topic = plain_topic(batches, self._open_topic, self._store)
        if topic is None:
            return None
        queue = -1
        if any(batch.queue < 0 for batch in batches):
            queue = self._router.next_queue(topic)
        if self._catalog.find(topic.name) is None:
            self._catalog.ensure(topic.name)
        try:
            level = self._durability_of(durability, {topic.name: topic})
            sent = self._store.append_columns(batches, queue, durability=level)
            if level is Durability.REPLICATED:
                self._replicas.hold(sent.flush_position)
        except EngineError as error:
            if self._events.has_subscribers and not is_joined:
                ids = [name for batch in batches for name in batch.message_ids(REFUSED_IDS_MAX)]
                client = batches[0].born_host
                names = tuple(ids[:REFUSED_IDS_MAX])
                now_ms = self._clock.now_ms()
                self._events.emit(SendRefused(now_ms, topic.name, error.code, names, client))
            raise
        if self._events.has_subscribers:
            now_ms = self._clock.now_ms()
            for run in sent.runs:
                self._events.emit(Appended(now_ms, *run))
        return sent

    def lone_durability(
        self, columns: MessageColumns, durability: Durability | None
    ) -> Durability | None:
        """What messages like this one get, if they may be sent alone without being looked at.

        None where they may not, or where it depends on the standbys of the moment.
        """
        topic = plain_topic([columns], self._open_topic, self._store)
        if topic is None or topic is not self._catalog.find(topic.name):
            return None
        if Durability.REPLICATED in (durability, topic.durability or self._durability):
            return None
        return self._durability_of(durability, {topic.name: topic})

    def put(self, messages: Sequence[Message]) -> PutResult:
        """Accept the engine's own messages, which may go to system topics; no limit of producers.

        At least one; callers bound how many they move at once by `BATCH_BYTES_MAX` of bodies.
        Where the broker's durability is FLUSHED the flush begins, so that they are soon readable,
        but nobody waits for it.
        """
        return self._accept(messages, Durability.STORED, self._get_topic, waits=False)

    def _accept(
        self,
        messages: Sequence[Message],
        durability: Durability | None,
        check: Check,
        *,
        waits: bool,
    ) -> PutResult:
        now_ms = self._clock.now_ms()
        topics, special = self._look_over(messages, check, now_ms)
        if special:
            messages = list(messages)
            for index in special:
                messages[index] = self._admit(index, messages[index], now_ms)
        for name in topics:
            if self._catalog.find(name) is None:  # not before every message was found good
                self._catalog.ensure(name)
        level = self._durability_of(durability, topics, waits=waits)
        sent = self._store.append(messages, durability=level, waits=waits)
        if level is Durability.REPLICATED:
            self._replicas.hold(sent.flush_position)
        if self._events.has_subscribers:
            for run in sent.runs:
                self._events.emit(Appended(now_ms, *run))
        return sent

    def _look_over(
        self, messages: Sequence[Message], check: Check, now_ms: int
    ) -> tuple[dict[str, TopicConfig], list[int]]:
        """Check and route each message; the topics by name, and which messages are not plain."""
        topics: dict[str, TopicConfig] = {}
        turns: dict[str, int] = {}  # a batch without groups stays together, as RocketMQ's does
        special: list[int] = []
        topic, name = None, ""
        for index, message in enumerate(messages):
            if message.topic != name:
                name, topic = message.topic, topics.get(message.topic)
            topic = topics[name] = check(index, message, topic)
            if not message.born_ms:
                message.born_ms = now_ms
            if message.queue < 0:
                message.queue = self._route(message, topic, turns)
            if not is_plain(message):
                special.append(index)
        return topics, special

    def _route(self, message: Message, topic: TopicConfig, turns: dict[str, int]) -> int:
        if message.message_group:
            return self._router.group_queue(topic, message.message_group)
        turn = turns.get(topic.name)
        if turn is None:
            turn = turns[topic.name] = self._router.next_queue(topic)
        return turn

    def _admit(self, index: int, message: Message, now_ms: int) -> Message:
        try:
            for rule in self._rules:
                message = rule.admit(message, now_ms)
        except Invalid as error:
            error.field = f"messages[{index}].{error.field}"
            raise
        return message

    def _durability_of(
        self,
        requested: Durability | None,
        topics: dict[str, TopicConfig],
        *,
        waits: bool = True,
    ) -> Durability:
        """The strongest of what was asked for, the topics' and the broker's.

        Busy where that needs a standby, and none is there.
        """
        levels = {topic.durability or self._durability for topic in topics.values()}
        levels.add(requested or Durability.STORED)
        if Durability.REPLICATED in levels:
            return self._replicas.level() if waits else Durability.FLUSHED
        return Durability.FLUSHED if Durability.FLUSHED in levels else Durability.STORED

    def _get_topic(self, index: int, message: Message, known: TopicConfig | None) -> TopicConfig:
        return known or self._catalog.ensure_system(message.topic)

    def _check_message(
        self, index: int, message: Message, known: TopicConfig | None
    ) -> TopicConfig:
        try:
            topic = known or self._open_topic(message)
            check_message(message, topic)
        except Invalid as error:
            error.field = f"messages[{index}].{error.field}"
            raise
        return topic

    def _check_and_add(
        self, own: Mapping[str, str], index: int, message: Message, known: TopicConfig | None
    ) -> TopicConfig:
        topic = self._check_message(index, message, known)
        message.properties = {**message.properties, **own}
        return topic

    def _open_topic(self, message: Message) -> TopicConfig:
        if message.topic in CLOSED_TOPICS:
            raise Forbidden(
                f"nobody may send to {message.topic!r}, the engine writes it itself",
                field="topic",
                remedy="send to a topic of your own",
            )
        topic = self._catalog.find(message.topic)
        if topic is None and is_group_topic(message.topic):
            topic = self._catalog.ensure_system(message.topic)
        topic = topic or self._catalog.plan(message.topic)
        if not topic.is_writable:
            raise Forbidden(
                f"topic {topic.name!r} is not open for writing",
                field="topic",
                remedy="give it write permission",
            )
        return topic


def _refused(messages: Sequence[Message], error: EngineError, now_ms: int) -> SendRefused:
    topic = messages[0].topic if messages else ""
    client = messages[0].born_host if messages else ""
    ids = (message.message_id for message in messages[:REFUSED_IDS_MAX])
    return SendRefused(now_ms, topic, error.code, tuple(filter(None, ids)), client)


def is_plain(message: Message) -> bool:
    """Whether no admission rule has anything to say: nearly every message."""
    return (
        not message.delay_level
        and not message.deliver_at_ms
        and not message.transaction_group
        and message.topic[0] != "%"
    )


def _check_batch(messages: Sequence[Message]) -> None:
    if not 0 < len(messages) <= BATCH_COUNT_MAX:
        raise Invalid(
            f"{len(messages)} messages in one call, it must be 1 to {BATCH_COUNT_MAX}",
            field="messages",
            remedy="send at least one" if not messages else "split the batch",
            code="invalid_size",
        )
    size = sum([len(message.body) for message in messages])
    if size > BATCH_BYTES_MAX:
        raise Invalid(
            f"the bodies have {size} bytes together, {BATCH_BYTES_MAX} is the most",
            field="messages",
            remedy="split the batch",
            code="invalid_size",
        )
