"""What the pages of a group work out by themselves: forecasts, charts with gaps, reviews, words."""

from collections.abc import Mapping

import pytest

from app.monitoring.forecast import Forecast, Outlook, forecast
from app.monitoring.lag_reader import POINTS_MAX, own_span
from app.services.client_figures import PASSAGES_MAX, Passage
from app.ui.framework.charts import Canvas
from app.ui.framework.forms import Form
from app.ui.framework.typed_time import (
    NoMoment,
    find_length_ms,
    length_text,
    moment_ms,
    moment_text,
)
from app.ui.groups import history as group_history
from app.ui.groups import lag_chart
from app.ui.groups import policy as group_policy
from app.ui.groups.lag_chart import SHAPES, LagChart, Shape
from app.ui.groups.reset_review import place_in_words, review
from engine.broker import (
    Exponential,
    Ladder,
    LagHistoryPage,
    LagPoint,
    QueueMove,
    ResetNote,
    ResetPreview,
    RetryPolicy,
    Steps,
)

START_MS = 1_700_000_000_000
STEP_MS = 10_000


def samples(*lags: int, step_ms: int = 30_000) -> list[tuple[int, int]]:
    return [(START_MS + number * step_ms, lag) for number, lag in enumerate(lags)]


def test_a_lag_that_shrinks_clears_at_its_own_pace() -> None:
    found = forecast(samples(1000, 900, 800, 700))
    assert found.outlook is Outlook.SHRINKING
    assert found.clears_at_ms == START_MS + 90_000 + 210_000
    assert found.per_s == pytest.approx(100 / 30)


def test_a_lag_that_stays_or_grows_is_not_shrinking() -> None:
    assert forecast(samples(500, 500, 500)).outlook is Outlook.NOT_SHRINKING
    assert forecast(samples(500, 600, 700)).outlook is Outlook.NOT_SHRINKING


def test_too_few_samples_are_unknown_with_a_reason_and_no_number() -> None:
    for few in ([], samples(500), samples(500, 400)):
        found = forecast(few)
        assert (found.outlook, found.clears_at_ms) == (Outlook.UNKNOWN, None)
        assert found.reason


def test_nothing_unread_is_clear_however_few_samples_there_are() -> None:
    assert forecast(samples(0)).outlook is Outlook.CLEAR
    assert forecast(samples(10, 20, 30)).of_lag(0).outlook is Outlook.CLEAR


def test_a_group_that_has_not_begun_has_no_forecast() -> None:
    found = forecast(samples(0)).of_lag(None)
    assert found.outlook is Outlook.UNKNOWN
    assert "no offset" in found.reason


def test_a_pace_that_changed_counts_from_the_last_minute_on() -> None:
    """60,000 went in the last minute after four of standing still: gone in ten seconds, not 95."""
    found = forecast(samples(*[70_000] * 9, 40_000, 10_000))
    assert found.outlook is Outlook.SHRINKING
    assert found.clears_at_ms == START_MS + 300_000 + 10_000
    assert forecast(samples(70_000, 10_000, *[10_000] * 4)).outlook is Outlook.NOT_SHRINKING


def test_what_is_older_than_the_window_does_not_count() -> None:
    assert forecast(samples(9000, 100, 100, 100, step_ms=200_000)).outlook is Outlook.NOT_SHRINKING


def test_forecasts_sort_by_when_they_clear_and_unknown_ones_have_no_rank() -> None:
    done, soon, never = Forecast(Outlook.CLEAR), Forecast(Outlook.SHRINKING, 5), samples(1, 1, 1)
    ranks = [each.rank for each in (done, soon, forecast(never))]
    assert ranks == sorted(ranks, key=lambda rank: -1 if rank is None else rank)
    assert forecast([]).rank is None


def history(*counts: int | None) -> LagHistoryPage:
    points = [
        LagPoint(START_MS + number * STEP_MS, 0)
        if count is None
        else LagPoint(START_MS + number * STEP_MS, 1, count, float(count), 1000, 2)
        for number, count in enumerate(counts)
    ]
    return LagHistoryPage(START_MS, START_MS + len(counts) * STEP_MS, STEP_MS, points)


def drawn(
    page: LagHistoryPage, shape: Shape, queues: Mapping[str, LagHistoryPage] | None = None
) -> LagChart:
    canvas = Canvas(lag_chart.steps_of(page, page.to_ms))
    return lag_chart.chart(page, shape, canvas, queues)


def test_the_members_of_a_time_follow_from_those_of_now_and_the_passages_since() -> None:
    passages = [
        Passage(50, "c", "expired", 1),
        Passage(40, "b", "joined", 2),
        Passage(30, "c", "joined", 1),
        Passage(20, "a", "left", 0),
        Passage(10, "a", "joined", 1),
    ]
    members = [
        group_history.members_then(at, ["b"], passages, 5).clients for at in range(4, 55, 10)
    ]
    assert members == [None, ["a"], [], ["c"], ["b", "c"], ["b"]]


def test_members_before_the_first_passage_that_is_kept_are_unknown() -> None:
    passages = [Passage(100 - n, f"c{n}", "joined", 1) for n in range(PASSAGES_MAX)]
    assert group_history.members_then(40, [], passages, 0).clients is None
    assert group_history.members_then(51, [], passages, 0).clients is not None


@pytest.mark.parametrize("minutes", [0, 1, 17, 60, 24 * 60, 7 * 24 * 60, 300 * 24 * 60])
def test_a_range_of_ones_choice_is_covered_by_a_bounded_number_of_points(minutes: int) -> None:
    from_ms = START_MS + 12_345
    span = own_span(from_ms, from_ms + minutes * 60_000, "")
    assert span.length_ms // span.step_ms <= POINTS_MAX + 1
    assert span.to_ms % span.step_ms == span.length_ms % span.step_ms == 0
    assert span.to_ms - span.length_ms <= from_ms
    assert from_ms + minutes * 60_000 <= span.to_ms
    assert span.step_ms % 10_000 == 0


def test_a_stretch_without_a_sample_is_a_gap_in_the_chart_and_never_zero() -> None:
    for shape in SHAPES[:2]:
        found = drawn(history(5, 4, None, None, 3, 2), shape)
        assert found.values[2:4] == [None, None]
        assert len(found.plot.lines[0].runs) == 2
        assert (found.known, found.missing) == (4, 2)


def test_the_table_takes_a_gap_together_and_shows_the_newest_first() -> None:
    found = drawn(history(None, 5, None, None, None, 2), SHAPES[0])
    assert [(row.count, row.until_ms - row.at_ms) for row in found.rows] == [
        (2, STEP_MS),
        (None, 3 * STEP_MS),
        (5, STEP_MS),
        (None, STEP_MS),
    ]
    lengths = sum(row.until_ms - row.at_ms for row in found.rows)
    assert found.plot.cursor is not None
    assert lengths == found.plot.cursor.to_ms - found.plot.cursor.from_ms


def test_a_lone_sample_between_gaps_is_drawn_as_a_dot() -> None:
    (line,) = drawn(history(None, 7, None), SHAPES[0]).plot.lines
    (dot,) = line.dots
    first, second = dot.split()
    assert first == second
    assert not line.runs


def test_each_queue_has_a_line_and_the_table_is_of_all_together() -> None:
    page, queues = history(5, 4, 3), {"queue 0": history(5, 3, 1), "queue 1": history(None, 1, 2)}
    found = drawn(page, SHAPES[0], queues)
    assert found.values == [5, 4, 3]
    cursor = found.plot.cursor
    assert cursor is not None
    assert cursor.labels == ["queue 0", "queue 1"]
    assert cursor.texts == [["5", "3", "1"], ["", "1", "2"]]


def test_the_time_axis_ends_now_though_the_last_point_is_not_whole() -> None:
    page = history(5, 4, 3)
    now_ms = START_MS + 2 * STEP_MS + 1000
    steps = lag_chart.steps_of(page, now_ms)
    assert steps.steps == 3
    assert steps.end_ms(2) == now_ms + 9000  # where the next sample is due
    assert lag_chart.steps_of(page, now_ms + 10 * STEP_MS).to_ms == page.to_ms


def test_the_time_to_clear_is_unknown_at_first_and_then_falls() -> None:
    counts = [100 - 5 * number for number in range(12)]
    found = drawn(history(*counts), SHAPES[2])
    assert found.values[:6] == [None] * 6
    assert found.values[6:] == [count * 2000 for count in counts[6:]]


def test_where_the_lag_did_not_shrink_there_is_no_time_to_clear() -> None:
    found = drawn(history(*[50] * 12), SHAPES[2])
    assert found.values == [None] * 12
    assert found.rows[0].outlook is Outlook.NOT_SHRINKING
    assert found.rows[-1].outlook is Outlook.UNKNOWN


def move(queue: int, current: int | None, note: ResetNote = ResetNote.NONE) -> QueueMove:
    return QueueMove("orders", queue, 0, 100, current, 10, True, note, 3, 2, 1, START_MS)


def preview(*moves: QueueMove) -> ResetPreview:
    return ResetPreview("g", "offset 10", list(moves), "token", 4)


def test_a_review_counts_over_all_queues() -> None:
    found = review(preview(move(0, 5), move(1, 10, ResetNote.PAST_END), move(2, None)))
    assert (found.cut.total, found.moving, found.clipped) == (3, 2, 1)
    totals = found.preview
    assert (totals.redelivered, totals.skipped, totals.inflight) == (9, 6, 3)
    assert [row.delta for row in found.cut.rows] == [5, 0, None]


def test_what_moved_since_the_last_review_is_marked_and_comes_first() -> None:
    before = review(preview(move(0, 5), move(1, 6), move(2, None)))
    after = review(preview(move(0, 5), move(1, 9), move(2, 1)), offsets=before.offsets)
    assert after.moved_since == 2
    assert [(row.queue, row.has_moved, row.seen_offset) for row in after.cut.rows] == [
        (1, True, 6),
        (2, True, None),
        (0, False, None),
    ]


@pytest.mark.parametrize(
    "offsets", ["", "x", "1 2", "- - orders", "0 x orders", "9" * 30 + " 1 orders"]
)
def test_what_was_seen_is_only_believed_where_it_makes_sense(offsets: str) -> None:
    assert review(preview(move(0, 5)), offsets=offsets).moved_since == 0


def test_a_long_review_is_cut_into_pages_that_say_so() -> None:
    found = review(preview(*[move(queue, 5) for queue in range(450)]), page=3)
    assert (found.cut.total, found.cut.first, found.cut.page, found.cut.pages) == (450, 401, 3, 3)
    assert len(found.cut.rows) == 50


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("earliest", "the oldest message kept"),
        ("latest", "the end"),
        ("offset 1200", "offset 1,200"),
        ("shift -1", "1 message back"),
        ("shift 20", "20 messages forward"),
        ("group a b", "where group a b is"),
        ("undo 3", "where reset 3 found it"),
        (f"time {START_MS}", "the first message stored at 2023-11-14 22:13:20.000 UTC or later"),
    ],
)
def test_a_place_is_told_in_words(to: str, words: str) -> None:
    assert place_in_words(to) == words


@pytest.mark.parametrize("value_ms", [1, 999, 1000, 90_000, 60_000, 7_200_000, 86_400_000])
def test_lengths_of_time_are_read_as_they_are_written(value_ms: int) -> None:
    assert find_length_ms(length_text(value_ms)) == value_ms


def test_moments_are_utc_unless_they_say_otherwise() -> None:
    assert moment_ms(moment_text(START_MS)) == START_MS
    assert moment_ms("2023-11-14 22:13:20") == START_MS
    assert moment_ms("2023-11-14T23:13:20+01:00") == START_MS
    for wrong in ("", "yesterday", "2023-13-01", "1969-01-01T00:00"):
        with pytest.raises(NoMoment):
            moment_ms(wrong)


@pytest.mark.parametrize(
    "policy", [Ladder(), Exponential(500, 60_000, 1.5), Steps((1_000, 90_000)), Steps((0,))]
)
def test_a_retry_policy_is_read_as_it_was_shown(policy: RetryPolicy) -> None:
    form = Form(group_policy.values_of(policy))
    assert group_policy.read(form) == policy
    assert not form.is_wrong


def test_what_is_wrong_with_a_retry_policy_is_told_at_its_field() -> None:
    values = {**group_policy.values_of(Exponential()), "initial": "soon", "multiplier": "x"}
    form = Form(values)
    group_policy.read(form)
    assert set(form.errors) == {"initial", "multiplier"}
    steps = Form({**values, "policy": "steps", "steps": "1s, x"})
    group_policy.read(steps)
    assert set(steps.errors) == {"steps"}


def test_the_waits_of_a_policy_are_listed_and_the_rest_counted() -> None:
    assert group_policy.waits(Exponential(1000, 5000, 2.0), 4) == (["1s", "2s", "4s", "5s"], 0)
    assert group_policy.waits(Steps((1000, 2000)), 3) == (["1s", "2s", "2s"], 0)
    shown, more = group_policy.waits(Ladder(), 30)
    assert (shown[0], shown[-1], len(shown), more) == ("10s", "2h", 20, 10)
    assert group_policy.waits(Exponential(1000, 5000, 100.0), 10_000)[1] == 9_980
