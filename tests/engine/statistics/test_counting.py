"""What a broker counts of its messages, with a clock by hand: exact rates, bounded memory."""

from collections.abc import Callable

import pytest

from engine.broker import Broker, GroupConfig, Nack
from engine.clock import ManualClock
from engine.errors import Invalid
from engine.events import Acked, Appended
from engine.message import Durability, Message, PutResult
from engine.statistics import counting, end_to_end, statistics, traffic_metrics
from engine.statistics.counting import EventCounter
from engine.statistics.metric_series import CROWDED_IDLE_MS, SWEEP_MS, Metric, MetricRegistry
from engine.statistics.traffic_metrics import TrafficMetrics
from engine.statistics.windows import DAY_MS, FINE
from tests.engine.conftest import Engine

Send = Callable[..., PutResult]
START_MS = 1_700_000_000_000


def test_rates_by_topic_queue_and_group_are_exact(engine: Engine, broker: Broker) -> None:
    for second in range(120):
        broker.send([Message("orders", b"x" * 10, queue=second % 2) for _ in range(6)])
        taken = broker.receive("billing", {"orders": "*"}, count_max=4, invisible_s=3600)
        broker.ack("billing", [each.receipt for each in taken[:3]])
        engine.tick(1)
    found = broker.statistics.topic("orders")
    assert found.traffic.messages_in.total == 720
    assert found.traffic.messages_in.minute == pytest.approx(6)
    size_bytes = broker.message("orders", 0, 0).size_bytes
    assert found.traffic.bytes_in.minute == pytest.approx(6 * size_bytes)
    assert found.traffic.messages_out.minute == pytest.approx(4)
    assert [queue.traffic.messages_in.total for queue in found.queues] == [360, 360]
    assert broker.statistics.queue("orders", 0).traffic.messages_in.minute == pytest.approx(3)
    group = broker.statistics.group("billing")
    assert group.messages_out.minute == pytest.approx(4)
    assert group.acked.minute == pytest.approx(3)
    assert group.bytes_out.total == 480 * size_bytes
    assert [(each.topic, each.acked.total) for each in group.readers] == [("orders", 360)]
    assert broker.statistics.broker().traffic.messages_in.minute == pytest.approx(6)


def test_the_time_from_making_to_acknowledgement_spans_retries(
    engine: Engine, broker: Broker, clock: ManualClock
) -> None:
    assert broker.statistics.end_to_end().count == 0
    broker.send([Message("orders", b"x", queue=0, born_ms=clock.now_ms()) for _ in range(4)])
    broker.create_group(GroupConfig("billing"))
    engine.tick(2)
    first = broker.receive("billing", {"orders": "*"}, count_max=4)
    broker.ack("billing", [each.receipt for each in first[:3]])
    broker.nack("billing", [Nack(first[3].receipt, delay_level=1)])
    engine.tick(3)
    (again,) = broker.receive("billing", {"orders": "*"}, count_max=4)
    broker.ack("billing", [again.receipt])
    engine.tick(1)
    spread = broker.statistics.end_to_end()
    assert spread.count == 4
    assert spread.p50 == pytest.approx(2_000_000, rel=0.1)
    assert spread.max == pytest.approx(5_000_000, rel=0.1)
    engine.tick(200)
    assert broker.statistics.end_to_end().count == 0


def test_of_many_acknowledgements_a_bounded_part_is_looked_at(
    engine: Engine, broker: Broker, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end_to_end, "NOTED_MAX", 3)
    send(*map(str, range(9)))
    for _ in range(9):
        (each,) = broker.receive("billing", {"orders": "*"}, count_max=1)
        broker.ack("billing", [each.receipt])
    engine.tick(1)
    assert broker.statistics.end_to_end().count == 3


def test_no_more_acknowledgements_are_looked_at_in_a_second_however_often_it_ticks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(end_to_end, "NOTED_MAX", 3)
    figures = end_to_end.EndToEnd(lambda *_: 1_000)
    for at_ms in (4_000, 4_999, 5_000):
        for offset in range(9):
            figures.note(Acked(at_ms, "billing", "orders", 1, (offset,)))
            figures.settle()
    assert figures.recent(5_000).count == 6


def test_to_ask_for_the_time_to_the_acknowledgement_reads_no_record() -> None:
    looked: list[tuple[str, int, int]] = []

    def born_ms(topic: str, queue: int, offset: int) -> int:
        looked.append((topic, queue, offset))
        return 1_000

    figures = end_to_end.EndToEnd(born_ms)
    figures.note(Acked(at_ms=4_000, group="billing", topic="orders", queue=1, offsets=(6, 7)))
    assert (figures.recent(4_000).count, looked) == (0, [])
    figures.settle()
    assert (figures.recent(4_000).count, looked) == (2, [("orders", 1, 7)])


def test_figures_are_up_to_date_without_a_tick(broker: Broker, send: Send) -> None:
    send("a", "b")
    assert broker.statistics.topic("orders").traffic.messages_in.total == 2


def test_retries_dead_letters_and_refusals_are_counted(engine: Engine, broker: Broker) -> None:
    broker.send([Message("orders", b"x", queue=0)])
    broker.create_group(GroupConfig("billing", retry_max=1))
    for _ in range(2):
        assert broker.receive("billing", {"orders": "*"}, invisible_s=10)
        engine.tick(11)
        engine.tick(15)
    with pytest.raises(Invalid):
        broker.send([Message("orders", b"")])
    group = broker.statistics.group("billing")
    assert (group.retried.total, group.dead.total) == (1, 1)
    assert sum(group.dead_by_reason.values()) == 1
    assert broker.statistics.topic("orders").refused.total == 1
    assert broker.statistics.broker().refused_by_code == {"invalid_size": 1}


def test_a_retry_does_not_count_as_come_in_again(engine: Engine, broker: Broker) -> None:
    broker.send([Message("orders", b"x", queue=0)])
    broker.receive("billing", {"orders": "*"}, invisible_s=10)
    engine.tick(11)
    engine.tick(15)
    assert broker.statistics.topic("%RETRY%billing").traffic.messages_in.total == 1
    assert broker.statistics.broker().traffic.messages_in.total == 1


def test_pulls_of_a_group_count_as_handed_out(broker: Broker, send: Send) -> None:
    send("a", "b", "c")
    broker.pull("orders", 0, 0, group="billing")
    broker.pull("orders", 0, 0)  # somebody only looks
    assert broker.statistics.group("billing").messages_out.total == 3
    assert broker.statistics.topic("orders").traffic.messages_out.total == 3


def test_a_deleted_topic_or_group_leaves_no_figures(broker: Broker, send: Send) -> None:
    send("a")
    broker.receive("billing", {"orders": "*"})
    broker.delete_group("billing")
    assert broker.statistics.group("billing").messages_out.total == 0
    assert broker.statistics.topic("orders").readers == []
    broker.delete_topic("orders")
    assert broker.statistics.topic("orders").traffic.messages_in.total == 0


def test_sends_are_timed_until_their_durability_is_kept(
    engine: Engine, broker: Broker, clock: ManualClock
) -> None:
    sent = broker.send([Message("orders", b"x" * 100)] * 3, durability=Durability.FLUSHED)
    clock.advance(0.25)
    broker.when_flushed(sent.flush_position, lambda _: None)
    broker.send([Message("orders", b"y" * 50)])
    latency = broker.statistics.put_latency()
    assert (latency.stored.recent.count, latency.flushed.recent.count) == (2, 1)
    assert latency.flushed.recent.max == 250_000
    size = broker.statistics.broker().message_size
    assert (size.count, size.max, size.mean) == (4, 100, 87.5)


def test_times_of_sends_are_entered_often_and_a_bounded_number_at_once(
    broker: Broker, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = broker.statistics
    while figures.tick() != statistics.IDLE_STEP_S:
        pass
    monkeypatch.setattr(statistics, "SENDS_PER_STEP", 2)
    for _ in range(5):
        send("x")
    assert [figures.tick() for _ in range(4)] == [
        0.0,
        0.0,
        statistics.STEP_S,
        statistics.IDLE_STEP_S,
    ]


def test_an_event_of_the_next_second_closes_the_one_before() -> None:
    own = TrafficMetrics(START_MS)
    counted = EventCounter(own, START_MS, lambda event: None)
    for ms in (0, 999, 1000, 1500, 2000):
        counted.hear(Appended(START_MS + ms, "orders", 0, 0, 1, 10))
    counted.settle_all(START_MS + 2000)
    account = own.topics.find("orders")
    assert account is not None
    series = account._series[Metric.MESSAGES_IN]
    assert series.rate(START_MS + 2999, 1000, 1000) == pytest.approx(3 * 1000 / 1999)
    assert series.total == 5


def test_what_waits_is_entered_in_bounded_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "ENTRIES_PER_STEP", 10)
    own = TrafficMetrics(START_MS)
    counted = EventCounter(own, START_MS, lambda event: None)
    for number in range(25):
        counted.hear(Appended(START_MS, f"t{number}", 0, 0, 1, 10))
    assert counted.settle(START_MS + 1000)
    assert len(own.topics) == 10
    assert counted.settle(START_MS + 1000)
    assert not counted.settle(START_MS + 1000)
    assert len(own.topics) == 25


def test_a_calendar_that_is_set_back_begins_the_windows_anew(
    engine: Engine, broker: Broker, clock: ManualClock, send: Send
) -> None:
    send("a", "b")
    engine.tick(5)
    clock.set_ms(clock.now_ms() - 3_600_000)
    engine.tick(5)
    send("c")
    engine.tick(5)
    rates = broker.statistics.topic("orders").traffic.messages_in
    assert rates.total == 3
    assert 0 < rates.minute <= 0.5


def test_names_are_bounded_and_what_comes_beyond_is_counted_together() -> None:
    registry: MetricRegistry[str] = MetricRegistry(FINE, 2, START_MS)
    for name in ("a", "b", "c", "d", "a"):
        registry.open(name, START_MS).add(Metric.MESSAGES_IN, START_MS, 1)
    assert len(registry) == 2
    assert registry.other is not None
    assert registry.other.total(Metric.MESSAGES_IN) == 2


def test_a_silent_name_makes_room_for_another() -> None:
    registry: MetricRegistry[str] = MetricRegistry(FINE, 2, START_MS)
    registry.open("a", START_MS).add(Metric.MESSAGES_IN, START_MS, 1)
    later = START_MS + CROWDED_IDLE_MS + 1
    registry.open("b", later).add(Metric.MESSAGES_IN, later, 1)
    registry.open("c", later).add(Metric.MESSAGES_IN, later, 1)
    assert sorted(name for name, _ in registry.items()) == ["b", "c"]


def test_who_is_silent_for_a_day_is_forgotten() -> None:
    registry: MetricRegistry[str] = MetricRegistry(FINE, 10, START_MS)
    registry.open("a", START_MS).add(Metric.MESSAGES_IN, START_MS, 1)
    registry.sweep(START_MS + DAY_MS)
    assert len(registry) == 1
    registry.sweep(START_MS + DAY_MS + SWEEP_MS + 1)
    assert len(registry) == 0


def test_the_bound_on_names_holds_in_a_broker(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic_metrics, "NAMES_MAX", 3)
    broker = engine.start()
    for number in range(6):
        broker.send([Message(f"t{number}", b"x")])
    totals = {name: each.total(Metric.MESSAGES_IN) for name, each in broker.statistics.topics()}
    assert len(totals) == 4
    assert totals["other"] == 3
