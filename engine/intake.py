"""Intake: checks, routes and admits messages, and appends them to the log, all or none.

`send` is for producers, `put` for the engine's own messages (retries, dead letters, messages whose
time has come). What waits, and where, is decided by admission rules that `broker.py` hands in.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Protocol

from engine.clock import Clock
from engine.errors import EngineError, Forbidden, Invalid
from engine.events import Appended, EventBus, SendRefused
from engine.message import (
    BATCH_BYTES_MAX,
    BATCH_COUNT_MAX,
    BODY_BYTES_MAX,
    NAME_SEPARATOR,
    OF_RETRIES,
    PROPERTY_SEPARATOR,
    RESERVED,
    SENT_PROPERTIES_BYTES_MAX,
    WAIT,
    Durability,
    Message,
    PutResult,
)
from engine.store.record import encode_properties
from engine.store.store import Store
from engine.topic.catalog import Catalog, TopicConfig, TopicType
from engine.topic.names import CLOSED_TOPICS, RETRY_PREFIX, is_group_topic
from engine.topic.route import Router, check_queue

MESSAGE_ID_LENGTH_MAX = 64
MESSAGE_GROUP_LENGTH_MAX = 64
KEYS_MAX = 64
PROPERTIES_MAX = 128
FLAG_LIMIT = 1 << 31
LENGTH_PLAIN = 4096  # of all properties: they fit, in whatever encoding
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
        rules: Sequence[AdmissionRule] = (),
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._router = router
        self._clock = clock
        self._events = events
        self._durability = durability
        self._rules = tuple(rules)

    def send(
        self,
        messages: Sequence[Message],
        *,
        durability: Durability | None = None,
        own: Mapping[str, str] | None = None,
    ) -> PutResult:
        """Accept a producer's messages; at most 4,096 and 4 MiB of bodies at once.

        Sets `queue` and `born_ms` where the producer did not. Invalid names the
        field as `messages[3].tag`; TopicNotFound, Forbidden and DiskFull speak for the whole call.
        `own` are properties which the engine adds to each, reserved names among them.
        """
        check = self._check_message if own is None else partial(self._check_and_add, own)
        try:
            _check_batch(messages)
            if self._store.crowding:
                self._store.check_room()
            waits = any(message.properties.get(WAIT) != "false" for message in messages)
            return self._accept(messages, durability, check, waits=waits)
        except EngineError as error:
            if self._events.has_subscribers:
                self._events.emit(_refused(messages, error, self._clock.now_ms()))
            raise

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
        level = self._durability_of(durability, topics)
        sent = self._store.append(messages, durability=level, waits=waits)
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
        self, requested: Durability | None, topics: dict[str, TopicConfig]
    ) -> Durability:
        """The strongest of what was asked for, the topics' and the broker's."""
        if requested is Durability.FLUSHED:
            return Durability.FLUSHED
        defaults = (topic.durability or self._durability for topic in topics.values())
        return Durability.FLUSHED if Durability.FLUSHED in defaults else Durability.STORED

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


def check_message(message: Message, topic: TopicConfig) -> None:
    """Raise Invalid for the first thing wrong with a producer's message."""
    if not 0 < len(message.body) <= BODY_BYTES_MAX:
        raise _wrong_size(len(message.body))
    if message.tag and not _is_good_tag(message.tag):
        raise _unprintable(
            "tag", "the tag holds '|' or a control character, or has a space at an end"
        )
    if message.keys or message.properties or len(message.tag) > LENGTH_PLAIN:
        _check_keys(message.keys)
        check_properties(message.properties, is_retry=message.topic.startswith(RETRY_PREFIX))
        _check_size_of_properties(message)
    if message.message_group or topic.type is TopicType.FIFO:
        _check_message_group(message.message_group)
    if message.message_id:
        _check_message_id(message.message_id)
    if message.queue >= 0:
        check_queue(topic, message.queue)
    if message.flag and not -FLAG_LIMIT <= message.flag < FLAG_LIMIT:
        raise Invalid("the flag does not fit 32 bits", field="flag", remedy="send a smaller one")
    if message.born_ms >> 63:
        raise Invalid(
            f"{message.born_ms} is no time in ms since 1970",
            field="born_ms",
            remedy="leave it out: the broker's clock is taken",
        )


def check_properties(properties: dict[str, str], *, is_retry: bool = False) -> None:
    """Invalid for a reserved or empty name, an empty value, or a separator inside either."""
    if len(properties) > PROPERTIES_MAX:
        raise Invalid(
            f"{len(properties)} properties, {PROPERTIES_MAX} is the most",
            field="properties",
            remedy="send fewer, or move them into the body",
        )
    for name, value in properties.items():
        if name in RESERVED and name != WAIT and not (is_retry and name in OF_RETRIES):
            raise Invalid(
                f"the property name {name!r} is reserved",
                field=f"properties.{name}",
                remedy="use the field made for it, or another name",
                code="reserved_property",
            )
        if not name.strip() or not value.strip() or not _is_storable(name + value):
            raise Invalid(
                f"the property {name!r} has an empty name or value, or holds \\x00, \\x01, \\x02 "
                "or half a character",
                field=f"properties.{name}",
                remedy="give both a text without those characters",
            )


def _check_size_of_properties(message: Message) -> None:
    """Raise Invalid where they leave no room for what the engine notes on a message later."""
    length = len(message.tag) + len("".join(message.keys))
    length += len("".join(message.properties)) + len("".join(message.properties.values()))
    if length < LENGTH_PLAIN:
        return
    size_bytes = len(encode_properties(message))
    if size_bytes > SENT_PROPERTIES_BYTES_MAX:
        raise Invalid(
            f"the properties take {size_bytes} bytes, {SENT_PROPERTIES_BYTES_MAX} is the most",
            field="properties",
            remedy="send fewer or shorter properties, or move them into the body",
        )


def _wrong_size(size_bytes: int) -> Invalid:
    return Invalid(
        f"the body has {size_bytes} bytes, it must be 1 to {BODY_BYTES_MAX}",
        field="body",
        remedy="split it, or send a reference to it" if size_bytes else "send a body",
        code="invalid_size",
    )


def _check_keys(keys: tuple[str, ...]) -> None:
    if len(keys) > KEYS_MAX:
        raise Invalid(
            f"{len(keys)} keys, {KEYS_MAX} is the most", field="keys", remedy="send fewer"
        )
    for key in keys:
        if not key or " " in key or not key.isprintable():
            raise _unprintable("keys", "a key is empty or holds a space or a control character")


def _check_message_id(message_id: str) -> None:
    if len(message_id) > MESSAGE_ID_LENGTH_MAX or not (
        message_id.isascii() and message_id.isalnum()
    ):
        raise Invalid(
            f"a message id is made of at most {MESSAGE_ID_LENGTH_MAX} letters and digits",
            field="message_id",
            remedy="leave it out: the broker makes one",
        )


# The log's own: between names and values, and what a sector that was never written reads as.
_SEPARATORS = frozenset((NAME_SEPARATOR, PROPERTY_SEPARATOR, "\0"))


def _is_storable(text: str) -> bool:
    if _SEPARATORS.intersection(text):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@lru_cache(maxsize=4096)
def _is_good_tag(tag: str) -> bool:
    return tag.isprintable() and "|" not in tag and tag == tag.strip()


@lru_cache(maxsize=4096)
def _check_message_group(message_group: str) -> None:
    if not message_group:
        raise Invalid(
            "a FIFO topic's messages need a message group",
            field="message_group",
            remedy="name what must stay in order, such as the order's number",
        )
    if len(message_group) > MESSAGE_GROUP_LENGTH_MAX or not message_group.isprintable():
        raise _unprintable(
            "message_group",
            f"the message group is longer than {MESSAGE_GROUP_LENGTH_MAX} or holds a control "
            "character",
        )


def _unprintable(field: str, detail: str) -> Invalid:
    return Invalid(detail, field=field, remedy="use printable characters, or leave it out")


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
