"""The bars of a waterfall: where they stand, in proportion or with long waits shortened."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ui.journeys import layout as journey_layout
from app.ui.journeys.layout import EDGE, StageSpan, lay_out, needs_compression

BEGIN_MS = 1_790_000_000_000
NEAR = 0.01  # percent

spans = st.lists(
    st.builds(
        lambda begin, length, is_handout: StageSpan(
            BEGIN_MS + begin, BEGIN_MS + begin + length, is_handout
        ),
        st.integers(0, 10**9),
        st.integers(0, 10**8) | st.integers(0, 50),
        st.booleans(),
    ),
    min_size=1,
    max_size=40,
)


def at(begin: int, end: int, *, handout: bool = False) -> StageSpan:
    return StageSpan(BEGIN_MS + begin, BEGIN_MS + end, handout)


@given(spans, st.booleans())
def test_every_bar_lies_within_the_picture_and_none_is_negative(
    chosen: list[StageSpan], to_scale: bool
) -> None:
    chart = lay_out(chosen, to_scale=to_scale)
    assert len(chart.bars) == len(chosen)
    for bar in chart.bars:
        assert bar.width >= 0
        assert bar.x >= EDGE - NEAR
        assert bar.x + bar.width <= 100 - EDGE + NEAR


@given(spans, st.booleans())
def test_what_begins_or_ends_later_stands_further_to_the_right(
    chosen: list[StageSpan], to_scale: bool
) -> None:
    chart = lay_out(chosen, to_scale=to_scale)
    places = [
        place
        for span, bar in zip(chosen, chart.bars, strict=True)
        for place in ((span.begin_ms, bar.x), (span.end_ms, bar.x + bar.width))
    ]
    for (before_ms, before), (after_ms, after) in pairwise(sorted(places)):
        assert after >= before - NEAR
        if before_ms == after_ms:
            assert after == pytest.approx(before, abs=NEAR)


@given(spans, st.booleans())
def test_the_first_begins_at_the_left_and_the_last_ends_at_the_right(
    chosen: list[StageSpan], to_scale: bool
) -> None:
    chart = lay_out(chosen, to_scale=to_scale)
    assert min(bar.x for bar in chart.bars) == pytest.approx(EDGE, abs=NEAR)
    if chart.end_ms > chart.begin_ms:
        end = max(bar.x + bar.width for bar in chart.bars)
        assert end == pytest.approx(100 - EDGE, abs=NEAR)


@given(spans, st.booleans())
def test_ticks_begin_at_nought_and_keep_their_distance(
    chosen: list[StageSpan], to_scale: bool
) -> None:
    ticks = lay_out(chosen, to_scale=to_scale).ticks
    assert (ticks[0].after_ms, ticks[0].x) == (0, EDGE)
    for before, after in pairwise(ticks):
        assert after.x - before.x >= journey_layout.TICK_GAP - NEAR
        assert after.after_ms > before.after_ms


def test_stages_that_follow_each_other_add_up_to_the_whole() -> None:
    chart = lay_out([at(0, 3), at(3, 1000), at(1000, 1050, handout=True), at(1050, 11_000)])
    assert chart.is_compressed
    for before, after in pairwise(chart.bars):
        assert before.x + before.width == pytest.approx(after.x, abs=NEAR)
    assert sum(bar.width for bar in chart.bars) == pytest.approx(100 - 2 * EDGE, abs=NEAR)


def test_to_scale_a_bar_is_as_wide_as_its_part_of_the_time() -> None:
    wait, attempt = lay_out([at(0, 750), at(750, 1000, handout=True)]).bars
    assert wait.width == pytest.approx(3 * attempt.width, abs=NEAR)


def test_a_short_attempt_beside_a_long_wait_can_be_seen() -> None:
    chosen = [at(0, 7_200_000), at(7_200_000, 7_200_040, handout=True)]
    assert needs_compression(chosen)
    wait, attempt = lay_out(chosen).bars
    assert attempt.width > 3
    assert wait.width > attempt.width
    _, thin = lay_out(chosen, to_scale=True).bars
    assert thin.width < 0.01


def test_without_a_short_attempt_the_axis_is_to_scale() -> None:
    assert not needs_compression([at(0, 1), at(1, 1000)])
    assert not lay_out([at(0, 1), at(1, 500), at(500, 1000, handout=True)]).is_compressed


def test_a_single_moment_is_drawn_at_the_left() -> None:
    chart = lay_out([at(0, 0)])
    assert (chart.bars[0].x, chart.bars[0].width) == (EDGE, 0)
    assert [tick.after_ms for tick in chart.ticks] == [0]


@pytest.mark.parametrize(
    ("length_ms", "step_ms"),
    [(7, 2), (1000, 200), (45_000, 10_000), (3_600_000, 600_000), (40 * 86_400_000, 604_800_000)],
)
def test_ticks_to_scale_stand_at_round_times(length_ms: int, step_ms: int) -> None:
    first, second, *_ = lay_out([at(0, length_ms)]).ticks
    assert second.after_ms - first.after_ms == step_ms


def test_the_text_of_a_bar_stands_where_there_is_room() -> None:
    first, last, whole = lay_out([at(0, 100), at(900, 1000), at(0, 1000)]).bars
    assert (first.side, last.side, whole.side) == ("after", "before", "inside")
