"""Makes Spark's start-up cache: `python -m analytics.warm_up --data DIR`.

It takes a minute and some 200 MB in the data directory; a session then starts in half the time.
Every session finds it by itself, and one of another Java or another Spark leaves it alone.
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analytics.errors import AnalyticsError
from analytics.java import cache_path, find_java
from analytics.results import TABLES
from analytics.schemas import FRAMES, ddl
from analytics.session import SessionOptions, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 600.0


def warm_up(folder: Path, java_home: str = "") -> Path:
    """Make the cache anew; its file. Raises AnalyticsError."""
    java = find_java(folder, java_home)
    target = cache_path(folder, java)
    temporary = target.with_suffix(".tmp")
    command = [sys.executable, "-m", "analytics.warm_up", "--folder", str(folder)]
    command += ["--java-home", java_home, "--train", str(temporary)]
    try:
        # In a process of its own: Java writes the cache when it ends.
        subprocess.run(command, check=True, timeout=TIMEOUT_S, capture_output=True)
        temporary.replace(target)
    except (OSError, subprocess.SubprocessError) as error:
        raise AnalyticsError(f"the start-up cache was not made: {error}") from None
    finally:
        for left in folder.glob(f"{temporary.name}*"):
            left.unlink(missing_ok=True)
    return target


def _train(folder: Path, java_home: str, output: Path) -> None:
    """Do what a job does, so that what it needs is in the cache."""
    options = SessionOptions(folder=folder, java_home=java_home, new_cache=output)
    with session(options) as spark:
        rows = spark.range(100_000).selectExpr("id % 7 AS k", "cast(id AS STRING) AS text")
        path = f"{folder}/runs/warm-up"
        try:
            rows.write.mode("overwrite").parquet(path)
            again = spark.read.parquet(path).groupBy("k").agg({"text": "max", "*": "count"})
            again.orderBy("k").toArrow()
            _plan_reports(spark)
        finally:
            shutil.rmtree(path, ignore_errors=True)


def _plan_reports(spark: "SparkSession") -> None:
    """Every table of the reports, of nothing: most of what a run loads is for planning it."""
    from analytics.jobs.catalog import BUILDS
    from analytics.jobs.definitions import Frames, Params
    from analytics.jobs.outputs import typed

    frames = Frames(**{frame: spark.createDataFrame([], ddl(frame)) for frame in FRAMES})
    for table in TABLES:
        typed(BUILDS[table.name](frames, Params(hours=(0,), at_ms=1)), table).toArrow()


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when done; 1 when something is missing, which standard error names."""
    parser = argparse.ArgumentParser(
        prog="python -m analytics.warm_up", description="Make Spark's start-up cache."
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--data", type=Path, help="data directory of the server")
    where.add_argument("--folder", type=Path, help="where else the cache goes than DATA/spark")
    parser.add_argument("--java-home", default="", help="which Java; default as for reports")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    folder = given.folder or given.data / "spark"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if given.train is not None:
            _train(folder, given.java_home, given.train)
        else:
            sys.stdout.write(f"{warm_up(folder, given.java_home)}\n")
    except AnalyticsError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
