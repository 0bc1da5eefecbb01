"""Apache's own Java clients, as `make test` installs them: one program for every broker.

It warms up in its own process before a run, as compiled code would otherwise be part of the figure.
"""

import asyncio
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Run
from bench.line import Turn, Work, measured
from bench.load import LoadError, Sample
from bench.peers.rocketmq import RocketMQProxy, RocketMQServer
from bench.process import Process
from bench.server import Server

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
WARM_TIMES = 15  # as long as other lines warm up
MICROSECONDS = 1e6


@dataclass(frozen=True)
class JavaClient:
    """A client: its jars as Java's class path has them, our program, and the port it speaks to."""

    jars: str
    program: str
    port: Callable[[Process], int]

    @property
    def is_installed(self) -> bool:
        """Whether there are the client's jars and a compiler for the program."""
        return bool(shutil.which("javac")) and Path(self.jars.removesuffix("/*")).exists()


def classic_client() -> JavaClient:
    """The client of the remoting protocol."""

    def port(process: Process) -> int:
        assert isinstance(process, (Server, RocketMQServer))
        return process.remoting_port

    return JavaClient(f"{ROOT / 'tests/remoting/java/lib/5.5.0'}/*", "SendClassic", port)


def grpc_client() -> JavaClient:
    """The client of RocketMQ 5, the newest that is installed."""

    def port(process: Process) -> int:
        assert isinstance(process, (Server, RocketMQProxy))
        return process.grpc_port

    jars = (ROOT / "tests/clients/java/lib").glob("rocketmq-client-java-*.jar")
    newest = max(jars, key=_version, default=ROOT / "none.jar")
    return JavaClient(str(newest), "SendByGrpc", port)


def sending_by_java(client: JavaClient, body: bytes, *, threads: int) -> Work:
    """Synchronous sends of one producer, from so many threads."""

    async def work(turn: Turn) -> Run:
        turn.process.prepare(turn.topic)
        program = await asyncio.to_thread(_begin, client, turn, len(body), threads)
        try:
            return await measured(turn.process, asyncio.to_thread(_run, program))
        finally:
            program.kill()
            program.wait()

    return work


def _begin(
    client: JavaClient, turn: Turn, size_bytes: int, threads: int
) -> "subprocess.Popen[str]":
    """The program, warm and waiting for its start."""
    address = f"127.0.0.1:{client.port(turn.process)}"
    warm_ms = round(turn.scale.warm_s * WARM_TIMES * 1000)
    run_ms = round(turn.scale.seconds * 1000)
    words = [address, turn.topic, threads, size_bytes, warm_ms, run_ms]
    home = f"-Duser.home={turn.process.data}"
    program = subprocess.Popen(
        ["java", home, "-cp", f"{_classes(client)}:{client.jars}", client.program]
        + [str(word) for word in words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    if program.stdout.readline() != "READY\n":
        raise LoadError(f"the Java client does not send to {turn.process.name}")
    return program


def _run(program: "subprocess.Popen[str]") -> Sample:
    text, _ = program.communicate("\n", timeout=120)
    if program.returncode:
        raise LoadError(f"the Java client failed: {text[-500:]}")
    seconds, *latencies = map(float, text.split())
    return Sample(len(latencies), seconds, [each / MICROSECONDS for each in latencies])


@functools.cache
def _classes(client: JavaClient) -> Path:
    """The compiled program, in a folder that goes with this process's temporary files."""
    folder = Path(tempfile.mkdtemp(prefix="bench-java-"))
    sources = [FOLDER / "Load.java", FOLDER / f"{client.program}.java"]
    subprocess.run(["javac", "-cp", client.jars, "-d", folder, *sources], check=True)
    return folder


def _version(jar: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in jar.stem.rpartition("-")[2].split("."))
