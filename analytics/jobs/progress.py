"""Says how far a run is: `progress.json`, by Spark's own count of tasks."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from analytics.repeating import repeating
from engine.report_tables import TRACES_JOB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.shell.progress import ProgressHandler

INTERVAL_S = 0.5
Tasks = Callable[[], tuple[int, int]]


def stages_of(job: str) -> list[str]:
    """What a run goes through, in this order."""
    named = ["naming"] if job == TRACES_JOB else []
    return ["starting", "computing", *named, "writing", "done"]


class JobProgress:
    """Of `stages` steps that take equally long, as far as anybody knows; `path` is replaced."""

    def __init__(self, path: Path, stages: list[str]) -> None:
        self._path = path
        self._stages = stages
        self._at = 0
        self._tasks: Tasks = lambda: (0, 0)
        self._lock = threading.Lock()
        self._percent = 0

    def enter(self, stage: str) -> None:
        """This stage begins."""
        self._at = self._stages.index(stage)
        self.write()

    def write(self) -> None:
        """Say it now; never goes back, and is 100 only at the end."""
        with self._lock:
            done, tasks = self._tasks()
            share = (self._at + (done / tasks if tasks else 0.0)) / (len(self._stages) - 1)
            self._percent = max(self._percent, min(100, int(100 * share)))
            document = {
                "stage": self._stages[self._at],
                "percent": self._percent,
                "at_ms": time.time_ns() // 1_000_000,
                "tasks_done": done,
                "tasks": tasks,
            }
            temporary = self._path.with_name(f"{self._path.name}.tmp")
            temporary.write_text(json.dumps(document))
            temporary.replace(self._path)

    @contextmanager
    def watch(self, spark: "SparkSession", *, is_connect: bool) -> Iterator[None]:
        """Write every half second what Spark says."""
        self._tasks = _connect_tasks(spark) if is_connect else _local_tasks(spark)
        try:
            with repeating(self.write, INTERVAL_S, "progress"):
                yield
        finally:
            self._tasks = lambda: (0, 0)


def _local_tasks(spark: "SparkSession") -> Tasks:
    tracker = spark.sparkContext.statusTracker()

    def tasks() -> tuple[int, int]:
        active = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        known = [each for each in active if each is not None]
        return sum(each.numCompletedTasks for each in known), sum(each.numTasks for each in known)

    return tasks


def _connect_tasks(spark: "SparkSession") -> Tasks:
    last = [(0, 0)]

    def hear(stages: "object", inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        known = list(stages or ())  # type: ignore[call-overload]
        counts = [(each.num_completed_tasks, each.num_tasks) for each in known]
        last[0] = (sum(each[0] for each in counts), sum(each[1] for each in counts))

    # A function will do; the class stands in a module that wants gRPC.
    spark.registerProgressHandler(cast("ProgressHandler", hear))
    return lambda: last[0]
