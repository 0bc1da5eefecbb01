"""The tables of a run, out of the blobs that the last step made."""

import pyarrow as pa

from analytics.jobs.outputs import Rows, check_size
from analytics.jobs.traces.blobs import COUNTERS, unpack
from engine.report_tables import tables_of


def collect(built: "pa.Table", job: str) -> tuple[dict[str, Rows], dict[str, int]]:
    """Every table's rows by its name, and the sum of each counter over the blobs.

    Raises Refused for more rows of a table than a run may have.
    """
    rows: dict[str, Rows] = {table.name: [] for table in tables_of(job)}
    counters: dict[str, int] = {}
    for each in built.sort_by("target").select(["name", "blob"]).to_pylist():
        name, table = each["name"], unpack(each["blob"])
        if name == COUNTERS:
            for counter, count in table.to_pylist()[0].items():
                counters[counter] = counters.get(counter, 0) + count
        else:
            check_size(len(rows[name]) + table.num_rows, name)
            rows[name] += table.to_pylist()
    return rows, counters
