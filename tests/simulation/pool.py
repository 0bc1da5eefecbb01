"""A pool whose jobs run, and report, at moments that a seed decides; several are under way."""

import random
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class SeededPool:
    """Each job's work runs at one moment and its `done` is called at a later one, in any order."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._waiting: list[tuple[Callable[[], Any], Callable[[Any, Exception | None], None]]] = []
        self._finished: list[Callable[[], None]] = []

    def submit(
        self, work: Callable[[], T], done: Callable[[T | None, Exception | None], None]
    ) -> None:
        self._waiting.append((work, done))

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._finished

    def run_one(self) -> None:
        """One piece of progress somewhere: a job's work, or the report of a finished one."""
        number = self._chance.randrange(len(self._waiting) + len(self._finished))
        if number < len(self._waiting):
            work, done = self._waiting.pop(number)
            self._finished.append(_report(work, done))
        else:
            self._finished.pop(number - len(self._waiting))()

    def run_some(self, count_max: int) -> None:
        for _ in range(count_max):
            if self.is_idle:
                return
            self.run_one()

    def drain(self) -> None:
        """Until nothing is under way."""
        while not self.is_idle:
            self.run_one()


def _report(
    work: Callable[[], Any], done: Callable[[Any, Exception | None], None]
) -> Callable[[], None]:
    try:
        result = work()
    except Exception as error:
        failure = error
        return lambda: done(None, failure)
    return lambda: done(result, None)
