"""The server under attack: a real process with few files and little address space, and its figures.

It runs under `ulimit -n 1024; ulimit -v 2097152`: both limits hold for soft and hard, so that the
server cannot raise them. Nothing else is set: neither smaller stacks nor fewer arenas of the memory
allocator are needed; with gRPC loaded the server takes less than 1 GiB of address space.
"""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from bench.process import answers, free_port
from tests.patience import until

FILES_MAX = 1024
ADDRESS_SPACE_KIB = 2048 * 1024
# Both limits for soft and hard, as a shell's own words set them.
LIMITED = f'ulimit -n {FILES_MAX} && ulimit -v {ADDRESS_SPACE_KIB} && exec "$@"'
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
SAMPLE_S = 0.2
KITEMQ = (sys.executable, "-m", "kitemq")
PASSWORD = "correct horse battery"


@dataclass(frozen=True)
class Sample:
    """Resident memory, address space and open files of the server at one moment."""

    resident_mib: float
    address_space_mib: float
    files: int


class Target:
    """`kitemq serve` on 127.0.0.1, its gRPC port included.

    With `has_users` everything needs a login: `token` is one that may do everything, for the
    producer and the consumer; attackers have none.
    """

    def __init__(self, data: Path, *, has_users: bool = False, **settings: object) -> None:
        self.data = data
        self.port, self.grpc_port = free_port(), free_port()
        self.token = ""
        self.peak = Sample(0, 0, 0)
        self._has_users = has_users
        self._settings = {"log_level": "warning", "disk_free_min_bytes": 0, **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self._log = data.parent / f"{data.name}.log"
        self._is_over = threading.Event()
        self._sampler = threading.Thread(target=self._watch, daemon=True)

    @property
    def log(self) -> str:
        """What the server has logged so far."""
        return self._log.read_text(errors="replace")

    def start(self) -> None:
        """Start it and return once it is ready."""
        self.data.mkdir(parents=True, exist_ok=True)
        if self._has_users:
            self._add_user()
        given = [f"--set={name}={value}" for name, value in self._settings.items()]
        listen = ["--listen", f"127.0.0.1:{self.port}"]
        grpc = ["--set", f"grpc_listen=127.0.0.1:{self.grpc_port}", "--set", "remoting_listen=off"]
        under = ["sh", "-c", LIMITED, "kitemq"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*under, *KITEMQ, "serve", *listen, *grpc, "--data", str(self.data), *given],
                env=_environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(self._is_ready, "the server did not start", START_TIMEOUT_S)
        self._sampler.start()

    def sample(self) -> Sample:
        """Its memory and files now; AssertionError where it has ended."""
        assert self._process is not None
        assert self._process.poll() is None, f"the server ended by itself:\n{self.log[-4000:]}"
        place = Path(f"/proc/{self._process.pid}")
        lines = (place / "status").read_text().splitlines()
        sizes = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
        files = len(os.listdir(place / "fd"))  # noqa: PTH208 - only how many, often
        return Sample(int(sizes["VmRSS"][0]) / 1024, int(sizes["VmSize"][0]) / 1024, files)

    def forget_peak(self) -> None:
        """From now on the peak is a new one."""
        self.peak = self.sample()

    def stop(self) -> int:
        """End it in order, or kill it where that takes too long; its exit code."""
        self._is_over.set()
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the server did not start:\n{self.log[-4000:]}"
        question = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        return answers(self.port, question, b" 200 ")

    def _watch(self) -> None:
        while not self._is_over.wait(SAMPLE_S):
            try:
                now, peak = self.sample(), self.peak
            except (AssertionError, OSError):
                return  # it has ended: whoever asks next is told
            self.peak = Sample(
                max(now.resident_mib, peak.resident_mib),
                max(now.address_space_mib, peak.address_space_mib),
                max(now.files, peak.files),
            )

    def _add_user(self) -> None:
        where = ["--data", str(self.data)]
        password = ["--role", "admin", "--password-stdin"]
        _run([*KITEMQ, "users", "add", "ann", *password, *where], PASSWORD)
        self.token = _run([*KITEMQ, "tokens", "add", "t", "--owner", "ann", *where]).strip()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if "KITEMQ" not in name}


def _run(command: list[str], given: str = "") -> str:
    done = subprocess.run(
        command,
        input=given,
        env=_environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=START_TIMEOUT_S,
    )
    return done.stdout
