"""The same jobs on a cluster of two workers, and through Spark Connect."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from analytics import job
from analytics.home import package
from analytics.java import find_java
from analytics.session import LOOPBACK, SHORT_RUN, environment
from bench.process import free_port
from engine.report_hours import INPUTS
from tests.analytics.test_job import LIMIT_S, request, result_of, rolled, rows_of, run

__all__ = ["rolled"]

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"


def is_open(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex((LOOPBACK, port)) == 0


@contextmanager
def service(folder: Path, command: list[str], ports: list[int], name: str) -> Iterator[Path]:
    """A Java process of Spark's own, until it listens; its log. Ended, whatever happens."""
    java = find_java(folder / "spark")
    home = package()
    variables = os.environ | environment(java, home, f"spark://{LOOPBACK}")
    variables |= {"SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false"}
    # A worker's executors have them too. Compiling well costs more than these few rows.
    variables |= {"JAVA_TOOL_OPTIONS": " ".join(SHORT_RUN)}
    log = folder / f"{name}.log"
    with log.open("w") as output:
        child = subprocess.Popen(
            [str(home / "bin" / command[0]), *command[1:]],
            stdout=output,
            stderr=output,
            env=variables,
            cwd=folder,
        )
    try:
        end = time.monotonic() + LIMIT_S
        while not all(is_open(port) for port in ports):
            assert child.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        yield log
    finally:
        child.terminate()
        child.wait(LIMIT_S)


def check(folder: Path, local: Path, job_name: str) -> dict[str, Any]:
    """The result of a run elsewhere equals that of this machine."""
    result = result_of(folder)
    assert result["state"] == "ok"
    for name in result["tables"]:
        assert rows_of(folder, name) == rows_of(local, name), (job_name, name)
    return result


@pytest.fixture(scope="module")
def local(rolled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both jobs as this machine does them without Spark, a folder each.

    Its own Spark makes the same rows (`test_engines.py`), and takes longer.
    """
    folder = tmp_path_factory.mktemp("local")
    for name in INPUTS:
        (folder / name).mkdir()
        run(request(rolled, folder / name, job=name, spark_rows=10**9))
        assert result_of(folder / name)["java"] == ""
    return folder


def run_both(rolled: Path, local: Path, folder: Path, **where: Any) -> dict[str, Any]:
    """Each job elsewhere gives the same rows; the last result."""
    result: dict[str, Any] = {}
    for name in INPUTS:
        (folder / name).mkdir()
        run(request(rolled, folder / name, job=name, is_shared=True, **where))
        result = check(folder / name, local / name, name)
    return result


def test_a_cluster_of_two_workers_gives_the_same_rows(
    rolled: Path, local: Path, tmp_path: Path
) -> None:
    port, web = free_port(), free_port()
    url = f"spark://{LOOPBACK}:{port}"
    master = ["spark-class", MASTER, "--host", LOOPBACK]
    master += ["--port", str(port), "--webui-port", str(web)]
    with ExitStack() as stack:
        log = stack.enter_context(service(tmp_path, master, [port, web], "master"))
        for number in range(2):
            mine = free_port()
            worker = ["spark-class", WORKER, url, "--cores", "1", "--memory", "1g"]
            worker += ["--host", LOOPBACK, "--webui-port", str(mine)]
            worker += ["--work-dir", str(tmp_path / f"work-{number}")]
            stack.enter_context(service(tmp_path, worker, [mine], f"worker-{number}"))
        result = run_both(rolled, local, tmp_path, master=url)
        assert result["master"] == url
        assert log.read_text().count("Launching executor") == 2 * len(INPUTS)


def test_a_connect_server_gives_the_same_rows(rolled: Path, local: Path, tmp_path: Path) -> None:
    port = free_port()
    server = ["spark-submit", "--class", CONNECT, "--master", "local[2]"]
    for name, value in (
        ("spark.connect.grpc.binding.address", LOOPBACK),
        ("spark.connect.grpc.binding.port", port),
        ("spark.ui.enabled", "false"),
        ("spark.local.dir", tmp_path / "tmp"),
        ("spark.sql.warehouse.dir", tmp_path / "warehouse"),
    ):
        server += ["--conf", f"{name}={value}"]
    with service(tmp_path, [*server, "spark-internal"], [port], "connect"):
        url = f"{job.CONNECT}{LOOPBACK}:{port}"
        root = f"file://{rolled / 'analytics'}"  # a URL, as of any store
        result = run_both(rolled, local, tmp_path, master=url, root=root)
        assert result["java"] == ""
        for name in INPUTS:
            progress = json.loads((tmp_path / name / "out" / "progress.json").read_text())
            assert progress["percent"] == 100
