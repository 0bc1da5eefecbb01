"""The pages' rates and lines, as the engine counts them."""

import pytest

from app.monitoring.meter import STEP_MS, Meter
from engine.broker import Broker
from engine.clock import ManualClock
from engine.message import Message


def test_rates_are_messages_per_second(meter: Meter, broker: Broker, clock: ManualClock) -> None:
    for _ in range(70):
        broker.send([Message("orders", b"x") for _ in range(10)])
        taken = broker.receive("g", {"orders": "*"}, count_max=3)
        broker.ack("g", [each.receipt for each in taken[:2]])
        clock.advance(1)
    assert meter.accepted_rate() == pytest.approx(10)
    assert (meter.delivered_rate() or 0) > 0
    assert meter.topic_rate("orders") == pytest.approx(10)
    assert (meter.group_rate("g") or 0) > 0
    assert meter.topic_rate("silent") == 0


def test_traffic_leaves_out_the_time_before_the_start(meter: Meter, clock: ManualClock) -> None:
    clock.advance(25)
    traffic = meter.traffic()
    assert traffic.step_ms == STEP_MS
    assert traffic.accepted == traffic.delivered == [0, 0, 0]


def test_a_line_shows_what_came_in_each_ten_seconds(
    meter: Meter, broker: Broker, clock: ManualClock
) -> None:
    broker.send([Message("orders", b"x") for _ in range(20)])
    clock.advance(10)
    broker.send([Message("orders", b"x") for _ in range(50)])
    clock.advance(10)
    assert meter.topic_history("orders")[-3:] == [0, 20, 50]
    assert meter.traffic().accepted[-2:] == [2, 5]
