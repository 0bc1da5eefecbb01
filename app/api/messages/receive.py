"""REST for consumers: receive with a receipt, then ack, nack, extend or release."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from app.api.framework.operation import Call, ClientGone, Operations
from app.api.messages.messages import fields_of, while_connected
from app.security.access import Action, Kind
from app.services import bodies
from engine.broker import AckResult, Delivery, Nack, Receipt
from engine.errors import Invalid
from kitemq.model.deliveries import (
    DeliveryList,
    ExtensionList,
    NewExtension,
    NewNack,
    NewNacks,
    NewReceive,
    ReceiptExtension,
    ReceiptList,
    ReceiptResult,
    ReceivedMessage,
    SettlementList,
)
from kitemq.protocol.columns import ProtocolError
from kitemq.protocol.text import parse_receipt, receipt_text

operations = Operations("consume")
ERROR_CHARS_MAX = 1024


@operations.post(
    "/groups/{group}/receive",
    capability="message_acks",
    needs=Action.CONSUME,
    errors=(409,),
    example_body='{"topic": "orders", "max": 10, "wait_ms": 20000}',
)
async def receive(call: Call[None, NewReceive]) -> DeliveryList:
    """Receive messages for a consumer group.

    Each message is invisible to the rest of the group for `invisible_ms`. Settle it with its
    receipt; a message that is not settled in time is delivered again with its attempt counted.
    """
    body = call.body
    topics = _topics(body)
    for topic in topics:
        call.require(Action.CONSUME, Kind.TOPIC, topic)
    group = _claimed(call)
    receiving = call.messaging.receive(
        group,
        topics,
        count_max=body.max,
        invisible_s=body.invisible_ms / 1000,
        wait_s=body.wait_ms / 1000,
        client=body.client or await _unnamed(call, group),
    )
    try:
        got = await (while_connected(call, receiving) if body.wait_ms else receiving)
        await _record_client(call, topics)
        return DeliveryList(list(map(_delivered, await _fitting(call, group, got))))
    except ClientGone as gone:
        deliveries: list[Delivery] = gone.args[0] or []
        if deliveries:
            await call.messaging.release(group, [delivery.receipt for delivery in deliveries])
        raise


@operations.post(
    "/groups/{group}/ack", needs=Action.CONSUME, example_body='{"receipts": ["orders:0:0:18c"]}'
)
async def ack(call: Call[None, ReceiptList]) -> SettlementList:
    """Acknowledge messages: the group is done with them."""
    receipts = call.body.receipts
    results = await call.messaging.ack(_claimed(call), _parsed(receipts))
    await _record_client(call)
    return _settled(receipts, results)


@operations.post(
    "/groups/{group}/nack",
    needs=Action.CONSUME,
    example_body='{"nacks": [{"receipt": "orders:0:0:18c", "error": "no stock"}]}',
)
async def nack(call: Call[None, NewNacks]) -> SettlementList:
    """Give messages back as failed.

    They come again after their delay with the attempt counted, or go to the group's dead letters
    once all attempts are used up. Without a delay each retry waits longer than the one before.
    """
    nacks = [_nack_of(index, new) for index, new in enumerate(call.body.nacks)]
    results = await call.messaging.nack(_claimed(call), nacks, call.body.client or call.client)
    await _record_client(call)
    return _settled([new.receipt for new in call.body.nacks], results)


@operations.post(
    "/groups/{group}/extend",
    needs=Action.CONSUME,
    example_body='{"receipts": ["orders:0:0:18c"], "invisible_ms": 60000}',
)
async def extend(call: Call[None, NewExtension]) -> ExtensionList:
    """Keep messages invisible for longer."""
    receipts = call.body.receipts
    invisible_s = call.body.invisible_ms / 1000
    results = await call.messaging.extend(_claimed(call), _parsed(receipts), invisible_s)
    await _record_client(call)
    return ExtensionList(
        [
            ReceiptExtension(receipt, item.result.value, item.until_ms)
            for receipt, item in zip(receipts, results, strict=True)
        ]
    )


@operations.post(
    "/groups/{group}/release", needs=Action.CONSUME, example_body='{"receipts": ["orders:0:0:18c"]}'
)
async def release(call: Call[None, ReceiptList]) -> SettlementList:
    """Put messages back unprocessed.

    They are delivered again at once, and the attempt does not count.
    """
    receipts = call.body.receipts
    results = await call.messaging.release(_claimed(call), _parsed(receipts))
    await _record_client(call)
    return _settled(receipts, results)


async def _unnamed(call: Call[Any, Any], group: str) -> str:
    """The name shown for a client without one; in a broadcast a name is required."""
    return "" if await call.messaging.is_broadcast(group) else call.client


def _claimed(call: Call[Any, Any]) -> str:
    """The group, in which the client's name is the caller's from now on."""
    group = call.path("group")
    call.claim_client(group, call.body.client)
    return group


async def _record_client(call: Call[Any, Any], topics: dict[str, str] | None = None) -> None:
    """The client gave a sign of life, if it has a name."""
    if client := call.body.client:
        await call.messaging.members.seen(
            call.path("group"), client, topics=topics, address=call.client
        )


def _topics(body: NewReceive) -> dict[str, str]:
    if body.topics is UNSET:
        if body.topic:
            return {body.topic: body.filter}
        raise Invalid("no topic is named", field="topic", remedy="name a topic, or several")
    if body.topic or not body.topics:
        raise Invalid(
            "`topics` is empty, or `topic` stands beside it",
            field="topics",
            remedy="name one `topic`, or `topics` with their filters",
        )
    return body.topics


async def _fitting(
    call: Call[None, NewReceive], group: str, deliveries: list[Delivery]
) -> list[Delivery]:
    """Those whose bodies fit into one answer once decompressed; the others are put back."""
    count = 0
    try:
        count = await bodies.delivered_count([each.message for each in deliveries])
    finally:  # also where the client is gone
        if count < len(deliveries):
            receipts = [each.receipt for each in deliveries[count:]]
            await call.messaging.release(group, receipts)
    return deliveries[:count]


def _delivered(delivery: Delivery) -> ReceivedMessage:
    settle = (receipt_text(delivery.receipt), delivery.invisible_until_ms)
    return ReceivedMessage(*(fields_of(delivery.message) + settle))


def _parsed(receipts: list[str]) -> list[Receipt]:
    return [_receipt(f"receipts[{index}]", text) for index, text in enumerate(receipts)]


def _receipt(field: str, text: str) -> Receipt:
    try:
        return Receipt(*parse_receipt(text))
    except ProtocolError:
        raise Invalid(
            f"{text[:80]!r} is no receipt", field=field, remedy="send it back as it came"
        ) from None


def _nack_of(index: int, new: NewNack) -> Nack:
    if new.delay_ms is not None and new.delay_level is not None:
        raise Invalid(
            "both delay_ms and delay_level are given",
            field=f"nacks[{index}].delay_ms",
            remedy="give one of them, or neither",
        )
    delay_s = None if new.delay_ms is None else new.delay_ms / 1000
    receipt = _receipt(f"nacks[{index}].receipt", new.receipt)
    return Nack(receipt, delay_s, new.delay_level, new.error[:ERROR_CHARS_MAX])


def _settled(receipts: list[str], results: Sequence[AckResult]) -> SettlementList:
    return SettlementList(
        [
            ReceiptResult(receipt, result.value)
            for receipt, result in zip(receipts, results, strict=True)
        ]
    )
