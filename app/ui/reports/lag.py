"""The report of lag over time with states, the current lag, and advice. Pure.

It uses the tables `lag_hours`, `lag_bands` and `lag_now`. An evaluated interval without a band
means that the queue was in time; a time that was not evaluated is empty.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.db.report_evaluated import Intervals, clip_intervals, intervals
from app.services.reports.comparison import Better
from app.ui.framework import charts
from app.ui.framework.charts import Chart, Series, Words, say_count
from app.ui.framework.formats import say_length
from app.ui.framework.language import _
from app.ui.reports.axes import HOUR_MS, HourSpan
from app.ui.reports.cells import ReportCell, ValueKind, count, length, share
from app.ui.reports.charts import DASH, Band, band_chart
from app.ui.reports.parts import Figure, ReportQuery, ReportView
from app.ui.reports.rows import Row, Rows, grouped, hour_ms, total
from app.ui.reports.tables import (
    Column,
    Table,
    compared,
    group_column,
    table,
    text_column,
    time_table,
    topic_column,
)
from app.ui.reports.words import STATES, advice, severity, state, state_look

BAND_ROWS_MAX = 30
OK = "OK"
Place = tuple[str, ...]  # group and topic, optionally with the queue


def lag(query: ReportQuery, rows: Mapping[str, Rows], before: Mapping[str, Rows]) -> ReportView:
    """The report of a group's queues, or of all groups; `lag_now` ignores the range."""
    hours, now = rows["lag_hours"], rows["lag_now"]
    return ReportView(
        figures=_figures(query, hours, before["lag_hours"], now),
        charts=_charts(query, hours, before["lag_hours"], rows["lag_bands"]),
        tables=[
            _now_table(now),
            _hours_table(query, hours, before["lag_hours"]),
            _over_time(query, hours),
        ],
        notes=[_("State changes appear after two consecutive samples; lost and offline at once.")],
    )


def _figures(query: ReportQuery, hours: Rows, before: Rows, now: Rows) -> list[Figure]:
    worst = min((row["state"] for row in now), key=severity, default=None)
    oldest_ms = max((row["time_lag_ms"] or 0 for row in now), default=None)
    never = _("not evaluated yet")
    lost, was_lost = (
        count(total(each, "lost") if each else None, never) for each in (hours, before)
    )
    why = _("not evaluated in this range")
    tone, note = "bad" if total(hours, "lost") else "", _("expired unread")
    return [
        Figure(_("Worst state now"), ReportCell(worst, ValueKind.STATE, why=never)),
        Figure(_("Unread now"), count(total(now, "lag") if now else None, never)),
        Figure(_("Oldest unread"), length(oldest_ms, never)),
        query.figure(
            _("On time"),
            _in_time(hours, why),
            _in_time(before),
            better=Better.HIGHER,
            note=_("of the range"),
        ),
        query.figure(_("Lost"), lost, was_lost, better=query.fewer, note=note, tone=tone),
    ]


def _in_time(hours: Rows, why: str = "") -> ReportCell:
    """The share of the evaluated time that the queues were in time."""
    spent = _state_ms(hours)
    return share(spent.get(OK, 0), sum(spent.values()), why)


def _state_ms(hours: Rows) -> dict[str, int]:
    """The total time of all queues in each state, in ms."""
    durations: dict[str, int] = {}
    for row in hours:
        for code, spent_ms in json.loads(row["state_ms"] or "{}").items():
            durations[code] = durations.get(code, 0) + spent_ms
    return durations


def _charts(query: ReportQuery, hours: Rows, before: Rows, bands: Rows) -> list[Chart]:
    if not hours:
        return []
    says = _("Maximum lag per hour.")
    note = _("Maximum per hour or longer step.")
    words = Words("lag", _("Lag over time"), says, note)
    says = _("Maximum age of the oldest unread message.")
    ages = Words("age", _("Oldest message over time"), says, "", words.table_id, say_length)

    def lines(words: Words, column: str, label: str, axis: str) -> Chart:
        series = [Series(words.id, label, _greatest(query.span, hours, column))]
        if query.before is not None:
            values = _greatest(query.before, before, column)
            series.append(Series(words.id, _("previous range"), values, is_before=True))
        return charts.lines(query.canvas, series, words, axis)

    return [
        _band_chart(query, hours, bands),
        lines(words, "lag_max", _("Unread messages"), charts.COUNTS),
        lines(ages, "time_lag_max_ms", _("Oldest message"), charts.LENGTHS),
    ]


def _greatest(span: HourSpan, hours: Rows, column: str) -> list[float | None]:
    """The greatest value by step; per hour, counts are summed and ages take the maximum."""
    values: list[float | None] = [None] * span.steps
    for (hour,), rows in grouped(hours, ("hour",)).items():
        index = span.index(hour_ms(hour))
        if index is not None:
            each = [row[column] or 0 for row in rows]
            values[index] = max(values[index] or 0, sum(each) if column == "lag_max" else max(each))
    return values


def _band_chart(query: ReportQuery, hours: Rows, bands: Rows) -> Chart:
    names: tuple[str, ...] = ("group", "topic")
    says = _("State of the worst queue of each group and topic over time.")
    if query.group and bands:
        names = ("group", "topic", "queue")
        says = _("State of each queue over time.")
    bands_by_key = grouped(bands, names)
    keys = _worst_first(list(grouped(bands if len(names) > 2 else hours, names)), bands_by_key)
    row_of_key = {key: index for index, key in enumerate(keys[:BAND_ROWS_MAX])}
    evaluations = _measured_times(hours)
    bars = [*_evaluated(evaluations, row_of_key), *_bands(bands, names, row_of_key, evaluations)]
    note = ""
    if len(keys) > len(row_of_key):
        note = _("Showing the worst %(n)s of %(all)s.", n=len(row_of_key), all=len(keys))
    words = Words("bands", _("States over time"), says, note, "by-group")
    labels = [_label(key, query) for key in row_of_key]
    chart = band_chart(query.canvas, labels, bars, words)
    looks = {band.look for band in bars}
    chart.legend.extend(
        (state_look(code), state(code)) for code in STATES if state_look(code) in looks
    )
    return chart


def _worst_first(keys: Sequence[Place], bands: Mapping[Place, Rows]) -> list[Place]:
    """The keys by their worst state, so that the table cuts off the least important."""
    worst = {key: min(severity(row["state"]) for row in rows) for key, rows in bands.items()}
    return sorted(keys, key=lambda key: (worst.get(key, len(STATES)), key))


def _label(key: Place, query: ReportQuery) -> str:
    if len(key) == 3:
        return _("%(topic)s queue %(queue)s", topic=key[1], queue=key[2])
    return key[1] if query.group else f"{key[0]} · {key[1]}"


def _measured_times(hours: Rows) -> dict[Place, Intervals]:
    """The evaluated intervals by group and topic, clipped to the hours of the rows."""
    times: dict[Place, Intervals] = {}
    for row in hours:
        begin_ms = hour_ms(row["hour"])
        end_ms = begin_ms + row.get("hours", 1) * HOUR_MS
        parts = clip_intervals(begin_ms, end_ms, intervals(row))
        times.setdefault((row["group"], row["topic"]), []).extend(parts)
    return times


def _evaluated(
    evaluations: Mapping[Place, Intervals], row_of_key: Mapping[Place, int]
) -> list[Band]:
    """Bands in the state OK for the evaluated intervals; other bands cover them."""
    return [
        Band(index, begin_ms, end_ms, state_look(OK), state(OK))
        for key, index in row_of_key.items()
        for begin_ms, end_ms in evaluations.get(key[:2], [])
    ]


def _bands(
    bands: Rows,
    names: Sequence[str],
    row_of_key: Mapping[Place, int],
    evaluations: Mapping[Place, Intervals],
) -> list[Band]:
    """The bands of other states within evaluated intervals, the worst on top."""
    bars: list[Band] = []
    for row in sorted(bands, key=lambda row: -severity(row["state"])):
        index = row_of_key.get(tuple(row[name] for name in names))
        if index is not None:
            parts = [
                *([_("queue %(queue)s", queue=row["queue"])] if "queue" not in names else []),
                state(row["state"]),
                _("at most %(n)s unread", n=say_count(row["lag_max"] or 0)),
            ]
            if row["time_lag_max_ms"]:
                age = say_length(row["time_lag_max_ms"])
                parts.append(_("oldest %(age)s", age=age))
            look, title = state_look(row["state"]), ", ".join(parts)
            evaluated = evaluations.get((row["group"], row["topic"]), [])
            stretches = clip_intervals(row["begin_ms"], row["end_ms"], evaluated)
            bars.extend(Band(index, *stretch, look, title) for stretch in stretches)
    return bars


def _now_table(now: Rows) -> Table:
    def eta(row: Row) -> ReportCell:
        if row["eta_s"] is None:
            return ReportCell(DASH, why=_("only while catching up"))
        return length(row["eta_s"] * 1000)

    missing = _("no sample")
    columns = [
        group_column(lambda row: row["group"]),
        topic_column(lambda row: row["topic"], is_optional=True),
        Column(_("Queue"), lambda row: ReportCell(str(row["queue"]))),
        _state_column(_("State"), lambda row: row["state"]),
        Column(_("Unread"), lambda row: count(row["lag"], missing)),
        Column(_("Oldest"), lambda row: length(row["time_lag_ms"], missing), is_optional=True),
        Column(_("Catch-up"), eta, is_optional=True),
        _advice_column(lambda row: row),
    ]
    order = sorted(now, key=lambda row: (severity(row["state"]), -(row["lag"] or 0)))
    empty = _("No queue of a group has been evaluated yet.")
    return table("now", _("Status"), columns, order, empty)


def _state_column(label: str, code: Callable[[Any], str]) -> Column:
    return Column(label, lambda row: ReportCell(code(row), ValueKind.STATE), is_number=False)


def _advice_column(row_of: Callable[[Any], Row]) -> Column:
    def sentence(subject: Any) -> str:
        row = row_of(subject)
        return advice(row["advice"], row["advice_params"])

    return text_column(_("Next step"), sentence, is_sentence=True)


def _hours_table(query: ReportQuery, hours: Rows, before: Rows) -> Table:
    groups, groups_before = (grouped(rows, ("group", "topic")) for rows in (hours, before))
    last = {key: max(rows, key=lambda row: row["at_ms"]) for key, rows in groups.items()}
    worst = {
        key: min((row["worst_state"] for row in rows), key=severity) for key, rows in groups.items()
    }

    def hot_queue(key: Place) -> ReportCell:
        queue = last[key]["hot_queue"]
        return ReportCell(DASH if queue is None else str(queue))

    def samples(key: Place) -> ReportCell:
        return share(sum(row["completeness"] or 0 for row in groups[key]), len(groups[key]))

    def greatest(key: Place, name: str) -> int:
        return max(row[name] or 0 for row in groups[key])

    def lag_before(key: Place) -> ReportCell:
        lags = [row["lag_max"] or 0 for row in groups_before.get(key, ())]
        return count(max(lags, default=None), _("not evaluated in this range"))

    lag = Column(_("Maximum lag"), lambda key: count(greatest(key, "lag_max")))

    def optional(label: str, cell: Callable[[Place], ReportCell], help: str = "") -> Column:
        return Column(label, cell, is_optional=True, help=help)

    def idle_members(key: Place) -> ReportCell:
        return count(last[key]["idle_members"], _("members unknown"))

    columns = [
        group_column(lambda key: key[0]),
        topic_column(lambda key: key[1]),
        _state_column(_("Worst state"), lambda key: worst[key]),
        Column(_("On time"), lambda key: _in_time(groups[key])),
        *compared(query.before, lag, lag_before, Better.LOWER),
        optional(_("Oldest"), lambda key: length(greatest(key, "time_lag_max_ms"))),
        optional(_("Hot queue"), hot_queue, _("Much more lag than the other queues")),
        optional(_("Idle members"), idle_members, _("Members in excess of the number of queues")),
        optional(_("Samples"), samples, _("Recorded of expected")),
        _advice_column(lambda key: last[key]),
    ]
    order = sorted(groups, key=lambda key: (severity(worst[key]), key))
    empty = _("No groups evaluated in this range.")
    return table("by-group", _("Whole range"), columns, order, empty)


def _over_time(query: ReportQuery, hours: Rows) -> Table:
    lags = _greatest(query.span, hours, "lag_max")
    ages = _greatest(query.span, hours, "time_lag_max_ms")
    why = _("not evaluated")
    columns = [
        Column(_("Maximum lag"), lambda step: count(lags[step], why)),
        Column(_("Oldest"), lambda step: length(ages[step], why)),
    ]
    return time_table("lag-over-time", query.span, columns)
