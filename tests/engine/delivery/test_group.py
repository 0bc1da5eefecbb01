import pytest

from engine.delivery.group import GroupConfig, StartAt
from engine.errors import Conflict, Forbidden, GroupNotFound, Invalid, Refused


def test_a_group_is_created_changed_found_and_deleted(broker):
    broker.create_group(GroupConfig("g", retry_max=3))
    assert broker.group("g").retry_max == 3
    assert broker.change_group("g", retry_max=5, dead_letters=False).retry_max == 5
    assert not broker.group("g").dead_letters
    assert [group.name for group in broker.groups()] == ["g"]
    broker.delete_group("g")
    with pytest.raises(GroupNotFound):
        broker.group("g")


@pytest.mark.parametrize("name", ["", "a b", "a@b", "x" * 121, "späte"])
def test_a_name_that_rocketmq_would_not_take_is_refused(broker, name):
    with pytest.raises(Invalid) as refusal:
        broker.create_group(GroupConfig(name))
    assert refusal.value.field == "name"
    assert refusal.value.remedy


def test_a_name_of_120_characters_is_taken(broker):
    assert broker.create_group(GroupConfig("x" * 120)).name == "x" * 120


def test_settings_out_of_range_are_refused_by_name(broker):
    for field, value in (("retry_max", -1), ("retry_max", 10_001), ("start", "middle")):
        with pytest.raises(Invalid) as refusal:
            broker.create_group(GroupConfig("g", **{field: value}))
        assert refusal.value.field == field
    broker.create_group(GroupConfig("g"))
    with pytest.raises(Invalid):
        broker.change_group("g", colour="red")


def test_two_groups_cannot_have_one_name(broker):
    broker.create_group(GroupConfig("g"))
    with pytest.raises(Conflict):
        broker.create_group(GroupConfig("g"))


def test_the_number_of_groups_is_bounded(engine):
    broker = engine.start(groups_max=2)
    broker.create_group(GroupConfig("a"))
    broker.create_group(GroupConfig("b"))
    with pytest.raises(Refused):
        broker.create_group(GroupConfig("c"))


def test_an_unknown_group_is_created_at_its_first_use_only_where_that_is_allowed(engine, send):
    send("1")
    assert engine.broker.receive("fresh", {"orders": "*"})
    strict = engine.crash(auto_create_groups=False)
    assert strict.group("fresh").retry_max == 16
    with pytest.raises(GroupNotFound):
        strict.receive("unknown", {"orders": "*"})


def test_a_group_that_is_switched_off_gets_nothing(broker, send):
    send("1")
    broker.create_group(GroupConfig("g", consume_enabled=False))
    with pytest.raises(Forbidden):
        broker.receive("g", {"orders": "*"})
    with pytest.raises(Forbidden):
        broker.pull("orders", 0, 0, group="g")
    broker.change_group("g", consume_enabled=True)
    assert broker.receive("g", {"orders": "*"})


def test_groups_survive_a_crash_and_a_snapshot(engine):
    broker = engine.start()
    broker.create_group(GroupConfig("kept", retry_max=2, start=StartAt.LATEST))
    broker.create_group(GroupConfig("gone"))
    broker.delete_group("gone")
    before = broker.groups()
    assert engine.crash().groups() == before
    engine.broker._store.journal.compact()
    assert engine.crash().groups() == before


def test_a_deleted_group_begins_anew(broker, send):
    send("1", "2")
    broker.receive("g", {"orders": "*"}, count_max=2)
    broker.delete_group("g")
    assert broker.committed_offset("g", "orders", 0) is None
    assert len(broker.receive("g", {"orders": "*"}, count_max=2)) == 2
