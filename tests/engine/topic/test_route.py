"""Routing: groups stick to a queue, batches stay together, the rest goes round."""

from collections.abc import Callable

import pytest

from engine.broker import Broker, TopicConfig
from engine.errors import Invalid
from engine.message import Message, PutResult
from engine.topic.route import Router


def topic(queues: int) -> TopicConfig:
    return TopicConfig("t", read_queues=queues, write_queues=queues)


def test_single_messages_go_round_all_write_queues() -> None:
    router = Router()
    assert [router.next_queue(topic(3)) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_fewer_write_queues_end_the_round_early() -> None:
    router = Router()
    assert [router.next_queue(topic(4)) for _ in range(3)] == [0, 1, 2]
    assert [router.next_queue(topic(2)) for _ in range(3)] == [0, 1, 0]


def test_each_topic_has_its_own_round_until_it_is_forgotten() -> None:
    router = Router()
    other = TopicConfig("other")
    assert [router.next_queue(topic(2)), router.next_queue(other), router.next_queue(topic(2))] == [
        0,
        0,
        1,
    ]
    router.forget("t")
    assert router.next_queue(topic(2)) == 0


@pytest.mark.parametrize(
    ("message_group", "queues", "queue"),
    [
        ("Aa", 4, 2112 % 4),
        ("BB", 7, 2112 % 7),
        ("The quick brown fox jumps over the lazy dog", 10, 609428141 % 10),
        ("polygenelubricants", 3, 0),  # its hash has no absolute value
    ],
)
def test_a_message_group_goes_by_its_hash(message_group: str, queues: int, queue: int) -> None:
    assert Router().group_queue(topic(queues), message_group) == queue


def test_a_message_group_stays_in_one_queue(broker: Broker) -> None:
    sent = [
        broker.send([Message("t", b"x", message_group=f"g{n % 5}")]).messages[0] for n in range(50)
    ]
    for number in range(5):
        assert len({message.queue for message in sent[number::5]}) == 1


def test_a_batch_stays_together_and_the_next_goes_on(broker: Broker) -> None:
    queues = [
        [message.queue for message in broker.send([Message("t", b"x")] * 3).messages]
        for _ in range(1)
    ]
    for _ in range(3):
        batch = broker.send([Message("t", b"x") for _ in range(3)])
        queues.append([message.queue for message in batch.messages])
    assert [set(each) for each in queues] == [{0}, {1}, {2}, {3}]


def test_a_named_queue_is_taken_as_it_is(send: Callable[..., PutResult]) -> None:
    assert [send("x", queue=3).messages[0].queue for _ in range(2)] == [3, 3]


def test_a_queue_that_the_topic_does_not_have_is_refused(
    broker: Broker, send: Callable[..., PutResult]
) -> None:
    broker.create_topic(TopicConfig("orders", read_queues=2, write_queues=2))
    with pytest.raises(Invalid) as refused:
        send("x", queue=2)
    assert refused.value.field == "messages[0].queue"
    assert "queues 0 to 1" in refused.value.detail
