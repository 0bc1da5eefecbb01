"""The texts by which POP answers and acknowledgements name deliveries.

A receipt ("extra info") has eight parts between spaces: first offset of the answer in this queue,
time of the POP, invisible time, revive queue, retry mark, broker name, queue and offset. Times are
milliseconds. Parts that follow are not read.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

ORDER_QUEUE = 999  # the revive queue of ordered deliveries
NORMAL_MARK, RETRY_MARK = "0", "1"
MARKS = frozenset({NORMAL_MARK, RETRY_MARK, "2"})
PARTS = 8
DIGITS_MAX = 18  # of a number in a receipt: it fits 64 bits
OFFSETS_MAX = 4096  # of one batch of acknowledgements


class PopError(ValueError):
    """The text is no receipt."""


class PopReceipt(NamedTuple):
    """One delivery: `until_ms` is the end of its invisible time."""

    is_retry: bool
    queue: int
    offset: int
    until_ms: int
    revive_queue: int


class PopPlace(NamedTuple):
    """Where a delivered message lies, and how often its delivery failed before."""

    mark: str
    queue: int
    offset: int
    failures: int


def parse_receipt(text: str) -> PopReceipt:
    """The receipt of an ACK_MESSAGE; PopError."""
    parts = text.split(" ")
    if len(parts) < PARTS or parts[4] not in MARKS:
        raise PopError(f"{text[:80]!r} is no receipt of a POP")
    _, time_ms, invisible_ms, revive_queue, mark, _, queue, offset = parts[:PARTS]
    return PopReceipt(
        mark != NORMAL_MARK,
        _number(queue),
        _number(offset),
        _number(time_ms) + _number(invisible_ms),
        _number(revive_queue),
    )


def start_offsets(places: Iterable[PopPlace]) -> str:
    """`startOffsetInfo`: the lowest offset of each queue."""
    queues = _by_queue(places)
    return ";".join(f"{mark} {queue} {min(offsets)}" for (mark, queue), offsets in queues.items())


def message_offsets(places: Iterable[PopPlace]) -> str:
    """`msgOffsetInfo`: the offsets of each queue, in the order of the messages."""
    queues = _by_queue(places)
    return ";".join(
        f"{mark} {queue} {','.join(map(str, offsets))}" for (mark, queue), offsets in queues.items()
    )


def order_counts(places: Iterable[PopPlace]) -> str:
    """`orderCountInfo`: how often each message failed before."""
    return ";".join(
        f"{place.mark} qo{place.queue}%{place.offset} {place.failures}"
        for place in places
        if place.failures
    )


def set_bits(data: bytes) -> Iterator[int]:
    """The numbers of a bit set, ascending; the lowest bit of the first byte is 0.

    Raises PopError after OFFSETS_MAX numbers.
    """
    count = 0
    for index, byte in enumerate(data):
        for bit in range(8 if byte else 0):
            if byte >> bit & 1:
                count += 1
                if count > OFFSETS_MAX:
                    raise PopError(f"more than {OFFSETS_MAX} messages are acknowledged at once")
                yield index * 8 + bit


def _by_queue(places: Iterable[PopPlace]) -> dict[tuple[str, int], list[int]]:
    queues: dict[tuple[str, int], list[int]] = {}
    for place in places:
        queues.setdefault((place.mark, place.queue), []).append(place.offset)
    return queues


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX):
        raise PopError(f"a receipt with {text[:40]!r} instead of a number")
    return int(text)
