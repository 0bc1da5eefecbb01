"""Apache's own Java client, as `tests/remoting` installs it: one program for every broker.

It warms up in its own process before a run, as compiled code would otherwise be part of the figure.
"""

import asyncio
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.figures import Run
from bench.line import Turn, Work, measured
from bench.load import LoadError, Sample
from bench.peers.rocketmq import RocketMQServer
from bench.server import Server

ROOT = Path(__file__).parents[2]
JARS = ROOT / "tests/remoting/java/lib/5.5.0"
PROGRAM = Path(__file__).parent / "Send.java"
WARM_TIMES = 15  # as long as other lines warm up
MICROSECONDS = 1e6


def is_installed() -> bool:
    """Whether there are the client's jars and a compiler for the program."""
    return bool(shutil.which("javac")) and JARS.is_dir()


def sending_by_java(body: bytes, *, threads: int) -> Work:
    """Synchronous sends of one producer, from so many threads."""

    async def work(turn: Turn) -> Run:
        turn.process.prepare(turn.topic)
        program = await asyncio.to_thread(_begin, turn, len(body), threads)
        try:
            return await measured(turn.process, asyncio.to_thread(_run, program))
        finally:
            program.kill()
            program.wait()

    return work


def _begin(turn: Turn, size_bytes: int, threads: int) -> "subprocess.Popen[str]":
    """The program, warm and waiting for its start."""
    assert isinstance(turn.process, (Server, RocketMQServer))
    address = f"127.0.0.1:{turn.process.remoting_port}"
    warm_ms = round(turn.scale.warm_s * WARM_TIMES * 1000)
    run_ms = round(turn.scale.seconds * 1000)
    words = [address, turn.topic, threads, size_bytes, warm_ms, run_ms]
    home = f"-Duser.home={turn.process.data}"
    program = subprocess.Popen(
        ["java", home, "-cp", f"{_classes()}:{JARS}/*", "Send", *map(str, words)],
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
def _classes() -> Path:
    """The compiled program, in a folder that goes with this process's temporary files."""
    folder = Path(tempfile.mkdtemp(prefix="bench-java-"))
    subprocess.run(["javac", "-cp", f"{JARS}/*", "-d", folder, PROGRAM], check=True)
    return folder
