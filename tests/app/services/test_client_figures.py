"""What each client does, as the events tell it: bounded, and by their own times."""

import pytest

from app.services import client_figures
from app.services.client_figures import NOTHING, ClientFigures
from engine.events import (
    Acked,
    DeadLettered,
    MemberJoined,
    MemberLeft,
    MessagesDelivered,
    Retried,
    SendRefused,
)


def figures_of(*members: int) -> ClientFigures:
    counts = iter(members)
    return ClientFigures(lambda group: next(counts))


def handed(at_ms: int, first: int, count: int = 1, client: str = "w1") -> MessagesDelivered:
    return MessagesDelivered(at_ms, "g", "orders", 0, tuple(range(first, first + count)), client)


def test_hand_outs_acknowledgements_and_failures_are_counted_by_client() -> None:
    figures = figures_of()
    figures.hear(handed(1_000, 0, 10))
    figures.hear(handed(1_000, 10, 1, "w2"))
    figures.hear(Acked(1_400, "g", "orders", 0, tuple(range(10))))
    figures.hear(Retried(1_500, "g", "orders", 0, 10, 2, 1000, "w2", "it broke"))
    one, two = figures.of("w1", 2_000), figures.of("w2", 2_000)
    assert (one.handed, one.handed_ms, one.acked_ms) == (10, 1_000, 1_400)
    assert (one.processing_p99_ms, one.processing_samples, one.failed) == (400, 1, 0)
    assert (two.failed, two.failed_ms, two.error) == (1, 1_500, "it broke")
    assert two.processing_p99_ms is None
    # What failed once was settled then: its acknowledgement is another's.
    figures.hear(Acked(9_000, "g", "orders", 0, (10,)))
    assert figures.of("w2", 9_000).acked_ms is None
    assert figures.of("nobody", 9_000) == NOTHING


def test_rates_are_over_the_last_minute_and_totals_stay() -> None:
    figures = figures_of()
    figures.hear(handed(0, 0, 60))
    figures.sent("w1", 30, 5_000)
    assert figures.rates("w1", 59_999) == pytest.approx((60 / 69.999, 30 / 69.999, 0))
    assert figures.rates("w1", 70_000) == (0, 0, 0)
    assert (figures.of("w1", 70_000).handed, figures.of("w1", 70_000).sent) == (60, 30)


def test_a_clients_clock_is_told_by_the_message_that_came_fastest_lately() -> None:
    figures, skew_ms = figures_of(), 3_600_000
    assert figures.of("w1", 0).clock_skew_ms is None
    for at_ms, way_ms in ((1_000, 900), (2_000, 40), (3_000, 700)):
        figures.sent("w1", 1, at_ms, at_ms + skew_ms - way_ms)
    figures.sent("w1", 1, 4_000)  # one without a time
    assert figures.of("w1", 4_000).clock_skew_ms == skew_ms - 40
    # Its clock is set right, which shows as soon as the old times are forgotten.
    five_minutes_ms = 300_000
    figures.sent("w1", 1, five_minutes_ms, five_minutes_ms - 15)
    assert figures.of("w1", 2 * five_minutes_ms - 1).clock_skew_ms == skew_ms - 40
    assert figures.of("w1", 2 * five_minutes_ms).clock_skew_ms == -15
    assert figures.of("w1", 3 * five_minutes_ms).clock_skew_ms is None


def test_the_percentile_is_over_the_latest_hand_outs() -> None:
    figures = figures_of()
    for number in range(300):
        figures.hear(handed(number * 1_000, number))
        took_ms = 900 if number in (0, 250) else 10
        figures.hear(Acked(number * 1_000 + took_ms, "g", "orders", 0, (number,)))
    found = figures.of("w1", 0)
    # The slow one among the first 44 is forgotten; one of 256 lies above the 99th percentile.
    assert (found.processing_p99_ms, found.processing_samples) == (10, 256)


def test_clients_hand_outs_and_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLIENTS_MAX", "PLACES_MAX", "QUEUES_MAX", "GROUPS_MAX", "ADDRESSES_MAX"):
        monkeypatch.setattr(client_figures, name, 3)
    figures = ClientFigures(lambda group: 1)
    for number in range(10):
        figures.hear(handed(number, number, client=f"w{number}"))
        figures.hear(MessagesDelivered(number, f"g{number}", "orders", 0, (0,), "busy"))
        figures.hear(MemberJoined(number, f"g{number}", "w1"))
        figures.hear(SendRefused(number, "orders", "refused", (), f"host:{number}"))
    for number in range(10):
        figures.hear(handed(number, 100 + number, client="busy"))
    sizes = [figures._clients, figures._places, figures._passages, figures._refused]
    assert [len(kept) for kept in sizes] == [3, 3, 3, 3]
    assert all(len(places) <= 3 for places in figures._places.values())
    assert figures.of("busy", 9).handed == 20
    assert figures.of("w0", 9) == NOTHING
    assert (figures.refused("host:9").count, figures.refused("host:0").count) == (1, 0)


def test_a_group_tells_who_came_and_went_newest_first() -> None:
    figures = figures_of(1, 2, 1)
    figures.hear(MemberJoined(1, "g", "w1"))
    figures.hear(MemberJoined(2, "g", "w2"))
    figures.hear(MemberLeft(3, "g", "w1", True))
    told = [(each.client, each.kind, each.members) for each in figures.passages("g")]
    assert told == [("w1", "expired", 1), ("w2", "joined", 2), ("w1", "joined", 1)]
    assert figures.passages("other") == ()


def test_a_dead_letter_counts_as_a_failure_with_its_reason() -> None:
    figures = figures_of()
    figures.hear(DeadLettered(5, "g", "orders", 0, 1, "retries_exhausted", "w1"))
    assert figures.of("w1", 5).error == "retries_exhausted"
