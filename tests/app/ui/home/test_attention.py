"""What an operator is result first: one row for each object, the most severe at the top."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from app.monitoring.sampler import GROWTH_MIN, GroupFigures, History, Snapshot
from app.ui.home import attention
from app.ui.home.attention import Attention, Matter
from app.ui.home.watch import Firing, Watch
from engine.broker import GroupConfig, Health
from engine.message import Durability

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
QUIET = Watch([], "", 0, [], 0, "", 0)
HEALTHY = Health(True, {}, Durability.STORED, 0, 0, 10_000, 100, [])


def group(lag: int = 0, dead: int = 0, oldest_ms: int | None = None, **more: Any) -> GroupFigures:
    return GroupFigures(lag, oldest_ms, 0, 0, dead, {"orders": lag}, **more)


def attend(
    groups: Mapping[str, GroupFigures],
    watch: Watch = QUIET,
    health: Health = HEALTHY,
    growth: Mapping[str, int] | None = None,
    paused: tuple[str, ...] = (),
) -> Attention:
    snapshot = Snapshot(taken_ms=NOW_MS, groups=groups, growth=growth or {})
    configs = [GroupConfig(name, consume_enabled=name not in paused) for name in groups]
    return attention.attention(snapshot, configs, health, watch)


def texts(matter: Matter) -> list[str]:
    return [each.text for each in (matter.lead, *matter.others)]


def names(result: Attention) -> list[str]:
    return [matter.name for matter in result.matters]


def firing(subject: str, severity: str = "critical", kind: str = "group") -> Firing:
    return Firing(kind, "A group falls behind", severity, subject, "9 unread")


def test_groups_with_most_dead_letters_come_first_and_the_rest_is_counted() -> None:
    result = attend({f"g{number:02}": group(dead=number + 1) for number in range(29)})
    first = result.matters[0]
    assert (first.name, first.tone) == ("g28", "bad")
    assert (first.lead.text, first.lead.href) == (
        "29 dead letters, none new since yesterday.",
        "/dlq/g28",
    )
    assert names(result) == [f"g{number:02}" for number in range(28, 8, -1)]
    assert len(result.matters) == attention.MATTERS_MAX
    assert (result.total, result.more_groups, result.more_topics) == (29, 9, 0)


def test_what_died_since_yesterday_comes_first_and_is_named() -> None:
    result = attend({"old": group(dead=90), "new": group(dead=3, dead_new=2)})
    assert names(result) == ["new", "old"]
    assert result.matters[0].lead.text == "3 dead letters, 2 new since yesterday."


def test_idle_groups_raise_no_noise() -> None:
    idle = {f"idle-{n}": GroupFigures(0, None, 0, 0, 0, {}) for n in range(500)}
    read = {f"read-{n}": group() for n in range(500)}
    assert attend(idle | read).total == 0


def test_an_object_is_told_once_with_its_most_severe_sentence_first() -> None:
    groups = {
        "billing": group(274, 9, NOW_MS - HOUR_MS, members=2, dead_new=9),
        "mailing": group(50, members=1),
        "orders": group(dead=1),
    }
    watch = replace(
        QUIET,
        firing=[firing("billing"), firing("orders", "warning"), firing("orders", kind="topic")],
        conflicts=["billing"],
    )
    result = attend(groups, watch, growth={"billing": 200}, paused=("mailing",))
    assert [(m.id, m.tone) for m in result.matters] == [
        ("matter-group-billing", "bad"),
        ("matter-topic-orders", "bad"),
        ("matter-group-orders", "bad"),
        ("matter-group-mailing", "warn"),
    ]
    billing, topic, orders, mailing = result.matters
    assert texts(billing) == [
        "Alert “A group falls behind”: 9 unread.",
        "Consumers subscribe to different messages and take each other's. Give each subscription "
        "its own group.",
        "9 dead letters, 9 new since yesterday.",
        "274 unread and nothing consumed in the last minute. Oldest unread message: 60 min.",
    ]
    assert billing.status is not None
    assert (billing.status.label, billing.href) == ("Falling behind", "/groups/billing")
    assert (topic.status, topic.href, len(texts(topic))) == (None, "/topics/orders", 1)
    assert [text[:13] for text in texts(orders)] == ["1 dead letter", "Alert “A grou"]
    assert texts(mailing) == ["Delivery is paused; 50 unread."]
    assert (mailing.lead.action, mailing.lead.href) == ("Resume", "/groups/mailing/resume")


def test_an_acknowledged_alert_stands_below_what_nobody_has_seen() -> None:
    watch = replace(
        QUIET,
        firing=[
            replace(firing("seen"), acked_by="ann"),
            firing("noted", "info"),
            firing("unseen", "warning"),
        ],
    )
    result = attend({"seen": group(), "unseen": group(), "noted": group()}, watch)
    assert names(result) == ["unseen", "noted", "seen"]
    assert texts(result.matters[2])[0].endswith("Acknowledged by ann.")


def test_a_group_without_consumers_stands_above_one_that_falls_behind() -> None:
    late_ms = NOW_MS - HOUR_MS
    result = attend({
        "behind": group(9_000, 0, late_ms, members=1),
        "alone": group(5, 0, late_ms),
        "more": group(50, 0, late_ms),
    })  # fmt: skip
    assert [(m.name, m.tone) for m in result.matters] == [
        ("more", "bad"), ("alone", "bad"), ("behind", "warn"),
    ]  # fmt: skip


def test_fresh_unread_messages_are_no_concern() -> None:
    assert attend({"g": group(9, 0, NOW_MS - 1000, members=1)}).total == 0


def test_parts_of_the_broker_stand_among_the_groups_by_severity() -> None:
    health = Health(
        False, {"flush": "no space"}, Durability.STORED, 0, 0, 99, 100, [],
        {"retention": "the disk is nearly full"},
    )  # fmt: skip
    watch = replace(
        QUIET,
        firing=[firing("disk", kind="broker"), firing("lag", kind="report")],
        given_up=2,
        alerts_failure="the database is away",
        left_out=3,
    )
    result = attend({"g": group(dead=1)}, watch, health)
    assert [(m.name, m.tone) for m in result.matters] == [
        ("Disk", "bad"), ("flush", "bad"), ("Alerts", "bad"), ("lag", "bad"),
        ("Transactions", "bad"), ("g", "bad"), ("retention", "warn"),
    ]  # fmt: skip
    by_name = {matter.name: matter for matter in result.matters}
    assert [text.partition(":")[0] for text in texts(by_name["Disk"])] == [
        "Full", "Alert “A group falls behind”",
    ]  # fmt: skip
    assert by_name["lag"].href == "/reports"
    assert texts(by_name["Transactions"]) == [
        "2 transactions need a decision. Their producers never answered."
    ]
    assert texts(by_name["Alerts"])[1].startswith("3 objects are not watched")


@pytest.mark.parametrize(
    ("free", "tones"), [(300, ["warn"]), (99, ["bad"]), (10_000, []), (None, [])]
)
def test_a_filling_disk_warns_before_writes_are_refused(free: int | None, tones: list[str]) -> None:
    health = Health(True, {}, Durability.STORED, 0, 0, free, 100, [])
    assert [matter.tone for matter in attend({}, health=health).matters] == tones


def test_lag_grows_only_when_it_rose_clearly_and_for_a_while() -> None:
    history = History()
    for step in range(5):
        history.add(NOW_MS + step * 30_000, step * 100)
    now_ms = NOW_MS + 150_000
    assert history.growth(now_ms, 500) == 500
    assert history.growth(now_ms, 350) == 0
    assert history.growth(NOW_MS + 1000, 500) == 0
    assert History().growth(now_ms, 10 * GROWTH_MIN) == 0


def test_a_lag_that_stays_at_its_highest_does_not_grow() -> None:
    history = History()
    for step in range(26):
        history.add(NOW_MS + step * 30_000, 9000 if step else 0)
    assert history.growth(NOW_MS + 60_000, 9000) == 0  # for less than two minutes yet
    assert history.growth(NOW_MS + 26 * 30_000, 9000) == 0
    assert history.growth(NOW_MS + 26 * 30_000, 9010) == 0
    assert history.growth(NOW_MS + 26 * 30_000, 12_000) == 12_000
