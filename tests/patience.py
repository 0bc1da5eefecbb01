"""Waiting, for a bounded time, until something is so."""

import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")

LIMIT_S = 30.0
STEP_S = 0.05


def until(
    look: Callable[[], Seen], why: str = "it never came to be", limit_s: float = LIMIT_S
) -> Seen:
    """Look again and again; the first thing seen that is true. AssertionError after `limit_s`."""
    end_s = time.monotonic() + limit_s
    while not (seen := look()):
        assert time.monotonic() < end_s, why
        time.sleep(STEP_S)
    return seen
