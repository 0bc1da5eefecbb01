"""Makes Spark's start-up cache: `python -m analytics.warm_up --data DIR`.

It takes a minute and some 200 MB in the data directory; a session then starts in half the time.
Every session finds it by itself, and one of another Java or another Spark leaves it alone. It
takes the place of those made before it. A server makes it when its first report is done.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analytics.errors import AnalyticsError
from analytics.home import spark_home
from analytics.java import cache_path, caches, find_java
from analytics.manifest import HOUR_MS, FrameManifest, hour_name
from analytics.runs import run_folder
from analytics.schemas import CLOCK, arrow_schema
from analytics.session import SessionOptions, session
from engine.report_tables import LAG_JOB, TRACES_JOB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 600.0


def warm_up(folder: Path, java_home: str = "") -> Path:
    """Make the cache anew; its file. Raises AnalyticsError."""
    target = _target(folder, java_home)
    try:
        # What is half made lies in a folder of this process, which is swept if it is killed.
        with run_folder(folder / "runs") as place:
            made = place / target.name
            command = [sys.executable, "-P", "-m", "analytics.warm_up", "--folder", str(folder)]
            command += ["--java-home", java_home, "--train", str(made)]
            # In a process of its own: Java writes the cache when it ends.
            subprocess.run(command, check=True, timeout=TIMEOUT_S, capture_output=True)
            made.replace(target)
        for other in caches(folder):
            if other != target:
                other.unlink(missing_ok=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise AnalyticsError(f"the start-up cache was not made: {error}") from None
    return target


def _target(folder: Path, java_home: str) -> Path:
    return cache_path(folder, find_java(folder, java_home), spark_home(folder))


def _train(folder: Path, java_home: str, output: Path) -> None:
    options = SessionOptions(folder=folder, java_home=java_home, new_cache=output)
    place = output.parent / "trained"
    place.mkdir()
    with session(options) as spark:
        train(spark, place)


def train(spark: "SparkSession", place: Path) -> None:
    """Run both jobs on next to nothing, so that Java has loaded what they need."""
    from analytics.jobs.definitions import Params
    from analytics.jobs.engines import SparkEngine
    from analytics.jobs.progress import JobProgress, stages_of
    from analytics.jobs.run import RunWork, run

    hour = _write(place)
    for job in (LAG_JOB, TRACES_JOB):
        work = RunWork(job, [hour_name(hour)], str(place), place, Params(hours=(hour,)), None)
        run(SparkEngine(spark), work, JobProgress(place / "progress.json", stages_of(job)))


def _write(root: Path) -> int:
    """One row of each frame; the number of their hour."""
    import pyarrow as pa

    from analytics.partitions import Partitions

    manifest = FrameManifest(at_ms=2 * HOUR_MS, lag_ms=2 * HOUR_MS - 1)
    partitions = Partitions(root, manifest, 0)
    nothing = {pa.string(): "", pa.bool_(): False}
    columns = {"kind": "delivered", "role": "message", "message_count": 1, "sample": 1}
    for frame, clock in CLOCK.items():
        schema = arrow_schema(frame)
        row = {field.name: nothing.get(field.type, 0) for field in schema}
        row |= {name: value for name, value in columns.items() if name in row} | {clock: HOUR_MS}
        partitions.add(frame, pa.Table.from_pylist([row], schema=schema))
    partitions.commit()
    return 1


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when done; 1 when something is missing, which standard error names."""
    parser = argparse.ArgumentParser(
        prog="python -m analytics.warm_up", description="Make Spark's start-up cache."
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--data", type=Path, help="data directory of the server")
    where.add_argument("--folder", type=Path, help="where else the cache goes than DATA/spark")
    parser.add_argument("--java-home", default="", help="which Java; default as for reports")
    parser.add_argument("--if-missing", action="store_true", help="leave one that fits as it is")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    folder = options.folder or options.data / "spark"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if options.train is not None:
            _train(folder, options.java_home, options.train)
        elif not (options.if_missing and _target(folder, options.java_home).exists()):
            sys.stdout.write(f"{warm_up(folder, options.java_home)}\n")
    except AnalyticsError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
