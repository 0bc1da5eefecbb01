"""The message ids of a few places: read for these alone, as ids are half of what a record tells."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from analytics.jobs.engines import Pieces
from analytics.jobs.outputs import Rows
from analytics.jobs.pieces import FilePart
from analytics.jobs.traces.blobs import Ints, TextCodes, keys, numbers
from analytics.jobs.traces.scatter import PLACE
from analytics.manifest import HOUR_MS, hour_end_ms
from analytics.schemas import MESSAGES
from engine.report_hours import LOOKBACK_HOURS

FOUND = pa.schema(
    [
        ("topic", pa.string()),
        ("queue", pa.int32()),
        ("offset", pa.int64()),
        ("stored_ms", pa.int64()),
        ("message_id", pa.string()),
    ]
)


@dataclass(frozen=True)
class Find:
    """`topics`, `queues` and `offsets`: the places whose ids are wanted."""

    topics: list[str]
    queues: Ints
    offsets: Ints

    def run(self, piece: FilePart) -> "Iterator[pa.RecordBatch]":
        """Rows of FOUND."""
        rows = piece.read(PLACE)
        names = TextCodes()
        topic_codes = np.array([names.code(topic) for topic in self.topics], dtype=np.int64)
        place = (names.codes(rows["topic"]), numbers(rows["queue"]), numbers(rows["offset"]))
        here, there = keys(place, (topic_codes, self.queues, self.offsets))
        is_wanted = np.isin(here, there)
        if is_wanted.any():
            records = piece.read(FOUND.names).filter(pa.array(is_wanted))
            yield from records.cast(FOUND).to_batches()


def fill_in(slowest: Rows, pieces: Pieces) -> None:
    """Put the ids of their messages, where these are at hand, into the rows of `slowest`.

    Of records at the same place (its topic was made anew) the last one counts.
    """
    if not slowest:
        return
    topics = [row["stored_topic"] for row in slowest]
    queues, offsets = (np.array([row[name] for row in slowest]) for name in PLACE[1:])
    lookups = pieces.map(Find(topics, queues, offsets).run, FOUND).collect()
    ids: dict[tuple[object, ...], list[tuple[int, str]]] = {}
    for row in lookups.to_pylist():
        place = tuple(row[name] for name in PLACE)
        ids.setdefault(place, []).append((row["stored_ms"], row["message_id"]))
    for row in slowest:
        end_ms = hour_end_ms(row["hour"])
        begin_ms = end_ms - (LOOKBACK_HOURS[MESSAGES] + 1) * HOUR_MS
        records = ids.get((row["stored_topic"], row["queue"], row["offset"]), [])
        there = [each for each in records if begin_ms <= each[0] < end_ms]
        row["message_id"] = max(there)[1] if there else ""
