"""The engine's message of the fields that REST and files have."""

from base64 import b64decode
from binascii import Error as Base64Error

from engine.errors import Invalid
from engine.message import EVENT_MS, Message
from kitemq.model.produce import NewMessage


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
