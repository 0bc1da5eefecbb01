"""The plan of the lag job: from pieces of Parquet to the tables of all wanted hours.

Each task gets whole groups, so what it makes of a group depends on nothing else.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from analytics.jobs import lag_bands, lag_hours, lag_now, lag_series
from analytics.jobs.definitions import Params
from analytics.jobs.lag_rows import Row
from analytics.jobs.lag_series import Evaluations, Previous
from analytics.jobs.outputs import typed
from analytics.jobs.pieces import FilePart
from analytics.jobs.traces import blobs
from analytics.schemas import LAG, names
from engine.report_tables import ALL, LAG_JOB, tables_of

if TYPE_CHECKING:
    from analytics.jobs.engines import Batches, Flow, Pieces

TASK_ROWS = 1_000_000  # samples that one task evaluates together, in about 700 MiB
UNREAD = ("cursor", "is_matching", "inflight")
COLUMNS = [name for name in names(LAG) if name not in UNREAD]
BUILDS: dict[str, Callable[[Evaluations, Params], list[Row]]] = {
    "lag_hours": lag_hours.build,
    "lag_bands": lag_bands.build,
    "lag_now": lag_now.build,
}


def build(pieces: "Pieces", rows: int, params: Params, previous: Previous) -> "Flow":
    """Rows of BLOB: parts of each table. `rows` is how many samples the pieces have."""
    tasks = max(1, -(-rows // TASK_ROWS))
    sent = pieces.map(ByGroup(tasks).run, blobs.BLOB)
    return sent.then(tasks, Evaluate(params, previous).run)


@dataclass(frozen=True)
class ByGroup:
    """The first step: sends samples to one of `tasks` by their group."""

    tasks: int

    def run(self, piece: FilePart) -> "Iterator[pa.RecordBatch]":
        """Rows of BLOB."""
        rows = piece.read(COLUMNS)
        if not rows.num_rows:
            return
        number = rows["at_ms"][0].as_py()
        which = blobs.mapped(rows["group"], lambda group: zlib.crc32(group.encode()) % self.tasks)
        for task in np.unique(which).tolist():
            yield blobs.row(task, 0, LAG, number, rows.filter(pa.array(which == task)))


@dataclass(frozen=True)
class Evaluate:
    """The second step: evaluates the queues of a task's groups, and makes their rows."""

    params: Params
    previous: Previous

    def run(self, batches: "Batches") -> "Iterator[pa.RecordBatch]":
        """Rows of BLOB."""
        for sent in blobs.tables(batches).values():
            series, doubled = lag_series.build(sent[LAG], self.params, self.previous)
            for table in tables_of(LAG_JOB):
                if table.replaces != ALL or lag_now.is_covered(self.params):
                    made = typed(BUILDS[table.name](series, self.params), table)
                    yield blobs.row(0, 0, table.name, 0, made)
            counters = pa.table({"duplicates": [doubled]})
            yield blobs.row(0, 0, blobs.COUNTERS, 0, counters)
