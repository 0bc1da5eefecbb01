"""A server process for clients that are processes of their own."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
LIMIT_S = 150.0
REST_S = 60.0  # the first request loads much, on a machine that may be busy
SERVED = re.compile(r"classic RocketMQ clients are served on (\S+)")
READY = re.compile(r"ready on (http://\S+)")


@dataclass
class Server:
    """A server process: where classic clients call, its URL, and what it said at its start."""

    address: str
    url: str
    process: "subprocess.Popen[str]"
    start: str

    def get(self, path: str) -> Any:
        """A document of REST."""
        return httpx.get(f"{self.url}/api/v1{path}", timeout=REST_S).json()

    def post(self, path: str, body: Any) -> httpx.Response:
        """The answer of REST to a document."""
        return httpx.post(f"{self.url}/api/v1{path}", json=body, timeout=REST_S)


@contextmanager
def served(data: Path, options: Sequence[str] = ()) -> Iterator[Server]:
    """`kitemq serve` on free ports; killed at the end."""
    command = [sys.executable, "-m", "app.serve", "--data", str(data), "--port", "0", *options]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KITEMQ_")}
    with subprocess.Popen(
        command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True
    ) as process:
        guard = threading.Timer(LIMIT_S, process.kill)
        guard.start()
        try:
            assert process.stderr is not None
            said = ""
            while not (ready := READY.search(said)):
                line = process.stderr.readline()
                assert line, f"the server never got ready:\n{said}"
                said += line
            found = SERVED.search(said)
            assert found is not None, said
            guard.cancel()
            drain = threading.Thread(target=process.stderr.read, daemon=True)
            drain.start()
            yield Server(found[1], ready[1], process, said)
        finally:
            guard.cancel()
            process.kill()
