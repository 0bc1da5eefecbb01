"""The report of lag over time with states, the current lag, and advice. Pure.

It uses the tables `lag_hours`, `lag_bands` and `lag_now`. An evaluated interval without a band
means that the queue was in time; a time that was not evaluated is empty.
"""

import json
from collections.abc import Mapping, Sequence

from app.db.report_evaluated import Intervals, clip_intervals, intervals
from app.ui.framework.formats import say_length
from app.ui.framework.language import _
from app.ui.reports import charts as report_charts
from app.ui.reports.axes import HOUR_MS
from app.ui.reports.charts import DASH, Band, Chart, Series, Words
from app.ui.reports.parts import (
    Cell,
    Column,
    Figure,
    Kind,
    ReportQuery,
    Rows,
    Table,
    View,
    count,
    cut,
    grouped,
    hour_ms,
    length,
    say_count,
    share,
    total,
)
from app.ui.reports.words import (
    STATES,
    advice,
    severity,
    state,
    state_look,
)

BAND_ROWS_MAX = 30
OK = "OK"
Place = tuple[str, ...]  # group and topic, optionally with the queue


def lag(query: ReportQuery, rows: Mapping[str, Rows], before: Mapping[str, Rows]) -> View:
    """The report of a group's queues, or of all groups; `lag_now` ignores the range."""
    hours, now = rows["lag_hours"], rows["lag_now"]
    return View(
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
    compared = share(was, sum(then.values())) if query.before else None
    return [
        Figure(_("Worst state now"), Cell(worst, Kind.STATE, why=never)),
        Figure(_("Waiting now"), count(total(now, "lag") if now else None, never)),
        Figure(
            _("Oldest waiting"),
            length(max((row["time_lag_ms"] or 0 for row in now), default=None), never),
        ),
        Figure(
            _("Time in time"), share(in_time, whole, _("never evaluated in this range")), compared
        ),
        Figure(
            _("Lost"),
            count(total(hours, "lost") if hours else None, never),
            count(total(before, "lost") if before else None, never) if query.before else None,
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
    measured = _measured_times(hours)
    bars = [*_evaluated(measured, row_of_key), *_bands(bands, row_of_key, by_queue, measured)]
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


def _evaluated(measured: Mapping[Place, Intervals], row_of_key: Mapping[Place, int]) -> list[Band]:
    """Bands in the state OK for the evaluated intervals; other bands cover them."""
    return [
        Band(index, begin_ms, end_ms, state_look(OK), state(OK))
        for key, index in row_of_key.items()
        for begin_ms, end_ms in measured.get(key[:2], [])
    ]


def _bands(
    bands: Rows,
    row_of_key: Mapping[Place, int],
    by_queue: bool,
    measured: Mapping[Place, Intervals],
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
            stretches = clip_intervals(row["begin_ms"], row["end_ms"], measured.get(key, []))
            bars.extend(
                Band(index, begin_ms, end_ms, look, title) for begin_ms, end_ms in stretches
            )
    return bars


def _now_table(now: Rows) -> Table:
    columns = [
        Column(_("Group"), is_number=False),
        Column(_("Topic"), is_number=False, is_optional=True),
        Column(_("Queue")),
        Column(_("State"), is_number=False),
        Column(_("Waiting")),
        Column(_("Oldest"), is_optional=True),
        Column(_("Caught up in"), is_optional=True),
        Column(_("What to do"), is_number=False, is_sentence=True),
    ]
    order = sorted(now, key=lambda row: (severity(row["state"]), -(row["lag"] or 0)))
    lines = []
    for row in order:
        eta = row["eta_s"]
        sentence = advice(row["advice"], row["advice_params"])
        lines.append(
            [
                Cell(row["group"], Kind.NAME, href="groups"),
                Cell(row["topic"], Kind.NAME, href="topics"),
                Cell(str(row["queue"])),
                Cell(row["state"], Kind.STATE),
                count(row["lag"], _("no sample")),
                length(row["time_lag_ms"], _("no sample")),
                Cell(DASH, why=_("only told while it is catching up"))
                if eta is None
                else length(eta * 1000),
                Cell(sentence or DASH),
            ]
        )
    return Table(
        "now", _("How it stands"), columns, cut(lines), len(lines),
        empty=_("No queue of a group was evaluated yet."),
    )  # fmt: skip


def _hours_table(hours: Rows) -> Table:
    columns = [
        Column(_("Group"), is_number=False),
        Column(_("Topic"), is_number=False),
        Column(_("Worst state"), is_number=False),
        Column(_("In time")),
        Column(_("Most waiting")),
        Column(_("Oldest"), is_optional=True),
        Column(_("Hot queue"), is_optional=True, help=_("Far more waits in it than in the others")),
        Column(_("Idle members"), is_optional=True, help=_("Members beyond one for each queue")),
        Column(_("Samples"), is_optional=True, help=_("Those there are of those expected")),
        Column(_("What to do"), is_number=False, is_sentence=True),
    ]
    lines = []
    for (group, topic), each in grouped(hours, ("group", "topic")).items():
        last = max(each, key=lambda row: row["at_ms"])
        spent = _state_ms(each)
        worst = min((row["worst_state"] for row in each), key=severity)
        cells = [
            Cell(group, Kind.NAME, href="groups"),
            Cell(topic, Kind.NAME, href="topics"),
            Cell(worst, Kind.STATE),
            share(spent.get(OK, 0), sum(spent.values())),
            count(max(row["lag_max"] or 0 for row in each)),
            length(max(row["time_lag_max_ms"] or 0 for row in each)),
            Cell(DASH if last["hot_queue"] is None else str(last["hot_queue"])),
            count(last["idle_members"], _("its members are not known")),
            share(sum(row["completeness"] or 0 for row in each), len(each)),
            Cell(advice(last["advice"], last["advice_params"]) or DASH),
        ]
        lines.append((severity(worst), group, topic, cells))
    ordered = [line[3] for line in sorted(lines, key=lambda line: line[:3])]
    return Table(
        "by-group", _("Over the range"), columns, cut(ordered), len(ordered),
        empty=_("No group was evaluated in this range."),
    )  # fmt: skip


def _over_time(query: ReportQuery, hours: Rows) -> Table:
    lags = _greatest(query, hours, "lag_max", "", "").values
    ages = _greatest(query, hours, "time_lag_max_ms", "", "").values
    why = _("not evaluated")
    lines = [
        [
            Cell(query.span.begin_ms(index), Kind.MOMENT),
            count(None if (most := lags[index]) is None else round(most), why),
            length(ages[index], why),
        ]
        for index in reversed(range(query.span.steps))
    ]
    columns = [
        Column(_("From"), is_number=False),
        Column(_("Most waiting")),
        Column(_("Oldest")),
    ]
    return Table(
        "lag-over-time", _("Over time"), columns, lines if hours else [], len(lines), is_twin=True
    )
