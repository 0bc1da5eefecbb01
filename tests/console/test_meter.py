"""Rates counted from events."""

import pytest

from app.ui.meter import NAMES_MAX, TOTAL_BUCKET_MS, WINDOW_MS, Meter, Ring
from engine.clock import ManualClock
from engine.events import Acked, Appended, Delivered

START_MS = 1_700_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture
def meter(clock: ManualClock) -> Meter:
    return Meter(clock.now_ms)


def appended(clock: ManualClock, topic: str, count: int) -> Appended:
    return Appended(clock.now_ms(), topic, 0, 0, count, 10)


def test_a_ring_forgets_what_is_older_than_its_window() -> None:
    ring = Ring(1000, START_MS)
    ring.add(START_MS, 5)
    assert sum(ring.window(START_MS + 1000)) == 5
    assert sum(ring.window(START_MS + WINDOW_MS + 1000)) == 0
    assert ring.is_idle(START_MS + 10 * WINDOW_MS)


def test_a_ring_leaves_out_the_bucket_that_is_still_filling() -> None:
    ring = Ring(1000, START_MS)
    ring.add(START_MS, 5)
    assert sum(ring.window(START_MS + 999)) == 0


def test_a_ring_ignores_what_comes_later_than_its_window() -> None:
    ring = Ring(1000, START_MS)
    ring.add(START_MS - 2 * WINDOW_MS, 7)
    assert sum(ring.window(START_MS + 1000)) == 0


def test_rates_are_messages_per_second(meter: Meter, clock: ManualClock) -> None:
    for _ in range(60):
        clock.advance(1)
        meter.hear(appended(clock, "orders", 10))
        meter.hear(Delivered(clock.now_ms(), "g", "orders", 0, (1, 2, 3), "c"))
        meter.hear(Acked(clock.now_ms(), "g", "orders", 0, (1, 2)))
    clock.advance(5)
    assert meter.accepted_rate() == pytest.approx(10, rel=0.4)
    assert meter.topic_rate("orders") == pytest.approx(10, rel=0.2)
    assert meter.group_rate("g") == pytest.approx(2, rel=0.2)
    assert meter.topic_rate("silent") == 0


def test_a_young_server_divides_by_its_own_age(meter: Meter, clock: ManualClock) -> None:
    meter.hear(appended(clock, "orders", 300))
    clock.advance(15)
    assert meter.topic_rate("orders") == pytest.approx(20)


def test_traffic_leaves_out_the_time_before_the_start(meter: Meter, clock: ManualClock) -> None:
    clock.advance(20)
    traffic = meter.traffic()
    assert traffic.step_ms == TOTAL_BUCKET_MS
    assert len(traffic.accepted) == len(traffic.delivered) <= 5


def test_names_are_bounded_and_silent_ones_are_forgotten(meter: Meter, clock: ManualClock) -> None:
    for number in range(NAMES_MAX + 10):
        meter.hear(appended(clock, f"t{number}", 1))
    assert len(meter.names()) == NAMES_MAX
    clock.advance(2 * WINDOW_MS / 1000)
    meter.hear(appended(clock, "t0", 1))
    for name in meter.names():
        meter.forget_if_idle(name)
    assert meter.names() == ["t0"]
