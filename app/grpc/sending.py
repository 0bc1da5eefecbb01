"""SendMessage, RecallMessage and EndTransaction."""

import asyncio
from typing import Any

from app.grpc.backend import GrpcBackend
from app.grpc.call import GrpcCall
from app.grpc.codes import GrpcRefusal, ok
from app.grpc.routing import accepted_types, find_topic
from app.grpc.shapes import inflated, to_engine, type_of
from app.security.access import Action
from engine.broker import Decider, TimerAnswer, TopicConfig, TransactionDecision
from engine.message import BATCH_BYTES_MAX, BATCH_COUNT_MAX, Message
from protocol.recall_handle import encode_handle, recalled_id
from protocol.rocketmq.messages import (
    EndTransactionResponse,
    RecallMessageResponse,
    SendMessageResponse,
    SendResultEntry,
)
from protocol.rocketmq.numbers import (
    BodyEncoding,
    Code,
    MessageType,
    TransactionResolution,
    TransactionSource,
)

PLAIN = (0, BodyEncoding.IDENTITY)  # 0 is what says nothing
INLINE_BYTES_MAX = 32 * 1024  # a larger body is inflated beside the loop
DECISIONS = {
    TransactionResolution.COMMIT: TransactionDecision.COMMIT,
    TransactionResolution.ROLLBACK: TransactionDecision.ROLLBACK,
}


async def send_message(backend: GrpcBackend, call: GrpcCall, request: Any) -> Any:
    """Store the messages of one topic, all or none."""
    topic = _one_topic(call, request)
    config = await find_topic(backend, topic)
    messages = [to_engine(wire, topic, call) for wire in request.messages]
    await _inflate(request.messages, messages)
    _check_types(backend, config, messages)
    client = backend.clients.touch(call)  # it may refuse, so before anything is stored
    stored = await backend.messaging.send(messages)
    now_ms, born_ms = backend.host.clock.now_ms(), messages[-1].born_ms
    backend.services.client_figures.sent(client.name, len(messages), now_ms, born_ms)
    if any(message.transaction_group for message in messages):
        backend.clients.register_producer(client, topic)
    entries = [
        SendResultEntry(
            status=ok(),
            message_id=message.message_id,
            transaction_id=message.message_id,  # as Apache: for every message
            offset=offset,
            recall_handle=_recall_handle(backend, topic, message),
        )
        for message, offset in zip(messages, stored.offsets, strict=True)
    ]
    return SendMessageResponse(status=ok(), entries=entries)


async def recall_message(backend: GrpcBackend, call: GrpcCall, request: Any) -> Any:
    """See to it that a delayed message is never delivered; audited."""
    topic = call.topic(request.topic, Action.PRODUCE)
    message_id = recalled_id(request.recall_handle, topic)
    if not message_id:
        raise GrpcRefusal(Code.BAD_REQUEST, "that is no recall handle of this topic")
    waiting = await backend.messaging.find_scheduled(message_id)
    if waiting is not None and waiting.topic != topic:
        raise GrpcRefusal(Code.BAD_REQUEST, "the recall handle is of another topic")
    answer = await backend.services.scheduled.recall(call.actor, message_id)
    if answer is TimerAnswer.ALREADY_DELIVERED:
        raise GrpcRefusal(Code.PRECONDITION_FAILED, "the message was delivered already")
    return RecallMessageResponse(status=ok(), message_id=message_id)


async def end_transaction(backend: GrpcBackend, call: GrpcCall, request: Any) -> Any:
    """Commit or roll back; unlike Apache, OK means that it is done."""
    topic = call.topic(request.topic, Action.PRODUCE)
    decision = DECISIONS.get(request.resolution, TransactionDecision.UNKNOWN)
    if not request.transaction_id:
        raise GrpcRefusal(Code.INVALID_TRANSACTION_ID, "the request names no transaction")
    is_check = request.source == TransactionSource.SOURCE_SERVER_CHECK
    by = Decider.CHECK if is_check else Decider.PRODUCER
    await backend.services.transactions.decide(request.transaction_id, decision, topic, by)
    return EndTransactionResponse(status=ok())


def _one_topic(call: GrpcCall, request: Any) -> str:
    if not 0 < len(request.messages) <= BATCH_COUNT_MAX:
        raise GrpcRefusal(
            Code.MESSAGE_CORRUPTED,
            f"{len(request.messages)} messages in one request, it must be 1 to {BATCH_COUNT_MAX}",
        )
    topic = call.topic(request.messages[0].topic, Action.PRODUCE)
    for wire in request.messages[1:]:
        if call.topic(wire.topic, Action.PRODUCE) != topic:
            raise GrpcRefusal(
                Code.MESSAGE_CORRUPTED, "the messages of one request have several topics"
            )
    return topic


def _check_types(backend: GrpcBackend, config: TopicConfig, messages: list[Message]) -> None:
    """Refuse messages of another type than the topic's, and special ones in a batch."""
    accepted = accepted_types(backend, config)
    for message in messages:
        kind = type_of(message)
        if kind not in accepted and not config.is_system:
            raise GrpcRefusal(
                Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"{config.name!r} is a {config.type.value} topic and takes no {kind.name} message",
            )
        if len(messages) > 1 and kind in (MessageType.DELAY, MessageType.TRANSACTION):
            raise GrpcRefusal(Code.BAD_REQUEST, f"a {kind.name} message cannot be part of a batch")


async def _inflate(wires: Any, messages: list[Message]) -> None:
    """Inflate compressed bodies, as long as all together can be stored: a few bytes may be many."""
    size_bytes = 0
    for wire, message in zip(wires, messages, strict=True):
        encoding = wire.system_properties.body_encoding
        if encoding == BodyEncoding.GZIP:
            message.body = await _inflated(message.body)
        elif encoding not in PLAIN:
            raise GrpcRefusal(
                Code.UNSUPPORTED, f"the body's encoding is {encoding}; IDENTITY and GZIP are served"
            )
        size_bytes += len(message.body)
        if size_bytes > BATCH_BYTES_MAX:
            raise GrpcRefusal(
                Code.PAYLOAD_TOO_LARGE,
                f"the bodies have more than {BATCH_BYTES_MAX} bytes together; split the batch",
            )


async def _inflated(body: bytes) -> bytes:
    is_large = len(body) > INLINE_BYTES_MAX
    inflated_body = await asyncio.to_thread(inflated, body) if is_large else inflated(body)
    if not inflated_body:
        raise GrpcRefusal(Code.MESSAGE_BODY_EMPTY, "the message has no body once it is inflated")
    return inflated_body


def _recall_handle(backend: GrpcBackend, topic: str, message: Message) -> str:
    if not message.deliver_at_ms:
        return ""
    broker = backend.settings.broker_name
    return encode_handle(topic, broker, message.deliver_at_ms, message.message_id)
