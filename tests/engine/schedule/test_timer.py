import struct

import pytest

from engine.errors import Forbidden, Invalid, Refused
from engine.message import Message
from engine.schedule.timer import AHEAD_MAX_MS, TimerRule

TIMERS = "rmq_sys_wheel_timer"


def test_a_message_with_a_time_waits_in_rocketmqs_timer_topic(broker, clock):
    due_ms = clock.now_ms() + 12_345
    broker.send([Message("t", b"x", queue=2, tag="a", keys=("k",), deliver_at_ms=due_ms)])
    (waiting,) = broker.pull(TIMERS, 0, 0).messages
    assert waiting.properties["REAL_TOPIC"] == "t"
    assert waiting.properties["REAL_QID"] == "2"
    assert waiting.properties["TIMER_OUT_MS"] == str(due_ms)
    assert (waiting.tag, waiting.keys) == ("a", ("k",))
    assert broker.topic_stats("t").messages == 0


def test_each_queue_entry_holds_when_its_message_is_due(engine, broker, clock):
    """Item 1: the third field is no tag hash, also where neighbours share a tag."""
    dues = [clock.now_ms() + after for after in (7, 5, 9_000_000_000)]
    broker.send([Message("t", b"x", tag="a", deliver_at_ms=due_ms) for due_ms in dues])
    path = engine.root / "consumequeue" / TIMERS / "0" / ("0" * 20)
    entries = list(struct.iter_unpack(">qiq", path.read_bytes()[:60]))
    assert [due_ms for _, _, due_ms in entries] == dues
    path.write_bytes(b"")  # recovery makes the same of the records
    broker = engine.crash()
    found = broker._store.entries(TIMERS, 0, 0, 10)
    assert [entry.tag_code for entry in found] == dues


def test_neighbours_of_a_waiting_message_keep_the_hashes_of_their_tags(broker, clock):
    later = clock.now_ms() + 5
    broker.send(
        [
            Message("t", b"1", tag="a", queue=0),
            Message("t", b"2", tag="a", queue=0, deliver_at_ms=later),
            Message("t", b"3", tag="a", queue=0),
        ]
    )
    assert [entry.tag_code for entry in broker._store.entries("t", 0, 0, 10)] == [97, 97]


@pytest.mark.parametrize("after_ms", [0, -1, -1_700_000_000_000])
def test_what_is_due_already_does_not_wait(broker, clock, after_ms):
    broker.send([Message("t", b"x", queue=0, deliver_at_ms=clock.now_ms() + after_ms)])
    (message,) = broker.pull("t", 0, 0).messages
    assert broker.topic_stats(TIMERS).messages == 0
    assert message.properties.get("TIMER_OUT_MS", "") in (str(clock.now_ms() + after_ms), "")


def test_a_time_that_has_passed_stays_with_the_message(broker, clock):
    """Its consumer sees when it should have been delivered, as with RocketMQ."""
    due_ms = clock.now_ms() - 20_000
    broker.send([Message("t", b"x", queue=0, deliver_at_ms=due_ms)])
    (message,) = broker.pull("t", 0, 0).messages
    assert message.properties["TIMER_OUT_MS"] == str(due_ms)


def test_a_time_before_1970_is_none(broker, clock):
    broker.send([Message("t", b"x", queue=0, deliver_at_ms=-1)])
    (message,) = broker.pull("t", 0, 0).messages
    assert "TIMER_OUT_MS" not in message.properties


def test_a_delay_level_beats_a_time(broker, clock):
    """Item 19."""
    broker.send([Message("t", b"x", delay_level=3, deliver_at_ms=clock.now_ms() + 5)])
    assert broker.topic_stats(TIMERS).messages == 0
    assert broker.pull("SCHEDULE_TOPIC_XXXX", 2, 0).messages[0].body == b"x"


def test_a_time_over_a_year_ahead_is_refused_and_nothing_stored(broker, clock):
    year = clock.now_ms() + AHEAD_MAX_MS
    messages = [Message("t", b"x", deliver_at_ms=due_ms) for due_ms in (year, year + 1)]
    with pytest.raises(Invalid) as caught:
        broker.send(messages)
    assert (caught.value.code, caught.value.field) == (
        "invalid_delay",
        "messages[1].deliver_at_ms",
    )
    assert broker.topic_stats(TIMERS).messages == 0
    broker.send([Message("t", b"x", deliver_at_ms=year)])
    assert broker.topic_stats(TIMERS).messages == 1


def test_properties_that_leave_no_room_for_the_way_back_are_refused(broker, clock):
    properties = {f"p{number}": "x" * 4000 for number in range(8)} | {"last": "x" * 500}
    message = Message("t", b"x", properties=properties, deliver_at_ms=clock.now_ms() + 5)
    with pytest.raises(Invalid) as caught:
        broker.send([message])
    assert caught.value.field == "messages[0].properties"
    assert message.properties is properties


def test_the_senders_properties_are_not_written_into():
    properties = {"colour": "red"}
    message = Message("t", b"x", properties=properties, queue=0, deliver_at_ms=10)
    admitted = TimerRule().admit(message, 0)
    assert admitted.properties["colour"] == "red"
    assert properties == {"colour": "red"}


def test_what_is_bound_for_the_engines_own_topics_cannot_wait(broker):
    with pytest.raises(Refused):
        TimerRule().admit(Message("RMQ_SYS_TRANS_HALF_TOPIC", b"x", deliver_at_ms=1), 0)
    with pytest.raises(Forbidden):
        broker.send([Message(TIMERS, b"x")])
    with pytest.raises(Forbidden):
        broker.delete_topic(TIMERS)
