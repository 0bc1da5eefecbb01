"""The line of the engine alone: each round is a fresh process of `bench.engine_alone`."""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Check, Figure
from bench.line import Scale

LIMIT_S = 120.0
APPEND = "engine append"
RECEIVE = "engine receive + ack"
SINGLE = "engine one by one"
APPEND_COLUMNS = "engine append, columns"
RECEIVE_COLUMNS = "engine receive + ack, columns"
APPEND_SINGLE = "engine append of one"
RECEIVE_SINGLE = "engine receive + ack of one"
# By the name of its figure in `bench.engine_alone`.
TIMED = {
    "append": APPEND,
    "append_columns": APPEND_COLUMNS,
    "append_single": APPEND_SINGLE,
    "append_alike": "engine append of one, like the last",
    "receive_ack": RECEIVE,
    "receive_ack_columns": RECEIVE_COLUMNS,
    "receive_ack_single": RECEIVE_SINGLE,
}
TRACED = {"append": APPEND, "receive_ack": RECEIVE, "one_by_one": SINGLE}
OFF, ON = "traces off", "traces on"
SAMPLES = {OFF: 0.0, ON: 1.0}


@dataclass(frozen=True)
class EngineLine:
    """Microseconds per message of append, and of receive with ack; no peer has such a line."""

    name: str
    title: str
    body_bytes: int
    checks: Sequence[Check] = ()

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        rounds = [self._once(scale) for _ in range(scale.rounds)]
        return [_figure(name, [each[key] for each in rounds]) for key, name in TIMED.items()]

    def _once(self, scale: Scale) -> dict[str, float]:
        return run_alone(scale, self.body_bytes)


@dataclass(frozen=True)
class TraceLine:
    """What traces cost in processor time: all messages traced, and none, in turns."""

    name: str
    title: str
    body_bytes: int
    checks: Sequence[Check] = ()

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        rounds: dict[str, list[dict[str, float]]] = {OFF: [], ON: []}
        for _ in range(scale.rounds):
            for state, done in rounds.items():
                words = ["--processor-time", "--trace-sample", str(SAMPLES[state])]
                done.append(run_alone(scale, self.body_bytes, *words))
        return [
            Figure(f"{name}, {state}", broker_us=statistics.median(each[key] for each in done))
            for key, name in TRACED.items()
            for state, done in rounds.items()
        ]


def run_alone(scale: Scale, body_bytes: int, *words: str) -> dict[str, float]:
    """One run in a process of its own: microseconds per message by name."""
    sizes = ["--body", str(body_bytes), "--messages", str(scale.engine_messages)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.engine_alone", *sizes, *words],
        capture_output=True,
        check=False,
        timeout=LIMIT_S,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace")[-2000:])
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def _figure(name: str, us_per_message: list[float]) -> Figure:
    us = statistics.median(us_per_message)
    rates = tuple(round(1e6 / each, 1) for each in us_per_message)
    return Figure(name, rate=1e6 / us, broker_us=us, rates=rates)
