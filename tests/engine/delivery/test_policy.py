"""How long retries wait: RocketMQ's ladder, or the group's own policy to the millisecond."""

import pytest

from engine.broker import GroupConfig
from engine.delivery.policy import Exponential, Ladder, Steps, exact_wait_ms
from engine.delivery.values import Nack
from engine.errors import Invalid
from engine.message import Message
from engine.schedule.timers import TimerAnswer
from engine.topic.catalog import TopicConfig, TopicType
from tests.engine.conftest import Engine
from tests.engine.delivery.test_restart import Killed, KillingFiles, Story


def take(broker):
    return broker.receive("g", {"orders": "*"}, count_max=10, client="c")


def comes_back_after(engine, broker, wait_ms):
    """Fail the message in hand: it is not back 1 ms before its wait is over, and is after."""
    (delivery,) = take(broker)
    broker.nack("g", [Nack(delivery.receipt)])
    engine.tick((wait_ms - 1) / 1000)
    assert take(broker) == []
    assert broker.lag("g").retry_waiting + broker.lag("g").count == 1
    engine.tick(0.001)
    (again,) = take(broker)
    assert again.attempt == delivery.attempt + 1
    broker.release("g", [again.receipt])


@pytest.mark.parametrize("type", [TopicType.NORMAL, TopicType.FIFO])
def test_exponential_waits_are_kept_to_the_millisecond(engine, broker, type):
    broker.create_topic(TopicConfig("orders", type))
    policy = Exponential(initial_ms=1_500, max_ms=20_000, multiplier=3)
    broker.create_group(GroupConfig("g", retry_policy=policy, ordered=True))
    broker.send([Message("orders", b"a", message_group="m" if type is TopicType.FIFO else "")])
    for wait_ms in (1_500, 4_500, 13_500, 20_000, 20_000):
        comes_back_after(engine, broker, wait_ms)
    (last,) = take(broker)
    assert broker.ack("g", [last.receipt]) == ["done"]
    assert (broker.lag("g").retry_waiting, broker.lag("g").count) == (0, 0)


@pytest.mark.parametrize("type", [TopicType.NORMAL, TopicType.FIFO])
def test_steps_are_taken_one_after_the_other_and_the_last_one_stays(engine, broker, type):
    broker.create_topic(TopicConfig("orders", type))
    broker.create_group(GroupConfig("g", retry_policy=Steps((250, 70_000)), ordered=True))
    broker.send([Message("orders", b"a", message_group="m" if type is TopicType.FIFO else "")])
    for wait_ms in (250, 70_000, 70_000):
        comes_back_after(engine, broker, wait_ms)


def test_a_step_without_a_wait_is_tried_again_at_once(broker, send):
    broker.create_group(GroupConfig("g", retry_policy=Steps((0,))))
    send("a")
    broker.nack("g", [Nack(take(broker)[0].receipt)])
    assert [each.attempt for each in take(broker)] == [2]


def test_the_ladder_is_the_default(engine, broker, send):
    send("a")
    assert take(broker)
    assert broker.group("g").retry_policy == Ladder()
    broker.change_group("g", retry_policy=Exponential())
    assert engine.crash().group("g").retry_policy == Exponential(5_000, 7_200_000, 2.0)
    engine.broker._store.journal.compact()
    broker = engine.crash()
    assert broker.group("g").retry_policy == Exponential()
    assert broker.change_group("g", retry_policy=Ladder()).retry_policy == Ladder()


def test_a_clients_own_wait_beats_the_policy(engine, broker, send):
    broker.create_group(GroupConfig("g", retry_policy=Steps((60_000,))))
    send("a")
    broker.nack("g", [Nack(take(broker)[0].receipt, delay_level=1)])
    engine.tick(1)
    assert len(take(broker)) == 1


def test_what_a_pulling_client_gives_back_waits_by_the_policy(engine, broker, send):
    broker.create_group(GroupConfig("g", retry_policy=Steps((1_234,))))
    send("a")
    broker.send_back("g", "orders", 0, 0)
    engine.tick(1.233)
    assert broker.lag("g").retry_waiting == 1
    engine.tick(0.001)
    (again,) = broker.pull("%RETRY%g", 0, 0).messages
    assert (again.attempt, again.origin_topic) == (2, "orders")


def test_attempts_end_in_the_dead_letters_whatever_the_policy(engine, broker, send):
    broker.create_group(GroupConfig("g", retry_max=1, retry_policy=Steps((100,))))
    send("a")
    for _ in range(2):
        broker.nack("g", [Nack(take(broker)[0].receipt)])
        engine.tick(0.1)
    assert take(broker) == []
    (dead,) = broker.pull("%DLQ%g", 0, 0).messages
    assert (dead.body, dead.attempt) == (b"a", 3)


def test_a_retry_that_waits_exactly_survives_a_kill_and_comes_once(engine, broker, send):
    broker.create_group(GroupConfig("g", retry_policy=Steps((5_000,))))
    send("a")
    broker.nack("g", [Nack(take(broker)[0].receipt)])
    broker = engine.crash()
    assert (broker.lag("g").retry_waiting, broker.lag("g").count) == (1, 0)
    engine.tick(4.999)
    assert take(broker) == []
    engine.tick(0.001)
    (again,) = take(broker)
    broker.ack("g", [again.receipt])
    engine.tick(60)
    assert take(engine.crash()) == []


def test_a_retry_in_the_log_whose_source_was_not_settled_yet_is_settled_by_recovery(
    engine, broker, send, monkeypatch
):
    """A kill between the two writes: the record in the timer topic is the proof."""
    broker.create_group(GroupConfig("g", retry_policy=Steps((5_000,))))
    send("a")
    (delivery,) = take(broker)
    monkeypatch.setattr(broker._delivery.progress_store, "write", lambda *_, **__: None)
    broker.nack("g", [Nack(delivery.receipt)])
    broker = engine.crash()
    assert broker.ack("g", [delivery.receipt]) != ["done"]
    assert broker.lag("g").retry_waiting == 1
    engine.tick(120)
    assert [each.attempt for each in take(broker)] == [2]


def test_a_waiting_retry_is_no_scheduled_message_to_be_recalled(engine, broker, send):
    broker.create_group(GroupConfig("g", retry_policy=Steps((5_000,))))
    sent = send("a")
    broker.nack("g", [Nack(take(broker)[0].receipt)])
    assert broker.recall(sent.stored[0].message_id) is TimerAnswer.NOT_FOUND
    engine.tick(5)
    assert len(take(broker)) == 1


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (Exponential(initial_ms=0), "retry_policy.initial_ms"),
        (Exponential(initial_ms=10, max_ms=9), "retry_policy.max_ms"),
        (Exponential(max_ms=604_800_001), "retry_policy.max_ms"),
        (Exponential(multiplier=0.9), "retry_policy.multiplier"),
        (Exponential(multiplier=101), "retry_policy.multiplier"),
        (Exponential(multiplier=float("nan")), "retry_policy.multiplier"),
        (Steps(()), "retry_policy.delays_ms"),
        (Steps((1,) * 101), "retry_policy.delays_ms"),
        (Steps((1, -1)), "retry_policy.delays_ms[1]"),
        (Steps((604_800_001,)), "retry_policy.delays_ms[0]"),
        ("ladder", "retry_policy"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_by_its_field(broker, policy, field):
    with pytest.raises(Invalid) as refusal:
        broker.create_group(GroupConfig("g", retry_policy=policy))
    assert refusal.value.field == field
    assert refusal.value.remedy
    assert broker.groups() == []


def test_waits_grow_to_their_limit_however_many_attempts_there_are():
    policy = Exponential(initial_ms=1, max_ms=604_800_000, multiplier=100.0)
    assert exact_wait_ms(policy, 1) == 1
    assert exact_wait_ms(policy, 4) == 1_000_000
    assert exact_wait_ms(policy, 10_001) == 604_800_000
    assert exact_wait_ms(Ladder(), 1) is None


class ExactStory(Story):
    """Fails messages without naming a wait, so that the group's policy decides."""

    def answer(self, broker, delivery, body):
        if self.random.random() < 0.5:
            broker.nack("g", [Nack(delivery.receipt)])
        else:
            super().answer(broker, delivery, body)


@pytest.mark.parametrize(("keep", "first"), [(0.0, 1), (0.6, 2)])
def test_a_kill_between_any_two_writes_loses_no_exact_retry_and_repeats_nothing(
    tmp_path, clock, keep, first
):
    for writes in range(first, 120, 2):
        engine = Engine(tmp_path / str(writes), clock)
        story, files = ExactStory(engine, writes % 7), KillingFiles(writes, keep)
        try:
            broker = engine.start(files=files)
            broker.create_topic(TopicConfig("orders"))
            broker.create_group(GroupConfig("g", retry_max=1000, retry_policy=Steps((700, 1500))))
            for _ in range(30):
                story.step(broker)
        except Killed:
            pass
        files.left = 1 << 30
        engine.close()
        broker = engine.start()
        if [each.name for each in broker.groups()] == ["g"]:
            story.check(broker)
        else:
            assert not story.sent
        engine.close()
