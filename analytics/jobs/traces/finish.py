"""The last step: the tables of an hour, made of what its tasks counted."""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.jobs.definitions import (
    DELIVERED,
    ENDS,
    FAILURE_KINDS,
    METRICS,
    OTHERS,
    PROCESS,
    STORED_KINDS,
    UNFINISHED,
    UNMATCHED,
    UNTRACED,
    Params,
)
from analytics.jobs.outputs import typed
from analytics.jobs.traces import blobs, gather, latencies
from analytics.jobs.traces.blobs import COUNTERS, TextCodes, begins, keys, summed
from analytics.jobs.traces.counts import DECIDED_BY, HAPPENED, HOT
from analytics.manifest import hour_name
from engine.histogram import percentile
from engine.report_tables import TRACES_JOB, tables_of

Row = dict[str, Any]
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
SUMS = {"messages": "sum", "counted": "sum"}
SIZES = {"messages": "sum", "bytes": "sum"}
COUNTED = ("skewed", "unmatched_acks", "estimated", "duplicates")
PLACE = ("stored_topic", "queue", "offset")


@dataclass(frozen=True)
class Counted:
    """What was counted of an hour, summed up over its tasks; missing tables are empty."""

    tables: Mapping[str, "pa.Table"]

    def rows(self, name: str, by: Sequence[str], counts: Mapping[str, str]) -> list[Row]:
        """By `by`, in order."""
        table = self.tables.get(name)
        if table is None:
            return []
        rows: list[Row] = summed(table, by, counts).to_pylist()
        return rows


@dataclass(frozen=True)
class Finish:
    """Makes one blob of each table of each hour; `params` bound their rows."""

    params: Params

    def run(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Rows of BLOB."""
        for target, by_name in blobs.tables(batches).items():
            counted = Counted(by_name)
            for table in tables_of(TRACES_JOB):
                rows = BUILDS[table.name](counted, self.params)
                for row in rows:
                    row["hour"] = hour_name(target)
                yield blobs.row(0, target, table.name, 0, typed(rows, table))
            yield blobs.row(0, target, COUNTERS, 0, pa.Table.from_pylist([_counters(counted)]))


def _counters(counted: Counted) -> dict[str, int]:
    values = counted.rows(gather.VALUES, ("metric",), latencies.COUNTS)
    happened = counted.rows(gather.HAPPENED, HAPPENED[:3], SUMS)
    doubled = counted.tables.get(gather.DOUBLED)
    return {
        "skewed": sum(row["skewed"] for row in values if row["metric"] in METRICS),
        "unmatched_acks": sum(row["n"] for row in values if row["metric"] == UNMATCHED),
        "estimated": sum(_whole(row["messages"]) - row["counted"] for row in happened),
        "duplicates": pc.sum(doubled["rows"]).as_py() if doubled is not None else 0,
    }


def _latency(counted: Counted, params: Params) -> list[Row]:
    by = (*latencies.CELL, "bucket")
    rows = [
        row for row in counted.rows(gather.VALUES, by, latencies.COUNTS) if row["metric"] in METRICS
    ]
    busiest = _busiest(rows, params.clients_max)
    cells: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        place = (row["metric"], row["topic"], row["group"])
        client = row["client"]
        if row["metric"] != PROCESS:
            client = ""
        elif (*place, client) not in busiest:
            client = OTHERS
        cells[*place, client].append(row)
    return [
        dict(zip(latencies.CELL, cell, strict=True)) | _cell(parts) for cell, parts in cells.items()
    ]


def _busiest(rows: list[Row], clients_max: int) -> set[tuple[str, ...]]:
    """The cells of the clients that have a row of their own."""
    totals: dict[tuple[str, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        if row["client"]:
            totals[row["metric"], row["topic"], row["group"]][row["client"]] += row["n"]
    return {
        (*place, client)
        for place, clients in totals.items()
        for client in sorted(clients, key=lambda name: (-clients[name], name))[:clients_max]
    }


def _cell(parts: list[Row]) -> Row:
    """One histogram of several buckets' rows."""
    buckets: dict[int, int] = defaultdict(int)
    for part in parts:
        buckets[part["bucket"]] += part["n"]
    ordered = dict(sorted(buckets.items()))
    return {
        "n": sum(buckets.values()),
        "messages": _whole(sum(part["weight"] for part in parts)),
        "total": sum(part["total"] for part in parts),
        "least": min(part["least"] for part in parts),
        "most": max(part["most"] for part in parts),
        "skewed": sum(part["skewed"] for part in parts),
        **{name: percentile(ordered, share) for name, share in SHARES.items()},
        "buckets": json.dumps(ordered, separators=(",", ":")),
    }


def _throughput(counted: Counted, params: Params) -> list[Row]:
    by_cell: dict[tuple[str, str, str], Row] = {}
    for row in counted.rows(gather.STORED, ("role", "origin_topic", "group"), SIZES):
        if row["role"] in STORED_KINDS:
            place = (STORED_KINDS[row["role"]], row["origin_topic"], row["group"])
            sums = {name: row[name] for name in SIZES}
            by_cell[place] = sums | {"counted": row["messages"]}
    for row in counted.rows(gather.HAPPENED, HAPPENED[:3], SUMS):
        place = (row["kind"], row["topic"], row["group"])
        by_cell[place] = {"messages": _whole(row["messages"]), "counted": row["counted"]}
    names = ("kind", "topic", "group")
    return [dict(zip(names, place, strict=True)) | row for place, row in by_cell.items()]


def _outcomes(counted: Counted, params: Params) -> list[Row]:
    cells: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in counted.rows(gather.HAPPENED, ("topic", "group", "kind", "is_retried"), SUMS):
        cell = (row["topic"], row["group"])
        if row["kind"] in ENDS:
            cells[cell][row["kind"]] += row["messages"]
        elif row["kind"] == DELIVERED:
            cells[cell]["attempts"] += row["messages"]
            cells[cell]["retried"] += row["messages"] * row["is_retried"]
    for row in counted.rows(gather.VALUES, ("metric", "topic", "group"), latencies.COUNTS):
        if row["metric"] == UNFINISHED:
            cells[row["topic"], row["group"]]["unfinished"] += row["weight"]
    names = ("attempts", "retried", *ENDS, "unfinished")
    # Of messages that were given up all are known, of acknowledgements those that were traced.
    unknown = dict.fromkeys(UNTRACED) if params.is_traced_by_clients else {}
    return [
        {"topic": topic, "group": group}
        | _rates({name: _whole(cell[name]) for name in names} | unknown)
        for (topic, group), cell in cells.items()
        if not unknown or any(cell[name] for name in names if name not in unknown)
    ]


def _rates(row: Row) -> Row:
    ended = 0 if row["dead"] is None else row["acked"] + row["dead"]
    return row | {
        "retry_rate": _share(row["retried"], row["attempts"]),
        "dead_rate": _share(row["dead"], ended),
        "success_rate": _share(row["acked"], ended),
    }


def _share(part: int | None, whole: int) -> float | None:
    return None if part is None or not whole else part / whole


def _failures(counted: Counted, params: Params) -> list[Row]:
    table = counted.tables.get(gather.HAPPENED)
    if table is None:
        return []
    by = ("kind", "topic", "group", "reason")
    reasons = summed(table.filter(pc.is_in(table["kind"], pa.array(FAILURE_KINDS))), by, SUMS)
    whole = pc.floor(pc.add(reasons["messages"], 0.5)).cast(pa.int64())
    at = reasons.column_names.index("messages")
    return _most(reasons.set_column(at, "messages", whole), by, SUMS, params.reasons_max)


def _slowest(counted: Counted, params: Params) -> list[Row]:
    table = counted.tables.get(gather.SLOWEST)
    rows = table.to_pylist() if table is not None else []
    top = []
    for those in _grouped(rows, ("topic", "group")).values():
        those.sort(key=lambda row: (-row["end_to_end_ms"], *(row[name] for name in PLACE)))
        for rank, row in enumerate(those[: params.slowest_max], 1):
            top.append(row | {"rank": rank, "client": row["client"] or "", "message_id": ""})
    return top


def _hot_keys(counted: Counted, params: Params) -> list[Row]:
    table = counted.tables.get(gather.HOT)
    if table is None:
        return []
    return _most(summed(table, HOT, SIZES), HOT, SIZES, params.values_max)


def _most(
    values: "pa.Table", by: Sequence[str], sums: Mapping[str, str], count_max: int
) -> list[Row]:
    """The first of each cell by messages, and a row for the rest; `by` ends with what is ranked.

    Values may be as many as messages: no others become rows.
    """
    names = TextCodes()
    (cell,) = keys([names.codes(values[name]) for name in by[:-1]])
    order = np.argsort(cell, kind="stable")
    values, cell = values.take(pa.array(order)), cell[order]
    top = []
    for first, end in pairwise([*begins(cell).tolist(), len(cell)]):
        top += _first(values.slice(first, end - first), by[-1], list(sums), count_max)
    return top


def _first(values: "pa.Table", value: str, sums: Sequence[str], count_max: int) -> list[Row]:
    """Of one cell; `values` or `reasons` of a row says how many different ones it stands for."""
    order = [("messages", "descending"), (value, "ascending")]
    top = values.take(pc.select_k_unstable(values, k=count_max, sort_keys=order)).to_pylist()
    ranked = [row | {"rank": rank, f"{value}s": 1} for rank, row in enumerate(top, 1)]
    if values.num_rows > len(top):
        none = {"rank": 0, value: "", f"{value}s": values.num_rows - len(top)}
        left = {name: pc.sum(values[name]).as_py() - sum(row[name] for row in top) for name in sums}
        ranked.append(values.slice(0, 1).to_pylist()[0] | none | left)
    return ranked


def _queue_skew(counted: Counted, params: Params) -> list[Row]:
    rows = [
        row
        for row in counted.rows(gather.STORED, ("role", "topic", "queue"), SIZES)
        if row["role"] == "message"
    ]
    skews = []
    for those in _grouped(rows, ("topic",)).values():
        whole = sum(row["messages"] for row in those)
        for row in those:
            share = row["messages"] / whole
            skews.append(row | {"queues": len(those), "share": share, "skew": share * len(those)})
    return skews


def _transactions(counted: Counted, params: Params) -> list[Row]:
    return counted.rows(gather.TRANSACTIONS, DECIDED_BY, {"messages": "sum"})


def _grouped(rows: list[Row], by: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in by)].append(row)
    return groups


def _whole(messages: float) -> int:
    """A count that was scaled up, half up."""
    return math.floor(messages + 0.5)


BUILDS: dict[str, Callable[[Counted, Params], list[Row]]] = {
    "latency": _latency,
    "throughput": _throughput,
    "outcomes": _outcomes,
    "failures": _failures,
    "slowest": _slowest,
    "hot_keys": _hot_keys,
    "queue_skew": _queue_skew,
    "transactions": _transactions,
}
