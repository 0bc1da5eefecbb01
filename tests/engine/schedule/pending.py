"""How much memory a process takes for a million pending messages.

`python -m tests.engine.schedule.pending WIDTH_MS` prints bytes of each, due over that time, as the
system counts them: what the allocator keeps beside them is in it.
"""

import os
import random
import sys
from pathlib import Path

from engine.schedule.timer_agenda import Agenda, Pending
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
    chance, before = random.Random(1), resident_bytes()
    agenda, progress = Agenda(), TimerProgress(NoJournal())
    for offset in range(COUNT):
        agenda.add(Pending(chance.randrange(width_ms), offset))
    progress.finish([4 * COUNT])
    return (resident_bytes() - before) / COUNT


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    print(f"{bytes_each(int(sys.argv[1])):.1f}")  # noqa: T201
