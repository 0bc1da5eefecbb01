"""How much memory a process takes for a million pending messages.

`python -m tests.engine.schedule.pending WIDTH_MS` prints bytes of each, due over that time, as the
system counts them: what the allocator keeps beside them is in it.
"""

import random
import sys

from bench.parts import memory_mib
from engine.config import MIB
from engine.schedule.timer_agenda import Pending, TimerAgenda
from engine.schedule.timer_progress import TimerProgress

COUNT = 1_000_000


class NoJournal:
    """Takes what a journal takes, and keeps nothing."""

    def register(self, *_):
        pass

    def append(self, *_, **__):
        pass


def bytes_each(width_ms: int) -> float:
    """What a million take in this process, whose memory nothing else used and gave back before."""
    chance, before_mib = random.Random(1), memory_mib()
    agenda, progress = TimerAgenda(), TimerProgress(NoJournal())
    for offset in range(COUNT):
        agenda.add(Pending(chance.randrange(width_ms), offset))
    progress.finish([4 * COUNT])
    return (memory_mib() - before_mib) * MIB / COUNT


if __name__ == "__main__":
    print(f"{bytes_each(int(sys.argv[1])):.1f}")  # noqa: T201
