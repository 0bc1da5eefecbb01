"""`python -m tests.simulation.soak`: lives with seeds one after another, until one fails.

    python -m tests.simulation.soak --minutes 10
    python -m tests.simulation.soak --world broker --seed 7 --steps 300     repeats one life

A failing life says which command repeats it; exit status 1 then.
"""

import argparse
import logging
import sys
import time
import traceback
from collections.abc import Callable
from typing import Protocol

from tests.simulation.broker_world import BrokerWorld
from tests.simulation.damage_world import DamageWorld
from tests.simulation.journal_world import JournalWorld
from tests.simulation.standby_world import StandbyWorld
from tests.simulation.store_world import StoreWorld

STEPS = 400


class World(Protocol):
    """A life that a seed decides; breaks off with an AssertionError where something is wrong."""

    def run(self, steps: int) -> None: ...


WORLDS: dict[str, Callable[[int], World]] = {
    "store": StoreWorld,
    "broker": BrokerWorld,
    "damage": DamageWorld,
    "power": lambda seed: BrokerWorld(seed, power=True),
    "journal": JournalWorld,
    "standby": StandbyWorld,
    "standby-power": lambda seed: StandbyWorld(seed, power=True),
}


class Failed(AssertionError):
    """A life that went wrong; its text says how to repeat it."""


def live(world: str, seed: int, steps: int) -> None:
    """One life; raises Failed."""
    try:
        WORLDS[world](seed).run(steps)
    except Exception as error:
        command = f"python -m tests.simulation.soak --world {world} --seed {seed} --steps {steps}"
        raise Failed(f"{type(error).__name__}: {error}\nrepeat: {command}") from error


def soak(minutes: float, worlds: list[str], seed: int, steps: int) -> int:
    """Lives until the time is over; returns how many there were."""
    until_s = time.monotonic() + minutes * 60
    lives = 0
    while time.monotonic() < until_s:
        live(worlds[lives % len(worlds)], seed + lives, steps)
        lives += 1
    return lives


def main() -> int:
    """Run what was asked for and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--world", choices=sorted(WORLDS), help="only this one")
    parser.add_argument("--seed", type=int, help="one life with this seed")
    parser.add_argument("--steps", type=int, default=STEPS)
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)  # a full disk is part of these lives
    worlds = [asked.world] if asked.world else list(WORLDS)
    try:
        if asked.seed is not None:
            for world in worlds:
                live(world, asked.seed, asked.steps)
            said = f"seed {asked.seed} is fine"
        else:
            first = time.time_ns() // 1_000_000 % 1_000_000_000
            lives = soak(asked.minutes, worlds, first, asked.steps)
            said = f"{lives} lives of {asked.steps} steps from seed {first} on, all fine"
    except Failed as error:
        traceback.print_exception(error)
        return 1
    sys.stdout.write(said + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
