"""How much room ten years of the reports' figures take: `python -m bench.report_size [--url URL]`.

Figures of one topic with twenty groups are written to an empty database (a SQLite file unless a URL
says other) in each of the four ways that they are kept, and the room they take is measured. From
that follows what ten years need for 100 topics, each read by 20 groups, all of them busy at every
hour. The database at the URL should be empty, and is left with the figures of the last way.
"""

import argparse
import json
import math
import random
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import create_engine, text

from app.db.database import Database
from app.db.report_periods import DAY, HOUR, WEEKS, begin_of, name_of, number_of
from app.db.report_rows import Loaded, Row, RunRow
from app.services.reports.keeping import ROWS_HOURS
from app.settings import Settings
from engine.histogram import GAMMA, percentile
from engine.report_tables import HOURS, RESULTS, RESULTS_BY_NAME
from kitemq.model.reports import RunState

TOPICS, GROUPS = 100, 20
PAIRS = TOPICS * GROUPS
YEARS_DAYS = 3652
LIMIT_BYTES = 1_000_000_000
PERIODS = 24  # of each kind that are written for measuring
FIRST = begin_of(number_of("2026-11-02T00"), WEEKS)
# What is busy, on average: of every group on every topic in every hour.
MESSAGES = 500
CLIENTS, QUEUES, REASONS, KEYS, TAGS, SLOWEST = 2, 8, 2, 100, 5, 10
SEED = 7
ROWS = 0  # hours in rows of their own: no packed period


@dataclass(frozen=True)
class Need:
    """Bytes of one group on one topic and period, and how many such periods are kept at most."""

    name: str
    pair_bytes: float
    periods: int

    @property
    def bytes(self) -> int:
        return math.ceil(self.pair_bytes * self.periods * PAIRS)


def measured(url: str, count: int = PERIODS) -> list[Need]:
    """What each way of keeping figures takes in this database, and the marks of the hours.

    `count` periods of each kind are written for it.
    """
    settings = Settings()
    hourly, daily = settings.report_hourly_days, settings.report_daily_days
    days = daily - hourly + WEEKS // DAY  # until all four weeks are old enough
    periods = {
        ROWS: ("newest hours, in rows", ROWS_HOURS + 1),
        HOUR: ("hours, packed", (hourly + 1) * DAY - ROWS_HOURS),
        DAY: ("days, packed", days),
        WEEKS: ("four weeks, packed", math.ceil((YEARS_DAYS - daily) * DAY / WEEKS)),
    }
    lines = []
    for hours, (name, sizes) in periods.items():
        lines.append(Need(name, _size_of(url, hours, count) / (GROUPS * count), sizes))
    marks = _marks(url) / PAIRS  # of an hour, whatever is in it
    return [*lines, Need("marks of what was computed", marks, YEARS_DAYS * DAY)]


def _size_of(url: str, hours: int, count: int) -> int:
    """The room of so many periods of one topic: hours as they are, or packed ones."""
    with closing(Database(url)) as database:
        _empty(url)
        before = _room(url)
        step = max(hours, HOUR)
        for number in range(count):
            _write(database, FIRST + number * step, step)
        if hours != ROWS:
            for table in RESULTS:
                end = name_of(FIRST + count * step)
                while table.replaces == HOURS and database.results.compact(table.name, hours, end):
                    pass
        return _room(url) - before


def _marks(url: str) -> float:
    """The room that an hour's marks take, of both jobs."""
    with closing(Database(url)) as database:
        _empty(url)
        before, count = _room(url), 4_000
        for job in ("traces", "lag"):
            run = _begun(database, job)
            marks = {name_of(FIRST + n): "0123456789abcdef" for n in range(count)}
            database.results.replace(Loaded(run, marks, []))
        return (_room(url) - before) / count


def _begun(database: Database, job: str) -> RunRow:
    run = RunRow(
        job=job, cause="manual", state=RunState.RUNNING, attempt=1, actor="", began_ms=1, owner="o"
    )
    begun = database.reports.begin(run)
    assert begun is not None
    return RunRow(**{**vars(begun), "state": RunState.OK, "ended_ms": 2})


def _write(database: Database, begin: int, hours: int) -> None:
    """The figures of one hour; of a longer period as they are when it was put together."""
    for job in ("traces", "lag"):
        run = RunRow(**{**vars(_begun(database, job)), "hours": (name_of(begin),)})
        rows = period_rows(begin, hours)
        tables = [(RESULTS_BY_NAME[name], rows[name]) for name in rows]
        own = [(table, each) for table, each in tables if table.job == job]
        database.results.replace(Loaded(run, {name_of(begin): "f"}, own))


def _empty(url: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        for name in ("packed", "partitions", "runs", *(table.name for table in RESULTS)):
            connection.execute(text(f"DELETE FROM report_{name}"))  # noqa: S608
    engine.dispose()


def _room(url: str) -> int:
    """The bytes of the database once it is tidy."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.execute(text("VACUUM"))
            pages = connection.execute(text("PRAGMA page_count")).scalar_one()
            size = int(pages) * int(connection.execute(text("PRAGMA page_size")).scalar_one())
        else:
            connection.execute(text("VACUUM FULL"))
            whole = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r'"
            whole += " AND relname LIKE 'report_%' AND relname <> 'report_runs'"
            size = int(connection.execute(text(whole)).scalar_one())
    engine.dispose()
    return size


def period_rows(begin: int, hours: int) -> dict[str, list[Row]]:
    """All figures of a topic and its groups, where every one of them is busy."""
    chance = random.Random(SEED + begin)
    hour, at_ms = name_of(begin), begin * 3_600_000
    topic = {"hour": hour, "topic": "warehouse.orders"}
    rows: dict[str, list[Row]] = {table.name: [] for table in RESULTS if table.replaces == HOURS}
    for number in range(GROUPS):
        group = {**topic, "group": f"consumers-of-{number:02}"}
        for name, row in _of_group(chance, group, at_ms, hours):
            rows[name].append({**dict.fromkeys(RESULTS_BY_NAME[name].names), **group, **row})
    for name, row in _of_topic(chance, hours):
        rows[name].append({**dict.fromkeys(RESULTS_BY_NAME[name].names), **topic, **row})
    return rows


Named = Iterator[tuple[str, dict[str, Any]]]


def _of_group(chance: random.Random, group: Row, at_ms: int, hours: int) -> Named:
    messages = MESSAGES * hours
    for metric, middle in (("end_to_end", 180), ("wait", 30)):
        yield "latency", {"metric": metric, "client": "", **_cell(chance, messages, middle)}
    for client in range(CLIENTS):
        cell = _cell(chance, messages // CLIENTS, 60)
        yield "latency", {"metric": "process", "client": f"pod-{client}-7f9c", **cell}
    for kind in ("delivered", "acked"):
        amount = chance.randrange(messages, messages * 2)
        yield "throughput", {"kind": kind, "messages": amount, "counted": amount}
    ends = ("attempts", "retried", "acked", "failed", "expired", "returned", "dead", "unfinished")
    yield "outcomes", {name: chance.randrange(messages) for name in ends}
    for rank in range(1, REASONS + 1):
        row = {"kind": "failed", "rank": rank, "reason": f"ValueError: field {rank} is missing"}
        yield "failures", {**row, "reasons": 1, "messages": chance.randrange(99), "counted": 9}
    for rank in range(1, SLOWEST + 1):
        yield "slowest", {"rank": rank, **_slow(chance, at_ms, hours)}
    yield "lag_hours", _lag(chance, at_ms, hours)
    if hours > HOUR or chance.random() < 0.1:
        end_ms = at_ms + chance.randrange(3_600_000)
        band = {"queue": chance.randrange(QUEUES), "begin_ms": at_ms, "end_ms": end_ms}
        yield "lag_bands", {**band, "state": "FALLING_BEHIND", "lag_max": 999, "time_lag_max_ms": 1}


def _of_topic(chance: random.Random, hours: int) -> Named:
    messages = MESSAGES * hours
    yield "latency", {"metric": "broker", "group": "", "client": "", **_cell(chance, messages, 3)}
    for kind in ("message", "retry", "dead_letter"):
        row = {"kind": kind, "group": "", "messages": messages, "counted": messages}
        yield "throughput", {**row, "bytes": chance.randrange(messages * 500)}
    for kind, amount in (("key", KEYS), ("tag", TAGS)):
        for rank in range(amount + 1):
            value = f"order-{chance.randrange(10**9)}" if rank else ""
            row = {"kind": kind, "rank": rank, "value": value, "values": 1 if rank else 9_999}
            yield (
                "hot_keys",
                {**row, "messages": amount - rank + 1, "bytes": chance.randrange(9999)},
            )
    for queue in range(QUEUES):
        row = {"queue": queue, "messages": chance.randrange(messages), "bytes": messages * 300}
        yield "queue_skew", {**row, "queues": QUEUES, "share": 0.1, "skew": 1.1}


def _cell(chance: random.Random, messages: int, middle_ms: int) -> dict[str, Any]:
    """A histogram as real latencies have it: wide, with a few that were tried again much later."""
    counts: dict[int, int] = {}
    spread = 0.8 * chance.uniform(0.8, 1.2)
    for bucket in range(300):
        place = ((bucket + 0.5) * math.log(GAMMA) - math.log(middle_ms)) / spread
        mean = (
            messages
            * math.log(GAMMA)
            / spread
            * math.exp(-place * place / 2)
            / math.sqrt(2 * math.pi)
        )
        if 180 <= bucket < 230:
            mean += messages * 0.012 / 50
        count = round(chance.gauss(mean, math.sqrt(mean)) if mean > 20 else _few(chance, mean))
        if count > 0:
            counts[bucket] = count
    percentiles = {f"p{part}": percentile(counts, part / 100) for part in (50, 95, 99)}
    n = sum(counts.values())
    ends = {"least": 1, "most": chance.randrange(60_000), "skewed": 0}
    text_ = json.dumps(counts)
    return {"n": n, "messages": n, "total": n * middle_ms, **ends, **percentiles, "buckets": text_}


def _few(chance: random.Random, mean: float) -> int:
    """As rare events come: Poisson."""
    limit, count, product = math.exp(-mean), 0, chance.random()
    while product > limit:
        count, product = count + 1, product * chance.random()
    return count


def _slow(chance: random.Random, at_ms: int, hours: int) -> dict[str, Any]:
    took_ms = chance.randrange(30_000, 600_000)
    acked_ms = at_ms + chance.randrange(hours * 3_600_000)
    return {
        "end_to_end_ms": took_ms, "message_id": f"{chance.getrandbits(128):032X}",
        "stored_topic": "warehouse.orders", "queue": chance.randrange(QUEUES),
        "offset": chance.randrange(10**9), "born_ms": acked_ms - took_ms,
        "stored_ms": acked_ms - took_ms + 2, "delivered_ms": acked_ms - 40, "acked_ms": acked_ms,
        "attempt": 3, "client": f"pod-{chance.randrange(CLIENTS)}-7f9c",
    }  # fmt: skip


def _lag(chance: random.Random, at_ms: int, hours: int) -> dict[str, Any]:
    return {
        "at_ms": at_ms + hours * 3_600_000 - 9_000, "state": "OK", "worst_state": "STEADY",
        "worst_queue": chance.randrange(QUEUES), "queues": QUEUES, "lag": chance.randrange(99),
        "time_lag_ms": chance.randrange(9_999), "produce_per_s": chance.random(),
        "consume_per_s": chance.random(), "retry_waiting": 0, "dead": 0, "members": CLIENTS,
        "advice": "", "advice_params": "{}", "lag_max": chance.randrange(9_999),
        "time_lag_max_ms": chance.randrange(99_999), "idle_members": 0, "lost": 0,
        "completeness": 1.0, "evaluations": 12 * hours,
        "state_ms": json.dumps({"OK": 28_000_000 * hours, "STEADY": chance.randrange(10**6)}),
        "evaluated": json.dumps([[at_ms, at_ms + hours * 3_600_000]]),
    }  # fmt: skip


def table_of(needs: list[Need]) -> str:
    """The calculation as a table of Markdown."""
    lines = [
        "| kept as | periods | bytes of a group and topic | MB for 2,000 |",
        "|---|--:|--:|--:|",
    ]
    for need in needs:
        each = f"{need.pair_bytes:,.2f}" if need.pair_bytes < 10 else f"{need.pair_bytes:,.0f}"
        lines.append(f"| {need.name} | {need.periods:,} | {each} | {need.bytes / 1e6:,.0f} |")
    whole = sum(need.bytes for need in needs)
    lines.append(f"| together | | | {whole / 1e6:,.0f} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print the table; 1 where ten years need more than 1 GB."""
    parser = argparse.ArgumentParser(prog="python -m bench.report_size", description=__doc__)
    parser.add_argument("--url", default="", help="an empty database; else a SQLite file")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        needs = measured(options.url or f"sqlite:///{Path(folder) / 'figures.db'}")
    sys.stdout.write(table_of(needs))
    return int(sum(need.bytes for need in needs) > LIMIT_BYTES)


if __name__ == "__main__":
    sys.exit(main())
