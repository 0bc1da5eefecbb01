"""Parses RocketMQ's trace text, which official clients send about their messages.

Clients send it as messages to `RMQ_SYS_TRACE_TOPIC`, with the ids of the messages as keys. Each
context ends with 0x02, its fields are separated by 0x01; later versions of clients added fields at
the end, so the number of fields decides which there are.
Source: docs/rocketmq-rules.md#traces-of-clients.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

import msgspec

from engine.message import StoredMessage

CONTEXT_SEPARATOR = "\x02"
FIELD_SEPARATOR = "\x01"
CONTEXTS_MAX = 10_000
NUMBER_DIGITS_MAX = 18
CONTEXT_CODES = ("SUCCESS", "TIME_OUT", "EXCEPTION", "RETURNNULL", "FAILED")


class ContextKind(StrEnum):
    """What a client was doing."""

    PUB = "Pub"
    SUB_BEFORE = "SubBefore"
    SUB_AFTER = "SubAfter"
    END_TRANSACTION = "EndTransaction"
    RECALL = "Recall"


class ClientTrace(msgspec.Struct, frozen=True):
    """One context. What its kind, or its client's version, does not have is empty, 0 or -1.

    `duration_ms` is how long the call took. `retry_times` counts from 0. SUB_BEFORE and SUB_AFTER
    of one call share `request_id`.
    """

    kind: ContextKind
    message_id: str
    at_ms: int = 0
    group: str = ""
    topic: str = ""
    tags: str = ""
    keys: str = ""
    store_host: str = ""
    client: str = ""
    duration_ms: int = -1
    message_type: int = 0
    offset_id: str = ""
    is_success: bool = True
    request_id: str = ""
    retry_times: int = 0
    code: str = ""
    transaction_id: str = ""
    state: str = ""
    is_from_check: bool = False


Read = Callable[[str], object]


def _text(text: str) -> str:
    return "" if text == "null" else text


def _number(text: str) -> int:
    """Raises ValueError for anything but a number that a 64-bit integer holds."""
    digits = text.removeprefix("-")
    if not (digits.isdecimal() and digits.isascii() and len(digits) <= NUMBER_DIGITS_MAX):
        raise ValueError(text[:40])
    return int(text)


def _truth(text: str) -> bool:
    return text.lower() == "true"


def _code(text: str) -> str:
    number = _number(text)
    return CONTEXT_CODES[number] if 0 <= number < len(CONTEXT_CODES) else str(number)


# By kind: how many fields there must be, and what stands at which place.
Layout = tuple[int, Sequence[tuple[int, str, Read]]]
_SENT: tuple[tuple[int, str, Read], ...] = (
    (1, "at_ms", _number),
    (3, "group", _text),
    (4, "topic", _text),
    (5, "message_id", _text),
)
_KEYED: tuple[tuple[int, str, Read], ...] = (
    *_SENT,
    (6, "tags", _text),
    (7, "keys", _text),
    (8, "store_host", _text),
)
LAYOUTS: dict[ContextKind, Layout] = {
    ContextKind.PUB: (
        12,
        (*_KEYED, (10, "duration_ms", _number), (11, "message_type", _number)),
    ),
    ContextKind.SUB_BEFORE: (
        8,
        (
            (1, "at_ms", _number),
            (3, "group", _text),
            (4, "request_id", _text),
            (5, "message_id", _text),
            (6, "retry_times", _number),
            (7, "keys", _text),
        ),
    ),
    ContextKind.SUB_AFTER: (
        6,
        (
            (1, "request_id", _text),
            (2, "message_id", _text),
            (3, "duration_ms", _number),
            (4, "is_success", _truth),
            (5, "keys", _text),
            (6, "code", _code),
            (7, "at_ms", _number),
            (8, "group", _text),
        ),
    ),
    ContextKind.END_TRANSACTION: (
        13,
        (
            *_KEYED,
            (9, "message_type", _number),
            (10, "transaction_id", _text),
            (11, "state", _text),
            (12, "is_from_check", _truth),
        ),
    ),
    ContextKind.RECALL: (7, (*_SENT, (6, "is_success", _truth))),
}
# A Pub of 13 fields comes from a client that did not tell the offset id yet.
PUB_SHORT = ((12, "is_success", _truth),)
PUB_LONG = ((12, "offset_id", _text), (13, "is_success", _truth), (14, "client", _text))
PUB_LONG_FIELDS = 14


def traces_of(message: StoredMessage) -> tuple[list[ClientTrace], int]:
    """What a message of the trace topic tells, and how many contexts of it cannot be read."""
    plain = message.plain
    return ([], 1) if plain.why_raw else parse(plain.body)


def parse(body: bytes) -> tuple[list[ClientTrace], int]:
    """The contexts of a trace text, at most 10,000, and how many of them cannot be read."""
    traces: list[ClientTrace] = []
    bad = 0
    for fields in _contexts(body):
        trace = _trace(fields)
        if trace is None:
            bad += 1
        else:
            traces.append(trace)
    return traces, bad


def _contexts(body: bytes) -> Iterator[list[str]]:
    texts = body.decode(errors="replace").split(CONTEXT_SEPARATOR, CONTEXTS_MAX)[:CONTEXTS_MAX]
    return (text.split(FIELD_SEPARATOR) for text in texts if text.strip())


def _trace(fields: list[str]) -> ClientTrace | None:
    try:
        kind = ContextKind(fields[0])
        fields_min, places = LAYOUTS[kind]
        if len(fields) < fields_min:
            return None
        if kind is ContextKind.PUB:
            places = (*places, *(PUB_LONG if len(fields) >= PUB_LONG_FIELDS else PUB_SHORT))
        values = {name: read(fields[at]) for at, name, read in places if at < len(fields)}
        return ClientTrace(kind, **values)  # type: ignore[arg-type]
    except ValueError:
        return None
