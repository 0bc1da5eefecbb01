"""Broadcast groups: every client gets every message, by progress of its own."""

import pytest

from engine.broker import GroupConfig, Mode, StartAt
from engine.delivery.values import Nack, Receipt
from engine.errors import GroupNotFound, Invalid, Refused
from engine.events import Acked, DeadLettered, MessagesDelivered
from engine.message import Message
from engine.topic.catalog import TopicConfig, TopicType
from tests.engine.conftest import Engine
from tests.engine.delivery import test_restart
from tests.engine.delivery.test_restart import Killed, KillingFiles, Story


@pytest.fixture(autouse=True)
def _news(broker):
    broker.create_topic(TopicConfig("orders", read_queues=2, write_queues=2))
    broker.create_group(GroupConfig("g", mode=Mode.BROADCAST, retry_max=2))


def take(broker, client, **given):
    return broker.receive("g", {"orders": "*"}, **{"count_max": 10, **given}, client=client)


def bodies(deliveries):
    return sorted(each.message.body.decode() for each in deliveries)


def test_every_client_gets_every_message_and_settles_for_itself(broker, send):
    send("1", "2")
    first, second = take(broker, "a"), take(broker, "b")
    assert bodies(first) == bodies(second) == ["1", "2"]
    assert broker.ack("g", [each.receipt for each in first]) == ["done", "done"]
    assert broker.committed_offset("g", "orders", 0, "a") == 2
    assert broker.committed_offset("g", "orders", 0, "b") == 0
    assert broker.committed_offset("g", "orders", 0) == 0, "of the one furthest behind"
    assert broker.ack("g", [each.receipt for each in first]) == ["stale", "stale"]
    assert broker.release("g", [second[0].receipt]) == ["done"]
    assert bodies(take(broker, "b")) == ["1"]
    assert take(broker, "a") == []


def test_receipts_of_several_clients_are_told_apart_in_one_call(broker, send):
    send("1", "2", "3")
    mixed = [*take(broker, "a"), *take(broker, "b")]
    mixed = mixed[::2] + mixed[1::2]
    assert broker.ack("g", [each.receipt for each in mixed]) == ["done"] * 6
    assert broker.lag("g").count == 0


def test_progress_of_each_client_survives_a_kill_and_a_snapshot(engine, broker, send):
    send("1", "2", "3")
    broker.ack("g", [each.receipt for each in take(broker, "a", count_max=2)])
    (held,) = take(broker, "b@2", count_max=1)
    broker = engine.crash()
    assert broker.broadcast_clients("g") == ["a", "b@2"]
    broker._store.journal.compact()
    broker = engine.crash()
    assert bodies(take(broker, "a")) == ["3"]
    assert broker.held("g", "b@2") == [held.receipt]
    assert broker.ack("g", [held.receipt]) == ["done"]
    assert bodies(take(broker, "b@2")) == ["2", "3"]


def test_what_a_client_fails_with_is_dropped_and_nothing_is_retried(engine, broker, send):
    told = []
    broker.events.subscribe(told.append)
    send("1")
    (delivery,) = take(broker, "a")
    assert broker.nack("g", [Nack(delivery.receipt, error="no")], "a") == ["done"]
    engine.tick(7200)
    assert take(broker, "a") == []
    assert bodies(take(broker, "b")) == ["1"]
    assert [each.name for each in broker.topics(system=True) if "%" in each.name] == []
    (dead,) = [each for each in told if isinstance(each, DeadLettered)]
    assert (dead.group, dead.reason, dead.client) == ("g", "broadcast", "a")


@pytest.mark.parametrize("type", [TopicType.NORMAL, TopicType.FIFO])
def test_what_a_client_died_with_comes_back_to_it_until_its_attempts_are_used_up(
    engine, broker, type
):
    broker.create_topic(TopicConfig("steps", type))
    broker.change_group("g", ordered=True)
    broker.send([Message("steps", b"1", message_group="m" if type is TopicType.FIFO else "")])
    for attempt in (1, 2, 3):
        (given,) = broker.receive("g", {"steps": "*"}, invisible_s=1, client="a")
        assert given.attempt == attempt
        assert broker.receive("g", {"steps": "*"}, client="a") == []
        engine.tick(1)
    assert broker.receive("g", {"steps": "*"}, client="a") == []
    assert broker.lag("g").count == 0


def test_events_name_the_group_not_the_place_of_its_progress(broker, send):
    told = []
    broker.events.subscribe(told.append)
    send("1")
    broker.ack("g", [each.receipt for each in take(broker, "a")])
    assert {each.group for each in told if isinstance(each, (MessagesDelivered, Acked))} == {"g"}
    assert broker.groups_of("orders") == ["g"]


def test_a_new_message_wakes_every_client_that_waits(broker, send):
    woken = []
    for client in "abc":
        broker.park_receive(
            "g", {"orders": "*"}, lambda client=client: woken.append(client), client
        )
    send("1")
    assert woken == ["a", "b", "c"]


def test_a_client_begins_where_the_group_says(broker, send):
    send("1")
    broker.create_group(GroupConfig("late", mode=Mode.BROADCAST, start=StartAt.LATEST))
    assert broker.receive("late", {"orders": "*"}, client="a") == []
    send("2")
    assert bodies(broker.receive("late", {"orders": "*"}, client="a")) == ["2"]
    assert broker.receive("late", {"orders": "*"}, client="b") == []


def test_a_client_has_to_be_named(broker, send):
    send("1")
    for verb in (
        lambda: broker.receive("g", {"orders": "*"}),
        lambda: broker.park_receive("g", {"orders": "*"}, lambda: None),
        lambda: broker.commit_offset("g", "orders", 0, 1),
    ):
        with pytest.raises(Invalid) as refusal:
            verb()
        assert refusal.value.field == "client"
    with pytest.raises(GroupNotFound):
        broker.broadcast_clients("nobody")


def test_a_pulling_client_commits_for_itself(engine, broker, send):
    send("1", "2")
    broker.commit_offset("g", "orders", 0, 2, "a")
    broker.commit_offset("g", "orders", 0, 1, "b")
    broker = engine.crash()
    found = [broker.committed_offset("g", "orders", 0, client) for client in "abc"]
    assert found == [2, 1, None]


def test_lag_is_that_of_the_client_furthest_behind(broker, send):
    send("1", "2", "3")
    broker.ack("g", [each.receipt for each in take(broker, "a")])
    take(broker, "b", count_max=1)
    lag = broker.lag("g")
    assert (lag.count, lag.inflight, lag.retry_waiting, lag.dead) == (3, 1, 0, 0)
    assert [(each.topic, each.queue) for each in lag.queues] == [("orders", 0), ("orders", 1)]


def test_the_number_of_clients_is_bounded(engine, send):
    engine.close()
    broker = engine.start(broadcast_clients_max=2)
    take(broker, "a")
    take(broker, "b")
    with pytest.raises(Refused) as refusal:
        take(broker, "c")
    assert refusal.value.field == "client"
    take(broker, "a")


def test_a_client_that_was_not_seen_for_a_day_is_forgotten(engine, broker, send):
    send("1")
    broker.ack("g", [each.receipt for each in take(broker, "a")])
    broker.ack("g", [each.receipt for each in take(broker, "b")])
    connection = broker.members.connect("g", "c", topics={"orders": "*"})
    take(broker, "c")
    engine.tick(86_000)
    broker.members.heartbeat("g", "b")
    engine.tick(401)
    assert broker.broadcast_clients("g") == ["b", "c"]
    assert broker.committed_offset("g", "orders", 0, "a") is None
    assert bodies(take(broker, "a")) == ["1"], "it begins anew"
    connection.close()
    engine.tick(86_401)
    assert broker.broadcast_clients("g") == []
    assert engine.crash().broadcast_clients("g") == []


def test_a_deleted_group_forgets_all_its_clients(engine, broker, send):
    send("1")
    take(broker, "a")
    broker.delete_group("g")
    broker.create_group(GroupConfig("g", mode=Mode.BROADCAST))
    assert broker.broadcast_clients("g") == []
    assert bodies(take(broker, "a")) == ["1"]
    broker.delete_group("g")
    assert engine.crash()._desk.ledger.names()[0] == set()


def test_each_mode_keeps_its_own_progress(broker, send):
    send("1")
    (shared,) = take(broker, "a")
    broker.change_group("g", mode=Mode.CLUSTERING)
    assert bodies(take(broker, "a")) == ["1"]
    assert take(broker, "b") == []
    broker.change_group("g", mode=Mode.BROADCAST)
    assert broker.ack("g", [shared.receipt]) == ["done"]
    assert take(broker, "a") == []
    assert bodies(take(broker, "b")) == ["1"]


def test_a_mode_that_is_none_is_refused(broker):
    with pytest.raises(Invalid) as refusal:
        broker.change_group("g", mode="both")
    assert refusal.value.field == "mode"


def test_receipts_that_nobody_holds_cost_a_bounded_search_and_hide_no_others(broker, send):
    send(*map(str, range(100)))
    for client in "abc":
        take(broker, client, count_max=100, invisible_s=30)
    stale = [Receipt("orders", 0, number, 7) for number in range(100)]
    held = [receipt for client in "ab" for receipt in broker.held("g", client)[:20]]
    results = broker.ack("g", [*held[:30], *stale[:50], *held[30:], *stale[50:]])
    assert [results.count(each) for each in ("done", "stale")] == [40, 100]


class BroadcastStory(Story):
    """One client of a broadcast: it never says that it failed, for then nothing comes again."""

    def answer(self, broker, delivery, body):
        if self.random.random() < 0.5:
            self.maybe_acked.add(body)
            if broker.ack("g", [delivery.receipt]) == ["done"]:
                self.acked.add(body)
        elif self.random.random() < 0.5:
            broker.release("g", [delivery.receipt])


@pytest.mark.parametrize("keep", [0.0, 0.6])
def test_a_kill_between_any_two_writes_loses_nothing_of_a_broadcast(
    tmp_path, clock, monkeypatch, keep
):
    def take_as_a(broker, count_max=10, **given):
        return take(broker, "a", count_max=count_max, **given)

    monkeypatch.setattr(test_restart, "take", take_as_a)
    for writes in range(4, 100, 3):
        engine = Engine(tmp_path / str(writes), clock)
        story, files = BroadcastStory(engine, writes % 7), KillingFiles(writes, keep)
        try:
            broker = engine.start(files=files)
            broker.create_topic(TopicConfig("orders"))
            broker.create_group(GroupConfig("g", mode=Mode.BROADCAST, retry_max=10_000))
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
