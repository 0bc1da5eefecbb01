"""A broker as a process of its own: start it, weigh it, stop it or kill it."""

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

READY_S = 60.0
STOP_S = 30.0
POLL_S = 0.002
LOWEST_PORT = 20_000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
PORT_TRIES = 100
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MIB = 1024 * 1024


def free_port() -> int:
    """A port that nobody listens on; kept over restarts so that clients find the server.

    It lies below the range from which the system gives ports to outgoing connections: one of that
    range may be taken by anybody's connection between this answer and the server's start.
    OSError where a hundred ports were all taken.
    """
    below = int(EPHEMERAL.read_text().split()[0]) if EPHEMERAL.exists() else 32_768
    for _ in range(PORT_TRIES):
        port = random.SystemRandom().randrange(LOWEST_PORT, max(below, LOWEST_PORT + 1))
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError(f"no free port among {PORT_TRIES} from {LOWEST_PORT} to {below}")


class Process:
    """One broker on loopback with a data directory of its own; a context manager.

    A subclass says by which command it starts and how it shows that it is ready. The process is a
    session of its own, so that Ctrl-C reaches only us and we end it in our order.
    """

    name = "process"

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> Sequence[str]:
        """The command line that starts it in the foreground."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """The environment it starts in."""
        return dict(os.environ)

    def is_ready(self) -> bool:
        """Whether it answers as it should; False while it cannot be reached."""
        raise NotImplementedError

    def start(self) -> float:
        """Start and wait until ready; the seconds that took."""
        self.data.mkdir(parents=True, exist_ok=True)
        began_s = time.perf_counter()
        log_path = self.data.parent / f"{self.data.name}.log"
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self.environment(),
            )
        while not self.is_ready():
            if self._process.poll() is not None or time.perf_counter() - began_s > READY_S:
                self.end(signal.SIGKILL)
                tail = log_path.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{self.name} did not start:\n{tail}")
            time.sleep(POLL_S)
        return time.perf_counter() - began_s

    def kill(self) -> None:
        """End it at once (SIGKILL): what is in the page cache stays, what is in memory goes."""
        self.end(signal.SIGKILL)

    def stop(self) -> None:
        """End it the clean way (SIGTERM); kill it where that takes too long."""
        self.end(signal.SIGTERM)

    def end(self, how: signal.Signals) -> None:
        """Send the signal and wait until the process is gone; nothing where it is already."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(how)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_S)
        self._process = None

    def cpu_s(self) -> float:
        """Processor time used so far by all threads, user and system."""
        fields = self._stat()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def gateway_cpu_s(self) -> float | None:
        """The same of a server that stands before the broker; None where there is none."""
        return None

    def memory_mib(self) -> float:
        """Memory that the process holds now (resident)."""
        return int(self._stat()[21]) * PAGE_BYTES / MIB

    def settle(self) -> None:
        """Wait until what it still does after its start is over, so that no run pays for it."""

    def prepare(self, topic: str) -> None:
        """Make `topic`, where that does not happen by itself."""

    def worst_delay_ms(self) -> float | None:
        """The longest that its event loop was held up so far; None where it does not tell."""
        return None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _stat(self) -> list[str]:
        assert self._process is not None
        text = Path(f"/proc/{self._process.pid}/stat").read_text()
        return text.rpartition(")")[2].split()


def answers(port: int, question: bytes, expected: bytes) -> bool:
    """Whether who listens on `port` answers `question` with something that holds `wanted`."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as link:
            link.sendall(question)
            return expected in link.recv(4096)
    except OSError:
        return False
