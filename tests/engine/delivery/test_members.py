"""Members of a group: signs of life, who counts, and subscriptions that differ (item 15)."""

import pytest

from engine.broker import GroupConfig, Mode
from engine.errors import GroupNotFound, Invalid, Refused
from engine.events import MemberJoined, MemberLeft, SubscriptionsDiffer


@pytest.fixture
def members(broker):
    broker.create_group(GroupConfig("g"))
    return broker.members


@pytest.fixture
def told(broker):
    events = []
    kinds = (MemberJoined, MemberLeft, SubscriptionsDiffer)
    broker.events.subscribe(lambda event: isinstance(event, kinds) and events.append(event))
    return events


def names(members, group="g"):
    return [each.client for each in members.of(group)]


def test_a_heartbeat_makes_a_member_and_says_who_it_is(members, clock):
    members.heartbeat(
        "g", "c1", topics={"orders": "b||a"}, version="5.3", language="JAVA", address="10.0.0.1:9"
    )
    clock.advance(3)
    members.heartbeat(
        "g", "c1", topics={"orders": "a"}, version="5.4", language="JAVA", address="10.0.0.1:9"
    )
    (member,) = members.of("g")
    assert (member.client, member.version, member.language) == ("c1", "5.4", "JAVA")
    assert (member.address, member.topics) == ("10.0.0.1:9", {"orders": "a"})
    assert (member.is_pulling, member.is_connected) == (True, False)
    assert member.seen_ms - member.joined_ms == 3000


def test_a_member_without_a_sign_of_life_for_120_s_is_gone(engine, members, told):
    members.heartbeat("g", "a")
    engine.tick(60)
    members.heartbeat("g", "b")
    engine.tick(59.9)
    assert names(members) == ["a", "b"]
    engine.tick(0.1)
    assert names(members) == ["b"]
    left = told[-1]
    assert (type(left), left.client, left.is_expired) == (MemberLeft, "a", True)
    engine.tick(60)
    assert names(members) == []


def test_the_timeout_is_a_setting(engine):
    broker = engine.start(member_timeout_s=5)
    broker.members.heartbeat("g", "a")
    engine.tick(4.9)
    assert names(broker.members) == ["a"]
    engine.tick(0.1)
    assert names(broker.members) == []


def test_who_says_goodbye_is_gone_at_once(members, told):
    members.heartbeat("g", "a")
    assert members.leave("g", "a")
    assert not members.leave("g", "a")
    assert names(members) == []
    assert [type(each) for each in told] == [MemberJoined, MemberLeft]
    assert not told[-1].is_expired


def test_a_receive_is_a_sign_of_life_and_no_claim_to_a_share(engine, members):
    members.seen("g", "a", topics={"orders": "x"}, address="10.0.0.1:9")
    (member,) = members.of("g")
    assert (member.topics, member.address) == ({"orders": "x"}, "10.0.0.1:9")
    assert not member.is_pulling
    engine.tick(100)
    members.seen("g", "a")
    engine.tick(100)
    assert names(members) == ["a"]
    members.seen("nobody", "a")
    members.seen("g", "")
    assert names(members) == ["a"]


def test_a_connected_client_is_alive_until_its_last_connection_closes(engine, members, told):
    first = members.connect("g", "a", topics={"orders": "*"}, address="10.0.0.1:9")
    second = members.connect("g", "a", topics={"other": "x"})
    engine.tick(1000)
    (member,) = members.of("g")
    assert member.is_connected
    assert member.topics == {"orders": "*", "other": "x"}
    first.close()
    first.close()
    assert members.of("g")[0].topics == {"other": "x"}
    second.close()
    assert names(members) == []
    assert [type(each) for each in told] == [MemberJoined, MemberLeft]


def test_a_heartbeat_outlives_the_connection_and_the_connection_the_heartbeat(engine, members):
    connection = members.connect("g", "a", topics={"orders": "*"})
    members.heartbeat("g", "a", topics={"orders": "*"})
    connection.close()
    assert names(members) == ["a"]
    members.connect("g", "a", topics={"orders": "*"})
    engine.tick(120)
    (member,) = members.of("g")
    assert (member.is_pulling, member.is_connected) == (False, True)
    assert members.leave("g", "a")
    assert names(members) == ["a"], "its connection is open"


def test_a_heartbeat_creates_the_group_and_its_retry_topic(broker):
    broker.members.heartbeat("fresh", "a")
    assert broker.group("fresh").retry_max == 16
    assert broker.topic("%RETRY%fresh").read_queues == 1
    broker.create_group(GroupConfig("news", mode=Mode.BROADCAST))
    broker.members.heartbeat("news", "a")
    assert "%RETRY%news" not in [each.name for each in broker.topics(system=True)]


def test_nothing_of_members_is_kept_over_a_restart(engine, members):
    members.heartbeat("g", "a")
    assert names(engine.crash().members) == []


def test_a_deleted_group_has_no_members(engine, broker, members):
    members.heartbeat("g", "a")
    connection = members.connect("g", "b", topics={"orders": "*"})
    broker.delete_group("g")
    connection.close()
    with pytest.raises(GroupNotFound):
        members.of("g")
    broker.create_group(GroupConfig("g"))
    assert names(members) == []
    engine.tick(200)


def test_the_number_of_members_is_bounded_and_who_receives_is_served_all_the_same(engine):
    broker = engine.start(members_max=2)
    broker.members.heartbeat("g", "a")
    broker.members.heartbeat("h", "a")
    with pytest.raises(Refused) as refusal:
        broker.members.heartbeat("g", "b")
    assert refusal.value.field == "client"
    broker.members.seen("g", "b")
    broker.members.connect("g", "b", topics={"orders": "*"}).close()
    assert names(broker.members) == ["a"]
    broker.members.heartbeat("g", "a")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"client": ""}, "client"),
        ({"client": "x" * 256}, "client"),
        ({"version": "x" * 256}, "version"),
        ({"language": "\n"}, "language"),
        ({"topics": {"a b": "*"}}, "topics"),
        ({"topics": {"orders": "||"}}, "topics.orders"),
        ({"topics": {"orders": "SQL92: a >"}}, "topics.orders"),
        ({"topics": {f"t{number}": "*" for number in range(65)}}, "topics"),
    ],
)
def test_a_heartbeat_that_cannot_be_is_refused_by_its_field(members, given, field):
    with pytest.raises(Invalid) as refusal:
        members.heartbeat("g", **{"client": "a", **given})
    assert refusal.value.field == field
    assert names(members) == []


def test_thousands_of_members_are_let_go_in_bounded_ticks(engine, members):
    for number in range(1200):
        members.heartbeat("g", f"c{number}")
    engine.clock.advance(120)
    assert names(members) == [], "nobody is shown who is not alive"
    assert members.tick() == 0.0
    assert members.count("g") == 700
    engine.tick()
    assert members.count("g") == 0


# -- item 15 -----------------------------------------------------------------------------------


def test_each_heartbeat_replaces_the_groups_subscription_and_a_difference_is_warned_of(
    broker, members, told
):
    """Item 15: two clients, tags a and b, heartbeats in turn: the group has the last one's."""
    for _ in range(3):
        for client in "ab":
            members.heartbeat("g", client, topics={"orders": client})
            assert members.subscription("g") == {"orders": client}
    warning = members.warning("g")
    assert [(each.topics, each.clients) for each in warning.variants] == [
        ({"orders": "a"}, ["a"]),
        ({"orders": "b"}, ["b"]),
    ]
    assert "a to orders (a); b to orders (b)" in warning.detail
    differ = [each for each in told if isinstance(each, SubscriptionsDiffer)]
    assert [each.clients for each in differ] == [("a", "b")], "told once, not at each heartbeat"


def test_the_groups_subscription_selects_nothing(broker, members, send):
    """RocketMQ would lose b's messages here; a receive says itself what it wants."""
    send("1", tag="a")
    send("2", tag="b")
    members.heartbeat("g", "one", topics={"orders": "a"})
    members.heartbeat("g", "two", topics={"orders": "b"})
    assert [each.message.body for each in broker.receive("g", {"orders": "a"})] == [b"1"]
    assert members.warning("g") is not None


def test_a_topic_that_only_one_member_has_is_a_difference_too(members):
    members.heartbeat("g", "a", topics={"orders": "*", "other": "*"})
    members.heartbeat("g", "b", topics={"orders": "*"})
    assert [each.count for each in members.warning("g").variants] == [1, 1]
    members.heartbeat("g", "b", topics={"other": "", "orders": " * "})
    assert members.warning("g") is None


def test_one_subscription_may_be_written_in_several_ways(members):
    members.heartbeat("g", "a", topics={"orders": "x || y"})
    members.heartbeat("g", "b", topics={"orders": "y||x"})
    members.connect("g", "c", topics={"orders": " y || x "})
    members.heartbeat("g", "d")
    assert members.warning("g") is None


def test_the_warning_ends_with_its_cause_and_a_new_cause_is_told_anew(engine, members, told):
    members.heartbeat("g", "a", topics={"orders": "a"})
    connection = members.connect("g", "b", topics={"orders": "b"})
    assert members.warning("g") is not None
    connection.close()
    assert members.warning("g") is None
    members.seen("g", "c", topics={"orders": "c"})
    engine.tick(100)
    members.heartbeat("g", "a", topics={"orders": "a"})
    assert members.warning("g") is not None
    engine.tick(20)
    assert members.warning("g") is None
    differ = [each for each in told if isinstance(each, SubscriptionsDiffer)]
    assert [each.clients for each in differ] == [("a", "b"), ("a", "c")]


def test_everyone_is_told_with_their_group_and_only_while_alive(engine, members, broker):
    broker.create_group(GroupConfig("h"))
    members.heartbeat("g", "a")
    members.heartbeat("h", "a")
    members.heartbeat("h", "b")
    walk = members.everyone()
    first = next(walk)
    members.heartbeat("g", "late")
    found = {(group, member.client) for group, member in [first, *walk]}
    assert found == {("g", "a"), ("h", "a"), ("h", "b")}
    engine.tick(121)
    assert list(members.everyone()) == []
