"""What an operator is told first."""

from msgspec.structs import replace

from app.monitoring.sampler import GROWTH_MIN, GroupFigures, History
from app.ui.home import attention

NOW_MS = 1_700_000_000_000


def group(lag: int = 0, dead: int = 0, oldest_ms: int | None = None) -> GroupFigures:
    return GroupFigures(lag, oldest_ms, 0, 0, dead, {})


def test_groups_with_most_dead_letters_come_first_and_the_rest_is_counted() -> None:
    groups = {f"g{number}": group(dead=number) for number in range(9)}
    concerns = list(attention.dead_letters(groups))
    assert concerns[0].title == "8 dead letters in g8"
    assert concerns[0].href == "/dlq/g8"
    assert concerns[-1].title == "3 more groups with dead letters"
    assert len(concerns) == attention.EACH_MAX + 1


def test_what_died_since_yesterday_comes_first_and_is_named() -> None:
    groups = {"old": group(dead=90), "new": replace(group(dead=3), dead_new=2)}
    first, second = attention.dead_letters(groups)
    assert (first.title, second.title) == ("3 dead letters in new", "90 dead letters in old")
    assert "2 new since yesterday" in first.detail
    assert "none of them new since yesterday" in second.detail


def test_groups_of_unknown_lag_are_named_together() -> None:
    known = replace(group(), lag_by_topic={"orders": 0})
    assert not list(attention.unknown({"g": known}))
    (concern,) = attention.unknown({"g": known, **{f"n{at}": group() for at in range(7)}})
    assert concern.title == "The lag of 7 groups is unknown"
    assert concern.detail.startswith("n0, n1, n2, n3, n4 …: no place")


def test_old_unread_messages_are_told_once_though_the_lag_grows_too() -> None:
    groups = {"g": group(lag=500, oldest_ms=NOW_MS - 3_600_000)}
    assert list(attention.old_unread(groups, {"g": 200}, NOW_MS)) == []
    (concern,) = attention.old_unread(groups, {}, NOW_MS)
    assert "60 min" in concern.title


def test_fresh_unread_messages_are_no_concern() -> None:
    assert not list(attention.old_unread({"g": group(9, 0, NOW_MS - 1000)}, {}, NOW_MS))


def test_a_filling_disk_warns_before_writes_are_refused() -> None:
    (warning,) = attention.disk(300, 100)
    (refusal,) = attention.disk(99, 100)
    assert (warning.tone, refusal.tone) == ("warn", "bad")
    assert not list(attention.disk(10_000, 100))
    assert not list(attention.disk(None, 100))


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
