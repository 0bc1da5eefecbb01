"""The plan of the job: from pieces of Parquet to the tables of each hour."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from analytics.jobs.definitions import Params
from analytics.jobs.traces import blobs
from analytics.jobs.traces.finish import Finish
from analytics.jobs.traces.gather import Gather
from analytics.jobs.traces.scatter import Scatter

if TYPE_CHECKING:
    from analytics.jobs.engines import Flow, Pieces

GATHER_ROWS = 1_100_000  # that an hour reads and one task puts together, in about 500 MiB
FINISHERS_MAX = 64


def build(pieces: "Pieces", rows: Mapping[int, int], params: Params) -> "Flow":
    """Rows of BLOB: each table of each wanted hour that anything was recorded for.

    `rows` says how many rows each of them reads, by its number; missing ones are few.
    """
    counts = [max(1, -(-rows.get(hour, 0) // GATHER_ROWS)) for hour in params.hours]
    first = [sum(counts[:at]) for at in range(len(counts))]
    tasks = {hour: (at, n) for hour, at, n in zip(params.hours, first, counts, strict=True)}
    finishers = min(FINISHERS_MAX, len(params.hours))
    finish_in = {hour: at % finishers for at, hour in enumerate(params.hours)}
    sent = pieces.map(Scatter(tasks).run, blobs.BLOB)
    counted = sent.then(sum(counts), Gather(finish_in, params).run)
    return counted.then(finishers, Finish(params).run)
