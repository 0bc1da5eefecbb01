import pytest

from engine.errors import DiskFull
from engine.events import Released, SendRefused
from engine.message import Message
from engine.store.consume_queue import ENTRY
from engine.topic.catalog import TopicConfig, TopicType

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@pytest.fixture
def deliverer(broker):
    broker.create_topic(TopicConfig("t"))
    return broker._deliverer


def delay(broker, *bodies, level=1, **fields):
    broker.send(
        [Message("t", body.encode(), queue=0, delay_level=level, **fields) for body in bodies]
    )


def bodies(broker, topic="t"):
    return [message.body.decode() for message in broker.pull(topic, 0, 0, count_max=160).messages]


def test_a_delayed_message_arrives_when_it_is_due_and_keeps_the_properties_of_its_way(
    engine, broker, deliverer, clock
):
    """Item 18: DELAY, REAL_TOPIC and REAL_QID stay."""
    sent_ms = clock.now_ms()
    delay(broker, "a", tag="x", keys=("k",), born_ms=5, properties={"colour": "red"})
    engine.tick(0.999)
    assert bodies(broker) == []
    engine.tick(0.001)
    (message,) = broker.pull("t", 0, 0, filter="x").messages
    assert message.body == b"a"
    assert message.properties["DELAY"] == "1"
    assert message.properties["REAL_TOPIC"] == "t"
    assert message.properties["REAL_QID"] == "0"
    assert (message.tag, message.keys, message.properties["colour"]) == ("x", ("k",), "red")
    assert message.born_ms == 5
    assert message.stored_ms == sent_ms + 1000
    assert message.attempt == 1
    assert message.message_id == broker.pull(SCHEDULE, 0, 0).messages[0].message_id


def test_the_tick_says_exactly_when_the_next_is_due(broker, deliverer, clock):
    delay(broker, "a", level=3)
    delay(broker, "b", level=2)
    assert deliverer.tick() == 5
    clock.advance(4.25)
    assert deliverer.tick() == 0.75
    clock.advance(0.75)
    assert deliverer.tick() == 5
    assert bodies(broker) == ["b"]


def test_a_level_keeps_the_order_of_arrival(engine, broker, deliverer):
    for body in "abc":
        delay(broker, body, level=2)
        engine.tick(1)
    engine.tick(2)
    assert bodies(broker) == ["a"]
    engine.tick(2)
    assert bodies(broker) == ["a", "b", "c"]


def test_what_begins_to_wait_wakes_the_service(engine, broker, deliverer):
    engine.tick()
    delay(broker, "a")
    engine.tick(1)
    assert bodies(broker) == ["a"]


def test_what_fell_due_during_a_stop_is_delivered_at_once(engine, broker, deliverer):
    delay(broker, "a", level=5)
    broker.stop()
    engine.clock.advance(3600)
    broker = engine.start()
    engine.tick()
    assert bodies(broker) == ["a"]


def test_nothing_is_delivered_twice_or_forgotten_after_a_crash(engine, broker, deliverer):
    delay(broker, "a")
    delay(broker, "b", level=2)
    engine.tick(1)
    broker = engine.crash()
    engine.tick(100)
    assert bodies(broker) == ["a", "b"]
    broker._store.journal.compact()
    broker = engine.crash()
    engine.tick(100)
    assert bodies(broker) == ["a", "b"]


def test_a_crash_between_delivery_and_its_note_does_not_deliver_twice(
    engine, broker, deliverer, monkeypatch
):
    delay(broker, "a", "b")
    monkeypatch.setattr(deliverer, "_pass", lambda *_: None)
    engine.clock.advance(1)
    deliverer._release(0, 0, 10)
    assert bodies(broker) == ["a", "b"]
    broker = engine.crash()
    engine.tick(10)
    assert bodies(broker) == ["a", "b"]


def test_a_calendar_set_back_delays_nothing_beyond_its_level(engine, broker, deliverer, clock):
    delay(broker, "a", level=3)
    engine.tick(1)
    clock.set_ms(clock.now_ms() - 3_600_000)
    delay(broker, "b", level=3)
    engine.tick(9)
    assert bodies(broker) == ["a"]
    engine.tick(10)
    assert bodies(broker) == ["a", "b"]


def test_a_calendar_set_forward_delivers_what_it_says_is_due(engine, broker, deliverer, clock):
    delay(broker, "a", level=5)
    deliverer.tick()
    clock.set_ms(clock.now_ms() + 60_000)
    engine.tick(5)
    assert bodies(broker) == ["a"]


def test_a_tick_releases_a_bounded_number_and_asks_for_another(broker, deliverer, clock):
    for _ in range(6):
        delay(broker, *["x"] * 100)
    clock.advance(1)
    assert deliverer.tick() == 0
    assert broker.topic_stats("t").messages == 500
    assert deliverer.tick() > 0
    assert broker.topic_stats("t").messages == 600


def test_large_messages_are_released_in_writes_that_are_allowed(engine, broker, deliverer):
    for _ in range(3):
        delay(broker, "x" * 3_000_000)
    engine.tick(1)
    assert broker.topic_stats("t").messages == 3


def test_while_the_log_refuses_writes_nothing_is_passed_over(
    engine, broker, deliverer, clock, monkeypatch
):
    delay(broker, "a")
    clock.advance(1)

    def refuse(*_):
        raise DiskFull("no room")

    with monkeypatch.context() as full:
        full.setattr(broker._store._log, "append", refuse)
        with pytest.raises(DiskFull):
            deliverer.tick()
    deliverer.tick()
    assert bodies(broker) == ["a"]


def test_a_deleted_topic_takes_its_waiting_messages_along(engine, broker, deliverer):
    heard = []
    broker.events.subscribe(heard.append)
    delay(broker, "a")
    broker.create_topic(TopicConfig("u"))
    broker.send([Message("u", b"b", queue=0, delay_level=1)])
    broker.delete_topic("t")
    engine.tick(1)
    assert bodies(broker, "u") == ["b"]
    (refused,) = [event for event in heard if isinstance(event, SendRefused)]
    assert (refused.topic, refused.code) == ("t", "topic_not_found")
    broker.create_topic(TopicConfig("t"))
    engine.tick(10)
    assert bodies(broker) == []


def test_a_message_with_no_room_for_its_source_arrives_without_it(
    engine, broker, deliverer, no_room_kept
):
    probe = {f"p{number}": "x" * 4000 for number in range(8)}
    overhead = 32767 - sum(len(name) + len(value) + 2 for name, value in probe.items())
    delay(broker, "a", properties={**probe, "last": "x" * (overhead - 115)})
    engine.tick(1)
    (message,) = broker.pull("t", 0, 0).messages
    assert "KITE_SOURCE" not in message.properties


def test_a_delayed_message_of_a_fifo_topic_goes_to_its_groups_queue(engine, broker):
    broker.create_topic(TopicConfig("fifo", TopicType.FIFO))
    broker.send([Message("fifo", b"1", message_group="m")])
    broker.send([Message("fifo", b"2", message_group="m", delay_level=1)])
    engine.tick(1)
    stats = broker.topic_stats("fifo")
    assert sorted(queue.max_offset for queue in stats.queues) == [0, 0, 0, 2]


def test_lateness_is_told_with_each_release(engine, broker, deliverer):
    heard = []
    broker.events.subscribe(heard.append)
    delay(broker, "a")
    engine.tick(1.5)
    (released,) = [event for event in heard if isinstance(event, Released)]
    assert (released.topic, released.queue, released.late_ms) == ("t", 0, 500)


def test_how_many_wait_is_known_by_level(engine, broker, deliverer):
    delay(broker, "a", "b")
    delay(broker, "c", level=18)
    assert deliverer.waiting() == [2, *[0] * 16, 1]
    engine.tick(1)
    assert deliverer.waiting() == [0] * 17 + [1]


def change_due(broker, queue, offset, due_ms):
    """Let the entry of a waiting message have another time, as damage does."""
    known = broker._store._queues[SCHEDULE, queue]
    entry = known.entry(offset)
    known.put(offset, ENTRY.pack(entry.position, entry.size_bytes, due_ms))


@pytest.mark.parametrize("offset", [0, 1])
def test_an_entry_damaged_to_an_earlier_time_releases_nothing_before_its_own(
    engine, broker, deliverer, clock, offset
):
    delay(broker, "a", "b", level=2)
    change_due(broker, 1, offset, clock.now_ms() - 1000)
    engine.tick(4)
    assert bodies(broker) == []
    engine.tick(0.999)
    assert bodies(broker) == []
    engine.tick(0.001)
    assert bodies(broker) == ["a", "b"]
    assert len(broker.health().damages) == 1


def test_an_entry_damaged_to_a_later_time_waits_no_longer_than_its_level(
    engine, broker, deliverer, clock
):
    delay(broker, "a", "b", level=2)
    change_due(broker, 1, 0, clock.now_ms() + (1 << 50))
    engine.tick(0)
    engine.tick(5)
    assert bodies(broker) == ["a", "b"]
