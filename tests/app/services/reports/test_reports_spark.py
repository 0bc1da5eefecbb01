"""Reports by the real Spark: figures that add up, and nothing left behind whatever is killed."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.services.reports import leftovers
from bench.server import Server
from tests.app.services.reports.report_program import program
from tests.live import LiveServer

pytestmark = [pytest.mark.spark, pytest.mark.gives_way, pytest.mark.timeout(600)]

CARRIERS = {"AA": 7, "UA": 5, "DL": 3}
LIMIT_S = 180


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    running = LiveServer(tmp_path_factory.mktemp("reports") / "data", report_spark_rows=0)
    running.start()
    yield running
    running.stop()


def ask(url: str, method: str, path: str, status: int = 200, **given: Any) -> Any:
    answer = httpx.request(method, f"{url}/api/v1{path}", timeout=60, **given)
    assert answer.status_code == status, answer.text
    return answer.json()


def send(url: str, carriers: dict[str, int]) -> None:
    messages = [{"body": "x", "tag": tag} for tag, n in carriers.items() for _ in range(n)]
    ask(url, "POST", "/topics/flights/messages", 201, json={"messages": messages})


def begin(url: str, job: str = "traces") -> str:
    run_id: str = ask(url, "POST", "/reports/runs", 201, json={"job": job})["id"]
    return run_id


def ended(url: str, run_id: str) -> dict[str, Any]:
    until_s = time.monotonic() + LIMIT_S
    while True:
        run: dict[str, Any] = ask(url, "GET", f"/reports/runs/{run_id}")
        if run["state"] != "running":
            return run
        assert time.monotonic() < until_s, run
        time.sleep(0.1)


def by_tag(url: str) -> dict[str, int]:
    """Messages of each carrier, as the report has them."""
    path = "/reports/tables/hot_keys/totals?by=value&kind=tag&topic=flights"
    return {row["value"]: row["messages"] for row in ask(url, "GET", path)["rows"]}


def until_java(mark: str) -> list[int]:
    """Wait for the run's Java machine that computes: others are only asked for their version."""
    until_s = time.monotonic() + LIMIT_S
    while time.monotonic() < until_s:
        found = []
        for pid in leftovers.marked(mark):
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
                if b"org.apache.spark.deploy.SparkSubmit" in words and b"-cp" in words:
                    found.append(pid)
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("no Java machine was started")


def remains(data: Path) -> list[Path]:
    return list((data / "spark").glob("*/run-*"))


def test_figures_add_up_and_a_run_that_is_killed_or_has_no_disk_leaves_them_whole(
    server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, data = server.url, server._settings.data
    mark = leftovers.mark_of(data)
    send(url, CARRIERS)
    run = ended(url, begin(url))
    assert (run["state"], run["error"]) == ("ok", "")
    assert by_tag(url) == CARRIERS
    assert run["engine"] == "spark"
    assert run["spark"]
    assert run["java"]
    assert run["inputs"]["messages"]["rows"] == sum(CARRIERS.values())
    fresh = ask(url, "GET", "/reports/latency?metric=broker")
    assert fresh["basis"]["fresh_ms"] == run["input_at_ms"]
    assert [each["n"] for each in fresh["items"]] == [sum(CARRIERS.values())]

    assert ended(url, begin(url))["state"] == "skipped"  # nothing new: no Java machine

    send(url, {"AA": 1})
    run_id = begin(url)
    for pid in until_java(mark):
        os.kill(pid, signal.SIGKILL)
    killed = ended(url, run_id)
    assert killed["state"] == "failed", killed
    assert by_tag(url) == CARRIERS
    assert (leftovers.marked(mark), remains(data)) == ([], [])

    # No file of the job, of its Java machine or of their children may grow beyond 2 KB: what they
    # compute can neither be shuffled nor handed over, as on a disk that has no block left.
    limit = f'case "$*" in *analytics.job*) ulimit -f 4; trap "" XFSZ;; esac; exec {sys.executable}'
    program(tmp_path, monkeypatch, f'{limit} "$@"')
    full = ended(url, begin(url))
    monkeypatch.undo()
    assert (full["state"], full["error"]) == ("failed", "the disk is full: File too large")
    assert by_tag(url) == CARRIERS
    assert (leftovers.marked(mark), remains(data)) == ([], [])

    assert ended(url, begin(url))["state"] == "ok"
    assert by_tag(url) == CARRIERS | {"AA": CARRIERS["AA"] + 1}
    assert (leftovers.marked(mark), remains(data)) == ([], [])


@pytest.mark.crash
def test_a_server_killed_during_a_run_is_repaired_by_its_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KITEMQ_REPORT_SPARK_ROWS", "0")
    data = tmp_path / "data"
    mark = leftovers.mark_of(data)
    with Server(data) as first:
        send(first.url, CARRIERS)
        run_id = begin(first.url)
        until_java(mark)
        first.kill()
        with Server(data) as second:
            run = ended(second.url, run_id)
            assert (run["state"], run["error_class"]) == ("lost", "ServerGone")
            until_s = time.monotonic() + 30
            while (leftovers.marked(mark) or remains(data)) and time.monotonic() < until_s:
                time.sleep(0.1)
            assert (leftovers.marked(mark), remains(data)) == ([], [])
            assert by_tag(second.url) == {}
