"""Lines that look at a broker's life: how soon it is ready, and how much memory it holds."""

import asyncio
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.figures import Check, Figure
from bench.line import FULL, Scale, Start
from bench.load import LoadError, SendClient, send_count
from bench.process import Process
from bench.server import Server
from engine.broker import Broker, TopicConfig
from engine.clock import SystemClock
from engine.config import EngineConfig
from engine.message import Message
from engine.store.pool import InlinePool

LINK = re.compile(rb'(?:href|src)="(/[^"]*)"')
SETTLE_S = 1.0  # after a load, until what it left behind is written and freed
ASSETS_MAX = 20
QUEUES = 8


@dataclass(frozen=True)
class StartLine:
    """Start with an empty data directory, and the memory held then; `is_used`: with the console."""

    name: str
    title: str
    starts: dict[str, Start]
    checks: Sequence[Check] = ()
    is_used: bool = True

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        figures = []
        for name, start in self.starts.items():
            ready_s, memory_mib = [], []
            for number in range(scale.rounds + 1):  # the first one only warms the page cache
                process = start(folder / f"{self.name}-{name.split()[0]}-{number}")
                if process is None:
                    break
                try:
                    ready_s.append(process.start())
                    if self.is_used:
                        look_at_console(process)
                    else:
                        process.settle()
                    memory_mib.append(process.memory_mib())
                finally:
                    process.stop()
            if ready_s:
                figures.append(
                    Figure(
                        name,
                        ready_s=statistics.median(ready_s[1:]),
                        memory_mib=statistics.median(memory_mib[1:]),
                    )
                )
        return figures


@dataclass(frozen=True)
class Keeper:
    """A broker that is given a backlog; `window` requests at once."""

    start: Start
    client: Callable[[int, str], SendClient]
    window: int


@dataclass(frozen=True)
class BacklogLine:
    """Memory with a backlog, then SIGKILL, and the time until it is ready with all of it."""

    name: str
    title: str
    keepers: dict[str, Keeper]
    checks: Sequence[Check] = ()
    is_killed: bool = True

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        figures = []
        for name, keeper in self.keepers.items():
            process = keeper.start(folder / f"{self.name}-{name.split()[0]}")
            if process is not None:
                figures.append(self._one(name, keeper, process, scale))
        return figures

    def _one(self, name: str, keeper: Keeper, process: Process, scale: Scale) -> Figure:
        ready_s = None
        with process:
            before_mib = process.memory_mib()
            client = keeper.client(process.port, self.name)
            sent = uvloop.run(_send(process.port, client, keeper.window, scale.kept))
            time.sleep(SETTLE_S)
            memory_mib = process.memory_mib()
            delay_ms = process.worst_delay_ms()
            if self.is_killed:
                process.kill()
                ready_s = process.start()
                self._look_for_loss(process, sent)
            else:
                memory_mib -= before_mib
        return Figure(name, ready_s=ready_s, memory_mib=memory_mib, delay_ms=delay_ms)

    def _look_for_loss(self, process: Process, sent: int) -> None:
        if isinstance(process, Server) and process.count(self.name) != sent:
            raise LoadError(f"{process.count(self.name)} messages of {sent} are left")


@dataclass(frozen=True)
class QueuesLine:
    """SIGKILL with so many topics of 8 queues, and the time until it is ready with all of them."""

    name: str
    title: str
    topics: Sequence[int]
    checks: Sequence[Check] = ()

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        return [self._one(count, scale, folder) for count in self.topics]

    def _one(self, topics: int, scale: Scale, folder: Path) -> Figure:
        data = folder / f"{self.name}-{topics}"
        fill_queues(data, topics * scale.kept // FULL.kept)
        ready_s, memory_mib = [], []
        server = Server(data)
        for _ in range(scale.rounds + 1):
            ready_s.append(server.start())
            memory_mib.append(server.memory_mib())
            server.kill()
        return Figure(
            queues_title(topics),
            ready_s=statistics.median(ready_s),
            memory_mib=statistics.median(memory_mib),
        )


def queues_title(topics: int) -> str:
    return f"{topics:,} topics"


def fill_queues(data: Path, topics: int) -> None:
    """Three messages in each of eight queues of so many topics, left as a kill leaves them."""
    config = EngineConfig(data=data, disk_free_min_bytes=0)
    broker = Broker(config, clock=SystemClock(), pool=InlinePool())
    broker.start()
    for number in range(topics):
        name = f"stream-{number:05d}"
        broker.create_topic(TopicConfig(name, read_queues=QUEUES, write_queues=QUEUES))
        broker.send([Message(name, b"x" * 100, queue=at % QUEUES) for at in range(3 * QUEUES)])
    time.sleep(config.checkpoint_interval_s)
    broker.tick()
    broker.stop()
    (data / "clean").unlink()
    (data / "abort").touch()


async def _send(port: int, client: SendClient, window: int, messages: int) -> int:
    async with asyncio.timeout(120):
        return await send_count(port, client, window, messages)


def look_at_console(process: Process) -> None:
    """Load the console's first page and what belongs to it, as a browser would."""
    if isinstance(process, Server):
        page = process.get("/")
        for path in list(dict.fromkeys(LINK.findall(page)))[:ASSETS_MAX]:
            process.get(path.decode())
