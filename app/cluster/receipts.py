"""A POP's receipt as KiteMQ's: topic, queue, offset, and one number that holds the rest.

The number fits the 63 bits that the protocols of KiteMQ have for it, so that every process before
a cluster can settle what another delivered. From the highest bit on:

| bits | is |
|------|----|
| 1    | set: tells it from the serials of the embedded engine |
| 27   | time of the POP in ms, without what is above: 37 hours, receipts live for 12 |
| 17   | invisible time: a bit for the unit (ms, or s from 65,536 ms on), and 16 of it |
| 4    | revive queue; 15 stands for that of ordered deliveries |
| 14   | offset, less the first of the checkpoint that it belongs to |
"""

from typing import NamedTuple

from app.cluster.deliveries import RETRY_PREFIX
from app.cluster.errors import ClusterError
from app.cluster.numbering import QueueNumbers
from app.cluster.routes import ClusterQueue
from engine.broker import Receipt
from engine.errors import Invalid
from protocol.remoting.pop import NORMAL_MARK, ORDER_QUEUE, PARTS, RETRY_MARK

MARK_BIT = 1 << 62
POP_BITS, INVISIBLE_BITS, REVIVE_BITS, STEP_BITS = 27, 16, 4, 14
POP_SPAN_MS = 1 << POP_BITS
MS_MAX = 1 << INVISIBLE_BITS  # from here on in seconds
ORDERED = (1 << REVIVE_BITS) - 1
AHEAD_MS = 3_600_000  # so much may a broker's clock be ahead of ours
V1_SEPARATOR, V2_SEPARATOR = "_", "+"


class PopText(NamedTuple):
    """A receipt as the broker wants it: its text, the topic that was received, and its end."""

    text: str
    topic: str
    broker: str
    until_ms: int


def invisible_ms(invisible_s: float) -> int:
    """The invisible time in ms, rounded up to one that a receipt can hold."""
    ms = round(invisible_s * 1000)
    return ms if ms < MS_MAX else -(-ms // 1000) * 1000


def place_topic(group: str, topic: str, mark: str) -> str:
    """Where a message that was received from `topic` lies: there, or in the group's retries."""
    if mark == NORMAL_MARK or topic.startswith(RETRY_PREFIX):
        return topic
    return f"{RETRY_PREFIX}{group}{V1_SEPARATOR if mark == RETRY_MARK else V2_SEPARATOR}{topic}"


def receipt_of(group: str, topic: str, text: str, numbers: QueueNumbers) -> tuple[Receipt, int]:
    """The receipt for a broker's, and when its invisible time ends."""
    parts = text.split(" ")
    start, pop_ms, hidden_ms, revive = map(int, parts[:4])
    mark, broker, queue, offset = parts[4], parts[5], int(parts[6]), int(parts[7])
    step = int(offset) - start
    if revive == ORDER_QUEUE:
        revive = ORDERED
    elif not 0 <= revive < ORDERED:
        raise ClusterError(f"broker {broker} has a revive queue {revive}, {ORDERED} are the most")
    if not 0 <= step < 1 << STEP_BITS:
        raise ClusterError(f"broker {broker} delivered {step} offsets behind its checkpoint")
    is_long = hidden_ms >= MS_MAX
    serial = 1
    for bits, value in (
        (POP_BITS, pop_ms % POP_SPAN_MS),
        (1, is_long),
        (INVISIBLE_BITS, hidden_ms // 1000 if is_long else hidden_ms),
        (REVIVE_BITS, revive),
        (STEP_BITS, step),
    ):
        serial = serial << bits | value
    place = ClusterQueue(place_topic(group, topic, mark), broker, queue)
    receipt = Receipt(place.topic, numbers.number(place), int(offset), serial)
    return receipt, pop_ms + hidden_ms


def pop_text(
    group: str, receipt: Receipt, numbers: QueueNumbers, now_ms: int, field: str
) -> PopText:
    """The broker's receipt; Invalid (`field`) for one that is not of a cluster or this group."""
    serial = receipt.serial
    if not MARK_BIT <= serial < MARK_BIT << 1 or not 0 <= receipt.offset < 1 << 62:
        raise _strange(receipt, field)
    serial, step = divmod(serial, 1 << STEP_BITS)
    serial, revive = divmod(serial, 1 << REVIVE_BITS)
    serial, hidden_ms = divmod(serial, MS_MAX)
    serial, is_long = divmod(serial, 2)
    hidden_ms *= 1000 if is_long else 1
    latest = now_ms + AHEAD_MS
    pop_ms = latest - (latest - serial) % POP_SPAN_MS
    mark, topic = NORMAL_MARK, receipt.topic
    if topic.startswith(RETRY_PREFIX):
        rest = topic.removeprefix(RETRY_PREFIX + group)
        if rest == topic or rest[:1] not in (V1_SEPARATOR, V2_SEPARATOR):
            raise _strange(receipt, field)
        mark, topic = (RETRY_MARK if rest[0] == V1_SEPARATOR else "2"), rest[1:]
    if receipt.queue < 0 or step > receipt.offset:
        raise _strange(receipt, field)
    place = numbers.place(receipt.topic, receipt.queue)
    parts = (
        receipt.offset - step,
        pop_ms,
        hidden_ms,
        ORDER_QUEUE if revive == ORDERED else revive,
        mark,
        place.broker,
        place.queue,
        receipt.offset,
    )
    assert len(parts) == PARTS
    return PopText(" ".join(map(str, parts)), topic, place.broker, pop_ms + hidden_ms)


def _strange(receipt: Receipt, field: str) -> Invalid:
    return Invalid(
        f"the receipt of offset {receipt.offset} in {receipt.topic!r} is none of this group's "
        "from this cluster",
        field=field,
        remedy="settle a message with the receipt that its delivery brought",
    )
