"""Both engines make the same figures of the same random data, to the last digit."""

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from analytics.jobs import lag_plan
from analytics.jobs.definitions import Params
from analytics.jobs.engines import JobEngine, PlainEngine, SparkEngine
from analytics.jobs.progress import JobProgress, stages_of
from analytics.jobs.run import RunWork, run
from analytics.jobs.traces import build
from analytics.manifest import FrameManifest, load
from analytics.partitions import Partitions
from analytics.roll import ConfirmedEnd, roll
from analytics.schemas import LAG, arrow_schema
from engine.report_hours import HOUR_MS, INPUTS, begin_ms
from engine.report_tables import JOBS, LAG_JOB, tables_of
from tests.analytics.scenery import Store, live

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SEED, HOUR, HOURS = 17, 490_000, 3
SAMPLE_MS, DOUBLED = 10_000, 40
Row = dict[str, Any]


def lag_rows(chance: random.Random) -> list[Row]:
    """Samples of groups that do everything: lag, stand still, lose, rewind, are reset and go."""
    rows = []
    for group in range(6):
        members = chance.choice([None, 0, 1, 5])
        for topic in ("flights", "航空"):
            for queue in range(chance.randrange(1, 4)):
                rows += _queue_rows(chance, f"group-{group}", topic, queue, members)
    chance.shuffle(rows)
    return rows


def _queue_rows(
    chance: random.Random, group: str, topic: str, queue: int, members: int | None
) -> list[Row]:
    rows = []
    first, produced, done, expired, resets, active_ms = 0, 1000, 900, 0, 0, 0
    speed = chance.choice([0, 5, 30])
    for number in range(HOURS * HOUR_MS // SAMPLE_MS):
        at_ms = HOUR * HOUR_MS + number * SAMPLE_MS + chance.randrange(50)
        if number % 60 == 0:
            speed = chance.choice([0, 5, 29, 30, 31, 60])
        produced += 30 + chance.randrange(-3, 4)
        if speed:
            done, active_ms = min(produced, done + speed + chance.randrange(5)), at_ms
        if chance.random() < 0.003:
            done, resets = max(first, done - 5_000), resets + chance.randrange(2)
        if chance.random() < 0.003:
            first = min(produced, done + chance.randrange(-500, 500))
            expired += max(0, first - done)
        if chance.random() < 0.05 or (number // 90) % 5 == int(group[-1]):
            continue
        lag = produced - done
        rows.append(
            {
                "at_ms": at_ms, "group": group, "topic": topic, "queue": queue,
                "min_offset": first, "max_offset": produced, "committed": done, "cursor": done,
                "lag": lag, "is_matching": True, "oldest_ms": at_ms - lag * 33 if lag else None,
                "inflight": 0, "retry_waiting": chance.randrange(9), "dead": number,
                "members": members, "active_ms": active_ms or None,
                "expired": None if chance.random() < 0.01 else expired,
                "resets": None if queue == 2 else resets,
            }
        )  # fmt: skip
    return rows


def write_lag(root: Path, rows: list[Row]) -> None:
    """As the roll writes them, and some twice."""
    manifest = FrameManifest()
    manifest.lag_ms = max(row["at_ms"] for row in rows)
    manifest.at_ms = manifest.lag_ms
    partitions = Partitions(root, manifest, 0)
    for part in (rows, rows[:DOUBLED]):
        partitions.add(LAG, pa.Table.from_pylist(part, schema=arrow_schema(LAG)))
    partitions.commit()


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By job a folder of Parquet."""
    folder = tmp_path_factory.mktemp("engines")
    store = Store(folder / "data")
    live(store, seed=SEED, hours=2, steps=40)
    ends = ConfirmedEnd(store.position, store.clock.now_ms())
    store.close()
    roll(folder / "data", folder / "traces", ends)
    (folder / "lag").mkdir()
    write_lag(folder / "lag", lag_rows(random.Random(SEED)))
    return {job: folder / job for job in JOBS}


def lines_of(engine: JobEngine, job: str, root: Path, folder: Path) -> dict[str, Any]:
    """The result but for what is of the run, and the lines of each table."""
    folder.mkdir()
    known = load(root)
    hours = sorted({hour for frame in INPUTS[job] for hour in known.partitions(frame)})
    previous = folder / "previous.ndjson"
    states = ({"state": "STALLED", "raw_state": "OK"}, {"state": "gone", "raw_state": "OK"})
    names = [{"group": "group-1", "topic": "flights", "queue": queue} for queue in range(2)]
    previous.write_text("\n".join(json.dumps(a | b) for a, b in zip(names, states, strict=True)))
    numbers = tuple(begin_ms(hour) // HOUR_MS for hour in hours)
    params = Params(hours=numbers, slo_s={"group-2": 60.0})
    work = RunWork(job, hours, str(root), folder, params, previous if job == LAG_JOB else None)
    result = run(engine, work, JobProgress(folder / "progress.json", stages_of(job)))
    tables = {table.name: (folder / f"{table.name}.ndjson").read_text() for table in tables_of(job)}
    return result | {"lines": tables}


@pytest.mark.parametrize("job", JOBS)
def test_both_engines_make_the_same_figures(
    spark: "SparkSession",
    roots: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    job: str,
) -> None:
    plain = lines_of(PlainEngine(), job, roots[job], tmp_path / "plain")
    # Small as they are, Spark makes them in several tasks.
    monkeypatch.setattr(lag_plan, "TASK_ROWS", 4_000)
    monkeypatch.setattr(build, "GATHER_ROWS", 500)
    by_spark = lines_of(SparkEngine(spark), job, roots[job], tmp_path / "spark")
    assert by_spark == plain
    assert all(plain["lines"].values())
    assert plain["rows_out"] > 100
    if job == LAG_JOB:
        assert plain["counters"]["duplicates"] == DOUBLED
        states = {json.loads(line)["state"] for line in plain["lines"]["lag_bands"].splitlines()}
        assert len(states) > 7
