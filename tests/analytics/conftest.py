"""One Spark session for all tests that need one: it takes seconds to start."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analytics.session import SessionOptions, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the session keeps its shim, its log and its temporary files."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark(spark_folder: Path) -> "Iterator[SparkSession]":
    """`local[2]`, one shuffle partition; its Java machine ends with the tests."""
    options = SessionOptions(
        folder=spark_folder,
        app_name="tests",
        shuffle_partitions=1,
        is_adaptive=False,
        log=spark_folder / "spark.log",
        conf={"spark.default.parallelism": "1"},
    )
    with session(options) as made:
        yield made
