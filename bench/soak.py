"""`make soak`: load through all endpoints, kill the server again and again, count the harm.

At the end no accepted message may be missing (neither acknowledged, nor unsure, nor a dead letter
where it was poison), none may have been delivered by a request that was made after it was
acknowledged, none before its time, none that was rolled back, and none of a message group before an
earlier one was settled. Exit status 1 otherwise. `soak_clients` has the clients.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from bench.server import Server
from bench.soak_clients import Clients, GrpcClients, prepare
from bench.soak_ledger import Ledger

UP_S = (1.0, 8.0)  # between two kills
OFTEN_S = (0.2, 3.0)  # the same where a number of kills is asked for
TOLD_EVERY = 25


async def kill_now_and_then(
    server: Server, ledger: Ledger, numbers: random.Random, until_s: float, kills: int
) -> None:
    """Kill and start again until the time is over, or as often as `kills` says, where it does."""
    up_s = OFTEN_S if kills else UP_S
    while ledger.kills < kills if kills else time.monotonic() < until_s:
        left_s = numbers.uniform(*up_s)
        await asyncio.sleep(left_s if kills else min(left_s, max(0.0, until_s - time.monotonic())))
        ledger.memory_mib_max = max(ledger.memory_mib_max, server.memory_mib())
        await asyncio.to_thread(server.kill)
        ledger.kills += 1
        ready_s = await asyncio.to_thread(server.start)
        ledger.ready_s_max = max(ledger.ready_s_max, ready_s)
        if ledger.kills % TOLD_EVERY == 0:
            sys.stderr.write(f"{ledger.report()}\n")


async def soak(
    server: Server, seconds: float, seed: int, *, kills: int = 0, with_grpc: bool = False
) -> Ledger:
    """Load and kill for `seconds`, or `kills` times; then let the consumers drain what is left."""
    ledger = Ledger()
    await prepare(server.port)
    clients = Clients(server, ledger, seed).all()
    if with_grpc:
        clients.append(GrpcClients(server, ledger, server.data.parent).run())
    tasks = [asyncio.ensure_future(client) for client in clients]
    until_s = time.monotonic() + seconds
    await kill_now_and_then(server, ledger, random.Random(seed), until_s, kills)
    ledger.end_sending()
    await asyncio.gather(*tasks)
    return ledger


def main() -> int:
    """Run the soak and print what it counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--kills", type=int, default=0, help="so many kills, instead of a time")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    with_grpc = GrpcClients.is_there()
    endpoints = (
        "REST, WebSocket and gRPC" if with_grpc else "REST and WebSocket (no gRPC client here)"
    )
    how_long = f"{options.kills} kills" if options.kills else f"{options.seconds:g} s"
    print(f"seed {options.seed}, {how_long}, {endpoints}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="kitemq-soak-") as folder,
        Server(Path(folder) / "data") as server,
    ):
        ledger = asyncio.run(
            soak(server, options.seconds, options.seed, kills=options.kills, with_grpc=with_grpc)
        )
    print(ledger.report())
    for each in [*sorted(ledger.missing), *ledger.came_back, *ledger.wrong][:20]:
        print(f"wrong: {each}")
    return 0 if ledger.is_clean else 1


if __name__ == "__main__":
    raise SystemExit(main())
