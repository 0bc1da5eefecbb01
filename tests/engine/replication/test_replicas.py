"""Sends that wait for a standby."""

import pytest

from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.errors import Busy
from engine.message import Durability, Message
from engine.replicas import Replicas
from engine.topic.catalog import TopicConfig
from tests.engine.replication.pair import Pair
from tests.simulation.boot import boot

Answers = list[tuple[Durability, Exception | None]]


def waiting(clock: ManualClock, *, falls_back: bool) -> tuple[Replicas, Answers]:
    """One send that waits for position 100, for at most 3 s."""
    replicas, answers = Replicas(clock, timeout_s=3.0, falls_back=falls_back), Answers()
    replicas.join()
    replicas.request(100, lambda level, error: answers.append((level, error)))
    return replicas, answers


def test_a_send_is_replicated_once_a_standby_has_all_of_it() -> None:
    replicas, answers = waiting(ManualClock(), falls_back=False)
    replicas.report(99)
    assert answers == []
    replicas.report(100)
    assert answers == [(Durability.REPLICATED, None)]
    replicas.request(90, lambda level, error: answers.append((level, error)))
    assert len(answers) == 2


@pytest.mark.parametrize("falls_back", [True, False])
def test_a_send_waits_for_a_standby_no_longer_than_it_may(*, falls_back: bool) -> None:
    clock = ManualClock()
    replicas, answers = waiting(clock, falls_back=falls_back)
    replicas.leave()
    clock.advance(2.9)
    assert replicas.tick() == pytest.approx(0.1)
    assert answers == []
    clock.advance(0.2)
    replicas.tick()
    [(level, error)] = answers
    assert level is Durability.FLUSHED
    assert (error is None) == falls_back
    assert falls_back or (isinstance(error, Busy) and error.code == "not_replicated")


def test_without_a_standby_nothing_is_stored(pair: Pair) -> None:
    pair.send(b"1")
    end = pair.broker.log_end
    with pytest.raises(Busy, match="no standby is in step"):
        pair.broker.send([Message("orders", b"2")], durability=Durability.REPLICATED)
    assert pair.broker.log_end == end
    pair.broker.replicas.join()
    sent = pair.broker.send([Message("orders", b"2")], durability=Durability.REPLICATED)
    assert sent.durability is Durability.REPLICATED


def test_the_engines_own_messages_wait_for_no_standby(pair: Pair) -> None:
    topic = TopicConfig("orders", durability=Durability.REPLICATED)
    pair.broker.create_topic(topic)
    assert pair.broker.durability_of("orders") is Durability.REPLICATED
    assert pair.broker.durability_of("others") is EngineConfig.durability
    with pytest.raises(Busy):
        pair.broker.send([Message("orders", b"1")], durability=Durability.STORED)
    sent = pair.broker._intake.put([Message("orders", b"2", queue=0)])
    assert sent.durability is Durability.STORED
    hasty = pair.broker.send([Message("orders", b"3", properties={"WAIT": "false"})])
    assert hasty.durability is Durability.STORED


def readable(pair: Pair) -> list[bytes]:
    """What a consumer of the leader can read."""
    found = pair.broker.pull("orders", 0, 0, count_max=32)
    return [message.body for message in found.messages]


def test_consumers_see_a_replicated_message_once_a_standby_has_it(pair: Pair) -> None:
    pair.broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
    pair.broker.replicas.join()
    sent = pair.broker.send([Message("orders", b"1")], durability=Durability.REPLICATED)
    pair.broker.send([Message("orders", b"2")])
    pair.broker.when_flushed(sent.flush_position, lambda error: None)
    assert readable(pair) == []  # what comes behind it waits as well
    pair.broker.replicas.report(sent.flush_position - 1)
    assert readable(pair) == []
    pair.broker.replicas.report(sent.flush_position)
    assert readable(pair) == [b"1", b"2"]


def test_consumers_wait_for_a_standby_no_longer_than_senders(pair: Pair) -> None:
    pair.broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
    pair.broker.replicas.join()
    sent = pair.broker.send([Message("orders", b"1")], durability=Durability.REPLICATED)
    pair.broker.when_flushed(sent.flush_position, lambda error: None)
    pair.broker.replicas.leave()
    pair.clock.advance(2.9)
    pair.broker.tick()
    assert readable(pair) == []
    pair.clock.advance(0.2)
    pair.broker.tick()
    assert readable(pair) == [b"1"]


def test_what_waited_for_a_standby_at_a_stop_is_there_at_the_start(pair: Pair) -> None:
    pair.broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
    pair.broker.replicas.join()
    pair.broker.send([Message("orders", b"1")], durability=Durability.REPLICATED)
    pair.broker.stop()
    pair.broker = boot(pair.disk, pair.clock)
    assert readable(pair) == [b"1"]


def test_a_synced_standby_that_loses_power_has_all_of_the_cut(pair: Pair) -> None:
    pair.send(b"1", b"2", b"3")
    pair.feed()
    pair.standby.sync_work()()
    pair.standby_disk.lose_power()
    pair.standby = pair.open_standby()
    assert pair.bodies() == {b"1", b"2", b"3"}
