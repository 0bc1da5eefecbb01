"""Sends: single messages and batches, from the properties of clients into the engine's fields.

All sends that arrive in one turn of the event loop are stored by one append.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from app.remoting.call import RemotingCall
from app.remoting.errors import ErrorResponse, RemotingRefusal, answer_of
from app.remoting.recalling import recall_handle
from app.remoting.records import REGION
from app.remoting.replies import begin_request, is_request
from app.security.access import Action
from app.send_batcher import BatchSlice
from app.services.requests import CORRELATION_ID
from engine.broker import RETRY_PREFIX
from engine.errors import EngineError
from engine.message import (
    BATCH_COUNT_MAX,
    CHECK_IMMUNITY,
    DELAY,
    KEYS,
    MAX_RECONSUME_TIMES,
    OF_RETRIES,
    PGROUP,
    RESERVED,
    SHARDING_KEY,
    TAGS,
    TRAN_MSG,
    UNIQ_KEY,
    WAIT,
    Durability,
    Message,
    split_properties,
)
from kitemq.model.numbers import is_whole
from protocol.remoting.batches import BatchError, decode_batch
from protocol.remoting.codes import RequestCode, ResponseCode, SysFlag

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

# Plain numbers: operations on members of an enumeration are slow.
KEPT_BITS = int(SysFlag.COMPRESSED | SysFlag.MULTI_TAGS | SysFlag.COMPRESSION_TYPE)
TRANSACTION_BITS = int(SysFlag.TRANSACTION_ROLLBACK)
PREPARED = int(SysFlag.TRANSACTION_PREPARED)
DELIVER_AT_MS = "TIMER_DELIVER_MS"
DELAY_MS = "TIMER_DELAY_MS"
DELAY_S = "TIMER_DELAY_SEC"
TIMED = frozenset({DELIVER_AT_MS, DELAY_MS, DELAY_S})
NUMBER_CHARS_MAX = 15
RETRIES_MAX = 1 << 30


def send(
    backend: "RemotingBackend", call: RemotingCall
) -> ErrorResponse | Awaitable[ErrorResponse] | None:
    """Store one message or a batch of one topic; answered once it has its durability."""
    call.use_long_names()
    is_retry = call.text("topic").startswith(RETRY_PREFIX)  # which consumers send to
    call.topic(Action.CONSUME if is_retry else Action.PRODUCE)
    messages = messages_of(backend, call)
    if CORRELATION_ID in call.text("properties", "") and not _is_batch(call):
        properties = split_properties(call.text("properties"))
        if is_request(properties):
            return _send_request(backend, call, messages[0], properties)

    def done(part: BatchSlice | None, error: EngineError | None) -> None:
        if part is None:
            call.answer(answer_of(error or RuntimeError("neither stored nor refused")))
        else:
            call.answer(_stored(backend, call, part))

    backend.messaging.submit(messages, None, done)
    return None


def messages_of(backend: "RemotingBackend", call: RemotingCall) -> list[Message]:
    """The messages of a send with long names, not yet checked; raises RemotingRefusal."""
    topic = call.text("topic")
    if _is_batch(call):
        return _batch(backend, call, topic)
    properties = split_properties(call.text("properties", ""))
    return [_message(backend, call, topic, call.body, properties, call.number("flag", 0))]


async def _send_request(
    backend: "RemotingBackend", call: RemotingCall, message: Message, properties: dict[str, str]
) -> ErrorResponse:
    """Store a message whose producer waits for a reply."""
    sent = begin_request(backend, call, message, properties).sent
    level = sent.durability
    if level is not Durability.STORED:
        level = await backend.host.accepted(sent.flush_position, level)
    part = BatchSlice(sent.messages, sent.offsets, sent.positions, level)
    return _stored(backend, call, part)


def _stored(backend: "RemotingBackend", call: RemotingCall, part: BatchSlice) -> ErrorResponse:
    connection = call.connection
    client = backend.clients.name_of(connection)
    if client:
        born_ms = call.number("bornTimestamp", 0)
        backend.activity.sent(client, len(part.messages), backend.host.clock.now_ms(), born_ms)
    ids = [backend.offset_id(connection, position) for position in part.positions]
    first = part.messages[0]
    queue = call.number("queueId", -1)  # a half or waiting message lies in the engine's own queue
    fields = stored_fields(
        ",".join(ids),
        queue if queue >= 0 else first.queue,
        str(part.offsets[0]),
        (_is_batch(call) and batch_id(call.text("properties", ""))) or first.message_id,
    )
    if handle := recall_handle(backend, call.fields["topic"], first):
        fields["recallHandle"] = handle
    waits = any(each.properties.get(WAIT) != "false" for each in part.messages)
    level = part.durability if waits else Durability.REPLICATED  # nobody asked
    return ErrorResponse(stored_code(backend, call.fields["topic"], level), fields)


def stored_code(backend: "RemotingBackend", topic: str, level: Durability) -> ResponseCode:
    """Whether a message that is stored has its topic's durability, as clients read it (SendStatus).

    It has not where `replicated_fallback` gave it less; what a disk did not flush is refused.
    """
    broker = backend.broker
    if level != Durability.FLUSHED or broker.durability_of(topic) != Durability.REPLICATED:
        return ResponseCode.SUCCESS
    if broker.replicas.has_standby:
        return ResponseCode.FLUSH_SLAVE_TIMEOUT
    return ResponseCode.SLAVE_NOT_AVAILABLE


def stored_fields(
    offset_ids: str, queue: int, first_offset: str, message_id: str
) -> dict[str, str]:
    """The fields of the answer to a send."""
    fields = {"msgId": offset_ids, "queueId": str(queue), "queueOffset": first_offset, **REGION}
    return {**fields, "transactionId": message_id} if message_id else fields


def _is_batch(call: RemotingCall) -> bool:
    return call.command.code == RequestCode.SEND_BATCH_MESSAGE or call.is_true("batch")


def batch_id(properties: str) -> str:
    """The id of a batch as a whole, in the properties beside its messages; "" for none."""
    return split_properties(properties).get(UNIQ_KEY, "")


def _batch(backend: "RemotingBackend", call: RemotingCall, topic: str) -> list[Message]:
    try:
        entries = decode_batch(call.body, count_max=BATCH_COUNT_MAX)
    except BatchError as error:
        raise RemotingRefusal(
            ResponseCode.MESSAGE_ILLEGAL, f"the batch cannot be read: {error}"
        ) from None
    if not entries:
        raise RemotingRefusal(ResponseCode.MESSAGE_ILLEGAL, "the batch has no message")
    messages = [
        _message(backend, call, topic, each.body, split_properties(each.properties), each.flag)
        for each in entries
    ]
    if any(each.transaction_group or each.delay_level or each.deliver_at_ms for each in messages):
        raise RemotingRefusal(
            ResponseCode.MESSAGE_ILLEGAL, "delayed and transactional messages cannot be in a batch"
        )
    return messages


def _message(
    backend: "RemotingBackend",
    call: RemotingCall,
    topic: str,
    body: bytes,
    sent_properties: dict[str, str],
    flag: int,
) -> Message:
    """A producer's message, without the properties that belong to the broker."""
    properties = {name: value for name, value in sent_properties.items() if name not in RESERVED}
    if topic.startswith(RETRY_PREFIX):
        properties |= _retry_properties(call, sent_properties)
    if sent_properties.get(WAIT) == "false":
        properties[WAIT] = "false"
    sys_flag = call.number("sysFlag", 0)
    is_transaction = (
        sys_flag & TRANSACTION_BITS == PREPARED or sent_properties.get(TRAN_MSG) == "true"
    )
    group = ""
    if is_transaction:
        group = sent_properties.get(PGROUP) or call.text("producerGroup", "")
    return Message(
        topic=topic,
        body=body,
        tag=sent_properties.get(TAGS, ""),
        keys=tuple(sent_properties.get(KEYS, "").split()),
        properties=properties,
        message_group=sent_properties.get(SHARDING_KEY, ""),
        message_id=sent_properties.get(UNIQ_KEY, ""),
        queue=max(-1, call.number("queueId", -1)),
        delay_level=_number(sent_properties, DELAY) if DELAY in sent_properties else 0,
        flag=flag,
        attempt=_attempt(call, topic),
        sys_flag=sys_flag & KEPT_BITS,
        born_ms=max(0, call.number("bornTimestamp", 0)),
        born_host=call.connection.client,
        deliver_at_ms=_deliver_at_ms(sent_properties, backend.host.clock.now_ms()),
        transaction_group=group,
        check_immunity_s=_number(sent_properties, CHECK_IMMUNITY) if is_transaction else 0,
    )


def _retry_properties(call: RemotingCall, sent_properties: dict[str, str]) -> dict[str, str]:
    """What a consumer says about a retry; the limit may be a field instead of a property."""
    properties = {name: sent_properties[name] for name in OF_RETRIES & sent_properties.keys()}
    retries = call.number("maxReconsumeTimes", -1)
    if retries >= 0:
        properties.setdefault(MAX_RECONSUME_TIMES, str(retries))
    return properties


def _attempt(call: RemotingCall, topic: str) -> int:
    """The attempt that a retry precedes; 1 for all other messages."""
    if not topic.startswith(RETRY_PREFIX):
        return 1
    return 1 + min(max(0, call.number("reconsumeTimes", 0)), RETRIES_MAX)


def _deliver_at_ms(properties: dict[str, str], now_ms: int) -> int:
    """When a message is due, 0 for at once: a time, or a wait from now on."""
    if TIMED.isdisjoint(properties):
        return 0
    if due_ms := _number(properties, DELIVER_AT_MS):
        return due_ms
    wait_ms = _number(properties, DELAY_MS) or _number(properties, DELAY_S) * 1000
    return now_ms + wait_ms if wait_ms else 0


def _number(properties: dict[str, str], name: str) -> int:
    text = properties.get(name, "")
    if not text:
        return 0
    if not is_whole(text, NUMBER_CHARS_MAX):
        raise RemotingRefusal(
            ResponseCode.MESSAGE_ILLEGAL, f"the property {name!r} is {text[:80]!r}, no number"
        )
    return int(text)
