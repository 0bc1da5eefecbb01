"""The charts of all pages: gaps, single points, hidden series, ticks, links to a moment."""

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest

from app.ui.framework import charts
from app.ui.framework.chart_axes import EvenSteps, time_ticks
from app.ui.framework.charts import TIME, Canvas, Chart, Lead, Series, Words
from app.ui.framework.zones import Zone

MINUTE_MS = 60_000
BEGIN_MS = 1_795_737_600_000  # 2026-11-27 00:00 UTC
SPAN = EvenSteps(BEGIN_MS, BEGIN_MS + 6 * MINUTE_MS, MINUTE_MS)
WORDS = Words("flow", "Flow", "")
STORED = Series("in", "stored", [1, 2, None, 4, None, None])
ACKED = Series("out", "acked", [1000, None, None, None, None, None])


def test_a_single_value_is_a_dot_and_an_unknown_one_a_gap() -> None:
    stored, acked = charts.lines(Canvas(SPAN), [STORED, ACKED], WORDS).lines
    assert [len(run.split()) for run in stored.runs] == [2]
    assert len(stored.dots) == 1
    assert not acked.runs
    assert len(acked.dots) == 1


def test_a_series_without_any_value_is_not_in_the_legend() -> None:
    nothing = Series("none", "none", [None] * 6)
    assert [key.label for key in charts.lines(Canvas(SPAN), [nothing, ACKED], WORDS).keys] == [
        "acked"
    ]


@pytest.mark.parametrize("draw", [charts.lines, charts.bars])
def test_the_axis_fits_the_series_that_are_not_hidden(draw: Callable[..., Chart]) -> None:
    canvas = Canvas(SPAN)
    whole = draw(canvas, [STORED, ACKED], WORDS)
    hide = next(key.hide for key in whole.keys if key.label == "acked")
    hidden = charts.hidden_of({"hide": hide})
    part = draw(Canvas(SPAN, hidden=hidden), [STORED, ACKED], WORDS)
    assert [key.is_hidden for key in part.keys] == [False, True]
    assert [key.look for key in part.keys] == [key.look for key in whole.keys]
    assert part.cursor is not None
    assert part.cursor.labels == ["stored"]
    assert whole.values[-1].text in ("1,000", "2,000")
    assert part.values[-1].text == "4"
    assert part.keys[1].hide == ""  # its link shows it again


def test_a_query_hides_no_more_than_it_may() -> None:
    query = charts.SEPARATOR.join(str(number) for number in range(1000))
    assert len(charts.hidden_of({"hide": query})) == charts.HIDDEN_MAX
    assert charts.hidden_of({}) == frozenset()


def test_the_cursor_has_exact_figures_where_the_axis_rounds() -> None:
    chart = charts.lines(Canvas(SPAN), [Series("in", "stored", [12_345] * 6)], WORDS)
    assert chart.cursor is not None
    assert chart.cursor.texts == [["12,345"] * 6]
    assert "20k" in [tick.text for tick in chart.values]
    assert len(chart.cursor.places[0]) == SPAN.steps


@pytest.mark.parametrize("minutes", [1, 7, 60, 24 * 60, 30 * 24 * 60, 3 * 365 * 24 * 60])
@pytest.mark.parametrize("zone", [UTC, ZoneInfo("Asia/Kathmandu")])
def test_ticks_stand_at_round_times_of_the_zone(minutes: int, zone: tzinfo) -> None:
    begin_ms = BEGIN_MS + 12_345
    ticks = time_ticks(EvenSteps(begin_ms, begin_ms + minutes * MINUTE_MS, 10_000), zone)
    assert 1 <= len(ticks) <= 9
    places = [tick.place for tick in ticks]
    assert places == sorted(places)
    times_s = [round(begin_ms / 1000 + place * minutes * 0.6) for place in places]
    local = [datetime.fromtimestamp(at_s, zone) for at_s in times_s]
    assert all(at.second % 10 == 0 for at in local)
    assert all(at.minute % 10 == 0 for at in local if minutes >= 60)
    assert all(at.hour == 0 for at in local if minutes > 24 * 60)


def test_a_moment_is_written_by_the_clocks_of_the_zone() -> None:
    lead = Lead("Messages", f"/messages?topic=orders&{TIME}")
    address = lead.at(BEGIN_MS, BEGIN_MS + 10_000, Zone("Asia/Kathmandu"))
    assert address == (
        "/messages?topic=orders&from=2026-11-27T05%3A45%3A00&to=2026-11-27T05%3A45%3A10"
        "&zone=Asia/Kathmandu"
    )
