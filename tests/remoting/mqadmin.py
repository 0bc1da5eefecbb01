"""Apache's mqadmin in one process that stays, so that many commands cost one start of Java."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.remoting.test_java import JAVA, LIMIT_S, VERSIONS, driver_of

END = "END"


@dataclass
class AdminTool:
    """Runs commands one after the other; `run` returns what each printed, errors included."""

    address: str
    process: "subprocess.Popen[str]"
    client: str = ""  # the consumer that stays connected

    def run(self, command: str) -> str:
        """The output of a mqadmin command, which gets the name server's address."""
        name, *words = command.format(broker=self.address, client=self.client).split()
        return self.call(name, "-n", self.address, *words)

    def rows(self, command: str) -> list[list[str]]:
        """The same as words of each line."""
        return [line.split() for line in self.run(command).splitlines() if line.strip()]

    def call(self, *words: str) -> str:
        """The output of one of the program's own commands."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        guard = threading.Timer(LIMIT_S, self.process.kill)
        guard.start()
        try:
            self.process.stdin.write("\t".join(words) + "\n")
            self.process.stdin.flush()
            lines: list[str] = []
            while (line := self.process.stdout.readline()) != f"{END}\n":
                assert line, f"the tool ended:\n{''.join(lines)}"
                lines.append(line)
        finally:
            guard.cancel()
        return "".join(lines)


@contextmanager
def admin_tool(address: str, home: Path, *options: str) -> Iterator[AdminTool]:
    """A tool for the server at an address; `options` are Java's."""
    driver_of(VERSIONS[-1], address, home)
    classes = f"{JAVA / 'build' / VERSIONS[-1]}:{JAVA / 'lib' / VERSIONS[-1]}/*"
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", classes, f"-Duser.home={home}"]
    command += [f"-Drocketmq.home.dir={home}", f"-Drocketmq.client.logRoot={home}", *options]
    with subprocess.Popen(
        [*command, "Admin", address],
        cwd=home,  # some commands write files
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield AdminTool(address, process)
        finally:
            process.kill()
