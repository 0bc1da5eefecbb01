"""Classic clients of other languages, each unmodified and driven by a small program of ours.

`tools/ensure_remoting_clients.sh` installs them. All programs take the same commands and print the
same lines as `java/Drive.java`.
"""

import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent
LIMIT_S = 100.0
SEND, BATCH, TRANSACTIONS, SQL, PULL, DEAD_LETTERS = (
    "send", "batch", "transactions", "sql", "pull", "dead letters",
)  # fmt: skip


@dataclass(frozen=True)
class OtherClient:
    """A client with its version, the program that drives it, and what not all clients can do."""

    name: str
    version: str
    command: tuple[str, ...]
    parts: tuple[Path, ...]  # that are there where it is installed
    abilities: frozenset[str]
    makes_topics: bool = True  # whether it sends to a topic that does not exist yet

    @property
    def is_installed(self) -> bool:
        return all(part.exists() for part in self.parts) and bool(shutil.which(self.command[0]))


def _of_python(name: str, version: str, *abilities: str) -> OtherClient:
    python = FOLDER / "cpp" / f".venv-{version}" / "bin" / "python"
    command = (str(python), str(FOLDER / "cpp" / "drive.py"))
    return OtherClient(name, version, command, (python,), frozenset(abilities))


CLIENTS = {
    "go": OtherClient(
        "rocketmq-client-go",
        "2.1.2",
        (str(FOLDER / "go" / "build" / "drive"),),
        (FOLDER / "go" / "build" / "drive",),
        frozenset({BATCH, TRANSACTIONS, SQL, PULL, DEAD_LETTERS}),
    ),
    "node": OtherClient(
        "ali-ons",
        "3.12.0",
        ("node", str(FOLDER / "node" / "drive.js")),
        (FOLDER / "node" / "node_modules" / "ali-ons",),
        frozenset({SQL, DEAD_LETTERS}),
        makes_topics=False,
    ),
    "cpp-4": _of_python("rocketmq", "0.4.4", BATCH, PULL),
    "cpp-5": _of_python("rocketmq-client-python", "0.5.0rc2", TRANSACTIONS, DEAD_LETTERS),
}
SPRING = FOLDER / "spring"


@dataclass
class Running:
    """One run of a client's program, begun at once."""

    client: OtherClient
    address: str
    words: tuple[str, ...]
    home: Path
    began_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            [*self.client.command, self.address, *self.words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "TZ": "UTC"},
            text=True,
        )

    def lines(self) -> list[list[str]]:
        """What it printed until its end, as words; AssertionError where it did not finish."""
        try:
            text, _ = self.process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            text, _ = self.process.communicate()
        lines = [line.split(" ") for line in text.splitlines()]
        assert ["DONE"] in lines, f"{self.words}: {text[-2000:]}"
        assert ["TIMEOUT"] not in lines, f"{self.words}: {text[-2000:]}"
        return lines

    def said(self, word: str) -> list[list[str]]:
        """The lines that begin with a word, without it."""
        return [line[1:] for line in self.lines() if line[0] == word]
