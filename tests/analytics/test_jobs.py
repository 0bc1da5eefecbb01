"""Every table of the traces job equals an oracle without Spark, on a log with everything wrong."""

import json
import math
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from analytics.hist import ERROR_MAX
from analytics.jobs import attempts, inputs
from analytics.jobs.catalog import BUILDS
from analytics.jobs.columns import UNIQUE
from analytics.jobs.definitions import Frames, Params
from analytics.jobs.outputs import typed
from analytics.results import BY_NAME
from analytics.schemas import MESSAGES, TRACE, arrow_schema
from engine.delivery.values import Nack
from tests.analytics.oracle import Oracle, Row, hour_of, name_of
from tests.analytics.scenery import Store, live, messages_of, trace_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SEED = 11
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


def frame(spark: "SparkSession", name: str, rows: Rows) -> "DataFrame":
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=arrow_schema(name)))


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


@pytest.fixture(scope="module")
def tables(spark: "SparkSession", data: tuple[Rows, Rows], params: Params) -> dict[str, Rows]:
    """All tables at once, from rows of which some are there twice, in no order."""
    chance = random.Random(SEED)
    read = {}
    for name, rows in zip((MESSAGES, TRACE), data, strict=True):
        doubled = rows + chance.sample(rows, 50)
        chance.shuffle(doubled)
        made = frame(spark, name, doubled)
        assert inputs.duplicates(name, made) == 50
        assert inputs.duplicates(name, frame(spark, name, rows)) == 0
        read[name] = made.dropDuplicates(UNIQUE[name])
    frames = Frames(messages=read[MESSAGES], trace=read[TRACE])
    kept = attempts.build(frames, params).persist()
    frames = Frames(messages=read[MESSAGES], trace=read[TRACE], attempts=kept)
    names = [name for name, table in BY_NAME.items() if table.job == "traces"]
    return {name: rows_of(name, frames, params) for name in names}


def rows_of(name: str, frames: Frames, params: Params) -> Rows:
    rows = typed(BUILDS[name](frames, params), BY_NAME[name]).toArrow().to_pylist()
    keys = [tuple(row[column] for column in BY_NAME[name].key) for row in rows]
    assert len(set(keys)) == len(keys), f"the key of {name} is not unique"
    return rows


@pytest.fixture(scope="module")
def oracles(data: tuple[Rows, Rows], hours: tuple[int, ...], params: Params) -> dict[str, Oracle]:
    return {name_of(hour): Oracle(hour, *data, params.at_ms) for hour in hours}


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
    spark: "SparkSession", data: tuple[Rows, Rows], params: Params, tables: dict[str, Rows]
) -> None:
    hour = params.hours[1]
    frames = Frames(messages=frame(spark, MESSAGES, data[0]), trace=frame(spark, TRACE, data[1]))
    alone = Params(
        hours=(hour,),
        at_ms=params.at_ms,
        slowest_max=SLOWEST_MAX,
        values_max=VALUES_MAX,
        reasons_max=REASONS_MAX,
    )
    for name in ("latency", "outcomes", "slowest"):
        key = BY_NAME[name].key

        def order(row: Row, key: tuple[str, ...] = key) -> tuple[Any, ...]:
            return tuple(row[column] for column in key)

        expected = [row for row in tables[name] if row["hour"] == name_of(hour)]
        found = rows_of(name, frames, alone)
        assert expected
        assert sorted(found, key=order) == sorted(expected, key=order)


def test_more_clients_than_have_a_row_are_counted_together(
    spark: "SparkSession", data: tuple[Rows, Rows], params: Params, tables: dict[str, Rows]
) -> None:
    frames = Frames(messages=frame(spark, MESSAGES, data[0]), trace=frame(spark, TRACE, data[1]))
    few = Params(hours=params.hours, at_ms=params.at_ms, clients_max=1)
    rows = [row for row in rows_of("latency", frames, few) if row["metric"] == "process"]
    assert {row["client"] for row in rows if row["group"] == "audit"} >= {"*"}
    whole = [row for row in tables["latency"] if row["metric"] == "process"]
    assert sum(row["n"] for row in rows) == sum(row["n"] for row in whole)
    assert sum(row["total"] for row in rows) == sum(row["total"] for row in whole)
