"""Every table of the traces job equals an oracle without Spark, on a log with everything wrong."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from analytics.jobs.definitions import OUTCOMES, TRACED_KINDS, Params
from analytics.jobs.engines import SparkEngine
from analytics.jobs.traces import build, message_ids
from analytics.jobs.traces.tables import collect
from analytics.manifest import FrameManifest
from analytics.partitions import Partitions
from analytics.schemas import MESSAGES, TRACE, arrow_schema
from engine.delivery.values import Nack
from engine.histogram import ERROR_MAX
from engine.report_tables import RESULTS_BY_NAME, TRACES_JOB
from tests.analytics.oracle import Oracle, Row, hour_of, name_of
from tests.analytics.scenery import Store, live, messages_of, trace_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SEED, DOUBLED = 11, 50
SLOWEST_MAX, VALUES_MAX, REASONS_MAX = 4, 3, 1
Rows = list[Row]


def slow_consumers(store: Store) -> None:
    """Deliveries that take time, that nobody ends, that fail and are decided."""
    broker, chance = store.broker, random.Random(SEED)
    for step in range(40):
        store.tick(chance.randrange(1, 90))
        found = broker.receive(
            "audit", {"flights": "*"}, client=f"c{step % 3}", count_max=5, invisible_s=1200
        )
        store.tick(chance.random() * 20)
        for each in found:
            chosen = chance.random()
            if chosen < 0.6:
                broker.ack("audit", [each.receipt])
            elif chosen < 0.8:
                error = chance.choice(["it broke", "no room", "timeout"])
                broker.nack("audit", [Nack(each.receipt, error=error)], client="c9")


def worsen(messages: Rows, trace: Rows) -> None:
    """Clock skew, replays, sampling and missing rows."""
    chance = random.Random(SEED)
    for m in messages:
        if m["born_ms"] and chance.random() < 0.1:
            m["born_ms"] = m["stored_ms"] + chance.randrange(1, 9_000)
        if m["role"] == "message" and chance.random() < 0.05:
            m["redriven_job"], m["redriven_from"] = "job-1", "flights@0@1"
    for row in trace:
        if row["kind"] == "delivered" and chance.random() < 0.1:
            row["born_ms"] = row["at_ms"] + chance.randrange(1, 9_000)
        if row["group"] == "audit":
            row["sample"] = 2_500
    trace[:] = [row for row in trace if chance.random() > 0.03]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, Rows]:
    store = Store(tmp_path_factory.mktemp("jobs") / "data")
    live(store, seed=SEED)
    slow_consumers(store)
    store.tick(1800)
    assert store.position
    stored = store.stored()
    store.close()
    messages, trace = messages_of(stored), trace_of(stored)
    worsen(messages, trace)
    return messages, trace


def written(root: Path, messages: Rows, trace: Rows) -> FrameManifest:
    """Parquet of these rows, by the roll's own writer."""
    manifest = FrameManifest()
    partitions = Partitions(root, manifest, 0)
    for name, rows in ((MESSAGES, messages), (TRACE, trace)):
        partitions.add(name, pa.Table.from_pylist(rows, schema=arrow_schema(name)))
    partitions.commit()
    return manifest


@pytest.fixture(scope="module")
def hours(data: tuple[Rows, Rows]) -> tuple[int, ...]:
    return tuple(sorted({hour_of(row["at_ms"]) for row in data[1]}))


@pytest.fixture(scope="module")
def params(data: tuple[Rows, Rows], hours: tuple[int, ...]) -> Params:
    at_ms = max(row["at_ms"] for row in data[1]) + 700_000
    return Params(
        hours=hours,
        at_ms=at_ms,
        slowest_max=SLOWEST_MAX,
        values_max=VALUES_MAX,
        reasons_max=REASONS_MAX,
    )


Made = tuple[dict[str, Rows], dict[str, int]]


def made(spark: "SparkSession", root: Path, manifest: FrameManifest, params: Params) -> Made:
    """Every table of the job, and its counters."""
    known = [(name, manifest.partitions(name)) for name in (MESSAGES, TRACE)]
    engine = SparkEngine(spark)
    read = engine.pieces(str(root), manifest, known)
    # Small as the hours are, each is made by several tasks.
    rows = dict.fromkeys(params.hours, 3 * build.GATHER_ROWS)
    tables, counters = collect(build.build(read, rows, params).collect(), TRACES_JOB)
    records = engine.pieces(str(root), manifest, known[:1])
    message_ids.fill_in(tables["slowest"], records)
    for name, those in tables.items():
        keys = [tuple(row[column] for column in RESULTS_BY_NAME[name].key) for row in those]
        assert len(set(keys)) == len(keys), f"the key of {name} is not unique"
    return tables, counters


@pytest.fixture(scope="module")
def whole(
    spark: "SparkSession",
    data: tuple[Rows, Rows],
    params: Params,
    tmp_path_factory: pytest.TempPathFactory,
) -> Made:
    """All tables at once, from rows of which some are there twice, in no order."""
    chance = random.Random(SEED)
    worse = []
    for rows in data:
        doubled = rows + chance.sample(rows, DOUBLED)
        chance.shuffle(doubled)
        worse.append(doubled)
    root = tmp_path_factory.mktemp("whole")
    return made(spark, root, written(root, *worse), params)


@pytest.fixture(scope="module")
def tables(whole: Made) -> dict[str, Rows]:
    return whole[0]


@pytest.fixture(scope="module")
def ordered(data: tuple[Rows, Rows], tmp_path_factory: pytest.TempPathFactory) -> "Ordered":
    """The same rows, each once, as the roll writes them."""
    root = tmp_path_factory.mktemp("ordered")
    return root, written(root, *data)


Ordered = tuple[Path, FrameManifest]


@pytest.fixture(scope="module")
def oracles(data: tuple[Rows, Rows], hours: tuple[int, ...], params: Params) -> dict[str, Oracle]:
    return {name_of(hour): Oracle(hour, *data, params.at_ms) for hour in hours}


def test_doubled_rows_are_counted_once_and_told(whole: Made, data: tuple[Rows, Rows]) -> None:
    seen = [row for row in data[1] if row["kind"] in (*TRACED_KINDS, *OUTCOMES)]
    assert DOUBLED < whole[1]["duplicates"] <= 2 * DOUBLED
    assert len(seen) > DOUBLED


def exact(values: list[int], share: float) -> int:
    ordered = sorted(max(0, value) for value in values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def test_latencies_equal_the_oracle(tables: dict[str, Rows], oracles: dict[str, Oracle]) -> None:
    expected = {
        (hour, *key): cell for hour, one in oracles.items() for key, cell in one.latency().items()
    }
    found = {}
    for row in tables["latency"]:
        key = tuple(row[name] for name in ("hour", "metric", "topic", "group", "client"))
        found[key] = {name: row[name] for name in ("n", "total", "least", "most", "skewed")}
        buckets = json.loads(row["buckets"])
        found[key]["buckets"] = {int(bucket): n for bucket, n in buckets.items()}
        is_traced = row["metric"] in ("end_to_end", "wait", "process")
        is_sampled = is_traced and row["group"] == "audit"  # a quarter
        assert row["messages"] == row["n"] * (4 if is_sampled else 1)
    assert found == expected
    assert {key[1] for key in found} >= {"end_to_end", "broker", "wait", "process"}
    assert {key[1] for key in found} >= {"lateness_level", "lateness_timer"}
    assert sum(cell["skewed"] for cell in found.values()) > 20


def test_percentiles_are_off_by_less_than_two_and_a_half_percent(
    tables: dict[str, Rows], oracles: dict[str, Oracle]
) -> None:
    values = {hour: one.latencies() for hour, one in oracles.items()}
    for row in tables["latency"]:
        cell = values[row["hour"]][row["metric"], row["topic"], row["group"], row["client"]]
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            truth = max(1, exact(cell, share))
            assert abs(row[name] - truth) <= truth * (ERROR_MAX + 1e-9), (row, truth)


def test_throughput_equals_the_oracle(tables: dict[str, Rows], oracles: dict[str, Oracle]) -> None:
    expected = {
        (hour, *key): cell
        for hour, one in oracles.items()
        for key, cell in one.throughput().items()
    }
    found = {
        (row["hour"], row["kind"], row["topic"], row["group"]): (
            row["messages"],
            row["counted"],
            row["bytes"],
        )
        for row in tables["throughput"]
    }
    assert found == expected


def test_outcomes_equal_the_oracle(tables: dict[str, Rows], oracles: dict[str, Oracle]) -> None:
    expected = {
        (hour, *key): cell for hour, one in oracles.items() for key, cell in one.outcomes().items()
    }
    names = ("attempts", "retried", "acked", "failed", "expired", "returned", "dead", "unfinished")
    found = {
        (row["hour"], row["topic"], row["group"]): {name: row[name] for name in names}
        for row in tables["outcomes"]
    }
    assert found == expected
    assert sum(cell["unfinished"] for cell in found.values()) > 0
    for row in tables["outcomes"]:
        ended = row["acked"] + row["dead"]
        assert row["success_rate"] == (row["acked"] / ended if ended else None)
        assert row["dead_rate"] == (row["dead"] / ended if ended else None)


def test_reasons_equal_the_oracle_and_what_has_no_row_is_in_the_rest(
    tables: dict[str, Rows], oracles: dict[str, Oracle]
) -> None:
    expected = {
        (hour, *key): cell for hour, one in oracles.items() for key, cell in one.failures().items()
    }
    names = ("hour", "kind", "topic", "group")
    check_most(tables["failures"], names, "reason", "reasons", "counted", expected, REASONS_MAX)


def test_hot_keys_equal_the_oracle_and_what_has_no_row_is_in_the_rest(
    tables: dict[str, Rows], oracles: dict[str, Oracle]
) -> None:
    expected = {
        (hour, *key): cell for hour, one in oracles.items() for key, cell in one.hot_keys().items()
    }
    names = ("hour", "topic", "kind")
    check_most(tables["hot_keys"], names, "value", "values", "messages", expected, VALUES_MAX)


def check_most(
    rows: Rows,
    names: tuple[str, ...],
    value: str,
    values: str,
    count: str,
    expected: dict[tuple[Any, ...], Any],
    most: int,
) -> None:
    found: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    assert found.keys() == expected.keys()
    for key, cell in expected.items():
        wanted = sorted(cell.items(), key=lambda pair: (-pair[1], pair[0]))
        top = sorted((row for row in found[key] if row["rank"]), key=lambda row: row["rank"])
        assert [(row[value], row[count]) for row in top] == wanted[:most]
        rest = [(row[values], row[count]) for row in found[key] if not row["rank"]]
        left = wanted[most:]
        assert rest == ([(len(left), sum(n for _, n in left))] if left else [])


def test_the_slowest_are_found_with_their_message_and_client(
    tables: dict[str, Rows], oracles: dict[str, Oracle], data: tuple[Rows, Rows]
) -> None:
    ids = {(m["topic"], m["queue"], m["offset"]): m["message_id"] for m in data[0]}
    found: dict[tuple[str, str, str], list[int]] = {}
    for row in sorted(tables["slowest"], key=lambda row: row["rank"]):
        cell = found.setdefault((row["hour"], row["topic"], row["group"]), [])
        cell.append(row["end_to_end_ms"])
        assert row["rank"] == len(cell)
        assert row["message_id"] == ids[row["stored_topic"], row["queue"], row["offset"]]
        assert row["end_to_end_ms"] == max(0, row["acked_ms"] - row["born_ms"])
        assert row["client"]
    expected = {
        (hour, *key): values
        for hour, one in oracles.items()
        for key, values in one.slowest(SLOWEST_MAX).items()
    }
    assert found == expected


def test_queues_and_transactions_equal_the_oracle(
    tables: dict[str, Rows], oracles: dict[str, Oracle]
) -> None:
    skew: dict[tuple[str, str], dict[int, int]] = {}
    for row in tables["queue_skew"]:
        skew.setdefault((row["hour"], row["topic"]), {})[row["queue"]] = row["messages"]
        cell = oracles[row["hour"]].queues()[row["topic"]]
        assert row["queues"] == len(cell)
        assert row["share"] == pytest.approx(row["messages"] / cell.total())
        assert row["skew"] == pytest.approx(row["messages"] * len(cell) / cell.total())
    assert skew == {
        (hour, topic): dict(cell)
        for hour, one in oracles.items()
        for topic, cell in one.queues().items()
    }
    found = {
        tuple(row[name] for name in ("hour", "topic", "group", "outcome", "detail")): row[
            "messages"
        ]
        for row in tables["transactions"]
    }
    assert found == {
        (hour, *key): count
        for hour, one in oracles.items()
        for key, count in one.transactions().items()
    }
    assert any(key[3] == "half" for key in found)


def test_an_hour_alone_gives_what_it_gave_among_others(
    spark: "SparkSession", ordered: Ordered, params: Params, tables: dict[str, Rows]
) -> None:
    hour = params.hours[1]
    alone, counters = made(spark, *ordered, replace(params, hours=(hour,)))
    assert counters["duplicates"] == 0
    for name, rows in alone.items():
        key = RESULTS_BY_NAME[name].key

        def order(row: Row, key: tuple[str, ...] = key) -> tuple[Any, ...]:
            return tuple(row[column] for column in key)

        expected = [row for row in tables[name] if row["hour"] == name_of(hour)]
        assert expected
        assert sorted(rows, key=order) == sorted(expected, key=order)


def test_more_clients_than_have_a_row_are_counted_together(
    spark: "SparkSession", ordered: Ordered, params: Params, tables: dict[str, Rows]
) -> None:
    few, _ = made(spark, *ordered, replace(params, clients_max=1))
    rows = [row for row in few["latency"] if row["metric"] == "process"]
    assert {row["client"] for row in rows if row["group"] == "audit"} >= {"*"}
    whole = [row for row in tables["latency"] if row["metric"] == "process"]
    assert sum(row["n"] for row in rows) == sum(row["n"] for row in whole)
    assert sum(row["total"] for row in rows) == sum(row["total"] for row in whole)
