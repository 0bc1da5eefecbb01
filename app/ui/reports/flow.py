"""Reports on throughput, hot keys and tags, and queue skew. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo
from typing import Any

from app.ui.framework.language import _, ngettext, translated
from app.ui.reports import charts as report_charts
from app.ui.reports.axes import Span
from app.ui.reports.charts import DASH, Chart, Series, Words, fold
from app.ui.reports.parts import (
    Cell,
    Column,
    Figure,
    Kind,
    ReportQuery,
    Rows,
    Table,
    View,
    compared,
    compared_columns,
    count,
    cut,
    grouped,
    hour_ms,
    say_count,
    share,
    total,
)
from app.ui.reports.words import KINDS, VALUES

# The kinds in the chart of throughput; the table has all of them.
FLOWING = ("message", "delivered", "acked")
SKEWED = 1.5  # times the mean of the topic's queues
KEYS_IN_CHART = 7


def throughput(query: ReportQuery, rows: Rows, before: Rows) -> View:
    """The report of messages by kind and topic."""
    figures = [
        Figure(
            _("Messages %(kind)s", kind=translated(KINDS[kind])),
            count(_sum_of(rows, kind)),
            count(_sum_of(before, kind)) if query.before else None,
        )
        for kind in FLOWING
    ]
    sizes = [row for row in rows if row["kind"] == "message"]
    figures.append(
        Figure(
            _("Stored"),
            Cell(total(sizes, "bytes"), Kind.SIZE),
            Cell(total((r for r in before if r["kind"] == "message"), "bytes"), Kind.SIZE)
            if query.before
            else None,
        )
    )
    words = Words(
        "flow", _("Messages over time"),
        _("How many messages were stored, handed out and acknowledged."), "flow-over-time",
        say_count,
    )  # fmt: skip
    series = _series(query.span, rows)
    if query.before is not None:
        series += _series(query.before, before, is_before=True)
    return View(
        figures=figures,
        charts=[report_charts.lines(query.span, series, words, query.zone)] if rows else [],
        tables=[
            _by_kind(query, rows, before),
            over_time("flow-over-time", query.span, _series(query.span, rows), query.zone),
        ],
        notes=_sampled(rows),
    )


def _sum_of(rows: Rows, kind: str) -> int:
    return total((row for row in rows if row["kind"] == kind), "messages")


def _series(span: Span, rows: Rows, *, is_before: bool = False) -> list[Series]:
    series = []
    for kind in FLOWING:
        values = by_time((row for row in rows if row["kind"] == kind), "messages")
        label = translated(KINDS[kind])
        label = _("%(name)s before", name=label) if is_before else label
        series.append(Series(kind, label, fold(span, values), is_before))
    return series


def by_time(rows: Iterable[Mapping[str, Any]], name: str) -> dict[int, float]:
    """A column's sums by the beginning of the hour."""
    sums: dict[int, float] = {}
    for row in rows:
        at_ms = hour_ms(row["hour"])
        sums[at_ms] = sums.get(at_ms, 0) + row[name]
    return sums


def over_time(id: str, span: Span, series: Sequence[Series], zone: tzinfo) -> Table:
    """The table with the figures of a chart, newest first."""
    columns = [Column(_("From"), is_number=False), *(Column(one.label) for one in series)]
    why = _("no figures for this time")
    lines = [
        [
            Cell(span.begin_ms(index), Kind.MOMENT),
            *(count(_whole(one.values[index]), why) for one in series),
        ]
        for index in reversed(range(span.steps))
    ]
    return Table(id, _("Over time"), columns, lines, len(lines), is_twin=True)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _sampled(rows: Rows) -> list[str]:
    counted, messages = total(rows, "counted"), total(rows, "messages")
    if counted >= messages:
        return []
    text = _(
        "Traces are sampled: %(counted)s were seen and scaled up to %(all)s.",
        counted=f"{counted:,}",
        all=f"{messages:,}",
    )
    return [text]


def _by_kind(query: ReportQuery, rows: Rows, before: Rows) -> Table:
    names = ("topic", "group", "kind")
    others = {key: total(each, "messages") for key, each in grouped(before, names).items()}
    sums = {key: (total(each, "messages"), each) for key, each in grouped(rows, names).items()}
    lines = []
    for (topic, group, kind), (messages, each) in sorted(sums.items(), key=lambda one: -one[1][0]):
        sizes = [row["bytes"] for row in each if row["bytes"] is not None]
        other = count(others.get((topic, group, kind), 0)) if query.before else None
        lines.append(
            [
                Cell(topic, Kind.NAME, href="topics"),
                Cell(group, Kind.NAME, href="groups") if group else Cell(DASH),
                Cell(translated(KINDS.get(kind, kind))),
                *compared(count(messages), other),
                Cell(sum(sizes) if sizes else None, Kind.SIZE, why=_("only records have a size")),
            ]
        )
    columns = [
        Column(_("Topic"), is_number=False),
        Column(_("Group"), is_number=False, is_optional=True),
        Column(_("What"), is_number=False),
        *compared_columns(Column(_("Messages")), query.before is not None),
        Column(_("Bytes"), is_optional=True),
    ]
    return Table(
        "by-kind", _("By topic and group"), columns, cut(lines), len(lines),
        empty=_("Nothing went through in this range."),
    )  # fmt: skip


def hot_keys(query: ReportQuery, rows: Rows, before: Rows) -> View:
    """The report of the most frequent keys, tags or message groups, by `query.choice`."""
    rows = [row for row in rows if row["kind"] == query.choice]
    before = [row for row in before if row["kind"] == query.choice]
    sums = _value_sums(rows)
    others = _value_sums(before)
    everything = total(rows, "messages")
    rest = total((row for row in rows if not row["rank"]), "messages")
    lines = [
        [
            Cell(value),
            Cell(topic, Kind.NAME, href="topics"),
            *compared(
                count(messages), count(others.get((topic, value), 0)) if query.before else None
            ),
            share(messages, everything),
        ]
        for (topic, value), messages in sorted(sums.items(), key=lambda one: (-one[1], one[0]))
    ]
    columns = [
        Column(_("Value"), is_number=False),
        Column(_("Topic"), is_number=False),
        *compared_columns(Column(_("Messages")), query.before is not None),
        Column(_("Share")),
    ]
    exact = _("Exact: every stored message counts.")
    least = _(
        "Each hour keeps its 100 most frequent values; %(rest)s messages had others, so a count "
        "here may miss hours in which the value was rare.",
        rest=f"{rest:,}",
    )
    title = translated(VALUES[query.choice])
    return View(
        figures=[
            Figure(_("Messages with one"), count(everything)),
            Figure(_("Different values"), count(len(sums)), note=_("at least") if rest else ""),
        ],
        charts=_key_chart(query, rows, sums) if sums else [],
        tables=[
            Table("values", title, columns, cut(lines), len(lines), empty=_("No message had one.")),
            *([_key_times(query, rows, sums)] if sums else []),
        ],
        notes=[least if rest else exact],
    )


def _value_sums(rows: Rows) -> dict[tuple[str, str], int]:
    ranked = [row for row in rows if row["rank"]]
    return {
        (topic, value): total(each, "messages")
        for (topic, value), each in grouped(ranked, ("topic", "value")).items()
    }


def _key_series(query: ReportQuery, rows: Rows, sums: dict[tuple[str, str], int]) -> list[Series]:
    """The most frequent values over time."""
    chosen = sorted(sums, key=lambda key: (-sums[key], key))[:KEYS_IN_CHART]
    topics = {topic for topic, __ in chosen}
    series = []
    for topic, value in chosen:
        own = [
            row for row in rows if row["rank"] and (row["topic"], row["value"]) == (topic, value)
        ]
        label = value if len(topics) == 1 else f"{topic} · {value}"
        series.append(Series(label, label, fold(query.span, by_time(own, "messages"))))
    return series


def _key_chart(query: ReportQuery, rows: Rows, sums: dict[tuple[str, str], int]) -> list[Chart]:
    note = ""
    if len(sums) > KEYS_IN_CHART:
        note = _("The first %(n)s of %(all)s.", n=KEYS_IN_CHART, all=f"{len(sums):,}")
    words = Words(
        "keys", _("The most frequent over time"), _("Messages by value, one on the other."),
        "keys-over-time", say_count, note,
    )  # fmt: skip
    return [report_charts.bars(query.span, _key_series(query, rows, sums), words, query.zone)]


def _key_times(query: ReportQuery, rows: Rows, sums: dict[tuple[str, str], int]) -> Table:
    return over_time("keys-over-time", query.span, _key_series(query, rows, sums), query.zone)


def queue_skew(query: ReportQuery, rows: Rows, before: Rows) -> View:
    """The report of queue skew: how evenly the queues of each topic were filled."""
    sums = _queue_sums(rows, query.queues)
    others = _queue_sums(before, query.queues)
    lines = []
    for topic, queue, messages, sized, times, part in _skews(sums):
        tone = "warn" if times >= SKEWED else ""
        then = _skew_of(others, topic, queue)
        why = _("its topic got nothing then")
        other = Cell(then, Kind.TIMES, why=why) if query.before else None
        lines.append(
            [
                Cell(topic, Kind.NAME, href="topics"),
                Cell(str(queue)),
                count(messages),
                Cell(sized, Kind.SIZE),
                Cell(part, Kind.SHARE),
                *compared(Cell(times, Kind.TIMES, tone=tone), other),
            ]
        )
    worst = max((line[5].value for line in lines), default=None)
    columns = [
        Column(_("Topic"), is_number=False),
        Column(_("Queue")),
        Column(_("Messages")),
        Column(_("Bytes"), is_optional=True),
        Column(_("Share"), is_optional=True),
        *compared_columns(
            Column(_("Of the mean"), help=_("1 is even, among the topic's queues")),
            query.before is not None,
        ),
    ]
    over = sum(line[5].tone == "warn" for line in lines)
    note = ngettext(
        "%(n)s queue got more than one and a half times its topic's mean.",
        "%(n)s queues got more than one and a half times their topic's mean.",
        over,
        n=over,
    )
    empty = sum(not line[2].value for line in lines)
    return View(
        figures=[
            Figure(_("Queues"), count(len(lines))),
            Figure(_("Queues without messages"), count(empty)),
            Figure(_("Worst"), Cell(worst, Kind.TIMES, why=_("nothing was stored"))),
        ],
        tables=[
            Table(
                "queues",
                _("By queue"),
                columns,
                cut(lines),
                len(lines),
                empty=_("Nothing was stored in this range."),
            )
        ],
        notes=[note] if lines else [],
    )


QueueSums = dict[str, dict[int, tuple[int, int]]]


def _queue_sums(rows: Rows, queues: Mapping[str, int]) -> QueueSums:
    """Messages and bytes by topic and queue, including current queues without messages."""
    topics = {row["topic"] for row in rows}
    sums: QueueSums = {
        topic: dict.fromkeys(range(queues.get(topic, 0)), (0, 0)) for topic in topics
    }
    for row in rows:
        messages, sized = sums.setdefault(row["topic"], {}).get(row["queue"], (0, 0))
        sums[row["topic"]][row["queue"]] = (messages + row["messages"], sized + row["bytes"])
    return sums


def _skews(sums: QueueSums) -> list[tuple[str, int, int, int, float, float]]:
    """Topic, queue, messages, bytes, ratio to the mean, and share; largest ratio first."""
    skews = []
    for topic, queues in sums.items():
        whole = sum(messages for messages, __ in queues.values())
        for queue, (messages, sized) in queues.items():
            skews.append(
                (topic, queue, messages, sized, messages * len(queues) / whole, messages / whole)
            )
    return sorted(skews, key=lambda one: (-one[4], one[0], one[1]))


def _skew_of(sums: QueueSums, topic: str, queue: int) -> float | None:
    queues = sums.get(topic, {})
    if queue not in queues:
        return None
    return queues[queue][0] * len(queues) / sum(messages for messages, __ in queues.values())
