"""The lines of the reports: how long Spark takes for a large hour, and what others notice of it.

Both want the extra `analytics` and a Java; without them they fail with the sentence that says so.
"""

import asyncio
import json
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

import uvloop

from analytics.errors import AnalyticsError, NotInstalled
from analytics.java import find_java
from analytics.usage import Usage
from analytics.warm_up import warm_up
from bench.doors.rest import RestSend
from bench.figures import Check, Figure, times_of
from bench.line import Scale
from bench.load import Link, connect, within
from bench.server import Server

ROWS, QUICK_ROWS = 5_000_000, 20_000
BESIDE_ROWS = 5_000_000  # so that the run beside the sender takes at least 20 s
JOB_LIMIT_S, RUN_LIMIT_S = 900.0, 900.0
RATE, CONNECTIONS = 500, 8
IDLE_S, QUICK_IDLE_S, QUICK_BESIDE_S = 20.0, 0.5, 3.0
POLL_S = 1.0
RUNS = "/api/v1/reports/runs"
LOOK_S = 0.2
BODY = b"x" * 256
DRIVER_MEMORY = "1g"  # the server's default
HOUR_S = 3_600
COLD, WITH_CACHE = "KiteMQ, cold", "KiteMQ, cold, with a start-up cache"
IDLE, BESIDE = "KiteMQ, idle", "KiteMQ, a report runs"


@dataclass(frozen=True)
class JobLine:
    """One run of the job `traces` in processes of its own: wall, processor time, memory."""

    name: str
    title: str
    checks: Sequence[Check] = ()

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        is_full = scale.rounds > 1
        root = folder / "analytics"
        hour = _write(root, ROWS if is_full else QUICK_ROWS, folder)
        figures = [_job(COLD, root, hour, folder)]
        if is_full:
            try:
                warm_up(folder / "spark")
            except AnalyticsError as error:
                raise RuntimeError(str(error)) from None
            figures.append(_job(WITH_CACHE, root, hour, folder))
        return figures


def _job(name: str, root: Path, hour: str, folder: Path) -> Figure:
    output = folder / "output"
    shutil.rmtree(output, ignore_errors=True)
    request = {
        "job": "traces",
        "hours": [hour],
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
    """Sends at a steady rate over REST, first to an idle server, then while a report runs."""

    name: str
    title: str
    checks: Sequence[Check] = ()

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        is_full = scale.rounds > 1
        data = folder / "beside"
        _write(data / "analytics", BESIDE_ROWS if is_full else QUICK_ROWS, folder)
        server = Server(data)
        with server:
            server.settle()
            seconds = IDLE_S if is_full else QUICK_IDLE_S
            until_s = time.perf_counter() + seconds
            idle = _sent(server, IDLE, lambda: time.perf_counter() < until_s)
            run = _Run(server, RUN_LIMIT_S if is_full else QUICK_BESIDE_S)
            beside = _sent(server, BESIDE, run.is_on)
        if is_full and run.state != "ok":
            raise RuntimeError(f"the run of the report ended as {run.state}: {run.error}")
        return [idle, beside]


class _Run:
    """A run of the report, begun over REST and looked at now and then.

    It counts as over after `limit_s`; the server ends it when it stops. Looking is a task of the
    sender's own loop: another thread would hold Python's lock while answers come in.
    """

    def __init__(self, server: Server, limit_s: float) -> None:
        self._server = server
        self._limit_s = limit_s
        self._began_s = self._asked_s = time.perf_counter()
        self.state, self.error = "running", ""
        request = urllib.request.Request(
            f"{server.url}{RUNS}", b'{"job": "traces"}', {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            self._path = f"{RUNS}/{json.loads(answer.read())['id']}"
        self._asking: asyncio.Task[dict[str, str]] | None = None

    def is_on(self) -> bool:
        """Whether it still runs, as of the last look."""
        now_s = time.perf_counter()
        if self._asking is not None and self._asking.done():
            answer, self._asking = self._asking.result(), None
            self.state, self.error = answer["state"], answer.get("error") or ""
        elif self._asking is None and now_s - self._asked_s > POLL_S:
            self._asked_s = now_s
            self._asking = asyncio.create_task(self._ask())
        return self.state == "running" and now_s - self._began_s < self._limit_s

    async def _ask(self) -> dict[str, str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        writer.write(f"GET {self._path} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode())
        writer.write(b"Connection: close\r\n\r\n")
        try:
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        if b" 200 " not in head.splitlines()[0]:
            raise RuntimeError(head.decode())
        found: dict[str, str] = json.loads(body)
        return found


class _SteadyLink(Link):
    """Sends one message whenever it is told; latency is from when each one was due."""

    def __init__(self, door: RestSend, latencies_s: list[float]) -> None:
        super().__init__(door)
        self._send_door = door
        self._latencies_s = latencies_s
        self._due_s: deque[float] = deque()
        self._is_last = False

    def one(self, due_s: float) -> None:
        self._due_s.append(due_s)
        self.write(self._send_door.requests(1))

    def on_data(self, data: bytes) -> None:
        now_s = time.perf_counter()
        for _ in range(self._send_door.answers(data)):
            self._latencies_s.append(now_s - self._due_s.popleft())
        if self._is_last and not self._due_s:
            self.finish()

    async def answered(self) -> None:
        """Wait until nothing is unanswered; the last thing done with it."""
        self._is_last = True
        if self._due_s:
            await within(self.finished)


def _sent(server: Server, name: str, is_on: Callable[[], bool]) -> Figure:
    """Send at RATE while `is_on`; what is late counts from when it was due."""
    latencies_s: list[float] = []

    async def send() -> float:
        links = [
            _SteadyLink(RestSend(server.port, "bench-beside", BODY), latencies_s)
            for _ in range(CONNECTIONS)
        ]
        try:
            for link in links:
                await connect(link, server.port)
            began_s = time.perf_counter()
            for number, link in enumerate(cycle(links)):
                due_s = began_s + number / RATE
                wait_s = due_s - time.perf_counter()
                if wait_s > 0 or number % CONNECTIONS == 0:
                    # Also behind its time: answers want to be read.
                    await asyncio.sleep(max(wait_s, 0))
                if not is_on():
                    break
                link.one(due_s)
            for link in links:
                await link.answered()
            return time.perf_counter() - began_s
        finally:
            for link in links:
                link.close()

    took_s = uvloop.run(send())
    return Figure(
        name,
        rate=len(latencies_s) / took_s,
        delay_ms=server.worst_delay_ms(),
        wall_s=took_s,
        **times_of(latencies_s),
    )


def _write(root: Path, rows: int, folder: Path) -> str:
    """Write an hour that is over and that no server lets go of; its name. Raises NotInstalled."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise NotInstalled("PySpark is not installed", "pip install 'kitemq[analytics]'")
    find_java(folder / "spark")
    from bench.report_data import write

    return write(root, rows, int(time.time()) // HOUR_S - 3)


REPORTS = (
    JobLine(
        "reports-job",
        "5 million trace rows: the hourly job in a cold process, with and without a start-up cache",
        (Check(WITH_CACHE, "wall_s", 15),),
    ),
    BesideLine(
        "reports-beside",
        "Produce over REST at 500/s, idle and while a report over 5 million trace rows runs",
        (Check(BESIDE, "p99_us", 1.5, peer=IDLE),),
    ),
)
