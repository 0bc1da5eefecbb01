"""SQL92 filters at work: in pull, receive and while waiting, on a real broker."""

from random import Random

import pytest

from engine.delivery.filter import parse_filter
from engine.delivery.group import GroupConfig
from engine.delivery.values import Nack
from engine.errors import Invalid
from engine.message import Message
from engine.topic.catalog import TopicConfig, TopicType

SEED = 92


@pytest.fixture
def send_each(send):
    """Send one message for each number, which is its body and its property `n`."""

    def send_each(numbers, **fields):
        for number in numbers:
            send(str(number), properties={"n": str(number)}, **fields)

    return send_each


@pytest.fixture
def reads(broker, monkeypatch):
    """How many records each look into the log read."""
    counts = []
    read_entries = broker._store.read_entries

    def counted(entries, *place):
        counts.append(len(entries))
        return read_entries(entries, *place)

    monkeypatch.setattr(broker._store, "read_entries", counted)
    return counts


def bodies(messages):
    return [int(message.body) for message in messages]


def take(broker, expression, **arguments):
    deliveries = broker.receive("g", {"orders": expression}, **arguments)
    broker.ack("g", [delivery.receipt for delivery in deliveries])
    return bodies(delivery.message for delivery in deliveries)


def test_a_receive_gets_what_the_expression_lets_through(broker, send_each):
    send_each(range(10))
    assert take(broker, "SQL92: n >= 3 AND n < 6", count_max=10) == [3, 4, 5]


def test_what_the_expression_holds_back_counts_as_done(broker, send_each):
    send_each(range(10))
    take(broker, "SQL92: n = 3", count_max=10)
    assert broker.lag("g").count == 0
    assert take(broker, "*", count_max=10) == []


def test_a_pull_gets_what_the_expression_lets_through(broker, send_each):
    send_each(range(10))
    pulled = broker.pull("orders", 0, 0, filter="SQL92: n IN ('2', '7')")
    assert (bodies(pulled.messages), pulled.next_offset) == ([2, 7], 10)
    assert broker.pull("orders", 0, 0, filter="SQL92: n > 99").next_offset == 10


@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_however_it_is_cut_into_calls_every_match_comes_once_in_order(broker, send_each, share):
    random = Random(SEED)
    numbers = [int(random.random() < share) * (1 + index) for index in range(500)]
    send_each(numbers)
    wanted = [number for number in numbers if number]

    pulled, offset = [], 0
    while offset < 500:
        result = broker.pull(
            "orders", 0, offset, filter="SQL92: n > 0", count_max=random.randint(1, 9)
        )
        pulled += bodies(result.messages)
        offset = result.next_offset
    received = take(broker, "SQL92: n > 0")
    while broker.lag("g").count:
        received += take(broker, "SQL92: n > 0", count_max=random.randint(1, 9))

    assert pulled == wanted
    assert received == wanted


def test_a_rare_match_is_found_with_few_looks_into_the_log(broker, send_each, reads):
    send_each([0] * 700 + [1])
    assert take(broker, "SQL92: n = 1") == [1]
    assert len(reads) < 30
    reads.clear()
    pulled = broker.pull("orders", 0, 0, filter="SQL92: n = 1", count_max=1)
    assert bodies(pulled.messages) == [1]
    assert len(reads) < 30


def test_where_all_match_no_more_is_read_than_wanted(broker, send_each, reads):
    send_each(range(100))
    assert take(broker, "SQL92: n >= 0", count_max=3) == [0, 1, 2]
    broker.pull("orders", 0, 0, filter="SQL92: n >= 0", count_max=4)
    assert reads == [3, 4]


def test_where_the_expression_names_tags_no_record_of_another_is_read(broker, send_each, reads):
    send_each(range(50), tag="paid")
    send_each(range(50, 53), tag="sent")
    send_each(range(53, 60))
    assert take(broker, "SQL92: TAGS = 'sent' AND n > 50", count_max=60) == [51, 52]
    assert sum(reads) == 3
    pulled = broker.pull("orders", 0, 0, filter="SQL92: n > 50 AND TAGS IN ('sent', 'odd')")
    assert bodies(pulled.messages) == [51, 52]
    assert sum(reads) == 6


def test_tags_with_one_hash_are_told_apart(broker, send):
    """ "Aa" and "BB" both hash to 2112."""
    send("1", tag="Aa")
    send("2", tag="BB")
    assert take(broker, "SQL92: TAGS = 'BB'", count_max=9) == [2]


def test_keys_and_the_message_group_have_names_too(broker, send):
    send("1", keys=("k1", "k2"), message_group="m")
    send("2", keys=("k3",))
    assert take(broker, "SQL92: KEYS CONTAINS 'k2' AND __SHARDINGKEY = 'm'", count_max=9) == [1]


def test_message_groups_stay_in_order(broker):
    broker.create_topic(TopicConfig("fifo", TopicType.FIFO, read_queues=1, write_queues=1))
    broker.create_group(GroupConfig("g", ordered=True))
    for number in range(6):
        properties = {"n": str(number)}
        broker.send([Message("fifo", b"%d" % number, message_group="m", properties=properties)])
    found = []
    while deliveries := broker.receive("g", {"fifo": "SQL92: n <> 2"}, count_max=9):
        broker.ack("g", [delivery.receipt for delivery in deliveries])
        found += bodies(delivery.message for delivery in deliveries)
    assert found == [0, 1, 3, 4, 5]


def test_a_retry_is_not_asked_again(broker, send_each):
    send_each([1])
    (delivery,) = broker.receive("g", {"orders": "SQL92: n = 1"})
    broker.nack("g", [Nack(delivery.receipt, delay_s=0)])
    (again,) = broker.receive("g", {"orders": "SQL92: n = 2"})
    assert again.attempt == 2


def test_waiting_wakes_for_whatever_may_match(broker, send_each):
    broker.create_topic(TopicConfig("orders"))
    woken = []
    for name, expression in [("any", "SQL92: n > 5"), ("tag", "SQL92: n > 5 AND TAGS = 'a'")]:
        broker.wait_to_receive(name, {"orders": expression}, lambda name=name: woken.append(name))
        broker.wait_to_pull("orders", 0, 0, expression, lambda name=name: woken.append(name))
    send_each([1], tag="b")
    assert woken == ["any", "any"]
    send_each([2], tag="a")
    assert woken == ["any", "any", "tag", "tag"]


@pytest.mark.parametrize("text", ["SQL92:n=1", "sql92: n=1", "  Sql92:  n = 1\n"])
def test_a_filter_that_begins_with_sql92_is_an_expression(broker, send_each, text):
    send_each(range(3))
    assert take(broker, text, count_max=9) == [1]


@pytest.mark.parametrize("text", ["SQL92", "SQL92 : x", "||SQL92:x", "a || SQL92:x"])
def test_any_other_is_a_tag_expression(broker, send, text):
    send("1", tag=text.rpartition("|")[2].strip())
    assert take(broker, text) == [1]


def test_one_expression_is_one_filter():
    assert parse_filter("SQL92:n=1") is parse_filter("sql92:n=1")
    assert not parse_filter("SQL92: TRUE").is_all


@pytest.mark.parametrize("text", ["SQL92:", "SQL92: n = NULL", "SQL92: n > 'x'", "SQL92: *"])
def test_a_wrong_expression_is_refused_by_every_verb_and_changes_nothing(broker, send_each, text):
    send_each([1])
    verbs = [
        lambda: broker.receive("g", {"orders": text}),
        lambda: broker.pull("orders", 0, 0, filter=text),
        lambda: broker.wait_to_pull("orders", 0, 0, text, lambda: None),
        lambda: broker.wait_to_receive("g", {"orders": text}, lambda: None),
    ]
    for verb in verbs:
        with pytest.raises(Invalid) as refusal:
            verb()
        assert refusal.value.field == "filter"
        assert "at character" in refusal.value.detail
    assert take(broker, "*") == [1]
