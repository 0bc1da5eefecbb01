"""A run as a process: what it leaves when it ends well, is refused, is killed, or has no disk."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from analytics import job
from analytics.errors import Refused
from analytics.jobs import inputs
from analytics.manifest import load
from analytics.roll import ConfirmedEnd, roll
from analytics.runs import sweep_runs
from engine.report_hours import INPUTS, fingerprint
from engine.report_tables import JOBS, RESULTS_BY_NAME, manifest, tables_of
from tests.analytics.scenery import Store, live

LIMIT_S = 300.0
Result = dict[str, Any]


@pytest.fixture(scope="module")
def rolled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of Parquet of two hours."""
    folder = tmp_path_factory.mktemp("job")
    store = Store(folder / "data")
    live(store, seed=5, hours=2, steps=30)
    ends = ConfirmedEnd(store.position, store.clock.now_ms())
    store.close()
    roll(folder / "data", folder / "analytics", ends)
    return folder


def request(rolled: Path, folder: Path, **more: Any) -> Path:
    """A file with the request for every hour there is."""
    root = rolled / "analytics"
    job_name = more.get("job", "traces")
    known = load(root)
    hours = sorted({hour for name in INPUTS[job_name] for hour in known.partitions(name)})
    given = {
        "job": job_name,
        "hours": hours,
        "root": str(root),
        "output": str(folder / "out"),
        "folder": str(folder / "spark"),
        "driver_memory": "512m",
    }
    path = folder / "request.json"
    path.write_text(json.dumps(given | more))
    return path


def start(path: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "analytics.job", "--request", str(path)]
    # All that it starts has this too, whatever its command line is.
    marked = os.environ | {"KITEMQ_TEST_FOLDER": str(path.parent)}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, start_new_session=True, env=marked
    )


def run(path: Path) -> str:
    """What a run, which has to end well, prints."""
    with start(path) as child:
        try:
            output, errors = child.communicate(timeout=LIMIT_S)
        finally:
            child.kill()
    assert child.returncode == 0, errors
    return output


def result_of(folder: Path) -> Result:
    found: Result = json.loads((folder / "out" / "result.json").read_text())
    return found


def rows_of(folder: Path, name: str) -> list[dict[str, Any]]:
    text = (folder / "out" / f"{name}.ndjson").read_text()
    return [json.loads(line) for line in text.splitlines()]


def processes(folder: Path, program: str = "") -> set[int]:
    """The processes that a job of this folder began, of all or of one program."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command, environ = ((entry / name).read_bytes() for name in ("cmdline", "environ"))
            except OSError:
                continue
            if f"={folder}\0".encode() in environ and program.encode() in command:
                found.add(int(entry.name))
    return found


def wait_until(condition: Any, what: str) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


@contextmanager
def running(path: Path, folder: Path) -> "Iterator[tuple[subprocess.Popen[str], int]]":
    """A job whose Python workers are there, and the id of its Java machine."""
    child = start(path)

    def computes() -> bool:
        assert child.poll() is None, child.communicate()[1]
        return bool(processes(folder, "pyspark.daemon"))

    try:
        wait_until(computes, "the job does not begin")
        (java,) = processes(folder, "SparkSubmit")
        yield child, java
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate(timeout=LIMIT_S)


@pytest.mark.spark
@pytest.mark.gives_way
@pytest.mark.timeout(600)
def test_a_run_says_what_it_did_and_a_second_one_gives_the_same(
    rolled: Path, tmp_path: Path
) -> None:
    path = request(rolled, tmp_path)
    assert run(path) == ""
    result = result_of(tmp_path)
    known = load(rolled / "analytics")
    assert result["state"] == "ok"
    assert result["rows_in"] == sum(known.row_count(name) for name in ("trace", "messages"))
    prints = {name: known.fingerprints(name) for name in ("trace", "messages")}
    assert result["fingerprints"] == {
        hour: fingerprint("traces", hour, prints) for hour in result["hours"]
    }
    assert list(result["tables"]) == [table.name for table in tables_of("traces")]
    for name, told in result["tables"].items():
        rows = rows_of(tmp_path, name)
        assert len(rows) == told["rows"]
        assert {key: told[key] for key in ("replaces", "key", "columns")} == manifest(
            RESULTS_BY_NAME[name]
        )
        assert all(list(row) == [each["name"] for each in told["columns"]] for row in rows)
    stored = [row for row in rows_of(tmp_path, "throughput") if row["kind"] == "message"]
    assert sum(row["messages"] for row in stored) == messages_in(rolled)
    told = json.loads((tmp_path / "out" / "progress.json").read_text())
    assert (told["stage"], told["percent"]) == ("done", 100)
    assert list((tmp_path / "spark" / "runs").iterdir()) == []
    # The last hour alone again: its rows are what they were.
    hour = result["hours"][-1]
    again = request(rolled, tmp_path, hours=[hour], output=str(tmp_path / "again"))
    assert run(again) == ""
    for name in result["tables"]:
        first = [row for row in rows_of(tmp_path, name) if row["hour"] == hour]
        text = (tmp_path / "again" / f"{name}.ndjson").read_text()
        assert [json.loads(line) for line in text.splitlines()] == first


def messages_in(rolled: Path) -> int:
    import pyarrow.parquet as pq

    root = rolled / "analytics"
    tables = [pq.ParquetFile(root / path).read(["role"]) for path in load(root).paths("messages")]
    return sum(table["role"].to_pylist().count("message") for table in tables)


@pytest.mark.parametrize("job_name", JOBS)
def test_few_rows_are_computed_without_java(rolled: Path, tmp_path: Path, job_name: str) -> None:
    path = request(
        rolled, tmp_path, job=job_name, spark_rows=100_000, java_home=str(tmp_path / "none")
    )
    assert run(path) == ""
    result = result_of(tmp_path)
    assert result["state"] == "ok"
    assert (result["spark"], result["java"], result["master"]) == ("", "", "")
    assert 0 < result["rows_in"] < 100_000
    told = json.loads((tmp_path / "out" / "progress.json").read_text())
    assert (told["stage"], told["percent"]) == ("done", 100)
    for spark_rows, is_small in ((result["rows_in"] + 1, True), (result["rows_in"], False)):
        given = job.read_request(request(rolled, tmp_path, job=job_name, spark_rows=spark_rows))
        assert job.is_small(given) is is_small
    elsewhere = request(rolled, tmp_path, job=job_name, spark_rows=10**9, root="s3a://bucket/x")
    assert not job.is_small(job.read_request(elsewhere)), "Spark knows how to read a store"


@pytest.mark.spark
@pytest.mark.gives_way
@pytest.mark.timeout(600)
@pytest.mark.parametrize("whom", ["driver", "java", "terminate"])
def test_a_killed_run_leaves_no_result_no_process_and_no_folder(
    rolled: Path, tmp_path: Path, whom: str
) -> None:
    with running(request(rolled, tmp_path), tmp_path) as (child, java):
        if whom == "java":
            os.kill(java, signal.SIGKILL)
        else:
            child.send_signal(signal.SIGKILL if whom == "driver" else signal.SIGTERM)
        child.wait(LIMIT_S)
        codes = {"driver": -signal.SIGKILL, "java": job.EXIT_RETRY, "terminate": 143}
        assert child.returncode == codes[whom]
        wait_until(lambda: not processes(tmp_path), "a process is left")
    runs = tmp_path / "spark" / "runs"
    if whom == "driver":
        # Nobody could tidy up: the next run does.
        assert sweep_runs(runs) == 1
        assert not (tmp_path / "out" / "result.json").exists()
    else:
        result = result_of(tmp_path)
        assert result["state"] == "failed"
        assert result["is_transient"] == (whom == "java")
        assert "tables" not in result
    assert list(runs.iterdir()) == []


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"job": "nothing"}, "job"),
        ({"hours": []}, "hours"),
        ({"hours": ["2026-11-21"]}, "hours"),
        ({"params": {"step": 1}}, "params"),
        ({"params": {"step_s": 7}}, "params.step_s"),
        ({"params": {"window_s": -1}}, "params.window_s"),
        ({"params": {"hours": [1]}}, "params"),
        ({"params": {"slo_s": {"g": "soon"}}}, "params"),
        ({"colour": "red"}, "request"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_by_the_name_of_its_field(
    tmp_path: Path, more: dict[str, Any], field: str
) -> None:
    given = {
        "job": "lag",
        "hours": ["2026-11-21T03"],
        "root": str(tmp_path),
        "output": str(tmp_path / "out"),
        "folder": str(tmp_path),
    }
    path = tmp_path / "request.json"
    path.write_text(json.dumps(given | more))
    with pytest.raises(Refused) as refused:
        job.read_request(path)
    assert refused.value.field == field


def test_a_path_of_this_machine_is_refused_for_workers_elsewhere() -> None:
    with pytest.raises(Refused, match="workers are on others"):
        inputs.check_root("/data/analytics", is_local=False, is_shared=False)
    inputs.check_root("/data/analytics", is_local=False, is_shared=True)
    inputs.check_root("hdfs://host/analytics", is_local=False, is_shared=False)


def test_an_object_store_says_which_jar_it_needs(
    rolled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = request(rolled, tmp_path, root="s3a://bucket/figures", master="spark://cluster:7077")
    asked = job.read_request(path)
    monkeypatch.delenv(job.SUBMIT_ARGUMENTS, raising=False)
    with pytest.raises(Refused, match="needs the jar hadoop-aws") as refused:
        job.check_jars(asked)
    assert refused.value.field == "root"
    monkeypatch.setenv(
        job.SUBMIT_ARGUMENTS, "--packages org.apache.hadoop:hadoop-aws:3.5.0 pyspark-shell"
    )
    job.check_jars(asked)


LOADS_AHEAD = """
import sys, threading
from analytics import job

class Thread:
    def __init__(self, **given):
        loaded = sys.modules.get("pyspark.sql")
        print(loaded is not None and hasattr(loaded, "SQLContext"))
        sys.exit()

threading.Thread = Thread
job._by_spark(job.JobRequest("traces", [], "", "", sys.argv[1]), None)
"""


def test_spark_is_loaded_by_one_thread_before_another_loads_what_imports_it(
    tmp_path: Path,
) -> None:
    """Two threads inside modules that import each other see them half loaded."""
    command = [sys.executable, "-c", LOADS_AHEAD, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
    assert done.stdout.split() == ["True"]
