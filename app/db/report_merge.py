"""Merges the figures of several hours into those of a longer period. Pure.

Sums are added, and histograms by their counts, so that percentiles of a day are those of its
messages, never averages. Lists of the most frequent or slowest are ranked again; the sum of unnamed
frequent ones is in rank 0, as in the hours.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from app.db import report_evaluated
from app.db.report_periods import DAY, HOUR, WEEKS
from app.db.report_rows import Row
from engine.histogram import merge, pack, percentile, unpack
from engine.report_tables import RESULTS_BY_NAME, ResultTable

LATENCY = "latency"
OTHER_CLIENTS = "*"
PERCENTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
WORST_FIRST = (
    "LOST", "OFFLINE", "STALLED", "STOPPED", "AT_RISK", "REWIND", "FALLING_BEHIND", "SLOW",
    "CATCHING_UP", "UNKNOWN", "RESET", "STEADY", "OK",
)  # fmt: skip
# Of a ranked list: how many are kept by name, the column that names, and how many it stands for.
NAMED = {"failures": (20, "reason", "reasons"), "hot_keys": (20, "value", "values")}
SLOWEST = {HOUR: 3, DAY: 3, WEEKS: 1}  # of a topic and group; what they were is soon deleted

Rows = Sequence[Row]
Group = tuple[Any, ...]


def merged(table: ResultTable, rows: Iterable[Row], hour: str, hours: int) -> list[Row]:
    """The rows of the period of `hours` hours from `hour`, in no order.

    `rows` are those of its shorter periods, with packed histograms. Rows of a single hour stay
    unchanged, except that fewer slowest messages are stored.
    """
    if hours == HOUR:
        return [row for row in rows if table.name != "slowest" or row["rank"] <= SLOWEST[HOUR]]
    hourly = [{**row, "hour": hour} for row in rows]
    if table.name == LATENCY and hours >= WEEKS:  # clients come and go
        for row in hourly:
            row["client"] = OTHER_CLIENTS if row["client"] else ""
    merged_rows = MERGES[table.name](table, hourly)
    if table.name == "slowest":
        merged_rows = [row for row in merged_rows if row["rank"] <= SLOWEST[hours]]
    return completed(table, merged_rows)


def completed(table: ResultTable, rows: list[Row]) -> list[Row]:
    """The rows with derived columns: shares, rates, percentiles."""
    derive = DERIVED.get(table.name)
    if derive is not None:
        derive(rows)
    return rows


def derived_columns(table: ResultTable) -> tuple[str, ...]:
    """The columns that `completed` derives, which need not be stored."""
    return COLUMNS_DERIVED.get(table.name, ())


def _grouped(rows: Rows, names: Sequence[str]) -> dict[Group, list[Row]]:
    groups: dict[Group, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def _sum(rows: Rows, name: str) -> int | None:
    """The sum of the values that are not None; None if all are."""
    values = [row[name] for row in rows if row[name] is not None]
    return sum(values) if values else None


def _most(rows: Rows, name: str) -> Any:
    return max((row[name] for row in rows if row[name] is not None), default=None)


def _added(table: ResultTable, rows: Rows) -> list[Row]:
    """One row for each key, with added sums."""
    return [
        {**each[0], **{name: _sum(each, name) for name in table.sums}}
        for each in _grouped(rows, table.key).values()
    ]


def _latencies(table: ResultTable, rows: Rows) -> list[Row]:
    merged = []
    for each in _grouped(rows, table.key).values():
        sums = {name: _sum(each, name) for name in ("n", "messages", "total", "skewed")}
        least = min((row["least"] for row in each if row["least"] is not None), default=None)
        ends = {"least": least, "most": _most(each, "most")}
        buckets = pack(merge(unpack(row["buckets"]) for row in each))
        merged.append({**each[0], **sums, **ends, "buckets": buckets})
    return merged


def _percentiles(rows: list[Row]) -> None:
    for row in rows:
        buckets = unpack(row["buckets"])
        row.update({name: percentile(buckets, share) for name, share in PERCENTILES})


def _rates(rows: list[Row]) -> None:
    for row in rows:
        ends = 0 if row["dead"] is None else (row["acked"] or 0) + row["dead"]
        row["retry_rate"] = _ratio(row["retried"], row["attempts"])
        row["dead_rate"] = _ratio(row["dead"], ends)
        row["success_rate"] = _ratio(row["acked"], ends)


def _ratio(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else part / whole


def _named(table: ResultTable, rows: Rows) -> list[Row]:
    """The most frequent by name, all others in rank 0."""
    count_max, column, values = NAMED[table.name]
    within = [name for name in table.key if name != "rank"]
    ranked = []
    for each in _grouped(rows, within).values():
        by_name = _grouped([row for row in each if row["rank"]], (column,)).values()
        named = [_total(table, same) for same in by_name]
        named.sort(key=lambda row: (-(row["messages"] or 0), row[column]))
        ranked += [{**row, "rank": rank} for rank, row in enumerate(named[:count_max], 1)]
        unnamed, dropped = [row for row in each if not row["rank"]], named[count_max:]
        if unnamed or dropped:
            # Which ones an hour left out is not known: at least as many as the most of an hour.
            amount = (_most(unnamed, values) or 0) + len(dropped)
            rest = {**_total(table, [*unnamed, *dropped]), "rank": 0, column: "", values: amount}
            ranked.append(rest)
    return ranked


def _total(table: ResultTable, rows: Rows) -> Row:
    return {**rows[0], **{name: _sum(rows, name) for name in table.sums}}


def _slowest(table: ResultTable, rows: Rows) -> list[Row]:
    slowest = []
    for each in _grouped(rows, ("hour", "topic", "group")).values():
        each.sort(key=lambda row: (-row["end_to_end_ms"], row["acked_ms"], row["message_id"]))
        slowest += [{**row, "rank": rank} for rank, row in enumerate(each, 1)]
    return slowest


def _skews(rows: list[Row]) -> None:
    for each in _grouped(rows, ("hour", "topic")).values():
        whole = _sum(each, "messages") or 0
        for row in each:
            row["queues"] = len(each)
            row["share"] = _ratio(row["messages"], whole)
            row["skew"] = None if row["share"] is None else row["share"] * len(each)


def _lags(table: ResultTable, rows: Rows) -> list[Row]:
    """As the last hour left it, with the worst, the most and the sums of all."""
    merged = []
    for each in _grouped(rows, table.key).values():
        last = max(each, key=lambda row: row["at_ms"] or 0)
        evaluations = _sum(each, "evaluations")
        parts = [(row["completeness"], row["evaluations"] or 0) for row in each]
        shares = [(share, number) for share, number in parts if share is not None]
        weight = sum(number for _, number in shares)
        merged.append(
            {
                **last,
                "worst_state": min((row["worst_state"] for row in each), key=_severity),
                "lag_max": _most(each, "lag_max"),
                "time_lag_max_ms": _most(each, "time_lag_max_ms"),
                "lost": _sum(each, "lost"),
                "evaluations": evaluations,
                "completeness": sum(a * b for a, b in shares) / weight if weight else None,
                "state_ms": _state_ms(each),
                "evaluated": report_evaluated.merge_rows(each),
            }
        )
    return merged


def _severity(state: str) -> int:
    return WORST_FIRST.index(state) if state in WORST_FIRST else len(WORST_FIRST)


def _state_ms(rows: Rows) -> str:
    state_ms: dict[str, int] = {}
    for row in rows:
        for state, spent_ms in json.loads(row["state_ms"] or "{}").items():
            state_ms[state] = state_ms.get(state, 0) + spent_ms
    return json.dumps(state_ms)


def _bands(table: ResultTable, rows: Rows) -> list[Row]:
    """Bands of the same state that touch become one."""
    bands: list[Row] = []
    for each in _grouped(rows, ("hour", "group", "topic", "queue")).values():
        each.sort(key=lambda row: row["begin_ms"])
        last = dict(each[0])
        for row in each[1:]:
            if row["state"] == last["state"] and row["begin_ms"] <= last["end_ms"]:
                last["end_ms"] = max(last["end_ms"], row["end_ms"])
                for name in ("lag_max", "time_lag_max_ms"):
                    last[name] = _most([last, row], name)
            else:
                bands.append(last)
                last = dict(row)
        bands.append(last)
    return bands


MERGES: Mapping[str, Callable[[ResultTable, Rows], list[Row]]] = {
    LATENCY: _latencies,
    "throughput": _added,
    "outcomes": _added,
    "failures": _named,
    "slowest": _slowest,
    "hot_keys": _named,
    "queue_skew": _added,
    "transactions": _added,
    "lag_hours": _lags,
    "lag_bands": _bands,
}
DERIVED: Mapping[str, Callable[[list[Row]], None]] = {
    LATENCY: _percentiles,
    "outcomes": _rates,
    "queue_skew": _skews,
}
COLUMNS_DERIVED = {
    LATENCY: tuple(name for name, _ in PERCENTILES),
    "outcomes": ("retry_rate", "dead_rate", "success_rate"),
    "queue_skew": ("queues", "share", "skew"),
}
assert all(set(columns) <= set(RESULTS_BY_NAME[name].names)
           for name, columns in COLUMNS_DERIVED.items())  # fmt: skip
