"""The tables of a run, out of the blobs that the last step made."""

from typing import TYPE_CHECKING

import pyarrow as pa

from analytics.jobs.outputs import Rows, check_size
from analytics.jobs.traces.blobs import unpack
from analytics.jobs.traces.finish import COUNTED, COUNTERS
from engine.report_tables import TRACES_JOB, tables_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def collect(built: "DataFrame") -> tuple[dict[str, Rows], dict[str, int]]:
    """Compute it: every table's rows by its name, and the sum of each counter over the hours.

    Raises Refused for more rows of a table than a run may have.
    """
    rows: dict[str, Rows] = {table.name: [] for table in tables_of(TRACES_JOB)}
    counters = dict.fromkeys(COUNTED, 0)
    blobs = built.select("target", "name", "blob").toArrow()
    for each in blobs.sort_by("target").to_pylist():
        table: pa.Table = unpack(each["blob"])
        if each["name"] == COUNTERS:
            for name, count in table.to_pylist()[0].items():
                counters[name] += count
        else:
            name = each["name"]
            check_size(len(rows[name]) + table.num_rows, name)
            rows[name] += table.to_pylist()
    return rows, counters
