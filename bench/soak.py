"""`make soak`: send and receive for a while, kill the server again and again, count the harm.

Every message has a body of its own and is sent once. A message is *accepted* when its answer came,
*acknowledged* when the answer to its acknowledgement said done, *unsure* when that answer was lost
with the server. At the end no accepted message may be missing (neither acknowledged nor unsure),
and none may have been delivered by a request that was made after it was acknowledged. Exit
status 1 otherwise.
"""

import argparse
import asyncio
import itertools
import json
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.client import Connection, request
from bench.server import Server

TOPIC = "soak"
GROUP = "soak"
BATCH = 20
PRODUCERS = 2
CONSUMERS = 3
INVISIBLE_MS = 3_000
UP_S = (1.0, 8.0)  # between two kills
DRAIN_S = 60.0
RETRY_S = 0.05
LOST = (OSError, asyncio.IncompleteReadError, RuntimeError, ValueError)


@dataclass
class Ledger:
    """What the clients know for sure."""

    accepted: set[str] = field(default_factory=set)
    acknowledged_s: dict[str, float] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    came_back: list[str] = field(default_factory=list)
    kills: int = 0
    memory_mib_max: float = 0.0
    is_sending: bool = True
    drained_by_s: float = 0.0

    @property
    def missing(self) -> set[str]:
        return self.accepted - self.acknowledged_s.keys() - self.unsure

    def is_draining(self) -> bool:
        """Whether a consumer still has something to do."""
        return self.is_sending or (time.monotonic() < self.drained_by_s and bool(self.missing))


async def produce(port: int, ledger: Ledger, numbers: "itertools.count[int]") -> None:
    """Send batches until told to end; an answer that did not come counts for nothing."""

    async def turn(connection: Connection) -> None:
        bodies = [f"message {next(numbers)}" for _ in range(BATCH)]
        wanted = {"messages": [{"body": body} for body in bodies]}
        await connection.ask(post(f"topics/{TOPIC}/messages", wanted))
        ledger.accepted.update(bodies)
        await asyncio.sleep(0.01)

    await over_connections(port, turn, lambda: ledger.is_sending)


async def consume(port: int, ledger: Ledger, numbers: random.Random) -> None:
    """Receive and acknowledge; now and then forget what was received, so that it returns."""

    async def turn(connection: Connection) -> None:
        wanted = {"topic": TOPIC, "max": 64, "invisible_ms": INVISIBLE_MS, "wait_ms": 500}
        asked_s = time.monotonic()
        answer = json.loads(await connection.ask(post(f"groups/{GROUP}/receive", wanted)))
        deliveries: list[dict[str, Any]] = answer["deliveries"]
        for item in deliveries:
            if ledger.acknowledged_s.get(item["body"], asked_s) < asked_s:
                ledger.came_back.append(item["body"])
        if deliveries and numbers.random() > 0.02:
            await acknowledge(connection, ledger, deliveries)

    await over_connections(port, turn, ledger.is_draining)


async def acknowledge(
    connection: Connection, ledger: Ledger, deliveries: list[dict[str, Any]]
) -> None:
    bodies = {item["receipt"]: item["body"] for item in deliveries}
    try:
        answer = await connection.ask(post(f"groups/{GROUP}/ack", {"receipts": list(bodies)}))
    except LOST:
        ledger.unsure.update(bodies.values())
        raise
    now_s = time.monotonic()
    for item in json.loads(answer)["results"]:
        if item["result"] == "done":
            ledger.acknowledged_s.setdefault(bodies[item["receipt"]], now_s)


async def over_connections(
    port: int, turn: Callable[[Connection], Awaitable[None]], goes_on: Callable[[], bool]
) -> None:
    """Take turns on a connection; open a new one whenever the server took the last with it."""
    while goes_on():
        try:
            async with await Connection.open(port) as connection:
                while goes_on():
                    await turn(connection)
        except LOST:
            await asyncio.sleep(RETRY_S)


async def kill_now_and_then(
    server: Server, ledger: Ledger, numbers: random.Random, until_s: float
) -> None:
    while time.monotonic() < until_s:
        await asyncio.sleep(min(numbers.uniform(*UP_S), max(0.0, until_s - time.monotonic())))
        ledger.memory_mib_max = max(ledger.memory_mib_max, server.memory_mib())
        await asyncio.to_thread(server.kill)
        ledger.kills += 1
        await asyncio.to_thread(server.start)


async def soak(server: Server, seconds: float, seed: int) -> Ledger:
    """Load and kill for `seconds`, then let the consumers drain what is left."""
    numbers, ledger, counter = random.Random(seed), Ledger(), itertools.count()
    clients = [produce(server.port, ledger, counter) for _ in range(PRODUCERS)]
    clients += [
        consume(server.port, ledger, random.Random(seed + number)) for number in range(CONSUMERS)
    ]
    tasks = [asyncio.ensure_future(client) for client in clients]
    await kill_now_and_then(server, ledger, numbers, time.monotonic() + seconds)
    ledger.is_sending, ledger.drained_by_s = False, time.monotonic() + DRAIN_S
    await asyncio.gather(*tasks)
    return ledger


def post(path: str, body: dict[str, Any]) -> bytes:
    return request("POST", f"/api/v1/{path}", json.dumps(body).encode())


def main() -> int:
    """Run the soak and print what it counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    asked = parser.parse_args()
    print(f"seed {asked.seed}, {asked.seconds:g} s", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="kitemq-soak-") as folder,
        Server(Path(folder) / "data") as server,
    ):
        ledger = asyncio.run(soak(server, asked.seconds, asked.seed))
    print(
        f"{ledger.kills} kills, {len(ledger.accepted):,} accepted, "
        f"{len(ledger.acknowledged_s):,} acknowledged, {len(ledger.unsure):,} unsure, "
        f"{len(ledger.missing):,} missing, "
        f"{len(ledger.came_back):,} back after their acknowledgement, "
        f"{ledger.memory_mib_max:.0f} MiB at most"
    )
    return 1 if ledger.missing or ledger.came_back else 0


if __name__ == "__main__":
    raise SystemExit(main())
