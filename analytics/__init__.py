"""Reports over traces and lag with PySpark, in processes of their own; and Spark's way to topics.

`analytics.register(spark)` makes the data source `kitemq` known to a session of one's own.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Let `spark.read.format("kitemq")` and its like work in a session; see docs/spark.md."""
    from analytics.source import KiteSource

    spark.dataSource.register(KiteSource)
