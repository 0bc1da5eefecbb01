"""Messages that wait in a delay level: listed, recalled, delivered at once, moved."""

import pytest

from engine.broker import TimerAnswer
from engine.errors import Busy, Invalid
from engine.events import Recalled, Rescheduled
from engine.message import Durability, Message
from engine.schedule import level_taken
from engine.topic.catalog import TopicConfig
from tests.engine.schedule.test_timers import HeldPool

LEVELS = ((0, 3), (1, 3), (2, 1))
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
IDS = pytest.mark.parametrize("message_id", ["", "C0FFEE"], ids=["own-id", "clients-id"])


@pytest.fixture
def delay(broker):
    """Sends a message that waits in a level, and gives its id."""
    broker.create_topic(TopicConfig("t"))

    def delay(body, level=3, topic="t", **fields):
        message = Message(topic, body.encode(), queue=0, delay_level=level, **fields)
        return broker.send([message]).stored[0].message_id

    return delay


def bodies(broker, topic="t"):
    return [message.body.decode() for message in broker.pull(topic, 0, 0, count_max=160).messages]


def waiting(broker, **arguments):
    return [item.message.body.decode() for item in broker.scheduled(**arguments).items]


@IDS
def test_a_recalled_message_is_never_delivered(engine, broker, delay, message_id):
    first = delay("a")
    recalled = delay("b", message_id=message_id)
    delay("c")
    assert broker.recall(recalled) == TimerAnswer.RECALLED
    assert waiting(broker) == ["a", "c"]
    assert [level.count for level in broker.delay_levels()][:4] == [0, 0, 2, 0]
    broker = engine.crash()
    assert broker.recall(first) == TimerAnswer.RECALLED
    broker = engine.restart()
    engine.tick(10)
    assert bodies(broker) == ["c"]
    assert broker.recall(recalled) == TimerAnswer.RECALLED
    assert broker.scheduled().count == 0


def test_what_falls_due_is_counted_with_exact_times_and_levels(engine, broker, delay, clock):
    delay("exact", level=0, deliver_at_ms=clock.now_ms() + 7000)
    for level in (2, 3, 3):
        delay("x", level)
    recalled = delay("y")
    now_ms = clock.now_ms()
    times = [now_ms, now_ms + 5000, now_ms + 5001, now_ms + 7001, now_ms + 10_001, now_ms + 10**9]
    assert broker.scheduled_counts(times) == [0, 0, 1, 2, 5, 5]
    assert broker.recall(recalled) == TimerAnswer.RECALLED
    assert broker.scheduled_counts(times) == [0, 0, 1, 2, 4, 4]
    engine.tick(6)
    assert broker.scheduled_counts(times) == [0, 0, 0, 1, 3, 3]


def test_what_was_delivered_is_not_recalled(engine, broker, delay):
    delivered = delay("a")
    engine.tick(10)
    assert broker.recall(delivered) == TimerAnswer.ALREADY_DELIVERED
    assert broker.deliver_now(delivered) == TimerAnswer.ALREADY_DELIVERED


@IDS
def test_a_message_is_delivered_now_once(engine, broker, delay, message_id):
    delay("a")
    chosen = delay("b", message_id=message_id)
    assert broker.deliver_now(chosen) == TimerAnswer.DELIVERED
    assert bodies(broker) == ["b"]
    assert broker.deliver_now(chosen) == TimerAnswer.ALREADY_DELIVERED
    broker = engine.crash()
    engine.tick(10)
    assert bodies(broker) == ["b", "a"]


@pytest.mark.parametrize("stop", ["crash", "restart"])
def test_a_kill_between_delivery_and_its_mark_does_not_deliver_twice(
    engine, broker, delay, monkeypatch, stop
):
    delay("a")
    chosen = delay("b")
    monkeypatch.setattr(broker._deliverer._taken, "take", lambda *_, **__: None)
    broker.deliver_now(chosen)
    engine.crash()
    broker = getattr(engine, stop)()
    engine.tick(10)
    assert bodies(broker) == ["b", "a"]


@IDS
def test_a_rescheduled_message_comes_at_its_new_time_only(engine, broker, delay, message_id):
    moved = delay("a", message_id=message_id, tag="x", keys=("k",))
    delay("b")
    at_ms = engine.clock.now_ms() + 60_000
    assert broker.reschedule(moved, at_ms) == TimerAnswer.RESCHEDULED
    items = broker.scheduled().items
    assert [(item.message.body, item.delay_level) for item in items] == [(b"b", 3), (b"a", 0)]
    assert items[1].due_ms == at_ms
    broker = engine.crash()
    engine.tick(59)
    assert bodies(broker) == ["b"]
    engine.tick(1)
    (message,) = broker.pull("t", 0, 1).messages
    assert (message.body, message.tag, message.keys) == (b"a", "x", ("k",))
    assert (message.topic, message.queue, message.message_id) == ("t", 0, moved)


def test_rescheduling_over_a_year_ahead_is_refused(engine, broker, delay):
    chosen = delay("a")
    with pytest.raises(Invalid):
        broker.reschedule(chosen, engine.clock.now_ms() + 400 * 86_400_000)
    assert waiting(broker) == ["a"]


def test_levels_and_exact_times_are_one_list_in_order_of_time(engine, broker, delay):
    for level in (5, 3, 18, 4):
        delay(f"level {level}", level=level)
    for s in (20, 90, 10):
        due_ms = engine.clock.now_ms() + s * 1000
        broker.send([Message("t", f"in {s}".encode(), queue=0, deliver_at_ms=due_ms)])
    delay("level 3 again")
    order = ["in 10", "level 3", "level 3 again", "in 20", "level 4", "level 5", "in 90"]
    assert waiting(broker) == [*order, "level 18"]
    for size in (1, 2, 3):
        listed, after = [], ""
        while after is not None:
            page = broker.scheduled(after=after, count_max=size)
            listed += [item.message.body.decode() for item in page.items]
            assert page.count == 8
            after = page.next
        assert listed == [*order, "level 18"]
    assert waiting(broker, from_ms=engine.clock.now_ms() + 60_000) == [
        *order[-2:],
        "level 18",
    ]


def test_a_message_is_found_with_its_level_while_it_waits(engine, broker, delay):
    chosen = delay("a", level=4)
    (record,) = broker.pull(SCHEDULE, 3, 0).messages
    for name in (chosen, record.offset_id):
        item = broker.find_scheduled(name)
        assert (item.delay_level, item.topic, item.queue) == (4, "t", 0)
        assert item.due_ms == engine.clock.now_ms() + 30_000
    engine.tick(30)
    assert broker.find_scheduled(chosen) is None


def test_a_message_for_a_deleted_topic_is_not_found(broker, delay):
    chosen = delay("a")
    broker.delete_topic("t")
    assert broker.deliver_now(chosen) == TimerAnswer.NOT_FOUND
    assert broker.scheduled().count == 0


def test_changes_are_told(engine, broker, delay):
    recalled, moved = delay("a"), delay("b")
    events = []
    broker.events.subscribe(events.append)
    broker.recall(recalled)
    broker.reschedule(moved, engine.clock.now_ms() + 20_000)
    events = [event for event in events if isinstance(event, Recalled | Rescheduled)]
    assert [(type(event), event.topic, event.queue, event.offset) for event in events] == [
        (Recalled, SCHEDULE, 2, 0),
        (Rescheduled, SCHEDULE, 2, 1),
    ]


def test_marks_are_bounded_and_go_when_their_level_passes_them(engine, broker, delay, monkeypatch):
    monkeypatch.setattr(level_taken, "TAKEN_MAX", 2)
    delay("head")
    for body in "ab":
        broker.recall(delay(body))
    third = delay("c")
    for refused in (broker.recall, broker.deliver_now):
        with pytest.raises(Busy):
            refused(third)
    assert waiting(broker) == ["head", "c"]
    engine.tick(10)
    assert bodies(broker) == ["head", "c"]
    assert broker.recall(delay("d")) == TimerAnswer.RECALLED


def test_a_recalled_head_makes_room_at_once(engine, broker, delay):
    broker.recall(delay("a", level=18))
    engine.tick()
    assert broker._deliverer.oldest_position() is None


def test_while_a_move_waits_for_its_flush_no_wrong_answer_is_given(engine, clock):
    broker = engine.start(durability=Durability.FLUSHED)
    broker.create_topic(TopicConfig("t"))
    sent = broker.send([Message("t", b"%d" % n, queue=0, delay_level=level) for n, level in LEVELS])
    broker.when_flushed(sent.flush_position, lambda _: None)
    pool = broker._store._flusher._pool = HeldPool()
    moved, delivered, due = [stored.message_id for stored in sent.stored]
    assert broker.deliver_now(delivered) == TimerAnswer.DELIVERED
    assert broker.reschedule(moved, clock.now_ms() + 5000) == TimerAnswer.RESCHEDULED
    clock.advance(1)
    broker._deliverer.tick()
    for message_id in (delivered, due):
        assert broker.recall(message_id) == TimerAnswer.ALREADY_DELIVERED
    with pytest.raises(Busy):
        broker.recall(moved)
    pool.run()
    for message_id in (delivered, due):
        assert broker.recall(message_id) == TimerAnswer.ALREADY_DELIVERED
    assert broker.recall(moved) == TimerAnswer.RECALLED
