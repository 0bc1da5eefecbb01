import struct

import pytest

from engine.errors import Refused
from engine.message import Message
from engine.schedule.delay import DelayRule
from engine.schedule.levels import DelayLevels

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


def test_a_delayed_message_waits_in_the_queue_of_its_level(broker):
    broker.send([Message("t", b"x", delay_level=3, queue=2, tag="a", keys=("k",))])
    (waiting,) = broker.pull(SCHEDULE, 2, 0).messages
    assert waiting.properties["DELAY"] == "3"
    assert waiting.properties["REAL_TOPIC"] == "t"
    assert waiting.properties["REAL_QID"] == "2"
    assert waiting.tag == "a"
    assert broker.topic_stats("t").messages == 0


def test_its_queue_entry_holds_when_it_is_due(engine, broker, clock):
    """Item 1: in the schedule topic the third field is no tag hash."""
    broker.send([Message("t", b"x", delay_level=3, tag="a")])
    path = engine.root / "consumequeue" / SCHEDULE / "2" / ("0" * 20)
    _, _, due_ms = struct.unpack(">qiq", path.read_bytes()[:20])
    assert due_ms == clock.now_ms() + 10_000
    assert broker._store.entries(SCHEDULE, 2, 0, 1)[0].tag_code == due_ms


def test_level_99_is_level_18(broker):
    """Item 18."""
    broker.send([Message("t", b"x", delay_level=99)])
    (waiting,) = broker.pull(SCHEDULE, 17, 0).messages
    assert waiting.properties["DELAY"] == "18"


@pytest.mark.parametrize("level", [0, -1])
def test_no_level_is_no_wait(broker, level):
    broker.send([Message("t", b"x", delay_level=level, queue=0)])
    (message,) = broker.pull("t", 0, 0).messages
    assert "DELAY" not in message.properties


def test_the_senders_properties_are_not_written_into():
    properties = {"colour": "red"}
    message = Message("t", b"x", properties=properties, delay_level=1, queue=0)
    admitted = DelayRule(DelayLevels()).admit(message, 0)
    assert admitted.properties["colour"] == "red"
    assert properties == {"colour": "red"}


def test_what_is_bound_for_the_engines_own_topics_cannot_be_delayed():
    with pytest.raises(Refused):
        DelayRule(DelayLevels()).admit(Message("RMQ_SYS_TRANS_HALF_TOPIC", b"x", delay_level=1), 0)
