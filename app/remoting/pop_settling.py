"""Acknowledgements of popped messages, one by one and in batches, and changes of invisible times.

A receipt is current while the delivery that it names holds the message; others are answered
NO_MESSAGE. A message that is already done is acknowledged again without an error.
"""

import binascii
from base64 import b64decode
from typing import TYPE_CHECKING

import msgspec

from app.eager import eager
from app.remoting.call import RemotingCall
from app.remoting.errors import OK, ErrorResponse, RemotingRefusal
from app.security.access import Action, Kind
from engine.broker import RETRY_PREFIX, AckResult, Nack, Receipt
from engine.errors import GroupNotFound
from protocol.remoting.codes import ResponseCode
from protocol.remoting.pop import (
    MARKS,
    NORMAL_MARK,
    OFFSETS_MAX,
    PopError,
    PopReceipt,
    parse_receipt,
    set_bits,
)

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

ACKS_MAX = 1024  # of one batch
DELAY_MAX_MS = 7_200_000  # of a retry; a longer time stays an invisible time
FAILED = "the consumer reported a failure"


class _Ack(msgspec.Struct):
    """Acknowledged offsets of one answer and queue; the names are those of the wire."""

    c: str
    t: str
    r: str
    so: int
    q: int
    pt: int
    it: int
    b: str


class _BatchAck(msgspec.Struct):
    acks: list[_Ack] | None = None


@eager
async def ack(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Mark one message as done."""
    group, topic, receipt = await _delivery(backend, call)
    found = await _receipt(backend, group, topic, receipt)
    try:
        (result,) = await backend.messaging.ack(group, [found])
    except GroupNotFound:
        result = AckResult.STALE
    return _stale() if result is AckResult.STALE else OK


@eager
async def ack_batch(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Mark messages as done; as with Apache, one answer for all, and stale ones are passed over."""
    acks = call.document(_BatchAck).acks
    if not acks:
        raise RemotingRefusal(ResponseCode.NO_MESSAGE, "the request names no message")
    if len(acks) > ACKS_MAX:
        raise RemotingRefusal(ResponseCode.INVALID_PARAMETER, f"more than {ACKS_MAX} acks")
    deliveries: dict[str, list[tuple[str, PopReceipt]]] = {}
    for each in acks:
        call.require(Action.CONSUME, Kind.GROUP, each.c)
        if each.r == NORMAL_MARK:
            call.require(Action.CONSUME, Kind.TOPIC, each.t)
        deliveries.setdefault(each.c, []).extend(_offsets(each))
    if sum(map(len, deliveries.values())) > OFFSETS_MAX:
        raise RemotingRefusal(ResponseCode.INVALID_PARAMETER, f"more than {OFFSETS_MAX} messages")
    for group, receipts in deliveries.items():
        found = [await _receipt(backend, group, topic, each) for topic, each in receipts]
        try:
            await backend.messaging.ack(group, found)
        except GroupNotFound:
            continue
    return OK


@eager
async def change_invisible_time(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Keep a message invisible for another time; a push consumer reports a failure this way."""
    group, topic, receipt = await _delivery(backend, call)
    invisible_ms = call.number("invisibleTime")
    found = await _receipt(backend, group, topic, receipt)
    member = backend.clients.member_name(call.connection, group)
    try:
        if member and 0 <= invisible_ms <= DELAY_MAX_MS:
            nack = Nack(found, delay_s=invisible_ms / 1000, error=FAILED)
            (result,) = await backend.messaging.nack(group, [nack], member)
            until_ms = backend.host.clock.now_ms() + invisible_ms
        else:
            (extended,) = await backend.messaging.extend(group, [found], invisible_ms / 1000)
            result, until_ms = extended.result, extended.until_ms
    except GroupNotFound:
        return _stale()
    if result is not AckResult.DONE:
        return _stale()
    return ErrorResponse(
        fields={
            "popTime": str(until_ms - invisible_ms),
            "invisibleTime": str(invisible_ms),
            "reviveQid": str(receipt.revive_queue),
        }
    )


async def _delivery(backend: "RemotingBackend", call: RemotingCall) -> tuple[str, str, PopReceipt]:
    """Group, topic and receipt of a request; raises RemotingRefusal as Apache answers."""
    group = call.group(Action.CONSUME)
    try:
        receipt = parse_receipt(call.text("extraInfo"))
    except PopError as error:
        raise RemotingRefusal(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
    topic, queue, offset = call.text("topic"), call.number("queueId"), call.number("offset")
    if receipt.is_retry:
        topic = RETRY_PREFIX + group
    else:
        call.require(Action.CONSUME, Kind.TOPIC, topic)
    queues = (await backend.messaging.topic(topic)).read_queues
    if not 0 <= queue < queues:
        raise RemotingRefusal(
            ResponseCode.MESSAGE_ILLEGAL,
            f"topic {topic!r} has queues 0 to {queues - 1}, not {queue}",
        )
    return group, topic, receipt._replace(queue=queue, offset=offset)


def _offsets(ack: _Ack) -> list[tuple[str, PopReceipt]]:
    """Topic and receipt of each message of an entry."""
    try:
        if ack.r not in MARKS or ack.so < 0:
            raise PopError(f"an entry with the retry mark {ack.r!r} and offset {ack.so}")
        offsets = [ack.so + bit for bit in set_bits(b64decode(ack.b, validate=True))]
    except (PopError, binascii.Error, ValueError) as error:
        raise RemotingRefusal(
            ResponseCode.INVALID_PARAMETER, f"an entry cannot be read: {error}"
        ) from None
    is_retry = ack.r != NORMAL_MARK
    topic = RETRY_PREFIX + ack.c if is_retry else ack.t
    until_ms = ack.pt + ack.it
    return [(topic, PopReceipt(is_retry, ack.q, offset, until_ms, 0)) for offset in offsets]


async def _receipt(
    backend: "RemotingBackend", group: str, topic: str, receipt: PopReceipt
) -> Receipt:
    """The engine's receipt of a delivery."""
    return await backend.messaging.receipt_until(
        group, topic, receipt.queue, receipt.offset, receipt.until_ms
    )


def _stale() -> ErrorResponse:
    return ErrorResponse(
        ResponseCode.NO_MESSAGE,
        remark="the receipt is stale: the message was, or will be, delivered again",
    )
