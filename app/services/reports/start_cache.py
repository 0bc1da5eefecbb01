"""Spark's start-up cache, made once a report has shown that Spark runs here.

Only while nothing else is to be done: a run that begins meanwhile ends it, and it is made after
that.
"""

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path

from app.services.reports import child
from app.services.reports.leftovers import mark_of, sweep
from app.settings import Settings

log = logging.getLogger("kitemq.reports")

LIMIT_S = 600.0
CONNECT = "sc://"  # there Java runs elsewhere


class StartCache:
    """Makes the cache if there is none that fits; one attempt that ends by itself, then no more."""

    def __init__(self, settings: Settings) -> None:
        self._folder = (settings.data / "spark").absolute()
        self._mark = mark_of(settings.data)
        self._settings = settings
        self._task: asyncio.Task[None] | None = None
        self._is_done = settings.report_master.startswith(CONNECT)
        self._has_run = False

    def take(self) -> None:
        """A report was computed: from now on there is something to start faster."""
        self._has_run = True

    def begin(self) -> None:
        """Make it beside everything else; nothing where that is done, or under way."""
        if self._has_run and not self._is_done and self._task is None:
            self._task = asyncio.create_task(self._make())

    async def drop(self) -> None:
        """End what is under way, with all its processes."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _make(self) -> None:
        words = ["analytics.warm_up", "--folder", str(self._folder), "--if-missing"]
        words += ["--java-home", self._settings.report_java_home]
        logs = self._folder / "start-cache.out", self._folder / "start-cache.log"
        try:
            code = await child.run(
                words,
                mark=self._mark,
                output=logs[0],
                log=logs[1],
                limit_s=LIMIT_S,
                processors=self._settings.report_processors,
            )
            if code:
                output = await asyncio.to_thread(child.tail_of, logs[1])
                log.warning("%s", output or f"the start-up cache was not made: code {code}")
        except child.ChildTimeout:
            log.warning("the start-up cache was not made within %.0f s", LIMIT_S)
        except OSError as error:
            log.warning("the start-up cache was not made: %s", error)
        finally:
            await asyncio.to_thread(_clear, self._folder / "runs", logs)
        self._is_done = True
        self._task = None


def _clear(runs: Path, logs: Iterable[Path]) -> None:
    sweep(runs)
    for path in logs:
        path.unlink(missing_ok=True)
