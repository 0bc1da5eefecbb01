"""20,000 messages of all kinds, the same for both brokers, told apart by their ids."""

import base64
import random
from collections.abc import Iterator
from typing import Any

COUNT = 20_000
QUEUES = 4
SHORT_MS = 1_500
LONG_MS = 3_600_000
DAYS_MS = 60 * LONG_MS  # further than RocketMQ's wheel reaches, and within its three days

Row = dict[str, Any]


def rows(count: int = COUNT, first: int = 0) -> Iterator[Row]:
    """`kind` says how it is sent, `ahead_ms` how long it waits; the rest is RocketMQ's fields."""
    dice = random.Random(13)
    number = first
    while number < first + count:
        if number % 200 == 0:
            yield _batch(dice, number)
            number += 10
            continue
        yield _row(dice, number)
        number += 1


def _batch(dice: random.Random, number: int) -> Row:
    messages = [
        {"body": _body(dice, number + at), "properties": {"UNIQ_KEY": uniq(number + at)}}
        for at in range(10)
    ]
    return {"kind": "batch", "topic": "bulk", "queue": number // 200 % QUEUES, "messages": messages}


def _row(dice: random.Random, number: int) -> Row:
    properties = {"UNIQ_KEY": uniq(number)}
    row: Row = {
        "kind": "plain",
        "topic": "orders",
        "queue": number % QUEUES,
        "body": _body(dice, number),
        "flag": number % 7,
        "reconsume_times": 0,
        "properties": properties,
    }
    kind = number % 20
    if kind < 6:
        properties |= {"TAGS": "abc"[number % 3], "KEYS": f"k{number} shared"}
    elif kind == 6:
        properties["DELAY"] = "1" if number % 40 == 6 else "18"
    elif kind == 7:
        row["ahead_ms"] = (SHORT_MS, LONG_MS, DAYS_MS)[number // 20 % 3]
    elif kind == 8 and number % 60 == 8:
        row |= {"kind": "half", "topic": "ledger"}
        row["decision"] = (None, "commit", "rollback")[number // 60 % 3]
    elif kind == 9:
        row |= {"topic": "%RETRY%workers", "queue": 0, "reconsume_times": 1 + number % 5}
        properties |= {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": uniq(number + 10_000_000)}
        if number % 40 == 9:
            properties["DELAY"] = "1" if number % 80 == 9 else "17"
    elif kind == 10:
        row |= {"topic": "%DLQ%workers", "queue": 0, "reconsume_times": 16}
        properties |= {"DLQ_ORIGIN_TOPIC": "orders", "DLQ_ORIGIN_MESSAGE_ID": uniq(number)}
    elif kind == 11:
        properties |= {"näme": "wért ✓", "other": "="}
    return row


def uniq(number: int) -> str:
    """A message's id."""
    return f"{number:032X}"


def _body(dice: random.Random, number: int) -> str:
    size = dice.choice((1, 20, 100, 600))
    return base64.b64encode(dice.randbytes(size)).decode()
