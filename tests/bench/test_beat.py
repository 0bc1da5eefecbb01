"""The beat that a benchmark sends by: on time, and nothing of it lost."""

import asyncio
import time
from itertools import pairwise

from bench.beat import Beat

PERIOD_S = 0.01


def test_beats_that_went_by_unseen_are_told_with_the_time_that_they_were_due() -> None:
    async def told() -> tuple[list[float], int]:
        with Beat(PERIOD_S) as beat:
            due_s = [await beat.due()]
            asyncio.get_running_loop().call_soon(time.sleep, PERIOD_S * 5)  # a busy loop
            due_s.append(await beat.due())
            gone = beat._gone
            return due_s + [await beat.due() for _ in range(4)], gone

    began_s = time.perf_counter()
    due_s, gone = asyncio.run(told())
    gaps_s = [round(later - due, 6) for due, later in pairwise(due_s)]
    assert due_s[0] >= began_s + PERIOD_S
    assert gaps_s == [PERIOD_S] * 5
    assert gone >= 6, "all that went by are there at the next look"


def test_a_beat_is_not_told_before_it_is_due() -> None:
    async def early() -> list[bool]:
        with Beat(PERIOD_S) as beat:
            return [await beat.due() > time.perf_counter() for _ in range(4)]

    assert asyncio.run(early()) == [False] * 4
