"""A server process that a test may kill, on a port and a data directory that stay the same."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from bench.process import free_port
from kitemq import Client, KiteError
from tests.patience import until

START_TIMEOUT_S = 90.0
CALL_TIMEOUT_S = 5.0
SERVE = (sys.executable, "-m", "kitemq", "serve")
# The ports beside a free one may be taken.
NO_ROCKETMQ = {"grpc_listen": "off", "remoting_listen": "off"}


class ServerProcess:
    """`python -m kitemq serve` on loopback."""

    def __init__(self, data: Path, **settings: object) -> None:
        self.listen = f"127.0.0.1:{free_port()}"
        self.data = data
        self.stderr: IO[bytes] | None = None
        self.settings = {
            "log_level": "warning",
            "disk_free_min_bytes": 0,
            **NO_ROCKETMQ,
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{self.listen}"

    def client(self) -> Client:
        return Client(self.url, timeout_s=CALL_TIMEOUT_S)

    def start(self) -> None:
        """Start it and return once it answers."""
        self.begin()
        with self.client() as client:
            until(lambda: self._answers(client), "it did not answer", START_TIMEOUT_S)

    def begin(self) -> None:
        """Start it."""
        given = [f"--set={name}={value}" for name, value in self.settings.items()]
        self._process = subprocess.Popen(
            [*SERVE, "--listen", self.listen, "--data", str(self.data), *given],
            env={name: value for name, value in os.environ.items() if "KITEMQ" not in name},
            stderr=self.stderr,
        )

    def kill(self) -> None:
        """End it at once, wherever it is."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def ended(self) -> int:
        """The exit code, once it has ended by itself."""
        assert self._process is not None
        code = self._process.wait(START_TIMEOUT_S)
        self._process = None
        return code

    def stop(self) -> None:
        """End it in order."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(START_TIMEOUT_S)
            self._process = None

    def verify(self) -> str:
        """What `kitemq store verify` has to say against the data directory; "" if nothing."""
        done = subprocess.run(
            [sys.executable, "-m", "kitemq", "store", "verify", str(self.data)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return "" if done.returncode == 0 else done.stderr + done.stdout

    def _answers(self, client: Client) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the server ended by itself"
        try:
            list(client.topics.list())
        except KiteError:
            return False
        return True
