import pytest

from engine.broker import TimerAnswer
from engine.errors import Busy, DiskFull, Invalid, Stopping
from engine.message import Durability, Message
from engine.schedule.timer import AHEAD_MAX_MS
from engine.topic.catalog import TopicConfig

TIMERS = "rmq_sys_wheel_timer"


@pytest.fixture
def delay(engine, broker, clock):
    """Sends a message that waits, and gives its id."""
    broker.create_topic(TopicConfig("t"))

    def delay(body, s=10.0, topic="t", **fields):
        due_ms = clock.now_ms() + round(s * 1000)
        message = Message(topic, body.encode(), queue=0, deliver_at_ms=due_ms, **fields)
        return engine.broker.send([message]).stored[0].message_id

    return delay


def bodies(broker, topic="t"):
    return [message.body.decode() for message in broker.pull(topic, 0, 0, count_max=160).messages]


def waiting(broker, **arguments):
    return [item.message.body.decode() for item in broker.scheduled(**arguments).items]


IDS = pytest.mark.parametrize("message_id", ["", "C0FFEE"], ids=["own-id", "clients-id"])


@IDS
def test_a_recalled_message_is_never_delivered(engine, broker, delay, message_id):
    recalled = delay("a", message_id=message_id)
    delay("b")
    assert broker.recall(recalled) == TimerAnswer.RECALLED
    assert waiting(broker) == ["b"]
    engine.tick(10)
    broker = engine.crash()
    engine.tick(10)
    assert bodies(broker) == ["b"]
    assert broker.recall(recalled) == TimerAnswer.RECALLED


@IDS
def test_recall_knows_what_was_delivered_and_what_never_waited(engine, broker, delay, message_id):
    delivered = delay("a", message_id=message_id)
    plain = broker.send([Message("t", b"x")]).stored[0].message_id
    engine.tick(10)
    assert broker.recall(delivered) == TimerAnswer.ALREADY_DELIVERED
    for unknown in (plain, "", "nonsense", "F" * 32, "0" * 32):
        assert broker.recall(unknown) == TimerAnswer.NOT_FOUND
        assert broker.deliver_now(unknown) == TimerAnswer.NOT_FOUND


def test_an_offset_id_names_the_message_too(engine, broker, delay):
    delay("a")
    offset_id = broker.pull(TIMERS, 0, 0).messages[0].offset_id
    broker.reschedule(offset_id, engine.clock.now_ms() + 20_000)
    assert broker.recall(offset_id.lower()) == TimerAnswer.RECALLED
    assert waiting(broker) == []


def test_a_message_is_delivered_now_once(engine, broker, delay):
    chosen = delay("a", s=1000)
    delay("b")
    assert broker.deliver_now(chosen) == TimerAnswer.DELIVERED
    assert bodies(broker) == ["a"]
    assert broker.deliver_now(chosen) == TimerAnswer.ALREADY_DELIVERED
    broker = engine.crash()
    engine.tick(1000)
    assert bodies(broker) == ["a", "b"]


@IDS
def test_a_rescheduled_message_comes_at_its_new_time_only(engine, broker, delay, message_id):
    first = delay("a", s=10, message_id=message_id)
    delay("b", s=15)
    for s in (5, 25, 20):
        at_ms = engine.clock.now_ms() + s * 1000
        assert broker.reschedule(first, at_ms) == TimerAnswer.RESCHEDULED
    assert waiting(broker) == ["b", "a"]
    assert broker.scheduled().items[1].due_ms == at_ms
    broker = engine.crash()
    engine.tick(19)
    assert bodies(broker) == ["b"]
    engine.tick(1)
    assert bodies(broker) == ["b", "a"]
    assert broker.pull("t", 0, 1).messages[0].message_id == first
    assert broker.reschedule(first, at_ms + 60_000) == TimerAnswer.ALREADY_DELIVERED


def test_rescheduling_wakes_the_service_for_an_earlier_time(engine, broker, delay):
    first = delay("a", s=4)
    engine.tick()
    broker.reschedule(first, engine.clock.now_ms() + 500)
    engine.tick(0.5)
    assert bodies(broker) == ["a"]


def test_rescheduling_to_now_or_the_past_delivers(engine, broker, delay):
    first, second = delay("a"), delay("b")
    assert broker.reschedule(second, engine.clock.now_ms()) == TimerAnswer.DELIVERED
    assert broker.reschedule(first, 0) == TimerAnswer.DELIVERED
    assert bodies(broker) == ["b", "a"]


def test_rescheduling_over_a_year_ahead_is_refused(engine, broker, delay):
    first = delay("a")
    with pytest.raises(Invalid) as caught:
        broker.reschedule(first, engine.clock.now_ms() + AHEAD_MAX_MS + 1)
    assert (caught.value.code, caught.value.field) == ("invalid_delay", "deliver_at_ms")
    engine.tick(10)
    assert bodies(broker) == ["a"]


def test_what_was_recalled_is_neither_delivered_nor_rescheduled(engine, broker, delay):
    recalled = delay("a")
    broker.recall(recalled)
    later = engine.clock.now_ms() + 20_000
    assert broker.deliver_now(recalled) == TimerAnswer.RECALLED
    assert broker.reschedule(recalled, later) == TimerAnswer.RECALLED
    engine.tick(20)
    assert bodies(broker) == []


def test_an_id_that_a_sender_used_twice_stands_for_both(engine, broker, delay):
    for body in "ab":
        delay(body, message_id="TWICE")
    assert broker.recall("TWICE") == TimerAnswer.RECALLED
    assert waiting(broker) == []


def test_a_message_for_a_deleted_topic_is_not_found(engine, broker, delay):
    first, second = delay("a"), delay("b")
    broker.delete_topic("t")
    assert broker.deliver_now(first) == TimerAnswer.NOT_FOUND
    later = engine.clock.now_ms() + 20_000
    assert broker.reschedule(second, later) == TimerAnswer.NOT_FOUND
    assert broker.scheduled().count == 0


def test_a_refused_write_changes_nothing(engine, broker, delay, monkeypatch):
    first = delay("a")

    def refuse(*_, **__):
        raise DiskFull("no room")

    with monkeypatch.context() as full:
        full.setattr(broker._store._log, "append", refuse)
        full.setattr(broker._store.journal, "append", refuse)
        for verb in (
            lambda: broker.recall(first),
            lambda: broker.deliver_now(first),
            lambda: broker.reschedule(first, engine.clock.now_ms() + 1),
        ):
            with pytest.raises(DiskFull):
                verb()
            assert waiting(broker) == ["a"]
    engine.tick(10)
    assert bodies(broker) == ["a"]


def test_the_verbs_are_refused_once_the_broker_stopped(engine, broker, delay):
    first = delay("a")
    broker.stop()
    with pytest.raises(Stopping):
        broker.recall(first)


class HeldPool:
    """The disk takes its time."""

    def __init__(self):
        self.jobs = []

    def submit(self, work, done):
        self.jobs.append((work, done))

    def run(self):
        while self.jobs:
            work, done = self.jobs.pop(0)
            done(work(), None)


def test_while_a_move_waits_for_its_flush_no_wrong_answer_is_given(engine, clock):
    broker = engine.start(durability=Durability.FLUSHED)
    broker.create_topic(TopicConfig("t"))
    due_ms = clock.now_ms() + 10_000
    sent = broker.send([Message("t", b"%d" % n, deliver_at_ms=due_ms) for n in range(2)])
    broker.when_flushed(sent.flush_position, lambda _: None)
    pool = broker._store._flusher._pool = HeldPool()
    moved, delivered = [stored.message_id for stored in sent.stored]
    assert broker.deliver_now(delivered) == TimerAnswer.DELIVERED
    assert broker.reschedule(moved, due_ms + 5000) == TimerAnswer.RESCHEDULED
    assert broker.recall(delivered) == TimerAnswer.ALREADY_DELIVERED
    with pytest.raises(Busy):
        broker.recall(moved)
    pool.run()
    assert broker.recall(delivered) == TimerAnswer.ALREADY_DELIVERED
    assert broker.recall(moved) == TimerAnswer.RECALLED


# -- the list -------------------------------------------------------------------------------------


def test_the_list_is_in_order_of_time_page_by_page(engine, broker, delay):
    expected = []
    for number in range(25):
        s = 100 + number * 7 % 25 // 2  # some times twice
        delay(str(number), s=s, tag="x")
        expected.append((s, number))
    seen, after = [], ""
    while True:
        page = broker.scheduled(after=after, count_max=4)
        assert page.count == 25
        seen += [item.message.body.decode() for item in page.items]
        if page.next is None:
            break
        assert len(page.items) == 4
        after = page.next
    assert seen == [str(number) for _, number in sorted(expected)]
    (first, *_) = broker.scheduled().items
    assert (first.topic, first.queue, first.message.tag) == ("t", 0, "x")
    assert first.due_ms == engine.clock.now_ms() + 100_000
    assert len(broker.scheduled(from_ms=first.due_ms + 1).items) == 23


def test_the_list_of_one_topic_looks_at_a_bounded_number(engine, broker, delay):
    broker.create_topic(TopicConfig("rare"))
    due_ms = engine.clock.now_ms() + 10_000
    broker.send([Message("t", b"x", deliver_at_ms=due_ms) for _ in range(2500)])
    delay("found", s=20, topic="rare")
    found, pages, after = [], 0, ""
    while after is not None:
        page = broker.scheduled(topic="rare", after=after)
        found += page.items
        pages, after = pages + 1, page.next
    assert ([item.message.body for item in found], pages) == ([b"found"], 3)


@pytest.mark.parametrize("after", ["x", "1", "1-", "-1", "1-x", "1.5-2"])
def test_a_wrong_place_in_the_list_is_refused(broker, after):
    with pytest.raises(Invalid) as caught:
        broker.scheduled(after=after)
    assert caught.value.field == "after"


def test_an_empty_list_has_no_next(broker):
    page = broker.scheduled()
    assert (page.items, page.next, page.count) == ([], None, 0)


@IDS
def test_a_message_is_found_while_it_waits(engine, broker, delay, clock, message_id):
    name = delay("a", message_id=message_id)
    found = broker.find_scheduled(name)
    assert (found.topic, found.message.message_id) == ("t", name)
    assert found == broker.find_scheduled(found.message.offset_id)
    broker.reschedule(name, clock.now_ms() + 50_000)
    assert broker.find_scheduled(name).due_ms == clock.now_ms() + 50_000
    engine.tick(50)
    assert broker.find_scheduled(name) is None
    assert broker.find_scheduled("nonsense") is None


def test_what_falls_due_is_counted_without_reading_it(broker, delay, clock):
    for seconds in (5, 10, 10, 300):
        delay("x", s=seconds)
    now_ms = clock.now_ms()
    times = [now_ms, now_ms + 5000, now_ms + 5001, now_ms + 10_001, now_ms + 10**9]
    assert broker.scheduled_counts(times) == [0, 0, 1, 3, 4]


def test_the_levels_tell_how_many_wait_in_each(engine, broker):
    broker.send([Message("t", b"x", delay_level=level) for level in (1, 3, 3)])
    waits = {each.level: (each.delay_ms, each.count) for each in broker.delay_levels()}
    assert len(waits) == 18
    assert (waits[1], waits[2], waits[3]) == ((1000, 1), (5000, 0), (10_000, 2))
    engine.tick(10)
    assert not any(each.count for each in broker.delay_levels())
