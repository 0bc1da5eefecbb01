"""A line of the benchmark: the same load on ours and on its peers, in turns."""

import asyncio
import contextlib
import gc
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol, Self

import uvloop

from bench.figures import Check, Figure, Run, figure_of
from bench.load import Sample, SendClient, TakeClient, send_count, send_for, take_all, through
from bench.process import Process


class SharedProcesses:
    """Processes that contestants share until the end of a quick run, one of each kind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._processes: dict[Start, Process | None] = {}

    def get(self, start: "Start") -> Process | None:
        """The running one of this kind; None where it is not installed."""
        if start not in self._processes:
            process = start(self._folder / f"shared-{len(self._processes)}")
            if process is not None:
                self._stack.enter_context(process)
            self._processes[start] = process
        return self._processes[start]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


@dataclass(frozen=True)
class Scale:
    """How much is measured; everything is bounded by these."""

    rounds: int
    seconds: float  # of one run that sends
    warm_s: float
    backlog: int  # messages of one run that takes
    travel_s: float  # of one run end to end
    kept: int  # messages of the backlog that memory and recovery are measured with
    engine_messages: int
    pool: SharedProcesses | None = None  # without one, each contestant has a fresh process


FULL = Scale(
    rounds=3,
    seconds=1.2,
    warm_s=0.2,
    backlog=150_000,
    travel_s=2.0,
    kept=1_000_000,
    engine_messages=200_000,
)
QUICK = Scale(
    rounds=1,
    seconds=0.15,
    warm_s=0.0,
    backlog=2_000,
    travel_s=0.3,
    kept=20_000,
    engine_messages=4_000,
)


class Turn(NamedTuple):
    """One run's surroundings: a running broker, a topic that nobody used before, how much."""

    process: Process
    topic: str
    scale: Scale

    @property
    def port(self) -> int:
        return self.process.port


Work = Callable[[Turn], Awaitable[Run]]
Start = Callable[[Path], Process | None]


@dataclass(frozen=True)
class Contestant:
    """A broker and what it is asked to do; None from `start` where it is not installed."""

    name: str
    start: Start
    work: Work


class Line(Protocol):
    """Something that is measured under one name."""

    @property
    def name(self) -> str:
        """How it is asked for, and found in the results."""

    @property
    def title(self) -> str:
        """What it is, for people."""

    @property
    def checks(self) -> Sequence[Check]:
        """Its targets."""

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        """Measure ours and every peer that is installed; `folder` is ours to write to."""


@dataclass(frozen=True)
class RateLine:
    """Runs in rounds: one run of each contestant, then the next round. A fresh process for each,
    but where the scale has a pool.

    All contestants are up all the time; they idle while another one runs.
    """

    name: str
    title: str
    contestants: tuple[Contestant, ...]
    checks: tuple[Check, ...] = ()

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        with contextlib.ExitStack() as stack:
            up: list[tuple[Contestant, Process]] = []
            for number, contestant in enumerate(self.contestants):
                if scale.pool is not None:
                    process = scale.pool.get(contestant.start)
                elif process := contestant.start(folder / f"{self.name}-{number}"):
                    stack.enter_context(process)
                if process is not None:
                    up.append((contestant, process))
            if scale.warm_s:
                for _, process in up:
                    process.settle()
                warm = Scale(
                    rounds=1,
                    seconds=scale.warm_s,
                    warm_s=0.0,
                    backlog=2_000,
                    travel_s=scale.warm_s,
                    kept=2_000,
                    engine_messages=2_000,
                )
                for contestant, process in up:
                    run_alone(contestant.work, Turn(process, f"{self.name}-warm", warm))
            ways = [(contestant.name, process, contestant.work) for contestant, process in up]
            return in_turns(ways, self.name, scale)


def in_turns(ways: Sequence[tuple[str, Process, Work]], topic: str, scale: Scale) -> list[Figure]:
    """The figure of each way by its name: one run of each, then the next round."""
    runs: list[list[Run]] = [[] for _ in ways]
    for number in range(scale.rounds):
        for way, ((_, process, work), done) in enumerate(zip(ways, runs, strict=True)):
            done.append(run_alone(work, Turn(process, f"{topic}-{number}-{way}", scale)))
    return [
        figure_of(name, done, process.worst_delay_ms())
        for (name, process, _), done in zip(ways, runs, strict=True)
    ]


def run_alone(work: Work, turn: Turn) -> Run:
    """One run on an event loop of its own, without the garbage of the one before."""
    gc.collect()

    async def run() -> Run:
        async with asyncio.timeout(120):
            return await work(turn)

    return uvloop.run(run())


async def measured(process: Process, load: Awaitable[Sample]) -> Run:
    """Await `load` and take the processor time of broker and gateway beside it."""
    cpu_s, gateway_cpu_s = process.cpu_s(), process.gateway_cpu_s()
    sample = await load
    run = Run(sample, process.cpu_s() - cpu_s)
    if gateway_cpu_s is not None and (now_s := process.gateway_cpu_s()) is not None:
        run = replace(run, gateway_cpu_s=now_s - gateway_cpu_s)
    return run


async def measured_with_client(process: Process, load: Awaitable[Sample]) -> Run:
    """As `measured`, and our own processor time, where that is a client library's."""
    client_s = time.process_time()
    run = await measured(process, load)
    return replace(run, client_cpu_s=time.process_time() - client_s)


MakeSend = Callable[[Turn], SendClient]
MakeTake = Callable[[Turn], TakeClient]


def sending(client: MakeSend, *, window: int = 1, connections: int = 1) -> Work:
    """Send for a while, with `window` requests unanswered on each connection."""

    async def work(turn: Turn) -> Run:
        clients = [client(turn) for _ in range(connections)]
        return await measured(
            turn.process, send_for(turn.port, clients, window, turn.scale.seconds)
        )

    return work


async def fill(turn: Turn, client: MakeSend, window: int) -> int:
    """Store a backlog in the turn's topic; how many messages it has."""
    return await send_count(turn.port, client(turn), window, turn.scale.backlog)


def taking(send: MakeSend, take: MakeTake, *, window: int) -> Work:
    """Take and acknowledge a backlog; filling it is not part of the figure."""

    async def work(turn: Turn) -> Run:
        messages = await fill(turn, send, window)
        return await measured(turn.process, take_all(turn.port, take(turn), messages))

    return work


def travelling(send: MakeSend, take: MakeTake, *, rate: int, less_s: float = 0.0) -> Work:
    """Send at a steady rate; latency is to having received it, `less_s` taken off."""

    async def work(turn: Turn) -> Run:
        turn.process.prepare(turn.topic)
        seconds = turn.scale.travel_s
        load = through(turn.port, send(turn), take(turn), rate=rate, seconds=seconds)
        run = await measured(turn.process, load)
        run.sample.latencies_s[:] = [one - less_s for one in run.sample.latencies_s]
        return run

    return work
