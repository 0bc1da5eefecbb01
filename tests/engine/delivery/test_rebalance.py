"""Sharing queues out: the tables of the reference (section 6.3), and what must always hold."""

from hashlib import md5

import pytest

from engine.broker import GroupConfig
from engine.delivery.rebalance import QueueRef, Strategy, allocate
from engine.errors import GroupNotFound, TopicNotFound
from engine.topic.catalog import TopicConfig


def queues(count, broker="b", topic="t"):
    return [QueueRef(topic, broker, number) for number in range(count)]


def shares(strategy, count, clients, **given):
    return [
        [each.queue for each in allocate(strategy, queues(count), clients, client, **given)]
        for client in clients
    ]


@pytest.mark.parametrize(
    ("count", "clients", "expected"),
    [
        (8, "abc", [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (8, "abcd", [[0, 1], [2, 3], [4, 5], [6, 7]]),
        (7, "abcd", [[0, 1], [2, 3], [4, 5], [6]]),
        (2, "abcd", [[0], [1], [], []]),
        (1, "a", [[0]]),
        (0, "ab", [[], []]),
    ],
)
def test_average_gives_neighbours_and_the_tail_of_too_many_clients_nothing(
    count, clients, expected
):
    assert shares(Strategy.AVERAGE, count, clients) == expected


@pytest.mark.parametrize("count", range(20))
@pytest.mark.parametrize("number", range(1, 9))
def test_average_is_rocketmqs_formula(count, number):
    clients = "abcdefgh"[:number]
    expected = []
    for index in range(number):
        mod = count % number
        is_more = mod > 0 and index < mod
        size = 1 if count <= number else count // number + is_more
        start = index * size if is_more else index * size + mod
        taken = min(size, count - start)
        expected.append([start + each for each in range(max(0, taken))])
    assert shares(Strategy.AVERAGE, count, clients) == expected


def test_circle_gives_one_to_each_in_turn():
    assert shares(Strategy.CIRCLE, 8, "abc") == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert shares(Strategy.CIRCLE, 2, "abc") == [[0], [1], []]


def test_a_consistent_hash_takes_the_next_of_ten_places_that_each_client_has_on_the_ring():
    def place(text):
        digest = md5(text.encode(), usedforsecurity=False).digest()
        return digest[0] << 24 | digest[1] << 16 | digest[2] << 8 | digest[3]

    clients = ["10.0.0.1@1", "10.0.0.2@2", "10.0.0.3@3"]
    ring = sorted((place(f"{client}-{each}"), client) for client in clients for each in range(10))
    expected = {client: [] for client in clients}
    for number in range(16):
        at = place(f"MessageQueue [topic=t, brokerName=b, queueId={number}]")
        expected[next((who for spot, who in ring if spot >= at), ring[0][1])].append(number)
    assert shares(Strategy.CONSISTENT_HASH, 16, clients) == list(expected.values())


def test_with_a_consistent_hash_only_the_queues_of_who_left_move():
    clients = ["a", "b", "c", "d"]
    before = dict(zip(clients, shares(Strategy.CONSISTENT_HASH, 64, clients), strict=True))
    after = dict(zip("abc", shares(Strategy.CONSISTENT_HASH, 64, clients[:3]), strict=True))
    for client, owned in after.items():
        assert set(before[client]) <= set(owned)


def test_a_machine_room_takes_its_own_brokers_in_order_and_what_is_over_in_turn():
    everything = queues(5, "hz@one") + queues(4, "sh@two") + queues(3, "three")
    found = [
        [
            each[1:]
            for each in allocate(Strategy.MACHINE_ROOM, everything, "ab", client, rooms=["hz"])
        ]
        for client in "ab"
    ]
    assert found == [
        [("hz@one", 0), ("hz@one", 1), ("hz@one", 4)],
        [("hz@one", 2), ("hz@one", 3)],
    ]
    assert shares(Strategy.MACHINE_ROOM, 4, "ab", rooms=["hz"]) == [[], []]


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("number", [1, 2, 3, 7, 20])
def test_each_queue_has_exactly_one_owner_whatever_order_things_are_told_in(strategy, number):
    everything = queues(13, "room@b")
    clients = [f"c{each}" for each in range(number)]
    shared = [
        queue
        for client in clients
        for queue in allocate(strategy, everything, clients, client, rooms=["room"])
    ]
    assert sorted(shared) == everything
    backwards = allocate(strategy, everything[::-1], clients[::-1], "c0", rooms=["room"])
    assert backwards == allocate(strategy, everything, clients, "c0", rooms=["room"])


@pytest.mark.parametrize("strategy", list(Strategy))
def test_who_is_not_among_the_clients_gets_nothing(strategy):
    assert allocate(strategy, queues(4), ["a"], "b", rooms=["b"]) == []
    assert allocate(strategy, queues(4), [], "b", rooms=["b"]) == []


def test_an_assignment_shares_among_the_live_members_that_send_heartbeats(engine, broker, clock):
    broker.create_topic(TopicConfig("orders", read_queues=8, write_queues=8))
    for client in ("b", "a", "c"):
        broker.members.heartbeat("g", client, topics={"orders": "*"})
    broker.members.seen("g", "only-receives", topics={"orders": "*"})
    found = [broker.members.assignment("g", "orders", client).queues for client in "abc"]
    assert found == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert broker.members.assignment("g", "orders", "only-receives").queues == []
    engine.tick(119)
    for client in ("a", "c"):
        broker.members.heartbeat("g", client, topics={"orders": "*"})
    engine.tick(1)
    found = broker.members.assignment("g", "orders", "c")
    assert (found.clients, found.queues) == (["a", "c"], [4, 5, 6, 7])
    gone = broker.members.assignment("g", "orders", "b")
    assert (gone.is_member, gone.queues) == (False, [])


def test_a_member_of_another_topic_takes_no_share_of_this_one(broker):
    """RocketMQ counts every member of the group, and queues of this topic would have no reader."""
    broker.create_topic(TopicConfig("orders", read_queues=4, write_queues=4))
    broker.create_topic(TopicConfig("other"))
    broker.members.heartbeat("g", "a", topics={"orders": "*"})
    broker.members.heartbeat("g", "b", topics={"other": "*"})
    assert broker.members.assignment("g", "orders", "a").queues == [0, 1, 2, 3]
    assert broker.members.assignment("g", "orders", "b").queues == []


def test_the_groups_strategy_holds_unless_another_is_asked_for(broker):
    broker.create_topic(TopicConfig("orders", read_queues=4, write_queues=4))
    broker.create_group(GroupConfig("g", strategy=Strategy.CIRCLE))
    for client in "ab":
        broker.members.heartbeat("g", client)
    assert broker.members.assignment("g", "orders", "a").queues == [0, 2]
    found = broker.members.assignment("g", "orders", "a", strategy=Strategy.AVERAGE)
    assert (found.strategy, found.queues) == ("average", [0, 1])


def test_an_assignment_of_what_does_not_exist_says_so(broker, send):
    with pytest.raises(GroupNotFound):
        broker.members.assignment("nobody", "orders", "a")
    broker.create_group(GroupConfig("g"))
    with pytest.raises(TopicNotFound):
        broker.members.assignment("g", "nothing", "a")
