import random

import pytest

from engine.errors import DiskFull
from engine.events import Released, SendRefused
from engine.message import Message
from engine.schedule import timer_deliver
from engine.schedule.timer_progress import TimerProgress
from engine.store.consume_queue import ENTRY
from engine.topic.catalog import TopicConfig, TopicType

TIMERS = "rmq_sys_wheel_timer"


@pytest.fixture
def deliverer(broker):
    broker.create_topic(TopicConfig("t"))
    return broker._timer_deliverer


@pytest.fixture
def delay(engine, clock):
    def delay(*bodies, s=1.0, topic="t", **fields):
        due_ms = clock.now_ms() + round(s * 1000)
        messages = [
            Message(topic, body.encode(), queue=0, deliver_at_ms=due_ms, **fields)
            for body in bodies
        ]
        return engine.broker.send(messages)

    return delay


def bodies(broker, topic="t"):
    return [message.body.decode() for message in broker.pull(topic, 0, 0, count_max=160).messages]


def test_a_message_arrives_at_its_time_to_the_millisecond(engine, broker, deliverer, clock, delay):
    """Item 18: REAL_TOPIC and REAL_QID are gone, and when it waited is noted."""
    sent_ms = clock.now_ms()
    delay("a", s=1.234, tag="x", keys=("k",), born_ms=5, properties={"colour": "red"})
    engine.tick(1.233)
    assert bodies(broker) == []
    engine.tick(0.001)
    (message,) = broker.pull("t", 0, 0, filter="x").messages
    properties = message.properties
    assert not {"REAL_TOPIC", "REAL_QID", "DELAY"} & properties.keys()
    assert properties["TIMER_OUT_MS"] == properties["TIMER_DEQUEUE_MS"] == str(sent_ms + 1234)
    assert properties["TIMER_ENQUEUE_MS"] == str(sent_ms)
    assert (message.tag, message.keys, properties["colour"]) == ("x", ("k",), "red")
    assert (message.born_ms, message.stored_ms, message.attempt) == (5, sent_ms + 1234, 1)
    assert message.message_id == broker.pull(TIMERS, 0, 0).messages[0].message_id


def test_the_tick_says_exactly_when_the_next_is_due(broker, deliverer, clock, delay):
    delay("a", s=3)
    delay("b", s=2)
    assert deliverer.tick() == 2
    clock.advance(1.25)
    assert deliverer.tick() == 0.75
    clock.advance(0.75)
    assert deliverer.tick() == 1
    assert bodies(broker) == ["b"]


def test_an_earlier_arrival_wakes_the_service_and_a_later_one_does_not(
    engine, broker, deliverer, delay
):
    engine.tick()
    woken = []
    deliverer.on_wake = lambda: woken.append(1)
    delay("later", s=4)
    delay("latest", s=4)
    assert len(woken) == 1
    delay("a", s=0.5)
    assert len(woken) == 2
    engine.tick(0.5)
    assert bodies(broker) == ["a"]


@pytest.mark.parametrize("seed", range(3))
def test_messages_come_in_the_order_of_their_times_also_after_a_stop(
    engine, broker, deliverer, delay, seed
):
    chance, expected = random.Random(seed), []
    for number in range(150):
        after_s = chance.randint(1, 40)
        expected.append((after_s, number))
        delay(str(number), s=after_s)
    broker.stop()
    engine.clock.advance(chance.choice([0, 20, 3600]))
    broker = engine.start()
    for _ in range(41):
        engine.tick(1)
    assert bodies(broker) == [str(number) for _, number in sorted(expected)]


def test_nothing_is_delivered_twice_or_forgotten_after_a_crash(engine, broker, deliverer, delay):
    delay("c", s=30)
    delay("a")
    delay("b", s=5)
    engine.tick(1)
    broker = engine.crash()
    engine.tick(5)
    assert bodies(broker) == ["a", "b"]
    broker._store.journal.compact()
    broker = engine.crash()
    assert broker.scheduled().count == 1
    engine.tick(100)
    assert bodies(broker) == ["a", "b", "c"]


def test_a_crash_between_delivery_and_its_note_does_not_deliver_twice(
    engine, broker, deliverer, delay, monkeypatch
):
    delay("c", s=9)
    delay("a", "b")
    engine.clock.advance(1)
    monkeypatch.setattr(TimerProgress, "finish", lambda *_, **__: None)
    deliverer.release(deliverer._agenda.due(engine.clock.now_ms(), 10))
    monkeypatch.undo()
    assert bodies(broker) == ["a", "b"]
    for _ in range(2):
        broker = engine.crash()
        engine.tick(1)
        assert bodies(broker) == ["a", "b"]
    engine.tick(9)
    assert bodies(broker) == ["a", "b", "c"]


def test_what_waits_past_the_end_of_a_log_that_was_cut_is_not_taken_for_finished(
    engine, broker, deliverer, delay
):
    """A power loss can take messages while the journal knows that they were finished."""
    delay("a", s=100)
    deliverer._progress.finish([3, 4, 5])
    engine.crash()
    delay("b", "c", "d", "e", "f")
    broker = engine.crash()
    engine.tick(1)
    assert bodies(broker) == ["b", "c", "d", "e", "f"]
    assert broker.scheduled().count == 1


def test_a_calendar_set_back_keeps_every_wait_as_it_was(engine, broker, deliverer, clock, delay):
    delay("a", "b", s=10)
    delay("z", s=20)
    engine.tick(1)
    clock.set_ms(clock.now_ms() - 3_600_000)
    sent_ms = clock.now_ms()
    delay("c", s=10)
    assert [item.due_ms for item in broker.scheduled().items][2] == sent_ms + 10_000
    engine.tick(8.999)
    assert bodies(broker) == []
    engine.tick(0.001)
    assert bodies(broker) == ["a", "b"]
    engine.tick(0.999)
    assert bodies(broker) == ["a", "b"]
    engine.tick(0.001)
    assert bodies(broker) == ["a", "b", "c"]
    engine.tick(9)
    assert bodies(broker) == ["a", "b", "c", "z"]


def test_a_calendar_set_forward_delivers_what_it_says_is_due(
    engine, broker, deliverer, clock, delay
):
    delay("a", s=60)
    deliverer.tick()
    clock.set_ms(clock.now_ms() + 60_000)
    engine.tick(5)
    assert bodies(broker) == ["a"]


def test_a_tick_releases_a_bounded_number_and_asks_for_another(broker, deliverer, clock, delay):
    for _ in range(4):
        delay(*["x"] * 100)
    clock.advance(1)
    assert deliverer.tick() == 0
    assert broker.topic_stats("t").messages == 300
    assert deliverer.tick() > 0
    assert broker.topic_stats("t").messages == 400


def test_large_messages_are_released_in_writes_that_are_allowed(engine, broker, deliverer, delay):
    for _ in range(3):
        delay("x" * 3_000_000)
    engine.tick(1)
    assert broker.topic_stats("t").messages == 3


def test_while_the_log_refuses_writes_nothing_is_passed_over(
    engine, broker, deliverer, clock, delay, monkeypatch
):
    delay("a")
    clock.advance(1)

    def refuse(*_):
        raise DiskFull("no room")

    with monkeypatch.context() as full:
        full.setattr(broker._store._log, "append", refuse)
        with pytest.raises(DiskFull):
            deliverer.tick()
    deliverer.tick()
    assert bodies(broker) == ["a"]
    assert broker.scheduled().count == 0


def test_a_deleted_topic_takes_its_waiting_messages_along(engine, broker, deliverer, delay):
    heard = []
    broker.events.subscribe(heard.append)
    broker.create_topic(TopicConfig("u"))
    delay("a")
    delay("b", topic="u")
    broker.delete_topic("t")
    broker.create_topic(TopicConfig("t"))
    engine.tick(1)
    assert (bodies(broker), bodies(broker, "u")) == ([], ["b"])
    (refused,) = [event for event in heard if isinstance(event, SendRefused)]
    assert (refused.topic, refused.code) == ("t", "topic_not_found")
    assert broker.scheduled().count == 0


def test_a_waiting_message_that_is_damaged_is_stepped_over(engine, broker, deliverer, delay):
    delay("a", "b")
    position = broker.pull(TIMERS, 0, 0).messages[0].position
    path = engine.root / "commitlog" / ("0" * 20)
    with path.open("r+b") as file:
        file.seek(position)
        file.write(b"\xff" * 40)
    engine.tick(1)
    assert bodies(broker) == ["b"]
    assert broker.scheduled().count == 0


def test_a_message_with_hardly_any_room_left_arrives_with_its_source(
    engine, broker, deliverer, delay
):
    probe = {f"p{number}": "x" * 4000 for number in range(7)}
    room = 28 * 1024 - sum(len(name) + len(value) + 2 for name, value in probe.items())
    last = room - len("UNIQ_KEY__last__")
    delay("a", properties={**probe, "last": "x" * last})
    engine.tick(1)
    (message,) = broker.pull("t", 0, 0).messages
    assert message.properties["KITE_SOURCE"] == f"@{TIMERS}@0@0,0"


def test_a_waiting_message_of_a_fifo_topic_goes_to_its_groups_queue(engine, broker, clock):
    broker.create_topic(TopicConfig("fifo", TopicType.FIFO))
    broker.send([Message("fifo", b"1", message_group="m")])
    due_ms = clock.now_ms() + 1000
    broker.send([Message("fifo", b"2", message_group="m", deliver_at_ms=due_ms)])
    engine.tick(1)
    stats = broker.topic_stats("fifo")
    assert sorted(queue.max_offset for queue in stats.queues) == [0, 0, 0, 2]


def test_a_released_message_that_fails_is_retried_as_any_other(engine, broker, deliverer, delay):
    delay("a")
    engine.tick(1)
    for attempt in (1, 2):
        (delivery,) = broker.receive("g", {"t": "*"}, invisible_s=30)
        assert (delivery.message.body, delivery.attempt) == (b"a", attempt)
        engine.tick(30)


def test_lateness_is_told_with_each_release(engine, broker, deliverer, delay):
    heard = []
    broker.events.subscribe(heard.append)
    delay("a")
    engine.tick(1.5)
    (released,) = [event for event in heard if isinstance(event, Released)]
    assert (released.topic, released.queue, released.late_ms) == ("t", 0, 500)


# -- moving old ones to the queue's end -----------------------------------------------------------


def test_a_message_that_waits_long_is_moved_so_that_progress_stays_short(
    engine, broker, deliverer, delay, monkeypatch
):
    monkeypatch.setattr(timer_deliver, "SPAN_MIN", 50)
    (old_id,) = [stored.message_id for stored in delay("old", s=5000).stored]
    for number in range(300):
        delay(str(number), s=0.1)
        engine.tick(0.1)
        end = broker._store.bounds(TIMERS, 0)[1]
        assert end - deliverer._progress.floor <= 50 + 2 * 4 + 1
    assert broker.scheduled().count == 1
    (item,) = broker.scheduled().items
    assert (item.message.message_id, item.message.offset > 250) == (old_id, True)
    assert int(item.message.properties["TIMER_ROLL_TIMES"]) >= 4
    broker = engine.crash()
    engine.tick(5000)
    assert [message.body for message in broker.pull("t", 0, 300).messages] == [b"old"]


def test_what_retention_wants_to_take_is_moved_first(engine, broker, deliverer, delay):
    delay("a", s=100)
    delay("b", s=50)
    for _ in range(3):
        delay("x" * 1000, s=0.5)
        engine.tick(1)
    assert deliverer.oldest_position() == 0
    wanted = broker._store.written
    deliverer.move_before(wanted)
    engine.tick()
    assert deliverer.oldest_position() >= wanted
    assert [item.message.body for item in broker.scheduled().items] == [b"b", b"a"]
    engine.crash()
    engine.tick(100)
    assert bodies(engine.broker)[-2:] == ["b", "a"]
    assert engine.broker._timer_deliverer.oldest_position() is None


def test_a_move_keeps_its_durability_over_a_crash_before_its_note(
    engine, broker, deliverer, delay, monkeypatch
):
    delay("a", "b", s=3)
    deliverer.move_before(broker._store.written)
    monkeypatch.setattr(TimerProgress, "finish", lambda *_, **__: None)
    deliverer._roll()
    monkeypatch.undo()
    broker = engine.crash()
    assert broker.scheduled().count == 2
    engine.tick(3)
    assert bodies(broker) == ["a", "b"]


def test_a_moved_message_names_the_last_of_its_records_that_no_power_loss_can_take(
    engine, broker, deliverer, delay
):
    (message_id,) = [stored.message_id for stored in delay("a", s=100).stored]

    def move(after_s):
        broker.reschedule(message_id, engine.clock.now_ms() + after_s * 1000)
        return broker.scheduled().items[0].message.properties["KITE_SOURCE"]

    prefix = f"@{TIMERS}@0@"
    assert [move(s) for s in (50, 60, 70)] == [f"{prefix}0,0", f"{prefix}1,0", f"{prefix}2,0"]
    broker.when_flushed(broker._store.written, lambda _: None)
    assert [move(s) for s in (50, 60)] == [f"{prefix}3,3", f"{prefix}4,3"]


def change_due(broker, topic, queue, offset, due_ms):
    """Let the entry of a waiting message have another time, as damage does."""
    known = broker._store._queues[topic, queue]
    entry = known.entry(offset)
    known.put(offset, ENTRY.pack(entry.position, entry.size_bytes, due_ms))


def test_an_entry_damaged_to_an_earlier_time_releases_nothing_before_its_own(
    engine, broker, deliverer, delay, clock
):
    delay("a", s=100)
    delay("b", s=1)
    change_due(broker, TIMERS, 0, 0, clock.now_ms() + 500)
    broker = engine.restart()
    engine.tick(1)
    assert bodies(broker) == ["b"]
    (damage,) = broker.health().damages
    assert TIMERS in damage.file
    engine.tick(98)
    assert bodies(broker) == ["b"]
    engine.tick(1)
    assert bodies(broker) == ["b", "a"]
