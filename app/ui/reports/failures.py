"""Reports on failures by reason, outcomes, the slowest messages, and transactions. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.ui.framework.language import N_, _, translated
from app.ui.reports import charts as report_charts
from app.ui.reports.charts import DASH, Chart, Series, Words, fold
from app.ui.reports.flow import by_time, over_time
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
    length,
    say_count,
    share,
    total,
)
from app.ui.reports.words import OUTCOMES

FAILURES = ("dead", "failed", "expired", "refused")
REASONS_IN_CHART = 7
OTHERS = "\0"  # cannot be the name of a reason
DECIDED = ("committed", "rolled_back", "check_given_up")
SUMS = ("attempts", "retried", "acked", "failed", "expired", "returned", "dead", "unfinished")


def failures(query: ReportQuery, rows: Mapping[str, Rows], before: Mapping[str, Rows]) -> View:
    """Failures of the kind `query.choice` by reason, and how attempts ended by topic and group."""
    now = [row for row in rows["failures"] if row["kind"] == query.choice]
    then = [row for row in before["failures"] if row["kind"] == query.choice]
    ends, ends_before = rows["outcomes"], before["outcomes"]
    series = _reason_series(query, now)
    return View(
        figures=_end_figures(query, ends, ends_before),
        charts=[_reason_chart(query, series, now)] if now else [],
        tables=[
            _by_reason(query, now, then),
            *([over_time("reasons-over-time", query.span, series, query.zone)] if now else []),
            _by_name(query, ends, ends_before),
        ],
        notes=[translated(MEANINGS[query.choice])],
    )


MEANINGS = {
    "dead": N_("Messages that were given up and lie in the dead letters."),
    "failed": N_("Attempts that their consumer reported as failed."),
    "expired": N_("Attempts whose time ran out before anybody reported."),
    "refused": N_("Messages that the server did not take from their producers."),
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
        return _("rarer ones")
    return reason or _("none was given")


def _reason_series(query: ReportQuery, rows: Rows) -> list[Series]:
    """The most frequent reasons over time, and all others together."""
    sums = _reasons(rows)
    named = sorted((name for name in sums if name != OTHERS), key=lambda name: (-sums[name], name))
    chosen = named[:REASONS_IN_CHART]
    series = [
        Series(name, _reason_name(name), fold(query.span, by_time(own, "messages")))
        for name in chosen
        if (own := [row for row in rows if row["rank"] and row["reason"] == name])
    ]
    rest = [row for row in rows if not row["rank"] or row["reason"] not in chosen]
    if rest:
        series.append(Series(OTHERS, _("all others"), fold(query.span, by_time(rest, "messages"))))
    return series


def _reason_chart(query: ReportQuery, series: Sequence[Series], rows: Rows) -> Chart:
    words = Words(
        "reasons", _("By reason, over time"), _("How many there were of each reason."),
        "reasons-over-time", say_count,
    )  # fmt: skip
    return report_charts.bars(query.span, series, words, query.zone)


def _by_reason(query: ReportQuery, rows: Rows, before: Rows) -> Table:
    sums, others = _reasons(rows), _reasons(before)
    everything = sum(sums.values())
    order = sorted(sums, key=lambda name: (name == OTHERS, -sums[name], name))
    lines = [
        [
            Cell(_reason_name(name), tone="" if name and name != OTHERS else "muted"),
            *compared(count(sums[name]), count(others.get(name, 0)) if query.before else None),
            share(sums[name], everything),
        ]
        for name in order
    ]
    columns = [
        Column(_("Reason"), is_number=False),
        *compared_columns(Column(_("Messages")), query.before is not None),
        Column(_("Share")),
    ]
    return Table(
        "reasons", _("By reason"), columns, cut(lines), len(lines),
        empty=_("There was none in this range."),
    )  # fmt: skip


def _ends(rows: Rows) -> dict[str, int]:
    return {name: total(rows, name) for name in SUMS}


def _end_figures(query: ReportQuery, rows: Rows, before: Rows) -> list[Figure]:
    now, then = _ends(rows), _ends(before)

    def rate(label: str, part: str, whole: Sequence[str], tone: str = "") -> Figure:
        value = share(now[part], sum(now[name] for name in whole))
        other = share(then[part], sum(then[name] for name in whole)) if query.before else None
        return Figure(label, value, other, tone=tone if value.value else "")

    return [
        Figure(_("Attempts"), count(now["attempts"]), _when(query, count(then["attempts"]))),
        rate(_("Retry rate"), "retried", ("attempts",)),
        Figure(
            _("Dead"),
            count(now["dead"]),
            _when(query, count(then["dead"])),
            tone="bad" if now["dead"] else "",
        ),
        rate(_("Dead-letter rate"), "dead", ("acked", "dead"), "bad"),
        Figure(
            _("Unfinished"),
            count(now["unfinished"]),
            _when(query, count(then["unfinished"])),
            note=_("no end for 15 minutes"),
        ),
    ]


def _when(query: ReportQuery, cell: Cell) -> Cell | None:
    return cell if query.before else None


def _by_name(query: ReportQuery, rows: Rows, before: Rows) -> Table:
    names = ("topic", "group")
    others = {key: _ends(each) for key, each in grouped(before, names).items()}
    none = dict.fromkeys(SUMS, 0)
    sums = {key: _ends(each) for key, each in grouped(rows, names).items()}
    order = sorted(sums.items(), key=lambda one: (-one[1]["dead"], -one[1]["retried"], one[0]))
    lines = []
    for key, ends in order:
        topic, group = key
        then = others.get(key, none)
        lines.append(
            [
                Cell(topic, Kind.NAME, href="topics"),
                Cell(group, Kind.NAME, href="groups"),
                count(ends["attempts"]),
                share(ends["retried"], ends["attempts"]),
                *compared(count(ends["dead"]), _when(query, count(then["dead"]))),
                share(ends["dead"], ends["acked"] + ends["dead"]),
                count(ends["unfinished"]),
            ]
        )
    columns = [
        Column(_("Topic"), is_number=False),
        Column(_("Group"), is_number=False),
        Column(_("Attempts"), is_optional=True),
        Column(_("Retry rate"), is_optional=True),
        *compared_columns(Column(_("Dead")), query.before is not None),
        Column(_("Dead-letter rate"), help=_("Dead of all that came to an end")),
        Column(_("Unfinished"), is_optional=True),
    ]
    return Table(
        "ends", _("How attempts ended"), columns, cut(lines), len(lines),
        empty=_("Nothing was handed out in this range."),
    )  # fmt: skip


def slowest(query: ReportQuery, rows: Rows, before: Rows) -> View:
    """The report of the slowest messages of the range, with links to their journeys."""
    ordered = sorted(rows, key=lambda row: (-row["end_to_end_ms"], row["acked_ms"]))
    lines = [_slow_line(row) for row in ordered]
    columns = [
        Column(_("Message"), is_number=False),
        Column(_("Topic"), is_number=False),
        Column(_("Group"), is_number=False, is_optional=True),
        Column(_("End to end")),
        Column(_("Until handed out last"), is_optional=True),
        Column(_("Consume time"), is_optional=True),
        Column(_("Attempt"), is_optional=True),
        Column(_("Acknowledged"), is_optional=True),
    ]
    longest = ordered[0]["end_to_end_ms"] if ordered else None
    earlier = max((row["end_to_end_ms"] for row in before), default=None)
    why = _("nothing was acknowledged")
    return View(
        figures=[Figure(_("Longest"), length(longest, why), _when(query, length(earlier, why)))],
        tables=[
            Table(
                "slowest",
                _("Slowest messages"),
                columns,
                cut(lines),
                len(lines),
                empty=_("No group acknowledged anything in this range."),
            )
        ],
        notes=[
            _(
                "Each hour keeps the ten slowest of a topic and group; after hours three are "
                "left, of days three as well, of four weeks one."
            )
        ],
    )


def _slow_line(row: Mapping[str, Any]) -> list[Cell]:
    id, unknown = row["message_id"], _("not told by the traces")
    named = (
        Cell(id, Kind.NAME, href="trace") if id else Cell(None, why=_("its record is not at hand"))
    )
    delivered, acked = row["delivered_ms"], row["acked_ms"]
    return [
        named,
        Cell(row["topic"], Kind.NAME, href="topics"),
        Cell(row["group"], Kind.NAME, href="groups"),
        length(row["end_to_end_ms"]),
        length(_between(row["born_ms"], delivered), unknown),
        length(_between(delivered, acked), unknown),
        count(row["attempt"], unknown),
        Cell(acked, Kind.MOMENT, why=unknown),
    ]


def _between(begin_ms: int | None, end_ms: int | None) -> int | None:
    return None if begin_ms is None or end_ms is None else max(0, end_ms - begin_ms)


def transactions(query: ReportQuery, rows: Rows, before: Rows) -> View:
    """The report of transaction outcomes."""
    sums, others = _outcomes(rows), _outcomes(before)
    figures = [
        Figure(
            translated(OUTCOMES[outcome]),
            count(sums.get(outcome, 0)),
            _when(query, count(others.get(outcome, 0))),
            tone="bad" if outcome == "check_given_up" and sums.get(outcome) else "",
        )
        for outcome in OUTCOMES
    ]
    series = [
        Series(
            name, translated(OUTCOMES[name]),
            fold(query.span, by_time([r for r in rows if r["outcome"] == name], "messages")),
        )
        for name in DECIDED
    ]  # fmt: skip
    words = Words(
        "outcomes", _("Outcomes over time"), _("How transactions were decided."),
        "outcomes-over-time", say_count,
    )  # fmt: skip
    return View(
        figures=figures,
        charts=[report_charts.bars(query.span, series, words, query.zone)] if rows else [],
        tables=[
            _by_group(query, rows, before),
            *([over_time("outcomes-over-time", query.span, series, query.zone)] if rows else []),
        ],
        notes=[_("Exact: transactions are never sampled.")],
    )


def _outcomes(rows: Rows) -> dict[str, int]:
    return {key[0]: total(each, "messages") for key, each in grouped(rows, ("outcome",)).items()}


def _by_group(query: ReportQuery, rows: Rows, before: Rows) -> Table:
    names = ("topic", "group", "outcome", "detail")
    others = {key: total(each, "messages") for key, each in grouped(before, names).items()}
    sums = {key: total(each, "messages") for key, each in grouped(rows, names).items()}
    lines = [
        [
            Cell(topic or None, Kind.NAME, href="topics", why=_("the half message is not at hand")),
            Cell(group or DASH),
            Cell(translated(OUTCOMES.get(outcome, outcome))),
            Cell(detail.replace("_", " ") or DASH),
            *compared(
                count(messages),
                _when(query, count(others.get((topic, group, outcome, detail), 0))),
            ),
        ]
        for (topic, group, outcome, detail), messages in sorted(
            sums.items(), key=lambda one: (one[0][:2], -one[1])
        )
    ]
    columns = [
        Column(_("Topic"), is_number=False),
        Column(_("Producer group"), is_number=False, is_optional=True),
        Column(_("Outcome"), is_number=False),
        Column(_("By"), is_number=False, is_optional=True),
        *compared_columns(Column(_("Messages")), query.before is not None),
    ]
    return Table(
        "outcomes", _("By topic and producer group"), columns, cut(lines), len(lines),
        empty=_("There was no transaction in this range."),
    )  # fmt: skip
