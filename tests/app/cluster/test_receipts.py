"""Receipts of POP in the form of KiteMQ's: all of them come back, others are refused."""

import random

import pytest

from app.cluster.errors import ClusterError
from app.cluster.numbering import QueueNumbers
from app.cluster.receipts import AHEAD_MS, MARK_BIT, invisible_ms, pop_text, receipt_of
from engine.broker import Receipt
from engine.errors import Invalid

NOW_MS = 1_764_000_000_000
NUMBERS = QueueNumbers(["a", "b", "c"])


def text_of(
    start: int = 10,
    pop_ms: int = NOW_MS,
    hidden_ms: int = 60_000,
    revive: int = 3,
    place: str = "0 b 2",
    offset: int = 12,
) -> str:
    return f"{start} {pop_ms} {hidden_ms} {revive} {place} {offset}"


def again(receipt: Receipt, now_ms: int = NOW_MS) -> str:
    return pop_text("billing", receipt, NUMBERS, now_ms, "receipts[0]").text


@pytest.mark.parametrize("seed", range(3))
def test_each_receipt_comes_back_as_the_broker_wrote_it(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(2000):
        start = chance.randrange(1 << 40)
        text = text_of(
            start,
            NOW_MS - chance.randrange(12 * 3600 * 1000),
            invisible_ms(chance.uniform(0.01, 12 * 3600)),
            chance.choice([*range(15), 999]),
            f"{chance.choice('012')} {chance.choice('abc')} {chance.randrange(1000)}",
            start + chance.randrange(1 << 14),
        )
        receipt, _ = receipt_of("billing", "orders", text, NUMBERS)
        assert MARK_BIT <= receipt.serial < 1 << 63
        assert again(receipt, NOW_MS + chance.randrange(12 * 3600 * 1000)) == text


def test_a_receipt_says_where_the_message_lies_and_when_it_ends() -> None:
    receipt, until_ms = receipt_of("billing", "orders", text_of(), NUMBERS)
    assert receipt[:3] == ("orders", 7, 12)
    assert until_ms == NOW_MS + 60_000
    for mark, separator in (("1", "_"), ("2", "+")):
        receipt, _ = receipt_of("billing", "orders", text_of(place=f"{mark} b 0"), NUMBERS)
        assert receipt.topic == f"%RETRY%billing{separator}orders"
        assert pop_text("billing", receipt, NUMBERS, NOW_MS, "x").topic == "orders"


def test_a_broker_whose_clock_is_ahead_is_understood() -> None:
    text = text_of(pop_ms=NOW_MS + AHEAD_MS - 1)
    receipt, _ = receipt_of("billing", "orders", text, NUMBERS)
    assert again(receipt) == text


def test_long_invisible_times_are_whole_seconds() -> None:
    assert [invisible_ms(each) for each in (0.01, 65.535, 65.536, 43_200)] == [
        10,
        65_535,
        66_000,
        43_200_000,
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"serial": 5},
        {"serial": MARK_BIT - 1},
        {"serial": MARK_BIT << 1},
        {"offset": -1},
        {"offset": 1},  # before the first of its checkpoint
        {"queue": -1},
        {"topic": "%RETRY%billing"},
        {"topic": "%RETRY%other_orders"},
    ],
)
def test_a_receipt_that_is_none_of_ours_is_refused_by_its_field(change: dict[str, object]) -> None:
    receipt, _ = receipt_of("billing", "orders", text_of(), NUMBERS)
    with pytest.raises(Invalid) as error:
        again(receipt._replace(**change))  # type: ignore[arg-type]
    assert error.value.field == "receipts[0]"
    assert error.value.remedy


@pytest.mark.parametrize("text", [text_of(revive=15), text_of(start=13), text_of(offset=1 << 15)])
def test_what_a_receipt_cannot_hold_is_said(text: str) -> None:
    with pytest.raises(ClusterError, match="broker b"):
        receipt_of("billing", "orders", text, NUMBERS)
