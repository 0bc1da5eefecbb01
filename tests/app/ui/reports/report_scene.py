"""Figures of the reports as a week of runs would leave them, for tests and pictures."""

import json
import math
import random
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from app.ui.reports.rows import hour_name
from engine.histogram import pack, percentile, summarize
from engine.report_tables import RESULTS_BY_NAME

HOUR_MS = 3_600_000
SEED = 20
READERS = (("orders", "billing"), ("orders", "warehouse"), ("payments", "mailer"))
CLIENTS = {"billing": ("billing-1", "billing-2"), "warehouse": ("warehouse-1",), "mailer": ("m-1",)}
REASONS = ("rejected", "max_attempts", "ValueError: total is missing", "=1+1")
TAGS = {"created": 400, "paid": 310, "shipped": 220, "cancelled": 70, "=cmd": 9}
GAP = 30  # hours ago nothing was recorded
RUN = 7
LOG = "26/11/21 WARN <b>NativeCodeLoader</b>: unable to load\nlatency: 1,234 rows"
Rows = list[dict[str, Any]]


def hour_rows(at_ms: int, ago: int) -> dict[str, Rows]:
    """One hour's rows of every table of the traces."""
    chance = random.Random(SEED * 10_000 + ago)
    hour = hour_name(at_ms)
    swell = 1.4 + math.sin(ago / 3.8)
    return {
        "latency": _latencies(hour, chance, swell),
        "throughput": _throughput(hour, swell),
        "outcomes": [
            {
                "hour": hour, "topic": topic, "group": group, "attempts": 1000, "retried": 40,
                "acked": 950, "failed": 30, "expired": 8, "returned": 2, "dead": 6,
                "unfinished": 1, "retry_rate": 0.04, "dead_rate": 0.006, "success_rate": 0.99,
            }
            for topic, group in READERS
        ],
        "failures": [
            {
                "hour": hour, "kind": kind, "topic": "orders", "group": "billing", "rank": rank,
                "reason": reason, "reasons": 1, "messages": 40 // rank + ago % 7,
                "counted": 40 // rank + ago % 7,
            }
            for kind in ("dead", "failed")
            for rank, reason in enumerate(REASONS, 1)
        ],
        "slowest": [
            {
                "hour": hour, "topic": "orders", "group": "billing", "rank": 1,
                "end_to_end_ms": 40_000 + 100 * ago, "message_id": f"SLOW{ago}",
                "stored_topic": "orders", "queue": 1, "offset": 3, "born_ms": at_ms,
                "stored_ms": at_ms + 2, "delivered_ms": at_ms + 30_000,
                "acked_ms": at_ms + 40_000 + 100 * ago, "attempt": 2, "client": "billing-1",
            },
        ],
        "hot_keys": [
            {
                "hour": hour, "topic": "orders", "kind": "tag", "rank": rank, "value": tag,
                "values": 1, "messages": number, "bytes": number * 300,
            }
            for rank, (tag, number) in enumerate(TAGS.items(), 1)
        ],
        "queue_skew": [
            {
                "hour": hour, "topic": "orders", "queue": queue, "messages": number,
                "bytes": number * 300, "queues": 4, "share": number / 1000, "skew": number / 250,
            }
            for queue, number in enumerate((100, 180, 120, 600))
        ],
        "transactions": [
            {
                "hour": hour, "topic": "transfers", "group": "bank", "outcome": outcome,
                "detail": "", "messages": number,
            }
            for outcome, number in (("half", 20), ("committed", 16), ("rolled_back", 3))
        ],
    }  # fmt: skip


def _latencies(hour: str, chance: random.Random, swell: float) -> Rows:
    rows = []
    for metric, middle in (("end_to_end", 180), ("wait", 30), ("process", 60), ("broker", 3)):
        for topic, group in READERS:
            for client in CLIENTS[group] if metric == "process" else ("",):
                slow = 4 if client == "billing-2" else 1
                values = [
                    int(chance.lognormvariate(math.log(middle * slow * swell), 0.7))
                    for __ in range(120)
                ]
                values += [int(chance.uniform(8_000, 30_000)) for __ in range(3)]
                rows.append(_cell(hour, metric, topic, "" if metric == "broker" else group, client,
                                  values))  # fmt: skip
        if metric == "broker":
            rows = [row for row in rows if row["metric"] != "broker" or row["group"] == ""]
    unique = {(r["metric"], r["topic"], r["group"], r["client"]): r for r in rows}
    return list(unique.values())


def _cell(
    hour: str, metric: str, topic: str, group: str, client: str, values: Sequence[int]
) -> dict[str, Any]:
    summary = summarize(list(values))
    assert summary is not None
    return {
        "hour": hour, "metric": metric, "topic": topic, "group": group, "client": client,
        "n": summary.n, "messages": summary.n * 10, "total": summary.total, "least": summary.least,
        "most": summary.most, "skewed": 1 if metric == "broker" else 0,
        **{name: percentile(summary.buckets, part)
           for name, part in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))},
        "buckets": pack(summary.buckets),
    }  # fmt: skip


def _throughput(hour: str, swell: float) -> Rows:
    stored = round(1000 * swell)
    rows = [("message", "", stored, stored * 300), ("delivered", "billing", stored + 40, None)]
    rows.append(("acked", "billing", stored - 6, None))
    return [
        {
            "hour": hour, "kind": kind, "topic": "orders", "group": group, "messages": number,
            "counted": number, "bytes": size,
        }
        for kind, group, number, size in rows
    ]  # fmt: skip


STATE = {
    "produce_per_s": 12.0, "consume_per_s": 7.5, "eta_s": None, "retry_waiting": 3, "dead": 9,
    "members": 2,
}  # fmt: skip
BEHIND = json.dumps({"consume_per_s": 7.5, "produce_per_s": 12.0, "queues": 4, "members": 2})


def lag_hour(at_ms: int, ago: int) -> dict[str, Rows]:
    """One hour's rows of the tables of lag over time."""
    hour = hour_name(at_ms)
    is_behind = ago < 5
    hours, bands = [], []
    for group, topic in (("billing", "orders"), ("warehouse", "orders"), ("mailer", "payments")):
        bad = group == "billing" and is_behind
        state = "FALLING_BEHIND" if bad else "OK"
        hours.append(
            {
                "hour": hour, "group": group, "topic": topic, "at_ms": at_ms + HOUR_MS - 1,
                "state": state, "worst_state": state, "worst_queue": 2, "queues": 4,
                "lag": 400 if bad else 0, "time_lag_ms": 90_000 if bad else 0, **STATE,
                "advice": "add_consumers" if bad else "", "advice_params": BEHIND if bad else "{}",
                "lag_max": 400 + 10 * ago if bad else 3, "time_lag_max_ms": 95_000 if bad else 500,
                "hot_queue": 2 if bad else None, "idle_members": 0, "lost": 0,
                "completeness": 1.0, "evaluations": 12,
                "state_ms": json.dumps({state: 4 * HOUR_MS}),
                "evaluated": json.dumps([[at_ms, at_ms + HOUR_MS]]),
            }
        )  # fmt: skip
        for queue in range(4) if bad else ():
            bands.append(
                {
                    "hour": hour, "group": group, "topic": topic, "queue": queue,
                    "begin_ms": at_ms + queue * 300_000, "end_ms": at_ms + HOUR_MS,
                    "state": "STALLED" if queue == 2 else state, "lag_max": 100,
                    "time_lag_max_ms": 95_000,
                }
            )  # fmt: skip
    return {"lag_hours": hours, "lag_bands": bands}


def lag_now(at_ms: int) -> Rows:
    """How each queue stands."""
    rows = []
    for queue in range(4):
        stalled = queue == 2
        params = json.dumps({"queue": queue, "committed": 41}) if stalled else BEHIND
        rows.append(
            {
                "hour": hour_name(at_ms), "group": "billing", "topic": "orders", "queue": queue,
                "at_ms": at_ms, "state": "STALLED" if stalled else "FALLING_BEHIND",
                "raw_state": "STALLED", "lag": 100 + queue, "time_lag_ms": 90_000, **STATE,
                "advice": "look_at_message" if stalled else "add_consumers",
                "advice_params": params, "slope_per_s": 4.5, "committed": 41, "lost": 0,
                "risk_s": None, "completeness": 1.0,
            }
        )  # fmt: skip
    return rows


def build(database: Path, now_ms: int, hours: int = 24 * 8) -> None:
    """Write the figures of the last `hours` hours, and the runs that made them."""
    begin_ms = now_ms - now_ms % HOUR_MS
    with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
        for ago in range(hours):
            at_ms = begin_ms - ago * HOUR_MS
            if ago != GAP:
                tables = {**hour_rows(at_ms, ago), **lag_hour(at_ms, ago)}
                for name, rows in tables.items():
                    _insert(connection, f"report_{name}", RESULTS_BY_NAME[name].names, rows)
                done = {"hour": hour_name(at_ms), "fingerprint": "f", "done_ms": now_ms}
                partitions = [{**done, "job": job, "run_id": RUN} for job in ("traces", "lag")]
                _insert(connection, "report_partitions", tuple(partitions[0]), partitions)
        _insert(connection, "report_lag_now", RESULTS_BY_NAME["lag_now"].names, lag_now(begin_ms))
        _insert(connection, "report_runs", tuple(_run(now_ms, "ok")), _runs(now_ms))


def _runs(now_ms: int) -> Rows:
    failed = {**_run(now_ms - HOUR_MS, "failed"), "error_class": "OutOfMemory", "rows_out": None}
    failed["error"] = "Java heap space; raise report_driver_memory"
    return [failed, *({**_run(now_ms, "ok"), "job": job} for job in ("lag", "traces"))]


def _run(at_ms: int, state: str) -> dict[str, Any]:
    hours = [hour_name(at_ms - HOUR_MS), hour_name(at_ms)]
    inputs = {"trace": {"hours": hours, "rows": 48_211, "late_rows": 12}}
    return {
        "job": "traces", "cause": "schedule", "state": state, "attempt": 1, "actor": "schedule",
        "began_ms": at_ms - 21_000, "ended_ms": at_ms - 9_000, "owner": "", "lease_ms": at_ms,
        "hours_json": json.dumps(hours), "rows_in": 48_211, "rows_out": 902,
        "input_at_ms": at_ms - 20_000, "inputs_json": json.dumps(inputs),
        "counters_json": json.dumps({"duplicates": 4, "late": 12}), "spark": "4.3.0",
        "java": "25.0.2", "master": "local[2]", "peak_kib": 912_000, "error_class": "",
        "error": "", "log_tail": LOG,
    }  # fmt: skip


def _insert(
    connection: sqlite3.Connection, table: str, names: Sequence[str], rows: list[Mapping[str, Any]]
) -> None:
    quoted = ", ".join(f'"{name}"' for name in names)
    marks = ", ".join("?" for __ in names)
    statement = f'insert into "{table}" ({quoted}) values ({marks})'  # noqa: S608
    connection.executemany(statement, [[row[name] for name in names] for row in rows])
