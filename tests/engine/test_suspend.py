"""A broker that is suspended: it finishes what it has accepted, and nothing else happens in it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.broker import GroupConfig, TopicConfig
from engine.errors import Busy
from engine.message import Durability, Message
from tests.engine.conftest import Engine

Call = Callable[[], object]


def refusal() -> Busy:
    return Busy("another server is to lead", code="handing_over")


def test_a_suspended_broker_changes_nothing_until_it_is_resumed(engine: Engine) -> None:
    broker, clock = engine.start(), engine.clock
    broker.create_topic(TopicConfig("orders"))
    broker.create_group(GroupConfig("g"))
    broker.send([Message("orders", b"now", queue=0)])
    (delivery,) = broker.receive("g", {"orders": "*"}, count_max=1, invisible_s=30)
    broker.send([Message("orders", b"later", deliver_at_ms=clock.now_ms() + 5_000)])
    engine.tick()
    broker.suspend(refusal)  # which writes the traces so far
    end = broker.end
    calls: list[Call] = [
        lambda: broker.send([Message("orders", b"x")]),
        lambda: broker.receive("g", {"orders": "*"}, count_max=1, invisible_s=30),
        lambda: broker.ack("g", [delivery.receipt]),
        lambda: broker.create_topic(TopicConfig("new")),
        lambda: broker.delete_topic("orders"),
        lambda: broker.create_group(GroupConfig("new")),
    ]
    for call in calls:
        with pytest.raises(Busy) as error:
            call()
        assert error.value.code == "handing_over"
    engine.tick(120)  # the message is due, the delivery's time is over
    assert broker.end == end
    assert not broker.health().is_ready
    broker.resume()
    engine.tick()
    bodies = set()
    for _ in range(2):
        engine.tick(30)
        batch = broker.receive("g", {"orders": "*"}, count_max=9, invisible_s=300)
        bodies |= {each.message.body for each in batch}
    assert bodies == {b"now", b"later"}
    assert broker.health().is_ready


def test_a_suspended_broker_answers_what_it_has_accepted(engine: Engine) -> None:
    broker = engine.start(durability=Durability.FLUSHED)
    answers: list[object] = []
    sent = broker.send([Message("orders", b"x")])
    broker.when_accepted(
        sent.flush_position, Durability.FLUSHED, lambda *values: answers.append(values)
    )
    broker.suspend(refusal)
    engine.tick()
    assert answers == [(Durability.FLUSHED, None)]
    assert broker.is_settled


def test_the_stop_of_a_suspended_broker_adds_nothing(engine: Engine, tmp_path: Path) -> None:
    broker = engine.start(trace_sample=1.0)
    broker.send([Message("orders", b"x")])
    broker.suspend(refusal)
    end = broker.end
    broker.stop()
    again = engine.start()
    assert again.end[0] == end[0]
