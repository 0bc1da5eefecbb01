"""Lines of single capabilities: each is one run of `bench.parts` in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Check, Figure
from bench.line import Scale

LIMIT_S = 300.0
KEYS_PER_KEPT = 10  # ten million where a backlog is one


@dataclass(frozen=True)
class PartLine:
    """One part of the engine; `messages` says how many it gets at a scale."""

    name: str
    title: str
    part: str
    messages: Callable[[Scale], int]
    checks: Sequence[Check] = ()

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        words = [self.part, "--messages", str(self.messages(scale))]
        done = subprocess.run(
            [sys.executable, "-m", "bench.parts", *words],
            capture_output=True,
            check=False,
            timeout=LIMIT_S,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace")[-2000:])
        return [Figure(**each) for each in json.loads(done.stdout)]


PART_LINES = (
    PartLine(
        "timers",
        "Engine alone: 1 M messages with a time of delivery; lateness at 1,000 due per second",
        "timers",
        lambda scale: scale.kept,
        (
            Check("engine, to come", "memory_mib", 50),
            Check("engine, lateness", "p99_us", 3_000),
        ),
    ),
    PartLine(
        "filters",
        "Engine alone: a subscription that lets one message in a hundred through; us per message "
        "that was looked at",
        "filters",
        lambda scale: scale.engine_messages,
    ),
    PartLine(
        "keys",
        "Engine alone: look-up by key among 10 M messages with a key each",
        "keys",
        lambda scale: scale.kept * KEYS_PER_KEPT,
    ),
    PartLine(
        "retention",
        "Engine alone: batches of 100 while old log files are deleted; the worst step",
        "retention",
        lambda scale: 2 * scale.engine_messages,
        (Check("engine, deleting", "delay_ms", 20),),
    ),
    PartLine(
        "statistics",
        "Engine alone: processor time per message with statistics on and off",
        "statistics",
        lambda scale: scale.engine_messages // 2,
        tuple(
            Check(
                f"engine, batches of {batch}, statistics on",
                "broker_us",
                1.02,
                peer=f"engine, batches of {batch}, statistics off",
            )
            for batch in (1, 100)
        ),
    ),
)
