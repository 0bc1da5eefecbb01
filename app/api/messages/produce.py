"""Producing messages: one or a batch as JSON, or one as its raw bytes."""

from base64 import b64decode
from binascii import Error as Base64Error
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.api.framework.operation import (
    JSON,
    Call,
    Operations,
    Parameter,
    content_type,
    decode_body,
    text_of,
)
from app.security.access import Action, of_topic
from app.send_batcher import BatchSlice
from engine.errors import Invalid
from engine.message import BODY_BYTES_MAX, EVENT_MS, Durability, Message, offset_id
from kitemq.model.numbers import is_whole
from kitemq.model.produce import (
    BATCH_MAX,
    NewBatch,
    NewMessage,
    NewMessageAlone,
    ProduceResult,
    StoredAt,
)
from kitemq.model.scheduled import TIME_MS_MAX
from kitemq.model.topics import Durability as WireDurability

operations = Operations("messages")
PROPERTY_HEADER = b"kitemq-property-"
CONTENT_TYPE_PROPERTY = "content-type"


class Produced(NewMessage, kw_only=True):
    """Either of the two bodies, discriminated by `messages`."""

    body: str | UnsetType = UNSET  # type: ignore[assignment]
    messages: Annotated[list[NewMessage], Meta(max_length=BATCH_MAX)] | UnsetType = UNSET
    durability: Durability | None = None


DECODER = msgspec.json.Decoder(Produced)


@operations.post(
    "/topics/{topic}/messages",
    needs=of_topic(Action.PRODUCE),
    status=201,
    errors=(409,),
    example_body='{"body": "order 1", "tag": "new", "keys": ["1"]}',
    body=(NewBatch, NewMessageAlone),
    raw_body=True,
    headers=(
        Parameter("KiteMQ-Tag", "Raw bodies only: the tag."),
        Parameter("KiteMQ-Keys", "Raw bodies only: keys, separated by commas."),
        Parameter("KiteMQ-Group", "Raw bodies only: the message group."),
        Parameter("KiteMQ-Delay-Level", "Raw bodies only: 0 to 18."),
        Parameter("KiteMQ-Deliver-At-Ms", "Raw bodies only: when, in ms since 1970 UTC."),
        Parameter("KiteMQ-Transaction-Group", "Raw bodies only: the producer group."),
        Parameter("KiteMQ-Queue", "Raw bodies only: the queue."),
        Parameter("KiteMQ-Durability", "Raw bodies only: stored or flushed."),
        Parameter("KiteMQ-Content-Type", "Raw bodies only: kept instead of Content-Type."),
    ),
)
async def produce(call: Call[None, None]) -> ProduceResult:
    """Store one message or a batch.

    JSON is one message or `{"messages": [...]}`; any other content type is the raw body of one
    message, described by KiteMQ-* headers (`KiteMQ-Property-<name>` for properties, whose names
    HTTP makes lower case; `content-type` is kept as a property). All are stored or none. The
    answer waits for the durability: `stored` survives a killed process, `flushed` power loss.
    """
    topic = call.path("topic")
    if content_type(call.scope) != JSON:
        message, durability = _from_raw(topic, call)
        return await _send(call, [message], durability, is_alone=True)
    produced = decode_body(call.content, DECODER)
    born_host, now_ms = call.client, call.host.clock.now_ms()
    if produced.messages is UNSET:
        if produced.body is UNSET:
            raise Invalid(
                "neither `body` nor `messages` is given",
                field="body",
                remedy="send one message with a body, or a list of messages",
            )
        message = message_of(topic, produced, born_host, "", now_ms)
        return await _send(call, [message], produced.durability, is_alone=True)
    if produced.body is not UNSET:
        raise Invalid(
            "`body` stands beside `messages`",
            field="body",
            remedy="put each message into `messages`, or send one without it",
        )
    messages = [
        message_of(topic, new, born_host, index, now_ms)
        for index, new in enumerate(produced.messages)
    ]
    return await _send(call, messages, produced.durability, is_alone=False)


def message_of(
    topic: str, new: NewMessage, born_host: str, index: int | str, now_ms: int
) -> Message:
    """The engine's message; `index` is its place in the batch, for the error's sake."""
    body = bytes_of(new.body, new.encoding, index)
    if sum(map(bool, (new.delay_level, new.delay_ms, new.deliver_at_ms))) > 1:
        raise Invalid(
            "more than one delay is given",
            field=_field(index, "delay_ms"),
            remedy="give one of delay_level, delay_ms and deliver_at_ms",
        )
    properties = new.properties
    if new.event_ms is not None:
        properties = {**properties, EVENT_MS: str(new.event_ms)}
    return Message(
        topic,
        body,
        new.tag,
        new.keys,
        properties,
        new.message_group,
        new.id,
        new.queue,
        new.delay_level,
        born_ms=new.born_ms,
        born_host=born_host,
        deliver_at_ms=now_ms + new.delay_ms if new.delay_ms else new.deliver_at_ms,
        transaction_group=new.transaction_group,
        check_immunity_s=new.check_immunity_s,
    )


def bytes_of(text: str, encoding: str, index: int | str) -> bytes:
    """Decode a body; `index` as in `message_of`. Invalid for malformed base64."""
    return text.encode() if encoding == "utf-8" else _from_base64(text, index)


async def _send(
    call: Call[None, None],
    messages: list[Message],
    durability: Durability | None,
    *,
    is_alone: bool,
) -> ProduceResult:
    try:
        sent = await call.messaging.send(messages, durability)
    except Invalid as error:
        field = error.field.replace(".message_id", ".id")
        error.field = field.removeprefix("messages[0].") if is_alone else field
        raise
    return result_of(sent, call.settings.store_host)


def result_of(sent: BatchSlice, store_host: str) -> ProduceResult:
    """Convert the engine's result."""
    address = _address_of(store_host)
    return ProduceResult(
        [
            StoredAt(
                message.message_id,
                f"{address}{position:016X}",
                message.queue,
                str(offset),
                str(position),
            )
            for message, offset, position in zip(
                sent.messages, sent.offsets, sent.positions, strict=True
            )
        ],
        WireDurability(sent.durability),
    )


@lru_cache(maxsize=16)
def _address_of(store_host: str) -> str:
    """The common prefix of this server's offset ids; the position's 16 digits follow."""
    return offset_id(store_host, 0)[:-16]


def _from_raw(topic: str, call: Call[None, None]) -> tuple[Message, Durability | None]:
    properties: dict[str, str] = {}
    headers: dict[bytes, str] = {}
    for name, value in call.scope["headers"]:
        if name.startswith(PROPERTY_HEADER):
            properties[text_of(name[len(PROPERTY_HEADER) :])] = text_of(value)
        elif name.startswith(b"kitemq-") or name == b"content-type":
            headers[name] = text_of(value)
    content_type = headers.get(b"kitemq-content-type") or headers.get(b"content-type")
    if content_type:
        properties[CONTENT_TYPE_PROPERTY] = content_type
    keys = tuple(
        key for part in headers.get(b"kitemq-keys", "").split(",") if (key := part.strip())
    )
    message = Message(
        topic,
        call.content,
        headers.get(b"kitemq-tag", ""),
        keys,
        properties,
        headers.get(b"kitemq-group", ""),
        queue=_number(headers, b"kitemq-queue", -1, 65535),
        delay_level=_number(headers, b"kitemq-delay-level", 0, 18),
        born_host=call.client,
        deliver_at_ms=_number(headers, b"kitemq-deliver-at-ms", 0, TIME_MS_MAX),
        transaction_group=headers.get(b"kitemq-transaction-group", ""),
    )
    return message, _durability(headers.get(b"kitemq-durability", ""))


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
            f"{text!r} is no durability", field="kitemq-durability", remedy="send stored or flushed"
        ) from None


def _from_base64(text: str, index: int | str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise Invalid(
            "the body is not valid base64",
            field=_field(index, "body"),
            remedy="encode the bytes with the standard alphabet and padding",
        ) from None


def _field(index: int | str, name: str) -> str:
    return name if index == "" else f"messages[{index}].{name}"


assert BODY_BYTES_MAX == 4 * 1024 * 1024, "the description of `body` says so"
