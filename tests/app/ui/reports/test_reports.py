"""The reports' figures, charts and sentences, made of plain rows."""

import csv
import io
import json
import re
from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest

from app.services.reports.cells import gather
from app.services.reports.comparison import Better
from app.ui.framework.chart_axes import time_ticks
from app.ui.framework.charts import Chart
from app.ui.framework.language import Language, speak
from app.ui.framework.zones import UTC_ZONE, Zone
from app.ui.reports import failures as report_failures
from app.ui.reports import flow as report_flow
from app.ui.reports import lag as report_lag
from app.ui.reports import latency as report_latency
from app.ui.reports import ranges as report_range
from app.ui.reports import table_files
from app.ui.reports.axes import HOUR_MS, HourSpan, span_of
from app.ui.reports.bins import EDGES, bins_of
from app.ui.reports.cells import ReportCell, change_of
from app.ui.reports.kinds import REPORTS
from app.ui.reports.parts import ReportQuery, ReportView
from app.ui.reports.rows import hour_ms, hour_name
from app.ui.reports.tables import Table
from app.ui.reports.words import ADVICE, STATES, advice
from app.ui.reports.words import change as change_words
from engine.histogram import ERROR_MAX, bucket_of, histogram, pack, unpack
from kitemq.model.reports import Coarse
from tests.app.ui.reports import report_scene

DAY_HOURS = 24
NOW_MS = hour_ms("2026-11-21T06")
SPAN = HourSpan(NOW_MS - (DAY_HOURS - 1) * HOUR_MS, NOW_MS + HOUR_MS, 1)
ASKED = ReportQuery(SPAN)


def rows_of(table: str, hours: int = DAY_HOURS) -> list[dict[str, Any]]:
    rows = []
    for ago in range(hours):
        at_ms = NOW_MS - ago * HOUR_MS
        tables = {**report_scene.hour_rows(at_ms, ago), **report_scene.lag_hour(at_ms, ago)}
        rows += tables[table]
    return rows


def table_of(view: ReportView, id: str) -> Table:
    return next(table for table in view.tables if table.id == id)


def chart_of(view: ReportView, id: str) -> Chart:
    return next(chart for chart in view.charts if chart.words.id == id)


def test_percentiles_of_many_hours_come_from_their_histograms_put_together() -> None:
    rows = [row for row in rows_of("latency") if row["metric"] == "end_to_end"]
    cell = gather(rows)
    assert cell is not None
    values = sorted(
        bucket
        for row in rows
        for bucket, count in unpack(row["buckets"]).items()
        for __ in range(count)
    )
    assert cell.n == len(values) == sum(row["n"] for row in rows)
    view = report_latency.latency(ReportQuery(SPAN, choice="end_to_end"), rows, [])
    figures = {figure.label: figure.cell.value for figure in view.figures}
    buckets = sorted(int(bucket) for bucket in values)
    exact = buckets[round(0.95 * len(buckets)) - 1]
    assert abs(bucket_of(figures["p95"]) - exact) <= 1
    assert figures["Messages"] == sum(row["messages"] for row in rows)


def test_a_percentile_is_never_outside_of_what_was_measured() -> None:
    row = {"n": 1, "messages": 1, "total": 7, "least": 7, "most": 7, "skewed": 0}
    cell = gather([{**row, "buckets": pack(histogram([7]))}])
    assert cell is not None
    assert cell.percentile(0.5) == cell.percentile(0.99) == pytest.approx(7, rel=ERROR_MAX)
    assert gather([]) is None


def test_a_heat_map_counts_every_value_and_tells_a_gap_from_a_zero() -> None:
    rows = [row for row in rows_of("latency") if row["metric"] == "end_to_end"]
    missing = hour_name(NOW_MS - 3 * HOUR_MS)
    known = [row for row in rows if row["hour"] != missing]
    view = report_latency.latency(ReportQuery(SPAN, choice="end_to_end"), known, [])
    heat = chart_of(view, "heat")
    gaps = [box for box in heat.boxes if box.look == "heat-gap"]
    assert len(gaps) == 1
    assert gaps[0].x == pytest.approx(SPAN.place(NOW_MS - 3 * HOUR_MS), abs=0.01)
    counted = sum(
        int(box.title.rpartition(": ")[2].replace(",", "")) for box in heat.boxes if box.title
    )
    assert counted == sum(row["n"] for row in known)
    twin = table_of(view, "over-time")
    unknown = [line for line in twin.rows if line[1].value is None]
    assert len(twin.rows) == DAY_HOURS
    assert len(unknown) == 1
    assert unknown[0][1].why


def test_every_value_falls_into_the_row_of_its_size() -> None:
    for value in (1, 3, 49, 51, 999, 1001, 90_000, 10**10):
        bins = bins_of([histogram([value])])
        assert bins.counts(histogram([value])) == [1]
        assert 0 <= bins.place(value) <= 1.05  # the middle of its bucket may lie in the row before
    wide = bins_of([histogram([1, 10**9])])
    assert len(wide.names) == len(wide.edges) == wide.last - wide.first + 1
    assert sum(wide.counts(histogram([1, 30, 10**9]))) == 3
    assert list(EDGES) == sorted(EDGES)


def test_lines_have_gaps_where_nothing_is_known() -> None:
    rows = [row for row in rows_of("throughput") if row["hour"] != hour_name(NOW_MS - 5 * HOUR_MS)]
    view = report_flow.throughput(ASKED, rows, [])
    line = chart_of(view, "flow").lines[0]
    assert len(line.runs) == 2
    assert len(line.runs[0].split()) + len(line.runs[1].split()) == DAY_HOURS - 1
    stored = sum(row["messages"] for row in rows if row["kind"] == "message")
    assert view.figures[0].cell.value == stored


def test_two_ranges_are_compared_figure_by_figure() -> None:
    before = HourSpan(SPAN.from_ms - DAY_HOURS * HOUR_MS, SPAN.from_ms, 1)
    rows = rows_of("hot_keys")
    half = [{**row, "messages": row["messages"] // 2} for row in rows]
    view = report_flow.hot_keys(ReportQuery(SPAN, before, choice="tag"), rows, half)
    first = table_of(view, "values").rows[0]
    assert [cell.value for cell in first[:4]] == ["created", "orders", 400 * 24, 200 * 24]
    assert first[4].value == pytest.approx(1.0)
    new = report_flow.hot_keys(ReportQuery(SPAN, before, choice="tag"), rows, [])
    assert table_of(new, "values").rows[0][4].value is None  # of nothing there is no change


@pytest.mark.parametrize(
    ("now", "before", "better", "tone", "text"),
    [
        (120, 100, Better.LOWER, "worse", "+20.0 %"),
        (80, 100, Better.LOWER, "better", "-20.0 %"),
        (0.8, 0.9, Better.HIGHER, "worse", "-11.1 %"),
        (109, 100, Better.LOWER, "", "+9.0 %"),
        (120, 100, Better.NEITHER, "", "+20.0 %"),
        (2_700, 100, Better.LOWER, "worse", "27 times"),
        (3, 0, Better.LOWER, "worse", "from 0"),
        (0, 0, Better.LOWER, "", "from 0"),
    ],
)
def test_a_change_says_whether_it_is_for_the_worse(
    now: float, before: float, better: Better, tone: str, text: str
) -> None:
    change = change_of(ReportCell(now), ReportCell(before), better)
    assert (change.tone, change_words(change.value)) == (tone, text)
    unknown = change_of(ReportCell(None), ReportCell(before), better)
    assert (unknown.value, unknown.tone) == (None, "")


def test_counts_of_ranges_with_other_hours_are_not_called_worse() -> None:
    before = HourSpan(SPAN.from_ms - DAY_HOURS * HOUR_MS, SPAN.from_ms, 1)
    tables = {"failures": rows_of("failures"), "outcomes": rows_of("outcomes")}
    few = {name: rows[:3] for name, rows in tables.items()}
    query = ReportQuery(SPAN, before, choice="dead")
    changes, tones = [], []
    for given in (query, replace(query, is_comparable=False)):
        view = report_failures.failures(given, tables, few)
        dead = next(figure for figure in view.figures if figure.label == "Dead")
        changes.append(dead.change and dead.change.tone)
        tones.append(table_of(view, "reasons").rows[0][3].tone)
    assert changes == ["worse", None]
    assert tones == ["worse", ""]


def test_a_table_as_csv_has_units_in_its_headings_and_every_row() -> None:
    before = HourSpan(SPAN.from_ms - DAY_HOURS * HOUR_MS, SPAN.from_ms, 1)
    rows = rows_of("latency")
    view = report_latency.latency(ReportQuery(SPAN, before, choice="wait"), rows, rows)
    lines = list(csv.reader(io.StringIO(table_files.csv(table_of(view, "by-name")).decode())))
    assert lines[0][:6] == [
        "Topic", "Group", "Messages", "p50 (ms)", "p95 (ms)", "p95, previous range (ms)",
    ]  # fmt: skip
    assert lines[0][6] == "p95, change (%)"
    assert len(lines) == 1 + len(report_scene.READERS)
    assert lines[1][6] == "0.0"
    over_time = table_files.csv(table_of(view, "over-time")).decode().splitlines()
    assert over_time[0].startswith("From (UTC),Messages,p50 (ms)")
    assert re.match(r"2026-11-\d\dT\d\d:00:00(\.000)?Z,", over_time[1])
    keys = [{**row, "value": f"=k{n}"} for n, row in enumerate(rows_of("hot_keys", 60))]
    view = report_flow.hot_keys(ReportQuery(SPAN, choice="tag"), keys, [])
    table = table_of(view, "values")
    assert (len(table.rows), table.total) == (200, len(keys))
    lines = list(csv.reader(io.StringIO(table_files.csv(table).decode())))
    assert len(lines) == 1 + len(keys)
    assert lines[0] == ["Value", "Topic", "Messages", "Share (%)"]
    assert lines[1][0].startswith("'=k"), "no formula"


def test_messages_by_tag_are_exact_unless_an_hour_left_some_out() -> None:
    rows = rows_of("hot_keys", 3)
    view = report_flow.hot_keys(ReportQuery(SPAN, choice="tag"), rows, [])
    counts = {line[0].value: line[2].value for line in table_of(view, "values").rows}
    assert counts == {tag: 3 * number for tag, number in report_scene.TAGS.items()}
    assert view.notes == ["Exact: all stored messages are counted."]
    rest = {**rows[0], "rank": 0, "value": "", "values": 9, "messages": 50}
    view = report_flow.hot_keys(ReportQuery(SPAN, choice="tag"), [*rows, rest], [])
    assert "50 messages had others" in view.notes[0]
    assert view.figures[0].cell.value == 3 * sum(report_scene.TAGS.values()) + 50


def test_dead_letters_are_shown_by_reason_and_week() -> None:
    weeks = span_of(NOW_MS - 4 * 168 * HOUR_MS, NOW_MS, 168)
    rows = [
        {"hour": hour_name(NOW_MS - (ago * 168 + 5) * HOUR_MS), "kind": "dead", "topic": "t",
         "group": "g", "rank": 1, "reason": "rejected", "reasons": 1, "messages": 10 + ago,
         "counted": 10 + ago}
        for ago in range(3)
    ]  # fmt: skip
    tables = {"failures": rows, "outcomes": rows_of("outcomes")}
    none = {"failures": [], "outcomes": []}
    view = report_failures.failures(ReportQuery(weeks, choice="dead"), tables, none)
    twin = table_of(view, "reasons-over-time")
    assert [line[1].value for line in twin.rows] == [10, 11, 12, None]
    assert table_of(view, "reasons").rows[0][1].value == 33
    rates = {figure.label: figure.cell.value for figure in view.figures}
    assert rates["Dead-letter rate"] == pytest.approx(6 / 956)


def test_a_slow_client_stands_out_of_its_group() -> None:
    view = report_latency.slow_consumers(ASKED, rows_of("latency"), [])
    first = table_of(view, "clients").rows[0]
    assert [first[0].value, first[1].value] == ["billing", "billing-2"]
    assert first[3].value > 1.5


def test_uneven_queues_come_first() -> None:
    rows = table_of(report_flow.queue_skew(ASKED, rows_of("queue_skew"), []), "queues").rows
    assert (rows[0][1].value, rows[0][5].value, rows[0][5].tone) == ("3", 2.4, "warn")
    assert sum(line[4].value for line in rows) == pytest.approx(1)


def test_queues_that_got_nothing_count_in_the_skew() -> None:
    one = [
        row | {"queue": 2, "messages": 1000} for row in rows_of("queue_skew") if not row["queue"]
    ]
    view = report_flow.queue_skew(ReportQuery(SPAN, queues={"orders": 4}), one, [])
    lines = [[cell.value for cell in line] for line in table_of(view, "queues").rows]
    assert [line[1] for line in lines] == ["2", "0", "1", "3"]
    assert [line[5] for line in lines] == [4.0, 0.0, 0.0, 0.0]
    assert [figure.cell.value for figure in view.figures] == [4, 3, 4.0]


def test_bands_show_the_worst_state_on_top_and_in_time_where_no_band_lies() -> None:
    rows = {name: rows_of(name) for name in ("lag_hours", "lag_bands")}
    rows["lag_now"] = report_scene.lag_now(NOW_MS)
    none: dict[str, Any] = {name: [] for name in rows}
    view = report_lag.lag(ASKED, rows, none)
    bands = chart_of(view, "bands")
    assert bands.values[0].text == "billing · orders"  # who is worst stands first
    looks = [box.look for box in bands.boxes if box.y < 24]
    assert looks.count("state-ok") == DAY_HOURS
    assert looks.index("state-falling-behind") < looks.index("state-stalled")
    now = table_of(view, "now").rows[0]
    assert now[3].value == "STALLED"
    assert now[7].value == "Queue 2 is stuck at offset 41: check that message."
    assert view.figures[0].cell.value == "STALLED"


def test_each_advice_is_a_sentence_in_both_languages() -> None:
    params = {"queue": 3, "lag": 1200, "members": 2, "queues": 4, "consume_per_s": 7.5}
    params |= {"produce_per_s": 12.0, "risk_s": 600, "eta_s": 200_000, "lost": 7, "committed": 41}
    params |= {"completeness": 0.4, "time_lag_ms": 90_000, "slo_ms": 1000, "hot_queue": 3}
    stored = json.dumps(params)
    for code in ADVICE:
        assert "%" not in advice(code, stored).replace("40 %", "")
    assert advice("wait_for_end", stored) == "Caught up in about more than a day at this rate."
    speak(Language.CHINESE)
    try:
        assert "追上" in advice("wait_for_end", stored)
    finally:
        speak(Language.ENGLISH)
    assert advice("", "{}") == ""
    assert advice("from_a_newer_version", "{}") == "from_a_newer_version"
    assert "unknown" in advice("look_at_message", "not JSON")


def test_the_words_cover_every_state_and_advice_of_the_lag_report() -> None:
    rules = pytest.importorskip("analytics.jobs.lag_rules")
    assert tuple(STATES) == rules.WORST_FIRST
    codes = {name for name, __ in rules.ADVICE.values() if name}
    assert codes | {rules.HOT_QUEUE[0], rules.NO_ROOM[0]} == set(ADVICE)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_a_report_without_rows_says_so_and_shows_no_zero_as_a_figure(report: Any) -> None:
    none: dict[str, Any] = {table: [] for table in report.tables}
    choice = report.choices[0][0] if report.choices else ""
    view = report.build(ReportQuery(SPAN, choice=choice), none, none)
    assert not view.charts
    assert all(table.empty or table.is_twin for table in view.tables)


def test_a_range_ends_with_the_hour_that_goes_on() -> None:
    choice = report_range.read({"range": "week"}, NOW_MS + 5, UTC_ZONE)
    assert (choice.span.hours, choice.span.to_ms) == (168, NOW_MS + HOUR_MS)
    assert choice.span.steps <= 120
    assert choice.before is None
    earlier = report_range.read({"range": "day", "against": "week"}, NOW_MS, UTC_ZONE)
    assert earlier.before is not None
    assert earlier.span.from_ms - earlier.before.from_ms == 168 * HOUR_MS


def test_the_last_hour_is_a_whole_one_and_typed_times_stand_above_a_name() -> None:
    hour = report_range.read({"range": "hour", "against": "before"}, NOW_MS + 5, UTC_ZONE)
    assert (hour.span.from_ms, hour.span.to_ms) == (NOW_MS - HOUR_MS, NOW_MS)
    assert hour.before is not None
    assert hour.before.to_ms == hour.span.from_ms
    typed = {"range": "week", "from": "2026-11-20T03:30", "to": "2026-11-20T05:10"}
    choice = report_range.read(typed, NOW_MS, UTC_ZONE)
    assert (choice.name, choice.span.hours) == ("own", 3)


def test_a_range_that_is_typed_is_taken_by_whole_hours_or_refused_at_its_field() -> None:
    typed = {"range": "own", "from": "2026-11-20T03:30", "to": "2026-11-20T05:10"}
    choice = report_range.read(typed, NOW_MS, UTC_ZONE)
    assert hour_name(choice.span.from_ms) == "2026-11-20T03"
    assert choice.span.hours == 3
    wrong = report_range.read({**typed, "to": "2026-11-19T00:00"}, NOW_MS, UTC_ZONE)
    assert set(wrong.form.errors) == {"to"}
    assert wrong.span.hours == DAY_HOURS
    nonsense = report_range.read({**typed, "from": "soon"}, NOW_MS, UTC_ZONE)
    assert set(nonsense.form.errors) == {"from"}


@pytest.mark.parametrize("zone", [UTC_ZONE, Zone("Pacific/Kiritimati"), Zone("Etc/GMT+12")])
def test_a_range_at_the_end_of_the_calendar_is_refused_at_its_field(zone: Zone) -> None:
    late = "9999-12-31T23:59"
    typed = {"range": "own", "from": late, "to": late, "against": "own", "other": late}
    choice = report_range.read(typed, NOW_MS, zone)
    assert set(choice.form.errors) == {"from", "other"}
    assert report_range.texts(choice.span, zone)


@pytest.mark.parametrize("hours", [1, 24, 168, 28 * 24, 13 * 168, 52 * 168])
def test_the_axis_of_time_has_few_words_in_order_within_the_picture(hours: int) -> None:
    span = span_of(NOW_MS - hours * HOUR_MS, NOW_MS)
    assert 1 <= span.steps <= 120
    places = [tick.place for tick in time_ticks(span, UTC)]
    assert places == sorted(places)
    assert len(places) <= 9
    assert all(0 <= place <= 100 for place in places)


def test_where_figures_are_by_days_a_range_is_of_whole_days_and_so_is_its_comparison() -> None:
    coarse = [Coarse(672, "2026-08-17T00"), Coarse(24, "2026-11-14T00")]
    hourly = report_range.read({"range": "week", "against": "before"}, NOW_MS, UTC_ZONE)
    week = report_range.coarsened(hourly, coarse)
    assert week.span.from_ms == hourly.span.from_ms  # has hours, its comparison has days
    assert week.before is not None
    assert (hour_name(week.before.from_ms), week.before.step_hours) == ("2026-11-07T00", 24)
    month = report_range.read({"range": "month", "against": "before"}, NOW_MS, UTC_ZONE)
    coarse_month = report_range.coarsened(month, coarse)
    assert (hour_name(coarse_month.span.from_ms), coarse_month.span.step_hours) == (
        "2026-10-24T00",
        24,
    )
    assert coarse_month.before is not None
    assert coarse_month.before.from_ms % (DAY_HOURS * HOUR_MS) == 0
    length = coarse_month.span.to_ms - coarse_month.span.from_ms
    assert coarse_month.before.to_ms - coarse_month.before.from_ms == length
    assert coarse_month.before.to_ms <= month.span.from_ms
    year = report_range.read({"range": "year"}, NOW_MS, UTC_ZONE)
    whole = report_range.coarsened(year, coarse).span
    assert whole.step_hours == 672
    assert whole.index(hour_ms("2026-07-20T00")) is not None
    assert report_range.coarsened(year, []) == year


def test_a_day_of_lag_without_a_band_was_in_time_for_the_whole_day() -> None:
    span = HourSpan(hour_ms("2026-11-20T00"), hour_ms("2026-11-22T00"), DAY_HOURS)
    row = report_scene.lag_hour(hour_ms("2026-11-20T00"), 9)["lag_hours"][1] | {"hours": 24}
    whole_day = [hour_ms("2026-11-20T00"), hour_ms("2026-11-21T00")]
    row["evaluated"] = json.dumps([whole_day])
    tables: dict[str, Any] = {"lag_hours": [row], "lag_bands": [], "lag_now": []}
    bands = chart_of(report_lag.lag(ReportQuery(span), tables, tables), "bands")
    assert [(box.x, box.width) for box in bands.boxes if box.look == "state-ok"] == [(0, 50)]


def test_nothing_is_painted_for_a_time_that_was_not_evaluated() -> None:
    # Four hours: the server began at 00:30, stood still from 01:15 to 02:45, and it is 03:20 now.
    begin = hour_ms("2026-11-20T00")
    minute = HOUR_MS // 60
    span = HourSpan(begin, begin + 4 * HOUR_MS, 1)
    stretches_by_hour = ([(30, 60)], [(60, 75)], [(165, 180)], [(180, 200)])
    hours = []
    for hour, stretches in enumerate(stretches_by_hour):
        row = report_scene.lag_hour(begin + hour * HOUR_MS, 9)["lag_hours"][0]
        pairs = [[begin + first * minute, begin + last * minute] for first, last in stretches]
        hours.append(row | {"evaluated": json.dumps(pairs)})
    # The group is offline since 03:10; as the job tells it, for a step beyond now.
    band = {
        "hour": hours[3]["hour"], "group": "billing", "topic": "orders", "queue": 0,
        "begin_ms": begin + 190 * minute, "end_ms": begin + 205 * minute, "state": "OFFLINE",
        "lag_max": 5, "time_lag_max_ms": 1000,
    }  # fmt: skip
    tables: dict[str, Any] = {"lag_hours": hours, "lag_bands": [band], "lag_now": []}
    boxes = chart_of(report_lag.lag(ReportQuery(span), tables, tables), "bands").boxes

    def painted(look: str) -> list[tuple[int, int]]:
        spans = [(box.x, box.x + box.width) for box in boxes if box.look == look]
        return [(round(first * 2.4), round(last * 2.4)) for first, last in spans]

    assert painted("state-ok") == [(30, 60), (60, 75), (165, 180), (180, 200)]
    assert painted("state-offline") == [(190, 200)]


def test_figures_of_before_paint_no_more_than_was_evaluated_up_to_the_last_time() -> None:
    # No `evaluated`: of the hour 3 evaluations, every 5 minutes, the last at 00:50.
    begin = hour_ms("2026-11-20T00")
    row = report_scene.lag_hour(begin, 9)["lag_hours"][0] | {
        "at_ms": begin + 3_000_000, "evaluations": 3, "queues": 4, "evaluated": "",
        "state_ms": json.dumps({"OK": 4 * 900_000}),
    }  # fmt: skip
    tables: dict[str, Any] = {"lag_hours": [row], "lag_bands": [], "lag_now": []}
    span = HourSpan(begin, begin + HOUR_MS, 1)
    boxes = chart_of(report_lag.lag(ReportQuery(span), tables, tables), "bands").boxes
    assert [(round(box.x * 0.6), round(box.width * 0.6)) for box in boxes] == [(40, 15)]
