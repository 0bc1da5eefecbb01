"""A KiteMQ server as a process of its own, to measure, to kill and to start again."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.process import Process, free_port

WORST_EVER = "kitemq_event_loop_delay_worst_ever_seconds "
SETTLE_S = 1.2
SETTLE_MAX_S = 5.0
CALM_S = 0.3
DELAY_PATH = "/bench/delay"  # of `bench.watched`
COMPILED = "pycache"  # beside the data: modules as Python compiled them
LOADED = "import app.serve, app.db.database, app.grpc.port, kitemq.cli"
PROFILE_ENV = "BENCH_PROFILE"  # a file: the server then runs under cProfile and leaves it there


class Server(Process):
    """`kitemq serve` on loopback, before other programs only where asked: its peers do not."""

    name = "KiteMQ"

    def __init__(
        self, data: Path, *, goes_first: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(data)
        self._settings = settings or {}
        self._goes_first = goes_first
        self.url = f"http://127.0.0.1:{self.port}"
        self.grpc_port = free_port()
        self.remoting_port = free_port()

    def command(self) -> Sequence[str]:
        serve = ["serve", "--data", str(self.data), "--listen", f"127.0.0.1:{self.port}"]
        serve += ["--set", "log_level=warning", "--set", f"grpc_listen=127.0.0.1:{self.grpc_port}"]
        serve += ["--set", f"remoting_listen=127.0.0.1:{self.remoting_port}"]
        serve += ["--set", "report_schedules=false"]  # nothing runs beside what is measured
        serve += ["--set", f"goes_first={self._goes_first}"]
        for name, value in self._settings.items():
            serve += ["--set", f"{name}={value}"]
        module = "bench.profiled" if os.environ.get(PROFILE_ENV) else "kitemq.cli"
        return [sys.executable, "-m", module, *serve]

    def is_ready(self) -> bool:
        try:
            return self.get("/readyz") != b""
        except OSError:
            return False

    def environment(self) -> dict[str, str]:
        """Ours, yet Python may keep its compiled modules, as it does for whoever installed us."""
        return _compiling(super().environment(), self.data.parent / COMPILED)

    def get(self, path: str) -> bytes:
        """The body of a GET; raises OSError where there is no answer or no success."""
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            body: bytes = answer.read()
            return body

    def settle(self) -> None:
        """It makes its database ready beside its first requests: wait for that, and for calm."""
        time.sleep(SETTLE_S)
        until_s = time.monotonic() + SETTLE_MAX_S
        before_s = self.cpu_s()
        while time.monotonic() < until_s:
            time.sleep(CALM_S)
            used_s, before_s = self.cpu_s() - before_s, self.cpu_s()
            if used_s < CALM_S / 10:
                return

    def prepare(self, topic: str) -> None:
        """Create the topic, for who subscribes before anything was sent."""
        request = urllib.request.Request(
            f"{self.url}/api/v1/topics",
            json.dumps({"name": topic}).encode(),
            {"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=10).close()

    def count(self, topic: str) -> int:
        """Messages that `topic` keeps."""
        return int(json.loads(self.get(f"/api/v1/topics/{topic}"))["messages"])

    def worst_delay_ms(self) -> float | None:
        """What `/metrics` says of the whole life of this process."""
        try:
            text = self.get("/metrics").decode()
        except urllib.error.URLError:
            return None
        for line in text.splitlines():
            if line.startswith(WORST_EVER):
                return float(line.removeprefix(WORST_EVER)) * 1000
        return None


def compile_modules(into: Path) -> None:
    """Have Python compile what a server loads, as installing it does.

    Otherwise the first server that is measured does so beside its first requests: one module of
    SQLAlchemy alone holds Python's lock for 30 ms.
    """
    environment = _compiling(dict(os.environ), into)
    subprocess.run([sys.executable, "-c", LOADED], env=environment, check=True)


def _compiling(environment: dict[str, str], into: Path) -> dict[str, str]:
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment | {"PYTHONPYCACHEPREFIX": str(into)}
