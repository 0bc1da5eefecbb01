"""The report of lag over time with states, the current lag, and advice. Pure.

It uses the tables `lag_hours`, `lag_bands` and `lag_now`. An evaluated interval without a band
means that the queue was in time; a time that was not evaluated is empty.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.db.report_evaluated import Intervals, clip_intervals, intervals
from app.ui.framework.formats import say_length
from app.ui.framework.language import _
from app.ui.reports import charts as report_charts
from app.ui.reports.axes import HOUR_MS
from app.ui.reports.charts import DASH, Band, Chart, Series, Words
from app.ui.reports.parts import (
    Column,
    Figure,
    ReportCell,
    ReportQuery,
    ReportView,
    Rows,
    Table,
    ValueKind,
    count,
    group_column,
    grouped,
    hour_ms,
    length,
    say_count,
    share,
    table,
    time_table,
    topic_column,
    total,
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
        tables=[_now_table(now), _hours_table(hours), _over_time(query, hours)],
        notes=[
            _("A change of state shows once it was found twice running; lost and offline at once.")
        ],
    )


def _figures(query: ReportQuery, hours: Rows, before: Rows, now: Rows) -> list[Figure]:
    worst = min((row["state"] for row in now), key=severity, default=None)
    never = _("never evaluated yet")
    state_ms = _state_ms(hours)
    whole, then = sum(state_ms.values()), _state_ms(before)
    in_time, was = state_ms.get(OK, 0), then.get(OK, 0)
    return [
        Figure(_("Worst state now"), ReportCell(worst, ValueKind.STATE, why=never)),
        Figure(_("Waiting now"), count(total(now, "lag") if now else None, never)),
        Figure(
            _("Oldest waiting"),
            length(max((row["time_lag_ms"] or 0 for row in now), default=None), never),
        ),
        Figure(
            _("Time in time"),
            share(in_time, whole, _("never evaluated in this range")),
            query.earlier(share(was, sum(then.values()))),
        ),
        Figure(
            _("Lost"),
            count(total(hours, "lost") if hours else None, never),
            query.earlier(count(total(before, "lost") if before else None, never)),
            note=_("deleted unread"),
            tone="bad" if total(hours, "lost") else "",
        ),
    ]


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
    words = Words(
        "lag", _("Lag over time"), _("The most messages that waited in each hour."),
        "lag-over-time", say_count, _("The greatest of each hour, or of each longer step."),
    )  # fmt: skip
    ages = Words(
        "age", _("Oldest message over time"), _("How old the oldest waiting message was at most."),
        "lag-over-time", say_length,
    )  # fmt: skip
    lags = [_greatest(query, hours, "lag_max", "lag", _("Messages that wait"))]
    old = [_greatest(query, hours, "time_lag_max_ms", "age", _("Oldest message"))]
    if query.before is not None:
        other = ReportQuery(span=query.before)
        lags.append(_greatest(other, before, "lag_max", "lag", _("before"), is_before=True))
        old.append(_greatest(other, before, "time_lag_max_ms", "age", _("before"), is_before=True))
    return [
        _band_chart(query, hours, bands),
        report_charts.lines(query.span, lags, words, query.zone),
        report_charts.lines(query.span, old, ages, query.zone, report_charts.LENGTHS),
    ]


def _greatest(
    query: ReportQuery, hours: Rows, name: str, id: str, label: str, *, is_before: bool = False
) -> Series:
    """The greatest value by step; per hour, counts are summed and ages take the maximum."""
    by_hour: dict[int, int] = {}
    for row in hours:
        at_ms, value = hour_ms(row["hour"]), row[name] or 0
        previous = by_hour.get(at_ms, 0)
        by_hour[at_ms] = previous + value if name == "lag_max" else max(previous, value)
    values: list[float | None] = [None] * query.span.steps
    for at_ms, value in by_hour.items():
        index = query.span.index(at_ms)
        if index is not None:
            values[index] = max(values[index] or 0, value)
    return Series(id, label, values, is_before)


def _band_chart(query: ReportQuery, hours: Rows, bands: Rows) -> Chart:
    by_queue = bool(query.group) and bool(bands)
    keys = list(grouped(hours, ("group", "topic")))
    if by_queue:
        keys = list(grouped(bands, ("group", "topic", "queue")))
    order = {key: index for index, key in enumerate(_worst_first(keys, bands, by_queue))}
    row_of_key = {key: index for key, index in order.items() if index < BAND_ROWS_MAX}
    evaluations = _measured_times(hours)
    bars = [*_evaluated(evaluations, row_of_key), *_bands(bands, row_of_key, by_queue, evaluations)]
    note = ""
    if len(order) > len(row_of_key):
        note = _("The worst %(n)s of %(all)s.", n=len(row_of_key), all=len(order))
    words = Words(
        "bands", _("States over time"),
        _("In which state each queue was, and when.") if by_queue
        else _("In which state the worst queue of each group and topic was, and when."),
        "by-group", say_count, note,
    )  # fmt: skip
    labels = [_label(key, query) for key in row_of_key]
    chart = report_charts.bands(query.span, labels, bars, words, query.zone)
    looks = {band.look for band in bars}
    chart.legend.extend(
        (state_look(code), state(code)) for code in STATES if state_look(code) in looks
    )
    return chart


def _worst_first(keys: Sequence[Place], bands: Rows, by_queue: bool) -> list[Place]:
    """The keys by their worst state, so that the table cuts off the least important."""
    names = ("group", "topic", "queue") if by_queue else ("group", "topic")
    worst = {
        key: min(severity(row["state"]) for row in each)
        for key, each in grouped(bands, names).items()
    }
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
    row_of_key: Mapping[Place, int],
    by_queue: bool,
    evaluations: Mapping[Place, Intervals],
) -> list[Band]:
    """The bands of other states within evaluated intervals, the worst on top."""
    bars: list[Band] = []
    for row in sorted(bands, key=lambda row: -severity(row["state"])):
        key: Place = (row["group"], row["topic"])
        index = row_of_key.get((*key, row["queue"]) if by_queue else key)
        if index is not None:
            parts = [
                _("queue %(queue)s", queue=row["queue"]),
                state(row["state"]),
                _("%(n)s waited at most", n=say_count(row["lag_max"] or 0)),
            ]
            if row["time_lag_max_ms"]:
                age = say_length(row["time_lag_max_ms"])
                parts.append(_("the oldest for %(age)s", age=age))
            look, title = state_look(row["state"]), ", ".join(parts)
            stretches = clip_intervals(row["begin_ms"], row["end_ms"], evaluations.get(key, []))
            bars.extend(
                Band(index, begin_ms, end_ms, look, title) for begin_ms, end_ms in stretches
            )
    return bars


def _now_table(now: Rows) -> Table:
    def eta(row: Mapping[str, Any]) -> ReportCell:
        if row["eta_s"] is None:
            return ReportCell(DASH, why=_("only told while it is catching up"))
        return length(row["eta_s"] * 1000)

    missing = _("no sample")
    columns = [
        group_column(lambda row: row["group"]),
        topic_column(lambda row: row["topic"], is_optional=True),
        Column(_("Queue"), lambda row: ReportCell(str(row["queue"]))),
        _state_column(_("State"), lambda row: row["state"]),
        Column(_("Waiting"), lambda row: count(row["lag"], missing)),
        Column(_("Oldest"), lambda row: length(row["time_lag_ms"], missing), is_optional=True),
        Column(_("Caught up in"), eta, is_optional=True),
        _advice_column(lambda row: row),
    ]
    order = sorted(now, key=lambda row: (severity(row["state"]), -(row["lag"] or 0)))
    empty = _("No queue of a group was evaluated yet.")
    return table("now", _("How it stands"), columns, order, empty)


def _state_column(label: str, code: Callable[[Any], str]) -> Column:
    return Column(label, lambda row: ReportCell(code(row), ValueKind.STATE), is_number=False)


def _advice_column(row_of: Callable[[Any], Mapping[str, Any]]) -> Column:
    def sentence(subject: Any) -> ReportCell:
        row = row_of(subject)
        return ReportCell(advice(row["advice"], row["advice_params"]) or DASH)

    return Column(_("What to do"), sentence, is_number=False, is_sentence=True)


def _hours_table(hours: Rows) -> Table:
    last = {}
    worst = {}
    groups = grouped(hours, ("group", "topic"))
    for key, rows in groups.items():
        last[key] = max(rows, key=lambda row: row["at_ms"])
        worst[key] = min((row["worst_state"] for row in rows), key=severity)

    def in_time(key: Place) -> ReportCell:
        spent = _state_ms(groups[key])
        return share(spent.get(OK, 0), sum(spent.values()))

    def hot_queue(key: Place) -> ReportCell:
        queue = last[key]["hot_queue"]
        return ReportCell(DASH if queue is None else str(queue))

    def samples(key: Place) -> ReportCell:
        return share(sum(row["completeness"] or 0 for row in groups[key]), len(groups[key]))

    def greatest(key: Place, name: str) -> int:
        return max(row[name] or 0 for row in groups[key])

    def optional(label: str, cell: Callable[[Place], ReportCell], help: str = "") -> Column:
        return Column(label, cell, is_optional=True, help=help)

    def idle_members(key: Place) -> ReportCell:
        return count(last[key]["idle_members"], _("its members are not known"))

    columns = [
        group_column(lambda key: key[0]),
        topic_column(lambda key: key[1]),
        _state_column(_("Worst state"), lambda key: worst[key]),
        Column(_("In time"), in_time),
        Column(_("Most waiting"), lambda key: count(greatest(key, "lag_max"))),
        optional(_("Oldest"), lambda key: length(greatest(key, "time_lag_max_ms"))),
        optional(_("Hot queue"), hot_queue, _("Far more waits in it than in the others")),
        optional(_("Idle members"), idle_members, _("Members beyond one for each queue")),
        optional(_("Samples"), samples, _("Those there are of those expected")),
        _advice_column(lambda key: last[key]),
    ]
    order = sorted(groups, key=lambda key: (severity(worst[key]), key))
    empty = _("No group was evaluated in this range.")
    return table("by-group", _("Over the range"), columns, order, empty)


def _over_time(query: ReportQuery, hours: Rows) -> Table:
    lags = _greatest(query, hours, "lag_max", "", "").values
    ages = _greatest(query, hours, "time_lag_max_ms", "", "").values
    why = _("not evaluated")

    def most(step: int) -> ReportCell:
        value = lags[step]
        return count(None if value is None else round(value), why)

    columns = [
        Column(_("Most waiting"), most),
        Column(_("Oldest"), lambda step: length(ages[step], why)),
    ]
    return time_table("lag-over-time", query.span, columns)
