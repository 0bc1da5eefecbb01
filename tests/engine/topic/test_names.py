"""Names of topics and groups: RocketMQ's alphabet, its limits and its own names."""

import pytest

from engine.errors import Invalid
from engine.topic.names import (
    check_group_name,
    check_topic_name,
    dead_letter_topic,
    is_system_topic,
    retry_topic,
)


@pytest.mark.parametrize("name", ["a", "Orders_2024-01", "%DLQ%g", "a|b", "x" * 127])
def test_good_topic_names_are_taken_as_they_are(name: str) -> None:
    assert check_topic_name(name) == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("x" * 128, "127 is the most"),
        ("a b", "not allowed"),
        ("a.b", "not allowed"),
        ("a/b", "not allowed"),
        ("..", "not allowed"),
        ("ü", "not allowed"),
        ("a\n", "not allowed"),
        ("a\0", "not allowed"),
    ],
)
def test_bad_topic_names_are_refused_with_the_rule(name: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason) as refused:
        check_topic_name(name, field="name")
    assert (refused.value.field, refused.value.code) == ("name", "invalid_name")
    assert refused.value.remedy


def test_a_groups_own_topics_may_be_longer() -> None:
    group = "g" * 120
    assert check_group_name(group) == group
    for topic in (retry_topic(group), dead_letter_topic(group)):
        assert check_topic_name(topic) == topic
    assert check_topic_name("%RETRY%" + "g" * 248)
    with pytest.raises(Invalid, match="255 is the most"):
        check_topic_name("%RETRY%" + "g" * 249)


def test_a_group_name_has_120_characters_at_most() -> None:
    with pytest.raises(Invalid, match="120 is the most") as refused:
        check_group_name("g" * 121)
    assert refused.value.field == "group"


@pytest.mark.parametrize(
    "name", ["SCHEDULE_TOPIC_XXXX", "TBW102", "rmq_sys_anything", "%RETRY%g", "%DLQ%g"]
)
def test_system_topics_are_known_by_name(name: str) -> None:
    assert is_system_topic(name)
    assert not is_system_topic(f"my_{name.strip('%')}")
