"""Apache RocketMQ's own broker as a test drives it: a process, JSON lines in and out.

`tools/ensure_rocketmq.sh` brings the broker's jars and compiles `Drive.java`, which starts the real
`BrokerController` on a folder and only calls what that offers.
"""

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

FOLDER = Path(__file__).parent
LIB = FOLDER / "lib"
LIMIT_S = 90.0
HEAP = ("-Xms64m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC")
QUICK = ("-XX:TieredStopAtLevel=1", "-Xshare:auto")


class Refused(Exception):
    """The broker did not start; what it said."""


class Apache:
    """One broker on one folder, until `stop`, `kill` or the end of the `with`."""

    def __init__(self, root: Path, **shape: int) -> None:
        """`shape` is what the broker is told of the sizes of files; it starts at once."""
        home = root.parent / f"{root.name}-home"
        home.mkdir(exist_ok=True)
        settings = {"root": str(root), "port": _free_port(), **shape}
        self.log = home / "output"
        self._output = self.log.open("ab")
        classes = f"{FOLDER / 'classes'}{os.pathsep}{LIB / '*'}"
        command = ["java", *HEAP, *QUICK, f"-Duser.home={home}", "-cp", classes, "Drive"]
        self._process = subprocess.Popen(
            [*command, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "TZ": "UTC"},
            text=True,
        )
        answer = self._answer()
        if not answer["started"]:
            self.kill()
            raise Refused(answer["error"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.kill()

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Have one command done; AssertionError with the broker's error."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        assert "error" not in answer, f"{do}: {answer['error']}, see {self.log}"
        return answer

    def stop(self) -> None:
        """As `mqshutdown` does."""
        self.ask("stop")
        self.kill()

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.communicate()
        self._output.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the broker has ended, see {self.log}"
        answer: dict[str, Any] = json.loads(line)
        return answer


def missing() -> str:
    """Why the broker cannot be run here; "" where it can."""
    if shutil.which("java") is None:
        return "Apache RocketMQ's broker needs Java"
    if not (FOLDER / "classes" / "Drive.class").exists():
        return "Apache RocketMQ's broker is not installed: sh tools/ensure_rocketmq.sh"
    return ""


def _free_port() -> int:
    """One with a free one two below, which the broker takes as well."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port - 2))
            except OSError:
                continue
            return port
