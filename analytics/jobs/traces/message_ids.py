"""The message ids of a few places: read for these alone, as ids are half of what a record tells."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from analytics.jobs.outputs import Rows
from analytics.jobs.traces.blobs import Ints, Names, keys, numbers
from analytics.jobs.traces.pieces import Piece
from analytics.manifest import hour_name
from analytics.results import LOOKBACK_HOURS, hours_before
from analytics.schemas import MESSAGES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACE = ("topic", "queue", "offset")
FOUND_DDL = "written STRING, topic STRING, queue INT, offset BIGINT, message_id STRING"
FOUND = pa.schema(
    [
        ("written", pa.string()),
        ("topic", pa.string()),
        ("queue", pa.int32()),
        ("offset", pa.int64()),
        ("message_id", pa.string()),
    ]
)


@dataclass(frozen=True)
class Find:
    """`topics`, `queues` and `offsets`: the places whose ids are wanted."""

    topics: list[str]
    queues: Ints
    offsets: Ints

    def run(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Rows of FOUND; `written` is the hour of the record."""
        for batch in batches:
            for each in batch.to_pylist():
                yield from self._piece(Piece(**each))

    def _piece(self, piece: Piece) -> "Iterator[pa.RecordBatch]":
        rows = piece.read(PLACE)
        names = Names()
        wanted = np.array([names.code(topic) for topic in self.topics], dtype=np.int64)
        place = (names.codes(rows["topic"]), numbers(rows["queue"]), numbers(rows["offset"]))
        here, there = keys(place, (wanted, self.queues, self.offsets))
        is_wanted = np.isin(here, there)
        if is_wanted.any():
            found = piece.read((*PLACE, "message_id")).filter(pa.array(is_wanted))
            written = pa.array([hour_name(piece.hour)] * found.num_rows, pa.string())
            yield from found.add_column(0, "written", written).cast(FOUND).to_batches()


def fill_in(slowest: Rows, pieces: "DataFrame") -> None:
    """Put the ids of their messages, where these are at hand, into the rows of `slowest`."""
    if not slowest:
        return
    topics = [row["stored_topic"] for row in slowest]
    queues, offsets = (np.array([row[name] for row in slowest]) for name in PLACE[1:])
    found = pieces.mapInArrow(Find(topics, queues, offsets).run, FOUND_DDL).toArrow()
    ids: dict[tuple[object, ...], dict[str, str]] = {}
    for row in found.to_pylist():
        place = tuple(row[name] for name in PLACE)
        ids.setdefault(place, {})[row["written"]] = row["message_id"]
    for row in slowest:
        place = (row["stored_topic"], row["queue"], row["offset"])
        known = ids.get(place, {})
        hours = hours_before(row["hour"], LOOKBACK_HOURS[MESSAGES])
        row["message_id"] = max((known[hour] for hour in hours if hour in known), default="")
