"""Reports on throughput, hot keys and tags, and queue skew. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.services.reports.comparison import Better
from app.ui.framework import charts
from app.ui.framework.charts import Series, Words
from app.ui.framework.language import _, ngettext, translated
from app.ui.reports.axes import HourSpan
from app.ui.reports.cells import ReportCell, ValueKind, count, share, size, times
from app.ui.reports.charts import fold
from app.ui.reports.parts import Figure, ReportQuery, ReportView, bars_over_time, over_time
from app.ui.reports.rows import Rows, by_time, grouped, matching, sums_by, total
from app.ui.reports.tables import (
    Column,
    Table,
    compared,
    group_column,
    message_columns,
    table,
    text_column,
    topic_column,
)
from app.ui.reports.words import KINDS, VALUES

# The kinds in the chart of throughput; the table has all of them.
FLOWING = ("message", "delivered", "acked")
SKEWED = 1.5  # times the mean of the topic's queues
KEYS_IN_CHART = 7


def throughput(query: ReportQuery, rows: Rows, before: Rows) -> ReportView:
    """The report of messages by kind and topic."""
    words = Words(
        "flow",
        _("Messages over time"),
        _("Messages stored, delivered and acknowledged."),
    )
    series = _series(query.span, rows)
    all_series = [*series, *(_series(query.before, before, is_before=True) if query.before else ())]

    def messages(kind: str) -> Figure:
        now, then = (count(total(matching(each, "kind", kind))) for each in (rows, before))
        return query.figure(_("Messages %(kind)s", kind=translated(KINDS[kind])), now, then)

    stored, stored_before = (
        size(total(matching(each, "kind", "message"), "bytes")) for each in (rows, before)
    )
    return ReportView(
        figures=[*map(messages, FLOWING), query.figure(_("Stored"), stored, stored_before)],
        charts=[charts.lines(query.canvas, all_series, words)] if rows else [],
        tables=[_by_kind(query, rows, before), over_time(words, query.span, series)],
        notes=_sampled(rows),
    )


def _series(span: HourSpan, rows: Rows, *, is_before: bool = False) -> list[Series]:
    series = []
    for kind in FLOWING:
        label = translated(KINDS[kind])
        label = _("%(name)s, previous range", name=label) if is_before else label
        values = fold(span, by_time(matching(rows, "kind", kind)))
        series.append(Series(kind, label, values, is_before))
    return series


def _sampled(rows: Rows) -> list[str]:
    counted, messages = total(rows, "counted"), total(rows)
    if counted >= messages:
        return []
    text = _(
        "Traces are sampled: %(counted)s recorded, scaled up to %(all)s.",
        counted=f"{counted:,}",
        all=f"{messages:,}",
    )
    return [text]


def _by_kind(query: ReportQuery, rows: Rows, before: Rows) -> Table:
    names = ("topic", "group", "kind")
    sums, others = sums_by(rows, *names), sums_by(before, *names)
    sized = [row for row in rows if row["bytes"] is not None]
    sizes = {key: total(each, "bytes") for key, each in grouped(sized, names).items()}
    why = _("size is known for stored records only")
    columns = [
        topic_column(lambda key: key[0]),
        group_column(lambda key: key[1], is_optional=True),
        text_column(_("What"), lambda key: translated(KINDS.get(key[2], key[2]))),
        *message_columns(query.before, sums, others),
        Column(_("Bytes"), lambda key: size(sizes.get(key), why), is_optional=True),
    ]
    keys = sorted(sums, key=lambda key: -sums[key])
    empty = _("No messages in this range.")
    return table("by-kind", _("By topic and group"), columns, keys, empty)


def hot_keys(query: ReportQuery, rows: Rows, before: Rows) -> ReportView:
    """The report of the most frequent keys, tags or message groups, by `query.choice`."""
    rows, before = (matching(each, "kind", query.choice) for each in (rows, before))
    ranked, names = [row for row in rows if row["rank"]], ("topic", "value")
    sums, others = sums_by(ranked, *names), sums_by([row for row in before if row["rank"]], *names)
    everything, earlier = total(rows), total(before)
    rest = everything - total(ranked)
    columns = [
        text_column(_("Value"), lambda key: key[1]),
        topic_column(lambda key: key[0]),
        *message_columns(query.before, sums, others),
        Column(_("Share"), lambda key: share(sums[key], everything)),
    ]
    keys = sorted(sums, key=lambda key: (-sums[key], key))
    note = _("Exact: all stored messages are counted.")
    if rest:
        note = _(
            "Each hour has its 100 most frequent values; %(rest)s messages had others, so counts "
            "may omit hours in which a value was rare.",
            rest=f"{rest:,}",
        )
    title = translated(VALUES[query.choice])
    chart, twin = _key_chart(query, ranked, keys)
    return ReportView(
        figures=[
            query.figure(_("Messages with a value"), count(everything), count(earlier)),
            query.figure(
                _("Distinct values"),
                count(len(keys)),
                count(len(others)),
                note=_("at least") if rest else "",
            ),
        ],
        charts=chart,
        tables=[table("values", title, columns, keys, _("No messages with a value.")), *twin],
        notes=[note],
    )


def _key_chart(
    query: ReportQuery, rows: Rows, keys: Sequence[tuple[str, ...]]
) -> tuple[list[charts.Chart], list[Table]]:
    """The most frequent values over time."""
    top = keys[:KEYS_IN_CHART]
    by_key = grouped(rows, ("topic", "value"))
    is_one_topic = len({topic for topic, __ in top}) == 1
    series = []
    for topic, value in top:
        label = value if is_one_topic else f"{topic} · {value}"
        series.append(Series(label, label, fold(query.span, by_time(by_key[topic, value]))))
    note = ""
    if len(keys) > KEYS_IN_CHART:
        note = _("Showing the first %(n)s of %(all)s.", n=KEYS_IN_CHART, all=f"{len(keys):,}")
    title, says = _("Most frequent values over time"), _("Messages by value, stacked.")
    return bars_over_time(query, Words("keys", title, says, note), series)


def queue_skew(query: ReportQuery, rows: Rows, before: Rows) -> ReportView:
    """The report of queue skew: how evenly the queues of each topic were filled."""
    skews, others = _skews(rows, query.queues), _skews(before, query.queues)
    keys = sorted(skews, key=lambda key: (-skews[key].times, key))
    over = sum(skew.times >= SKEWED for skew in skews.values())
    why = _("no messages in its topic")

    def of_mean(key: tuple[str, int]) -> ReportCell:
        return times(skews[key].times, tone="warn" if skews[key].times >= SKEWED else "")

    def of_mean_before(key: tuple[str, int]) -> ReportCell:
        return times(others[key].times if key in others else None, why)

    def part(key: tuple[str, int]) -> ReportCell:
        return ReportCell(skews[key].part, ValueKind.SHARE)

    help_ = _("1 = even distribution across the topic's queues")
    columns = [
        topic_column(lambda key: key[0]),
        Column(_("Queue"), lambda key: ReportCell(str(key[1]))),
        Column(_("Messages"), lambda key: count(skews[key].messages)),
        Column(_("Bytes"), lambda key: size(skews[key].size_bytes), is_optional=True),
        Column(_("Share"), part, is_optional=True),
        *compared(query.before, Column(_("Ratio to mean"), of_mean, help=help_), of_mean_before),
    ]
    note = ngettext(
        "%(n)s queue has more than 1.5 times its topic's mean.",
        "%(n)s queues have more than 1.5 times their topic's mean.",
        over,
        n=over,
    )
    worst, worst_before = (
        times(max((skew.times for skew in each.values()), default=None), _("no messages stored"))
        for each in (skews, others)
    )
    empty = sum(not skew.messages for skew in skews.values())
    nothing = _("No messages stored in this range.")
    return ReportView(
        figures=[
            Figure(_("Queues"), count(len(keys))),
            Figure(_("Queues without messages"), count(empty)),
            query.figure(_("Maximum"), worst, worst_before, better=Better.LOWER),
        ],
        tables=[table("queues", _("By queue"), columns, keys, nothing)],
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
        whole = total(each)
        by_queue: dict[int, Rows] = dict.fromkeys(range(queues.get(topic, 0)), ())
        by_queue |= {queue: own for (queue,), own in grouped(each, ("queue",)).items()}
        for queue, own in by_queue.items():
            messages = total(own)
            ratio = messages * len(by_queue) / whole
            skews[topic, queue] = QueueSkew(messages, total(own, "bytes"), ratio, messages / whole)
    return skews
