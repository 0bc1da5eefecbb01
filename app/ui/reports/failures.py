"""Reports on failures by reason, outcomes, the slowest messages, and transactions. Pure."""

from collections.abc import Callable, Mapping

from app.services.reports.comparison import Better
from app.ui.framework.charts import Series, Words
from app.ui.framework.language import N_, _, translated
from app.ui.reports.cells import ReportCell, ValueKind, count, length, share
from app.ui.reports.charts import fold
from app.ui.reports.parts import Figure, ReportQuery, ReportView, bars_over_time
from app.ui.reports.rows import Row, Rows, by_time, grouped, matching, sums_by, total
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
from app.ui.reports.words import OUTCOMES

FAILURES = ("dead", "failed", "expired", "refused")
REASONS_IN_CHART = 7
OTHERS = "\0"  # cannot be the name of a reason
DECIDED = ("committed", "rolled_back", "check_given_up")
SUMS = ("attempts", "retried", "acked", "failed", "expired", "returned", "dead", "unfinished")


def failures(
    query: ReportQuery, rows: Mapping[str, Rows], before: Mapping[str, Rows]
) -> ReportView:
    """Failures of the kind `query.choice` by reason, and how attempts ended by topic and group."""
    now, then = (matching(each["failures"], "kind", query.choice) for each in (rows, before))
    ends, ends_before = rows["outcomes"], before["outcomes"]
    words = Words("reasons", _("By reason, over time"), _("Number of messages per reason."))
    chart, twin = bars_over_time(query, words, _reason_series(query, now))
    return ReportView(
        figures=_end_figures(query, ends, ends_before),
        charts=chart,
        tables=[_by_reason(query, now, then), *twin, _by_name(query, ends, ends_before)],
        notes=[translated(MEANINGS[query.choice])],
    )


MEANINGS = {
    "dead": N_("Messages moved to dead letters."),
    "failed": N_("Attempts reported as failed by the consumer."),
    "expired": N_("Attempts that timed out without a result."),
    "refused": N_("Sends refused by the server."),
}


def _reasons(rows: Rows) -> dict[str, int]:
    """Messages by reason; OTHERS counts those without a stored reason."""
    sums: dict[str, int] = {}
    for row in rows:
        name = row["reason"] if row["rank"] else OTHERS
        sums[name] = sums.get(name, 0) + row["messages"]
    return sums


def _reason_name(reason: str) -> str:
    if reason == OTHERS:
        return _("other, rarer")
    return reason or _("no reason given")


def _reason_series(query: ReportQuery, rows: Rows) -> list[Series]:
    """The most frequent reasons over time, and all others together."""
    sums = _reasons(rows)
    named = sorted((name for name in sums if name != OTHERS), key=lambda name: (-sums[name], name))
    top = named[:REASONS_IN_CHART]
    series = [
        Series(name, _reason_name(name), fold(query.span, by_time(own)))
        for name in top
        if (own := [row for row in rows if row["rank"] and row["reason"] == name])
    ]
    rest = [row for row in rows if not row["rank"] or row["reason"] not in top]
    if rest:
        series.append(Series(OTHERS, _("all others"), fold(query.span, by_time(rest))))
    return series


def _by_reason(query: ReportQuery, rows: Rows, before: Rows) -> Table:
    sums, others = _reasons(rows), _reasons(before)
    everything = sum(sums.values())

    def reason(name: str) -> ReportCell:
        return ReportCell(_reason_name(name), tone="" if name and name != OTHERS else "muted")

    columns = [
        Column(_("Reason"), reason, is_number=False),
        *message_columns(query.before, sums, others, query.fewer),
        Column(_("Share"), lambda name: share(sums[name], everything)),
    ]
    order = sorted(sums, key=lambda name: (name == OTHERS, -sums[name], name))
    empty = _("None in this range.")
    return table("reasons", _("By reason"), columns, order, empty)


Ends = dict[str, int | None]


def _ends(rows: Rows) -> Ends:
    """The sums of what attempts ended with; None where some rows do not know."""
    unknown = {name for name in SUMS if any(row[name] is None for row in rows)}
    return {name: None if name in unknown else total(rows, name) for name in SUMS}


def _rate(ends: Ends, part: str, *whole: str) -> ReportCell:
    values = [value for name in whole if (value := ends[name]) is not None]
    if len(values) < len(whole):
        return share(None, None, _("not traced by clients"))
    return share(ends[part], sum(values))


def _end_figures(query: ReportQuery, rows: Rows, before: Rows) -> list[Figure]:
    now, then = _ends(rows), _ends(before)

    def rate(label: str, part: str, *whole: str, tone: str = "") -> Figure:
        value, other = (_rate(sums, part, *whole) for sums in (now, then))
        shown_tone = tone if value.value else ""
        return query.figure(label, value, other, better=Better.LOWER, tone=shown_tone)

    def sum_of(label: str, name: str, tone: str = "", note: str = "") -> Figure:
        why = _("not traced by clients")
        cells = count(now[name], why), count(then[name], why)
        shown_tone = tone if now[name] else ""
        return query.figure(label, *cells, better=query.fewer, note=note, tone=shown_tone)

    return [
        query.figure(_("Attempts"), count(now["attempts"]), count(then["attempts"])),
        rate(_("Retry rate"), "retried", "attempts"),
        sum_of(_("Dead"), "dead", "bad"),
        rate(_("Dead-letter rate"), "dead", "acked", "dead", tone="bad"),
        sum_of(_("In progress"), "unfinished", note=_("no outcome for 15 minutes")),
    ]


def _by_name(query: ReportQuery, rows: Rows, before: Rows) -> Table:
    names = ("topic", "group")
    ends = {key: _ends(each) for key, each in grouped(rows, names).items()}
    dead_before = {key: _ends(each)["dead"] for key, each in grouped(before, names).items()}
    why = _("not traced by clients")

    def dead_rate(key: tuple[str, ...]) -> ReportCell:
        return _rate(ends[key], "dead", "acked", "dead")

    def retry_rate(key: tuple[str, ...]) -> ReportCell:
        return _rate(ends[key], "retried", "attempts")

    def sum_of(label: str, name: str, *, is_optional: bool = True) -> Column:
        return Column(label, lambda key: count(ends[key][name], why), is_optional=is_optional)

    dead = sum_of(_("Dead"), "dead", is_optional=False)
    columns = [
        topic_column(lambda key: key[0]),
        group_column(lambda key: key[1]),
        sum_of(_("Attempts"), "attempts"),
        Column(_("Retry rate"), retry_rate, is_optional=True),
        *compared(query.before, dead, lambda key: count(dead_before.get(key, 0)), query.fewer),
        Column(_("Dead-letter rate"), dead_rate, help=_("Share of completed messages")),
        sum_of(_("In progress"), "unfinished"),
    ]
    order = sorted(
        ends, key=lambda key: (-(ends[key]["dead"] or 0), -(ends[key]["retried"] or 0), key)
    )
    empty = _("No deliveries in this range.")
    return table("ends", _("Attempts by outcome"), columns, order, empty)


def slowest(query: ReportQuery, rows: Rows, before: Rows) -> ReportView:
    """The report of the slowest messages of the range, with links to their journeys."""
    ordered = sorted(rows, key=lambda row: (-row["end_to_end_ms"], row["acked_ms"]))
    unknown = _("not in the traces")

    def between(begin: str, end: str) -> Callable[[Row], ReportCell]:
        return lambda row: length(_between(row[begin], row[end]), unknown)

    def acked(row: Row) -> ReportCell:
        return ReportCell(row["acked_ms"], ValueKind.MOMENT, why=unknown)

    columns = [
        Column(_("Message"), _message_cell, is_number=False),
        topic_column(lambda row: row["topic"]),
        group_column(lambda row: row["group"], is_optional=True),
        Column(_("End to end"), lambda row: length(row["end_to_end_ms"])),
        Column(_("Until last delivery"), between("born_ms", "delivered_ms"), is_optional=True),
        Column(_("Consume time"), between("delivered_ms", "acked_ms"), is_optional=True),
        Column(_("Attempt"), lambda row: count(row["attempt"], unknown), is_optional=True),
        Column(_("Acknowledged"), acked, is_optional=True),
    ]
    why = _("no acknowledgements")
    longest, earlier = (
        length(max((row["end_to_end_ms"] for row in each), default=None), why)
        for each in (rows, before)
    )
    empty = _("No acknowledgements in this range.")
    note = _(
        "Each hour has the ten slowest per topic and group; older hours, days and four-week "
        "periods have three, three and one."
    )
    return ReportView(
        figures=[query.figure(_("Longest"), longest, earlier, better=Better.LOWER)],
        tables=[table("slowest", _("Slowest messages"), columns, ordered, empty)],
        notes=[note],
    )


def _message_cell(row: Row) -> ReportCell:
    id = row["message_id"]
    if not id:
        return ReportCell(None, why=_("record not available"))
    return ReportCell(id, ValueKind.NAME, href="trace")


def _between(begin_ms: int | None, end_ms: int | None) -> int | None:
    return None if begin_ms is None or end_ms is None else max(0, end_ms - begin_ms)


def transactions(query: ReportQuery, rows: Rows, before: Rows) -> ReportView:
    """The report of transaction outcomes."""
    sums, others = sums_by(rows, "outcome"), sums_by(before, "outcome")

    def figure(outcome: str) -> Figure:
        now, then = (each.get((outcome,), 0) for each in (sums, others))
        is_bad = outcome == "check_given_up"
        tone, better = "bad" if is_bad and now else "", query.fewer if is_bad else Better.NEITHER
        cells = count(now), count(then)
        return query.figure(translated(OUTCOMES[outcome]), *cells, better=better, tone=tone)

    def series_of(outcome: str) -> Series:
        own = by_time(matching(rows, "outcome", outcome))
        return Series(outcome, translated(OUTCOMES[outcome]), fold(query.span, own))

    words = Words("outcomes", _("Outcomes over time"), _("Transactions by outcome."))
    chart, twin = bars_over_time(query, words, [*map(series_of, DECIDED)] if rows else [])
    return ReportView(
        figures=[*map(figure, OUTCOMES)],
        charts=chart,
        tables=[_by_group(query, rows, before), *twin],
        notes=[_("Exact: transactions are not sampled.")],
    )


def _by_group(query: ReportQuery, rows: Rows, before: Rows) -> Table:
    names = ("topic", "group", "outcome", "detail")
    sums, others = sums_by(rows, *names), sums_by(before, *names)
    columns = [
        topic_column(lambda key: key[0], _("half message not available")),
        text_column(_("Producer group"), lambda key: key[1], is_optional=True),
        text_column(_("Outcome"), lambda key: translated(OUTCOMES.get(key[2], key[2]))),
        text_column(_("By"), lambda key: key[3].replace("_", " "), is_optional=True),
        *message_columns(query.before, sums, others),
    ]
    order = sorted(sums, key=lambda key: (key[:2], -sums[key]))
    empty = _("No transactions in this range.")
    return table("outcomes", _("By topic and producer group"), columns, order, empty)
