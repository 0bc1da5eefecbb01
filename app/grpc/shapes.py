"""Converts messages between RocketMQ's protobuf form and the engine's.

Fields without a counterpart in the engine become properties, so that they are delivered by every
endpoint (`docs/rocketmq-clients.md` has the table).
"""

import hashlib
from typing import Any

from app.grpc.call import GrpcCall
from app.grpc.codes import GrpcRefusal
from app.grpc.names import outer
from engine.broker import Delivery, Receipt
from engine.compression import NotDecompressed, TooLarge, decompress
from engine.message import (
    BODY_BYTES_MAX,
    CHECK_IMMUNITY,
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
    RESERVED,
    SHARDING_KEY,
    TRAN_MSG,
    TRANSACTION_ID,
    Message,
    StoredMessage,
)
from kitemq.protocol.columns import ProtocolError
from kitemq.protocol.text import parse_receipt, receipt_text
from protocol.rocketmq.messages import Message as WireMessage
from protocol.rocketmq.numbers import BodyEncoding, Code, DigestType, MessageType

TRACE_CONTEXT = "traceparent"  # W3C's name for it
PRIORITY = "KITE_PRIORITY"
DELIVER_AT = "TIMER_OUT_MS"  # of a message that waited for a time, as the engine leaves it
PROPERTIES_BYTES_MAX = 16 * 1024
COMPRESSED = "KITE_COMPRESSED"  # of a body that could not be decompressed: its codec and why
# Properties that have a field of their own, or are the broker's.
OWN = RESERVED | {TRACE_CONTEXT, PRIORITY, DELIVER_AT}
# These two are shown all the same: Apache's own tests of its clients look for them.
VISIBLE = frozenset({SHARDING_KEY, TRANSACTION_ID})
NS_PER_MS = 1_000_000
GZIP_MAGIC = b"\x1f\x8b"


def to_engine(wire: Any, topic: str, call: GrpcCall) -> Message:
    """A producer's message; raises GrpcRefusal for errors that the engine cannot see."""
    system = wire.system_properties
    if not system.message_id.strip():
        raise GrpcRefusal(Code.ILLEGAL_MESSAGE_ID, "the message has no id; a client makes one")
    if not wire.body:
        raise GrpcRefusal(Code.MESSAGE_BODY_EMPTY, "the message has no body")
    if len(wire.body) > BODY_BYTES_MAX:
        raise GrpcRefusal(
            Code.MESSAGE_BODY_TOO_LARGE,
            f"the body has {len(wire.body)} bytes, {BODY_BYTES_MAX} is the most",
        )
    properties = dict(wire.user_properties)
    _check_size(properties, system)
    if system.HasField("trace_context") and system.trace_context:
        properties[TRACE_CONTEXT] = system.trace_context
    if system.HasField("priority"):
        properties[PRIORITY] = str(system.priority)
    return Message(
        topic=topic,
        body=wire.body,
        tag=_tag(system),
        keys=_keys(system),
        properties=properties,
        message_group=_message_group(system),
        message_id=system.message_id,
        born_ms=_ms(system.born_timestamp),
        born_host=call.origin.client,
        deliver_at_ms=_ms(system.delivery_timestamp),
        transaction_group=topic if system.message_type == MessageType.TRANSACTION else "",
        check_immunity_s=_immunity_s(system),
    )


def type_of(message: Message) -> MessageType:
    """The type of a message by its fields, as in Apache's proxy."""
    if message.transaction_group:
        return MessageType.TRANSACTION
    if message.deliver_at_ms:
        return MessageType.DELAY
    if message.message_group:
        return MessageType.FIFO
    return MessageType.PRIORITY if PRIORITY in message.properties else MessageType.NORMAL


def inflated(body: bytes) -> bytes:
    """A body without its gzip or zlib compression; raises GrpcRefusal."""
    codec = "gzip" if body.startswith(GZIP_MAGIC) else "zlib"
    try:
        return decompress(body, codec, bytes_max=BODY_BYTES_MAX)
    except TooLarge:
        raise GrpcRefusal(
            Code.MESSAGE_BODY_TOO_LARGE, f"the body inflates to more than {BODY_BYTES_MAX} bytes"
        ) from None
    except NotDecompressed as error:
        raise GrpcRefusal(Code.MESSAGE_CORRUPTED, f"the body cannot be inflated: {error}") from None


def delivered(delivery: Delivery, namespace: str, invisible_s: float) -> Any:
    """A delivery with its receipt handle and attempt."""
    wire = to_wire(delivery.message, namespace)
    system = wire.system_properties
    system.receipt_handle = receipt_text(delivery.receipt)
    system.delivery_attempt = delivery.attempt
    system.invisible_duration.seconds = round(invisible_s)
    return wire


def to_wire(message: StoredMessage, namespace: str) -> Any:
    """A stored message in protobuf, for consumers in this namespace.

    The body is decompressed (IDENTITY), as gRPC clients know gzip at most and none of the codecs of
    classic producers. If that fails, the property COMPRESSED names codec and reason.
    """
    properties, plain = message.properties, message.plain
    body = plain.body
    wire = WireMessage(topic=outer(message.origin_topic, namespace), body=body)
    wire.user_properties.update(
        {name: value for name, value in properties.items() if name not in OWN or name in VISIBLE}
    )
    if plain.why_raw:
        wire.user_properties[COMPRESSED] = f"{plain.codec}: {plain.why_raw}"
    system = wire.system_properties
    system.message_id = message.message_id
    system.keys.extend(message.keys)
    system.body_digest.type = DigestType.MD5
    system.body_digest.checksum = hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = BodyEncoding.IDENTITY
    system.message_type = _stored_type(message)
    _set_time(system.born_timestamp, message.born_ms)
    system.born_host = message.born_host
    _set_time(system.store_timestamp, message.stored_ms)
    system.store_host = message.store_host
    system.queue_id = message.queue
    system.queue_offset = message.offset
    if message.tag:
        system.tag = message.tag
    if message.message_group:
        system.message_group = message.message_group
    _set_rest(system, properties)
    return wire


def _set_rest(system: Any, properties: dict[str, str]) -> None:
    """Set fields that few messages have."""
    if TRACE_CONTEXT in properties:
        system.trace_context = properties[TRACE_CONTEXT]
    priority = properties.get(PRIORITY, "")
    if priority.isdecimal() and len(priority) < 10:
        system.priority = int(priority)
    due = properties.get(DELIVER_AT, "")
    if due.isdecimal() and len(due) < 16:
        _set_time(system.delivery_timestamp, int(due))
    immunity = properties.get(CHECK_IMMUNITY, "")
    if immunity.isdecimal() and len(immunity) < 10:
        system.orphaned_transaction_recovery_duration.seconds = int(immunity)
    if DLQ_ORIGIN_TOPIC in properties:
        system.dead_letter_queue.topic = properties[DLQ_ORIGIN_TOPIC]
        system.dead_letter_queue.message_id = properties.get(DLQ_ORIGIN_MESSAGE_ID, "")


def _stored_type(message: StoredMessage) -> MessageType:
    properties = message.properties
    if TRAN_MSG in properties:
        return MessageType.TRANSACTION
    if DELIVER_AT in properties:
        return MessageType.DELAY
    if message.message_group:
        return MessageType.FIFO
    return MessageType.PRIORITY if PRIORITY in properties else MessageType.NORMAL


def handle_of(receipt: Receipt) -> str:
    """The receipt handle, opaque to clients."""
    return receipt_text(receipt)


def receipt_of(handle: str) -> Receipt:
    """The receipt of a handle; raises GrpcRefusal if it is invalid."""
    try:
        return Receipt(*parse_receipt(handle))
    except ProtocolError:
        raise GrpcRefusal(
            Code.INVALID_RECEIPT_HANDLE,
            f"INVALID_RECEIPT_HANDLE: {handle[:80]!r} is no receipt handle",
        ) from None


def _check_size(properties: dict[str, str], system: Any) -> None:
    texts = [*properties, *properties.values(), system.tag, *system.keys]
    size = sum([len(text.encode()) for text in texts])
    if size > PROPERTIES_BYTES_MAX or len(properties) > 128:
        raise GrpcRefusal(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"{len(properties)} properties with tag and keys take {size} bytes; "
            f"128 and {PROPERTIES_BYTES_MAX} bytes are the most",
        )


def _tag(system: Any) -> str:
    if system.HasField("tag") and system.tag and not system.tag.strip():
        raise GrpcRefusal(Code.ILLEGAL_MESSAGE_TAG, "the tag is blank")
    return str(system.tag)


def _keys(system: Any) -> tuple[str, ...]:
    return tuple(system.keys)


def _message_group(system: Any) -> str:
    if system.HasField("message_group") and not system.message_group.strip():
        raise GrpcRefusal(Code.ILLEGAL_MESSAGE_GROUP, "the message group is blank")
    return str(system.message_group)


def _immunity_s(system: Any) -> int:
    seconds = system.orphaned_transaction_recovery_duration.seconds
    if not 0 <= seconds <= 3600:
        raise GrpcRefusal(
            Code.BAD_REQUEST,
            f"orphaned_transaction_recovery_duration is {seconds} s, 0 to 3600 are allowed",
        )
    return int(seconds)


def _ms(time: Any) -> int:
    return int(time.seconds) * 1000 + int(time.nanos) // NS_PER_MS


def _set_time(field: Any, at_ms: int) -> None:
    field.seconds, ms = divmod(at_ms, 1000)
    field.nanos = ms * NS_PER_MS
