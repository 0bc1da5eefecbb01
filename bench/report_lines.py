"""The lines of the reports: how long a run takes, by either engine, and what others notice of it.

They want the extra `analytics` and a Java; without them they fail with the sentence that says so.
"""

import asyncio
import json
import math
import shutil
import subprocess
import sys
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import Any

import uvloop

from analytics.errors import AnalyticsError, NotInstalled
from analytics.java import find_java
from analytics.usage import Usage
from analytics.warm_up import warm_up
from bench.ahead import ahead
from bench.beat import Beat
from bench.clients.rest import RestSend
from bench.figures import Check, Figure, middle_of, times_of
from bench.line import Scale
from bench.load import Link, connect, within
from bench.server import Server
from engine.report_tables import LAG_JOB, TRACES_JOB

ROWS, QUICK_ROWS = 5_000_000, 20_000
BESIDE_ROWS = 5_000_000  # so that the run beside the sender takes at least 20 s
JOB_LIMIT_S, RUN_LIMIT_S = 900.0, 900.0
RATE, CONNECTIONS = 500, 8
IDLE_S, QUICK_IDLE_S, QUICK_BESIDE_S = 20.0, 0.5, 3.0
POLL_S = 5.0  # each look costs the server as much as eight sends
RUNS = "/api/v1/reports/runs"
LOOK_S = 0.2
BODY = b"x" * 256
DRIVER_MEMORY = "1g"  # the server's default
HOUR_S = 3_600
ENGINE_ROWS = (1_000, 100_000, 1_000_000, 3_000_000)
ENGINES = {"Python": 10**9, "Spark": 0}  # and `spark_rows` of the request
COLD, WITH_CACHE = "KiteMQ, cold", "KiteMQ, cold, with a start-up cache"
IDLE, BESIDE = "KiteMQ, idle", "KiteMQ, a report runs"


@dataclass(frozen=True)
class JobLine:
    """Runs of the job `traces`, each in processes of its own: wall, processor time, memory."""

    name: str
    title: str
    checks: Sequence[Check] = ()

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        is_full = scale.rounds > 1
        root = folder / "analytics"
        hour = _write(root, ROWS if is_full else QUICK_ROWS, folder)
        cold = [_job(COLD, TRACES_JOB, root, hour, folder) for _ in range(scale.rounds)]
        if not is_full:
            return cold
        try:
            warm_up(folder / "spark")
        except AnalyticsError as error:
            raise RuntimeError(str(error)) from None
        cached = [_job(WITH_CACHE, TRACES_JOB, root, hour, folder) for _ in range(scale.rounds)]
        return [middle_of(cold), middle_of(cached)]


@dataclass(frozen=True)
class EngineLine:
    """Runs of both jobs over few and many rows, by this process alone and by Spark."""

    name: str
    title: str
    checks: Sequence[Check] = ()

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        is_full = scale.rounds > 1
        figures = []
        for job, write in ((TRACES_JOB, _write), (LAG_JOB, _write_lag)):
            for rows in ENGINE_ROWS if is_full else ENGINE_ROWS[:1]:
                root = folder / f"{job}-{rows}"
                hour = write(root, rows, folder)
                for engine, spark_rows in ENGINES.items():
                    if not is_full and job == TRACES_JOB and not spark_rows:
                        continue  # the line before this one has it
                    name = f"KiteMQ, {job}, {rows:,} rows, {engine}"
                    runs = [
                        _job(name, job, root, hour, folder, spark_rows) for _ in range(scale.rounds)
                    ]
                    figures.append(middle_of(runs))
        return figures


def _job(name: str, job: str, root: Path, hour: str, folder: Path, spark_rows: int = 0) -> Figure:
    output = folder / "output"
    shutil.rmtree(output, ignore_errors=True)
    request = {
        "job": job,
        "hours": [hour],
        "spark_rows": spark_rows,
        "root": str(root),
        "output": str(output),
        "folder": str(folder / "spark"),
        "driver_memory": DRIVER_MEMORY,
    }
    path = folder / "request.json"
    path.write_text(json.dumps(request))
    began_s = time.perf_counter()
    log = folder / "job.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-P", "-m", "analytics.job", "--request", str(path)], stderr=errors
        ) as child,
    ):
        usage = Usage(child.pid)
        while child.poll() is None:
            usage.look()
            time.sleep(LOOK_S)
            if time.perf_counter() - began_s > JOB_LIMIT_S:
                child.terminate()
    wall_s = time.perf_counter() - began_s
    if child.returncode:
        raise RuntimeError(log.read_text(errors="replace")[-2000:])
    used = usage.total()
    return Figure(name, wall_s=wall_s, cpu_s=used.cpu_s, memory_mib=used.memory_mib)


@dataclass(frozen=True)
class BesideLine:
    """Sends at a steady rate over REST while a report runs, and before and after it.

    What is idle is taken from both sides, as a shared machine may be faster now than then.
    """

    name: str
    title: str
    checks: Sequence[Check] = ()

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        is_full = scale.rounds > 1
        data = folder / "beside"
        hour = _write(data / "analytics", BESIDE_ROWS if is_full else QUICK_ROWS, folder)
        server = Server(data, goes_first=True)  # as it does by itself
        with server:
            server.settle()
            rounds = [_round(server, hour, is_full=is_full) for _ in range(scale.rounds)]
        return [middle_of(figures) for figures in zip(*rounds, strict=True)]


def _round(server: Server, hour: str, *, is_full: bool) -> tuple[Figure, Figure]:
    """Idle, and beside a run over that hour, which is computed anew each time."""
    idle, beside = _Sends(server), _Sends(server)
    seconds = IDLE_S if is_full else QUICK_IDLE_S
    idle.send_for(seconds / 2)
    idle_delay_ms = server.worst_delay_ms()
    run = _Run(server, hour, RUN_LIMIT_S if is_full else QUICK_BESIDE_S)
    beside.send_while(run.is_on)
    beside.cut(run.ended_s)
    delay_ms = server.worst_delay_ms()
    idle.send_for(seconds / 2)
    if is_full and run.state != "ok":
        raise RuntimeError(f"the run of the report ended as {run.state}: {run.error}")
    return idle.figure(IDLE, idle_delay_ms), beside.figure(BESIDE, delay_ms)


class _Run:
    """A run of the report, begun over REST and looked at now and then.

    It counts as over after `limit_s`; the server ends it when it stops. Looking is a task of the
    sender's own loop: another thread would hold Python's lock while answers come in.
    """

    def __init__(self, server: Server, hour: str, limit_s: float) -> None:
        self._server = server
        self._limit_s = limit_s
        self._began_s = self._asked_s = time.perf_counter()
        self.state, self.error = "running", ""
        self.ended_s = math.inf  # by time.perf_counter()
        body = json.dumps({"job": "traces", "first": hour, "last": hour}).encode()
        request = urllib.request.Request(
            f"{server.url}{RUNS}", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            self._path = f"{RUNS}/{json.loads(answer.read())['id']}"
        self._asking: asyncio.Task[dict[str, Any]] | None = None

    def is_on(self) -> bool:
        """Whether it still runs, as of the last look."""
        now_s = time.perf_counter()
        if self._asking is not None and self._asking.done():
            answer, self._asking = self._asking.result(), None
            self.state, self.error = answer["state"], answer["error"]
            if answer["ended_ms"] is not None:
                self.ended_s = now_s - (time.time() - answer["ended_ms"] / 1000)
        elif self._asking is None and now_s - self._asked_s > POLL_S:
            self._asked_s = now_s
            self._asking = asyncio.create_task(self._ask())
        return self.state == "running" and now_s - self._began_s < self._limit_s

    async def _ask(self) -> dict[str, Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        writer.write(f"GET {self._path} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode())
        writer.write(b"Connection: close\r\n\r\n")
        try:
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        if b" 200 " not in head.splitlines()[0]:
            raise RuntimeError(head.decode())
        answer: dict[str, Any] = json.loads(body)
        return answer


class _SteadyLink(Link):
    """Sends one message whenever it is told; latency is from when each one was due."""

    def __init__(self, client: RestSend, sent: list[tuple[float, float]]) -> None:
        super().__init__(client)
        self._send_client = client
        self._sent = sent
        self._due_s: deque[float] = deque()
        self._is_last = False

    def one(self, due_s: float) -> None:
        self._due_s.append(due_s)
        self.write(self._send_client.requests(1))

    def on_data(self, data: bytes) -> None:
        now_s = time.perf_counter()
        for _ in range(self._send_client.answers(data)):
            self._sent.append((self._due_s.popleft(), now_s))
        if self._is_last and not self._due_s:
            self.finish()

    async def answered(self) -> None:
        """Wait until nothing is unanswered; the last thing done with it."""
        self._is_last = True
        if self._due_s:
            await within(self.finished)


class _Sends:
    """What was sent at RATE, once or in parts; what is late counts from when it was due."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._sent: list[tuple[float, float]] = []  # when each was due, and answered
        self._took_s = 0.0

    def send_for(self, seconds: float) -> None:
        until_s = time.perf_counter() + seconds
        self.send_while(lambda: time.perf_counter() < until_s)

    def send_while(self, is_on: Callable[[], bool]) -> None:
        """Send as long as `is_on` says, and wait for the last answers."""
        with ahead():
            self._took_s += uvloop.run(self._send(is_on))

    def cut(self, upto_s: float) -> None:
        """Leave out what was due later, which was sent in one part."""
        self._sent = [each for each in self._sent if each[0] < upto_s]
        self._took_s = self._sent[-1][1] - self._sent[0][0]

    def figure(self, name: str, delay_ms: float | None) -> Figure:
        return Figure(
            name,
            rate=len(self._sent) / self._took_s,
            delay_ms=delay_ms,
            wall_s=self._took_s,
            **times_of([answered_s - due_s for due_s, answered_s in self._sent]),
        )

    async def _send(self, is_on: Callable[[], bool]) -> float:
        port = self._server.port
        links = [
            _SteadyLink(RestSend(port, "bench-beside", BODY), self._sent)
            for _ in range(CONNECTIONS)
        ]
        try:
            for link in links:
                await connect(link, port)
            began_s = time.perf_counter()
            with Beat(1 / RATE) as beat:
                for link in cycle(links):
                    due_s = await beat.due()
                    if not is_on():
                        break
                    link.one(due_s)
            for link in links:
                await link.answered()
            return time.perf_counter() - began_s
        finally:
            for link in links:
                link.close()


def _write_lag(root: Path, rows: int, folder: Path) -> str:
    from bench.report_data import write_lag

    return write_lag(root, rows, int(time.time()) // HOUR_S - 3)


def _write(root: Path, rows: int, folder: Path) -> str:
    """Write an hour that is over and that no server lets go of; its name. Raises NotInstalled."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise NotInstalled("PySpark is not installed", "pip install 'kitemq-server[analytics]'")
    find_java(folder / "spark")
    from bench.report_data import write

    return write(root, rows, int(time.time()) // HOUR_S - 3)


REPORTS = (
    JobLine(
        "reports-job",
        "5 million trace rows: the hourly job in a cold process, with and without a start-up cache",
        (Check(WITH_CACHE, "wall_s", 15),),
    ),
    EngineLine(
        "reports-engines",
        "1,000 to 3,000,000 rows of an hour: both jobs by one Python process and by Spark",
        (
            Check("KiteMQ, traces, 1,000 rows, Python", "wall_s", 10),
            Check("KiteMQ, lag, 1,000 rows, Python", "wall_s", 10),
        ),
    ),
    BesideLine(
        "reports-beside",
        "Produce over REST at 500/s, idle and while a report over 5 million trace rows runs",
        (Check(BESIDE, "p99_us", 1.5, peer=IDLE),),
    ),
)
