"""Reports on throughput, hot keys and tags, and queue skew. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.ui.framework.language import _, ngettext, translated
from app.ui.reports import charts as report_charts
from app.ui.reports.axes import HourSpan
from app.ui.reports.charts import Chart, Series, Words, fold
from app.ui.reports.parts import (
    Column,
    Figure,
    ReportCell,
    ReportQuery,
    ReportView,
    Rows,
    Table,
    ValueKind,
    compared,
    count,
    group_column,
    grouped,
    hour_ms,
    say_count,
    share,
    table,
    time_table,
    topic_column,
    total,
)
from app.ui.reports.words import KINDS, VALUES

# The kinds in the chart of throughput; the table has all of them.
FLOWING = ("message", "delivered", "acked")
SKEWED = 1.5  # times the mean of the topic's queues
KEYS_IN_CHART = 7


def throughput(query: ReportQuery, rows: Rows, before: Rows) -> ReportView:
    """The report of messages by kind and topic."""
    stored, stored_before = _of(rows, "message"), _of(before, "message")
    words = Words(
        "flow", _("Messages over time"),
        _("How many messages were stored, handed out and acknowledged."), "flow-over-time",
        say_count,
    )  # fmt: skip
    series = _series(query.span, rows)
    all_series = [*series, *(_series(query.before, before, is_before=True) if query.before else ())]
    return ReportView(
        figures=[
            *(
                Figure(
                    _("Messages %(kind)s", kind=translated(KINDS[kind])),
                    count(total(_of(rows, kind), "messages")),
                    query.earlier(count(total(_of(before, kind), "messages"))),
                )
                for kind in FLOWING
            ),
            Figure(
                _("Stored"),
                ReportCell(total(stored, "bytes"), ValueKind.SIZE),
                query.earlier(ReportCell(total(stored_before, "bytes"), ValueKind.SIZE)),
            ),
        ],
        charts=[report_charts.lines(query.span, all_series, words, query.zone)] if rows else [],
        tables=[_by_kind(query, rows, before), over_time("flow-over-time", query.span, series)],
        notes=_sampled(rows),
    )


def _of(rows: Rows, kind: str) -> Rows:
    return [row for row in rows if row["kind"] == kind]


def _series(span: HourSpan, rows: Rows, *, is_before: bool = False) -> list[Series]:
    series = []
    for kind in FLOWING:
        values = by_time(_of(rows, kind))
        label = translated(KINDS[kind])
        label = _("%(name)s before", name=label) if is_before else label
        series.append(Series(kind, label, fold(span, values), is_before))
    return series


def by_time(rows: Rows) -> dict[int, float]:
    """The sums of messages by the beginning of the hour."""
    sums: dict[int, float] = {}
    for row in rows:
        at_ms = hour_ms(row["hour"])
        sums[at_ms] = sums.get(at_ms, 0) + row["messages"]
    return sums


def sums_by(rows: Rows, *names: str) -> dict[tuple[str, ...], int]:
    """The sums of messages by the values of some columns."""
    return {key: total(each, "messages") for key, each in grouped(rows, names).items()}


def over_time(id: str, span: HourSpan, series: Sequence[Series]) -> Table:
    """The table with the figures of a chart of counts."""
    why = _("no figures for this time")

    def column(one: Series) -> Column:
        return Column(one.label, lambda n: count(_whole(one.values[n]), why))

    return time_table(id, span, [column(one) for one in series])


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
    sums, others = sums_by(rows, *names), sums_by(before, *names)
    sizes = {
        key: [row["bytes"] for row in each if row["bytes"] is not None]
        for key, each in grouped(rows, names).items()
    }
    why = _("only records have a size")
    columns = [
        topic_column(lambda key: key[0]),
        group_column(lambda key: key[1], is_optional=True),
        Column(
            _("What"),
            lambda key: ReportCell(translated(KINDS.get(key[2], key[2]))),
            is_number=False,
        ),
        *messages_compared(query, sums, others),
        Column(
            _("Bytes"),
            lambda key: ReportCell(
                sum(sizes[key]) if sizes[key] else None, ValueKind.SIZE, why=why
            ),
            is_optional=True,
        ),
    ]
    keys = sorted(sums, key=lambda key: -sums[key])
    empty = _("Nothing went through in this range.")
    return table("by-kind", _("By topic and group"), columns, keys, empty)


def messages_compared(
    query: ReportQuery, sums: Mapping[Any, int], others: Mapping[Any, int]
) -> list[Column]:
    """The column of messages by key, and in a comparison those of the range before."""
    column = Column(_("Messages"), lambda key: count(sums[key]))
    return compared(query, column, lambda key: count(others.get(key, 0)))


def hot_keys(query: ReportQuery, rows: Rows, before: Rows) -> ReportView:
    """The report of the most frequent keys, tags or message groups, by `query.choice`."""
    rows, before = _of(rows, query.choice), _of(before, query.choice)
    sums, others = _value_sums(rows), _value_sums(before)
    everything = total(rows, "messages")
    rest = total((row for row in rows if not row["rank"]), "messages")
    columns = [
        Column(_("Value"), lambda key: ReportCell(key[1]), is_number=False),
        topic_column(lambda key: key[0]),
        *messages_compared(query, sums, others),
        Column(_("Share"), lambda key: share(sums[key], everything)),
    ]
    keys = sorted(sums, key=lambda key: (-sums[key], key))
    series = _key_series(query, rows, keys)
    note = _("Exact: every stored message counts.")
    if rest:
        note = _(
            "Each hour keeps its 100 most frequent values; %(rest)s messages had others, so a "
            "count here may miss hours in which the value was rare.",
            rest=f"{rest:,}",
        )
    title = translated(VALUES[query.choice])
    values = table("values", title, columns, keys, _("No message had one."))
    times = [over_time("keys-over-time", query.span, series)] if keys else []
    return ReportView(
        figures=[
            Figure(_("Messages with one"), count(everything)),
            Figure(_("Different values"), count(len(keys)), note=_("at least") if rest else ""),
        ],
        charts=[_key_chart(query, series, len(keys))] if keys else [],
        tables=[values, *times],
        notes=[note],
    )


def _value_sums(rows: Rows) -> dict[tuple[str, ...], int]:
    return sums_by([row for row in rows if row["rank"]], "topic", "value")


def _key_series(query: ReportQuery, rows: Rows, keys: Sequence[tuple[str, ...]]) -> list[Series]:
    """The most frequent values over time."""
    top = keys[:KEYS_IN_CHART]
    by_key = grouped([row for row in rows if row["rank"]], ("topic", "value"))
    is_one_topic = len({topic for topic, __ in top}) == 1
    series = []
    for topic, value in top:
        label = value if is_one_topic else f"{topic} · {value}"
        values = by_time(by_key[topic, value])
        series.append(Series(label, label, fold(query.span, values)))
    return series


def _key_chart(query: ReportQuery, series: Sequence[Series], keys: int) -> Chart:
    note = ""
    if keys > KEYS_IN_CHART:
        note = _("The first %(n)s of %(all)s.", n=KEYS_IN_CHART, all=f"{keys:,}")
    words = Words(
        "keys", _("The most frequent over time"), _("Messages by value, one on the other."),
        "keys-over-time", say_count, note,
    )  # fmt: skip
    return report_charts.bars(query.span, series, words, query.zone)


def queue_skew(query: ReportQuery, rows: Rows, before: Rows) -> ReportView:
    """The report of queue skew: how evenly the queues of each topic were filled."""
    skews, others = _skews(rows, query.queues), _skews(before, query.queues)
    keys = sorted(skews, key=lambda key: (-skews[key].times, key))
    over = sum(skew.times >= SKEWED for skew in skews.values())
    why = _("its topic got nothing then")

    def times(key: tuple[str, int]) -> ReportCell:
        tone = "warn" if skews[key].times >= SKEWED else ""
        return ReportCell(skews[key].times, ValueKind.TIMES, tone=tone)

    def times_before(key: tuple[str, int]) -> ReportCell:
        skew = others.get(key)
        return ReportCell(skew and skew.times, ValueKind.TIMES, why=why)

    of_mean = Column(_("Of the mean"), times, help=_("1 is even, among the topic's queues"))
    columns = [
        topic_column(lambda key: key[0]),
        Column(_("Queue"), lambda key: ReportCell(str(key[1]))),
        Column(_("Messages"), lambda key: count(skews[key].messages)),
        Column(
            _("Bytes"),
            lambda key: ReportCell(skews[key].size_bytes, ValueKind.SIZE),
            is_optional=True,
        ),
        Column(
            _("Share"), lambda key: ReportCell(skews[key].part, ValueKind.SHARE), is_optional=True
        ),
        *compared(query, of_mean, times_before),
    ]
    note = ngettext(
        "%(n)s queue got more than one and a half times its topic's mean.",
        "%(n)s queues got more than one and a half times their topic's mean.",
        over,
        n=over,
    )
    worst = skews[keys[0]].times if keys else None
    empty = sum(not skew.messages for skew in skews.values())
    return ReportView(
        figures=[
            Figure(_("Queues"), count(len(keys))),
            Figure(_("Queues without messages"), count(empty)),
            Figure(_("Worst"), ReportCell(worst, ValueKind.TIMES, why=_("nothing was stored"))),
        ],
        tables=[
            table("queues", _("By queue"), columns, keys, _("Nothing was stored in this range."))
        ],
        notes=[note] if keys else [],
    )


@dataclass(frozen=True)
class QueueSkew:
    """What a queue got: also as many `times` the mean of its topic's queues, and as a part."""

    messages: int
    size_bytes: int
    times: float
    part: float


def _skews(rows: Rows, queues: Mapping[str, int]) -> dict[tuple[str, int], QueueSkew]:
    """The skew by topic and queue, current queues without messages included."""
    skews: dict[tuple[str, int], QueueSkew] = {}
    for (topic,), each in grouped(rows, ("topic",)).items():
        whole = total(each, "messages")
        by_queue = dict.fromkeys(range(queues.get(topic, 0)), (0, 0))
        for row in each:
            messages, size_bytes = by_queue.get(row["queue"], (0, 0))
            by_queue[row["queue"]] = (messages + row["messages"], size_bytes + row["bytes"])
        for queue, (messages, size_bytes) in by_queue.items():
            times = messages * len(by_queue) / whole
            skews[topic, queue] = QueueSkew(messages, size_bytes, times, messages / whole)
    return skews
