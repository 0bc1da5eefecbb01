"""The line of the engine without a door: each round is a fresh process of `bench.engine_alone`."""

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


@dataclass(frozen=True)
class EngineLine:
    """Microseconds per message of append, and of receive with ack; no peer has such a line."""

    name: str
    title: str
    body_bytes: int
    checks: Sequence[Check] = ()

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        rounds = [self._once(scale) for _ in range(scale.rounds)]
        return [
            _figure(APPEND, [each["append"] for each in rounds]),
            _figure(RECEIVE, [each["receive_ack"] for each in rounds]),
        ]

    def _once(self, scale: Scale) -> dict[str, float]:
        words = ["--body", str(self.body_bytes), "--messages", str(scale.engine_messages)]
        done = subprocess.run(
            [sys.executable, "-m", "bench.engine_alone", *words],
            capture_output=True,
            check=False,
            timeout=LIMIT_S,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace")[-2000:])
        found: dict[str, float] = json.loads(done.stdout)
        return found


def _figure(name: str, us_per_message: list[float]) -> Figure:
    us = statistics.median(us_per_message)
    rates = tuple(round(1e6 / each, 1) for each in us_per_message)
    return Figure(name, rate=1e6 / us, broker_us=us, rates=rates)
