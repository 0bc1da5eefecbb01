"""The second step: counts everything that one task was sent of an hour."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from analytics.jobs.definitions import Params
from analytics.jobs.traces import blobs, counts, latencies
from analytics.jobs.traces.attempts import (
    Origins,
    TraceEvents,
    attempted,
    attempts_of,
    events_of,
    is_in,
)
from analytics.jobs.traces.blobs import TextCodes, numbers
from analytics.jobs.traces.scatter import EVENTS, RECORDS, RELEASES, empty, spread

VALUES, HAPPENED, STORED, HOT = "values", "happened", "stored", "hot"
SLOWEST, TRANSACTIONS, DOUBLED = "slowest", "transactions", "doubled"
UNIQUE = {
    EVENTS: ("log_position", "row_number", "first_offset"),
    RECORDS: ("log_position",),
    RELEASES: ("log_position",),
}
PART_MESSAGES = 2_000_000  # that attempts are looked at of together, in some 400 MiB
CLOCKS = {EVENTS: "at_ms", RECORDS: "stored_ms"}


@dataclass(frozen=True)
class Gather:
    """`finishers`: which task makes the tables of an hour, by the hour's number."""

    finishers: dict[int, int]
    params: Params

    def run(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Rows of BLOB."""
        for target, sent in blobs.tables(batches).items():
            for name, table in self._count_hour(target, sent):
                if table.num_rows:
                    yield blobs.row(self.finishers[target], target, name, 0, table)

    def _count_hour(
        self, target: int, sent: "dict[str, pa.Table]"
    ) -> "Iterator[tuple[str, pa.Table]]":
        rows, doubled = {}, 0
        for name in (EVENTS, RECORDS, RELEASES):
            given = sent.pop(name) if name in sent else empty(name)
            rows[name] = _without_doubles(name, given)
            if name in CLOCKS and rows[name] is not given:
                # Of the hour itself: what it reads of others is counted with them.
                own = (is_in(numbers(each[CLOCKS[name]]), target) for each in (given, rows[name]))
                doubled += int(np.diff([-each.sum() for each in own])[0])
        names = TextCodes()
        events, records = events_of(rows.pop(EVENTS), names), rows[RECORDS]
        origins, half_messages = Origins(records, names), latencies.Halves(records, names)
        stored_ms = numbers(records["stored_ms"])
        own = records.filter(pa.array(is_in(stored_ms, target)))
        yield HAPPENED, counts.happened(events, origins, names, target)
        yield STORED, counts.stored(own)
        yield HOT, counts.hot(own)
        yield TRANSACTIONS, counts.transactions(events, own, half_messages, names, target)
        few = [
            *latencies.of_records(own, names),
            latencies.of_releases(rows[RELEASES], records, names),
            latencies.of_decisions(events, half_messages, names, target),
        ]
        values = [latencies.count_values(each, names) for each in few]
        yield VALUES, pa.concat_tables(values)
        for part in _parts(attempted(events, names)):
            attempts = attempts_of(part, origins, names)
            tables = latencies.of_attempts(attempts, target, self.params)
            yield VALUES, pa.concat_tables(latencies.count_values(each, names) for each in tables)
            yield SLOWEST, counts.slowest(attempts, names, target, self.params.slowest_max)
        yield DOUBLED, pa.table({"rows": [doubled]})


def _parts(events: TraceEvents) -> Iterator[TraceEvents]:
    """The same in parts, each with whatever happened to its messages, about PART_MESSAGES."""
    count = -(-int(events.count.sum()) // PART_MESSAGES)
    if count <= 1:
        yield events
        return
    places = spread(events.topic, events.queue, events.first) >> np.uint64(32)
    which = places % np.uint64(count)
    for part in range(count):
        yield events.where(which == part)


def _without_doubles(name: str, rows: "pa.Table") -> "pa.Table":
    """Each row once; the same table where none is doubled, as the roll writes them."""
    columns = [numbers(rows[column], -1) for column in UNIQUE[name]]
    is_behind = np.zeros(max(0, rows.num_rows - 1), dtype=np.bool_)
    for column in reversed(columns):
        step = np.diff(column)
        is_behind = (step > 0) | ((step == 0) & is_behind)
    if is_behind.all():
        return rows
    (key,) = blobs.keys(columns)
    first = np.unique(key, return_index=True)[1]
    return rows.take(pa.array(np.sort(first)))
