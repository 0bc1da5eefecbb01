"""What a producer's message may be: sizes, characters and reserved names."""

from functools import lru_cache

from engine.errors import Invalid
from engine.message import (
    BODY_BYTES_MAX,
    NAME_SEPARATOR,
    OF_RETRIES,
    PROPERTY_SEPARATOR,
    RESERVED,
    SENT_PROPERTIES_BYTES_MAX,
    WAIT,
    Message,
)
from engine.store.record import encode_properties
from engine.topic.catalog import TopicConfig, TopicType
from engine.topic.names import RETRY_PREFIX
from engine.topic.route import check_queue

MESSAGE_ID_LENGTH_MAX = 64
MESSAGE_GROUP_LENGTH_MAX = 64
KEYS_MAX = 64
PROPERTIES_MAX = 128
FLAG_LIMIT = 1 << 31
LENGTH_PLAIN = 4096  # of all properties: they fit, in whatever encoding


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
