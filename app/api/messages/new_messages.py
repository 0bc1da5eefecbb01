"""The messages that a request asks to store: JSON, or one raw body that headers describe."""

from collections.abc import Iterable
from typing import Annotated, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.api.framework.operation import decode_body, text_of
from app.api.messages.message_columns import columns_of
from app.services.new_message import message_of
from engine.errors import Invalid
from engine.message import BODY_BYTES_MAX, Durability, Message
from engine.message_columns import MessageColumns, body_column
from kitemq.model.numbers import is_whole
from kitemq.model.produce import BATCH_MAX, NewMessage
from kitemq.model.scheduled import TIME_MS_MAX

PROPERTY_HEADER = b"kitemq-property-"
CONTENT_TYPE_PROPERTY = "content-type"


class Produced(NewMessage, kw_only=True):
    """Either of the two bodies, discriminated by `messages`."""

    body: str | UnsetType = UNSET  # type: ignore[assignment]
    messages: Annotated[list[NewMessage], Meta(max_length=BATCH_MAX)] | UnsetType = UNSET
    durability: Durability | None = None


DECODER = msgspec.json.Decoder(Produced)


class NewMessages(NamedTuple):
    """Messages for one append, and their durability."""

    messages: list[Message] | MessageColumns
    durability: Durability | None
    is_alone: bool  # the request has no list, so errors name its fields without an index

    def renamed(self, error: Invalid) -> Invalid:
        """The engine's error with the request's name of the field."""
        field = error.field.replace(".message_id", ".id")
        error.field = field.removeprefix("messages[0].") if self.is_alone else field
        return error


def from_json(topic: str, content: bytes, born_host: str, now_ms: int) -> NewMessages:
    """The message or the batch of a JSON body; Invalid or ProblemError for what is wrong."""
    produced = decode_body(content, DECODER)
    if produced.messages is UNSET:
        if produced.body is UNSET:
            raise Invalid(
                "neither `body` nor `messages` is given",
                field="body",
                remedy="send one message with a body, or a list of messages",
            )
        message = message_of(topic, produced, born_host, "", now_ms)
        return NewMessages([message], produced.durability, is_alone=True)
    if produced.body is not UNSET:
        raise Invalid(
            "`body` stands beside `messages`",
            field="body",
            remedy="put each message into `messages`, or send one without it",
        )
    listed = produced.messages

    def messages() -> list[Message]:
        return [
            message_of(topic, new, born_host, index, now_ms) for index, new in enumerate(listed)
        ]

    batch = columns_of(topic, listed, born_host, messages) or messages()
    return NewMessages(batch, produced.durability, is_alone=False)


class RawHeaders:
    """The headers that describe a raw body; Invalid names the one that is wrong."""

    def __init__(self, topic: str, sent: Iterable[tuple[bytes, bytes]]) -> None:
        properties: dict[str, str] = {}
        headers: dict[bytes, str] = {}
        for name, value in sent:
            if name.startswith(PROPERTY_HEADER):
                properties[text_of(name[len(PROPERTY_HEADER) :])] = text_of(value)
            elif name.startswith(b"kitemq-") or name == b"content-type":
                headers[name] = text_of(value)
        content_type = headers.get(b"kitemq-content-type") or headers.get(b"content-type")
        if content_type:
            properties[CONTENT_TYPE_PROPERTY] = content_type
        self._topic = topic
        self._properties = properties
        self._tag = headers.get(b"kitemq-tag", "")
        keys = headers.get(b"kitemq-keys", "").split(",")
        self._keys = tuple(key for part in keys if (key := part.strip()))
        self._message_group = headers.get(b"kitemq-group", "")
        self._queue = _number(headers, b"kitemq-queue", -1, 65535)
        self._delay_level = _number(headers, b"kitemq-delay-level", 0, 18)
        self._deliver_at_ms = _number(headers, b"kitemq-deliver-at-ms", 0, TIME_MS_MAX)
        self._transaction_group = headers.get(b"kitemq-transaction-group", "")
        self.durability = _durability(headers.get(b"kitemq-durability", ""))

    @property
    def is_plain(self) -> bool:
        """Whether messages with these headers neither wait for anything nor have an order."""
        return not (
            self._message_group
            or self._delay_level
            or self._deliver_at_ms
            or self._transaction_group
        )

    def columns(self, body: bytes, born_host: str) -> MessageColumns:
        """The message with this body as columns; only where it `is_plain`."""
        return MessageColumns(
            topic=self._topic,
            queue=self._queue,
            count=1,
            data=body_column(body),
            bodies_at=0,
            body_bytes=len(body),
            messages=lambda: [self._message(body, born_host)],
            tag=self._tag,
            keys=self._keys,
            properties=self._properties,
            born_host=born_host,
        )

    def message(self, body: bytes, born_host: str) -> NewMessages:
        """The message with this body."""
        return NewMessages([self._message(body, born_host)], self.durability, is_alone=True)

    def _message(self, body: bytes, born_host: str) -> Message:
        return Message(
            self._topic,
            body,
            self._tag,
            self._keys,
            self._properties.copy(),
            self._message_group,
            queue=self._queue,
            delay_level=self._delay_level,
            born_host=born_host,
            deliver_at_ms=self._deliver_at_ms,
            transaction_group=self._transaction_group,
        )


def _number(headers: dict[bytes, str], name: bytes, default: int, most: int) -> int:
    text = headers.get(name)
    if text is None:
        return default
    if is_whole(text, len(str(most))) and int(text) <= most:
        return int(text)
    raise Invalid(
        f"{text!r} is not a number from 0 to {most}",
        field=name.decode(),
        remedy="correct the header, or leave it out",
    )


def _durability(text: str) -> Durability | None:
    if not text:
        return None
    try:
        return Durability(text)
    except ValueError:
        raise Invalid(
            f"{text!r} is no durability",
            field="kitemq-durability",
            remedy="send stored, flushed or replicated",
        ) from None


assert BODY_BYTES_MAX == 4 * 1024 * 1024, "the description of `body` says so"
