import pytest

from engine.delivery.group import GroupConfig
from engine.delivery.pull import PullAnswer, PullStatus
from engine.errors import Forbidden, GroupNotFound, Invalid, QueueNotFound, TopicNotFound
from engine.message import Message
from engine.topic.catalog import TopicConfig


def outcome(result):
    return result.status, result.answer, result.next_offset


def test_messages_are_read_from_the_offset_and_nothing_is_handed_out(broker, send):
    send("a", "b", "c")
    for _ in range(2):
        result = broker.pull("orders", 0, 1)
        assert [message.body for message in result.messages] == [b"b", b"c"]
        assert outcome(result) == (PullStatus.FOUND, PullAnswer.FOUND, 3)
        assert (result.min_offset, result.max_offset) == (0, 3)


def test_an_empty_queue_is_waited_at_from_its_beginning_only(broker):
    """Item 17: code 19 for offset 0, 21 for any other."""
    broker.create_topic(TopicConfig("t"))
    status = PullStatus.NO_MESSAGE_IN_QUEUE
    assert outcome(broker.pull("t", 0, 0)) == (status, PullAnswer.NOT_FOUND, 0)
    assert outcome(broker.pull("t", 0, 7)) == (status, PullAnswer.OFFSET_MOVED, 0)


def test_at_the_end_one_waits_and_past_the_end_one_is_sent_back(broker, send):
    send("a", "b")
    at_end = broker.pull("orders", 0, 2)
    assert outcome(at_end) == (PullStatus.OFFSET_OVERFLOW_ONE, PullAnswer.NOT_FOUND, 2)
    past = broker.pull("orders", 0, 9)
    assert outcome(past) == (PullStatus.OFFSET_OVERFLOW_BADLY, PullAnswer.OFFSET_MOVED, 2)


def test_an_offset_that_retention_took_moves_to_the_first_kept(engine):
    broker = engine.start(segment_bytes=1 << 20)
    for _ in range(3):
        broker.send([Message("t", b"x" * 700_000, queue=0)])
    engine.tick(2)
    broker._store.expire(broker._store.written)
    first = broker.pull("t", 0, 0)
    assert first.min_offset > 0
    assert outcome(first) == (
        PullStatus.OFFSET_TOO_SMALL,
        PullAnswer.OFFSET_MOVED,
        first.min_offset,
    )
    assert broker.pull("t", 0, first.min_offset).status == PullStatus.FOUND


def test_what_does_not_match_is_stepped_over_within_a_bound(broker, send):
    send(*["x"] * 900, tag="a")
    send("y", tag="b")
    result = broker.pull("orders", 0, 0, filter="b")
    assert outcome(result) == (
        PullStatus.NO_MATCHED_MESSAGE,
        PullAnswer.RETRY_IMMEDIATELY,
        800,
    )
    result = broker.pull("orders", 0, result.next_offset, filter="b")
    assert [message.body for message in result.messages] == [b"y"]
    assert result.next_offset == 901


def test_the_next_offset_is_after_the_last_examined_message(broker, send):
    for tag in "abab":
        send("x", tag=tag)
    result = broker.pull("orders", 0, 0, filter="a", count_max=1)
    assert (len(result.messages), result.next_offset) == (1, 2)
    result = broker.pull("orders", 0, 2, filter="a", count_max=5)
    assert (len(result.messages), result.next_offset) == (1, 4)


def test_a_batch_is_bounded_in_bytes_yet_has_at_least_one_message(broker, send):
    send(*["x" * 1000] * 5)
    assert len(broker.pull("orders", 0, 0, bytes_max=2500).messages) == 2
    assert len(broker.pull("orders", 0, 0, bytes_max=1).messages) == 1


def test_damaged_records_are_stepped_over(broker, send):
    stored = send("a", "b", "c", "d").stored
    path = next((broker._store._root / "commitlog").iterdir())
    with path.open("r+b") as file:
        for damaged in (stored[1], stored[3]):
            file.seek(damaged.position + 84)
            file.write(b"\xff" * 8)
    result = broker.pull("orders", 0, 0)
    assert [message.body for message in result.messages] == [b"a", b"c"]
    lost = broker.pull("orders", 0, 3)
    assert outcome(lost) == (PullStatus.MESSAGE_WAS_REMOVING, PullAnswer.RETRY_IMMEDIATELY, 4)
    assert len(broker.receive("g", {"orders": "*"}, count_max=5)) == 2
    assert broker.committed_offset("g", "orders", 0) == 0
    assert broker.lag("g").count == 2, "what cannot be read is nobody's to wait for"


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("offset", {"offset": -1}),
        ("count_max", {"count_max": 0}),
        ("count_max", {"count_max": 161}),
        ("bytes_max", {"bytes_max": 0}),
        ("filter", {"filter": "||"}),
    ],
)
def test_a_pull_out_of_bounds_is_refused_by_name(broker, send, field, arguments):
    send("a")
    with pytest.raises(Invalid) as refusal:
        broker.pull("orders", 0, **{"offset": 0, **arguments})
    assert refusal.value.field == field


def test_a_pull_needs_a_readable_topic_queue_and_group(engine, broker, send):
    send("a")
    broker.create_topic(TopicConfig("closed", permission=2))
    with pytest.raises(TopicNotFound):
        broker.pull("nowhere", 0, 0)
    with pytest.raises(QueueNotFound):
        broker.pull("orders", 4, 0)
    with pytest.raises(Forbidden):
        broker.pull("closed", 0, 0)
    broker = engine.crash(auto_create_groups=False)
    with pytest.raises(GroupNotFound):
        broker.pull("orders", 0, 0, group="nobody")


def test_in_a_new_epoch_a_pull_from_what_only_the_last_leader_had_begins_at_the_end(broker, send):
    send("a", "b")
    broker.create_group(GroupConfig("billing"))
    broker.begin_epoch()
    send("c", "d", "e")
    moved = broker.pull("orders", 0, 4, group="billing")
    assert outcome(moved) == (PullStatus.OFFSET_RESET, PullAnswer.OFFSET_MOVED, 2)
    assert [each.body for each in broker.pull("orders", 0, 2, group="billing").messages] == [
        b"c", b"d", b"e",
    ]  # fmt: skip
    assert broker.pull("orders", 0, 4, group="billing").status is PullStatus.FOUND


def test_in_a_new_epoch_a_pull_from_what_both_leaders_had_goes_on(broker, send):
    send("a", "b")
    broker.create_group(GroupConfig("billing"))
    broker.begin_epoch()
    send("c")
    assert broker.pull("orders", 0, 2, group="billing").status is PullStatus.FOUND
    assert broker.pull("orders", 0, 3, group="billing").status is PullStatus.OFFSET_OVERFLOW_ONE
    assert broker.pull("orders", 0, 3).status is PullStatus.OFFSET_OVERFLOW_ONE
