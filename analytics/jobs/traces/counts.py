"""What happened and what was stored, counted; the slowest messages; what became of transactions.

All of it is of one task's share of an hour, to be summed up by `finish`.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.jobs.definitions import (
    ALL,
    FAILURE_KINDS,
    KEY,
    MESSAGE_GROUP,
    OUTCOMES,
    RETRY_PREFIX,
    TAG,
    TRACED_KINDS,
)
from analytics.jobs.traces.attempts import NEVER, DeliveryAttempts, Origins, TraceEvents, is_in
from analytics.jobs.traces.blobs import Ints, TextCodes, are_in, begins, repeated, summed
from analytics.jobs.traces.latencies import Halves

HAPPENED = ("kind", "topic", "group", "is_retried", "reason")
STORED = ("role", "topic", "queue", "origin_topic", "group")
HOT = ("kind", "topic", "value")
DECIDED_BY = ("topic", "group", "outcome", "detail")
SUM = "sum"


def happened(events: TraceEvents, origins: Origins, names: TextCodes, target: int) -> "pa.Table":
    """Traced events of the hour by HAPPENED: messages (scaled), counted; retries by origin."""
    kinds = [names.code(kind) for kind in TRACED_KINDS]
    here = events.where(np.isin(events.kind, kinds) & is_in(events.at_ms, target))
    is_retry = names.begin(RETRY_PREFIX)[here.topic] & (here.first >= 0)
    # A run of retries may come from several topics: a row for each message.
    retries = here.where(is_retry).each()
    parts = [_happened(here.where(~is_retry), None, names)]
    origin = origins.of(retries.topic, retries.queue, retries.first)
    parts.append(_happened(retries, origin, names))
    return pa.concat_tables(parts)


def _happened(rows: TraceEvents, topic: Ints | None, names: TextCodes) -> "pa.Table":
    failures = [names.code(kind) for kind in FAILURE_KINDS]
    sums = summed(
        pa.table(
            {
                "kind": rows.kind,
                "topic": rows.topic if topic is None else topic,
                "group": rows.group,
                "is_retried": (rows.attempt > 1).astype(np.int64),
                "reason": np.where(np.isin(rows.kind, failures), rows.detail, names.code("")),
                "messages": rows.count * (ALL / rows.sample),
                "counted": rows.count,
            }
        ),
        HAPPENED,
        {"messages": SUM, "counted": SUM},
    )
    texts = {name: names.texts(sums[name].to_numpy()) for name in ("kind", "topic", "group")}
    texts["reason"] = names.texts(sums["reason"].to_numpy())
    return pa.table({name: texts.get(name, sums[name]) for name in sums.column_names})


def stored(records: "pa.Table") -> "pa.Table":
    """The hour's own records by STORED: messages, bytes."""
    rows = pa.table(
        {
            **{name: _plain(records[name]) for name in STORED},
            "messages": pa.array(np.ones(records.num_rows, dtype=np.int64)),
            "bytes": records["size_bytes"].cast(pa.int64()),
        }
    )
    return summed(rows, STORED, {"messages": SUM, "bytes": SUM})


def hot(records: "pa.Table") -> "pa.Table":
    """Keys, tags and message groups of the hour's own messages by HOT: messages, bytes."""
    rows = records.filter(pa.array(are_in(records["role"], ("message",))))
    has_one = pc.equal(pc.find_substring(_plain(rows["keys"]), " "), -1)
    one, several = rows.filter(has_one), rows.filter(pc.invert(has_one))
    lists = [sorted(set(text.split(" "))) for text in several["keys"].to_pylist()]
    at = pa.array(np.repeat(np.arange(len(lists)), [len(each) for each in lists]))
    values = pa.chunked_array([pa.array([text for each in lists for text in each], pa.string())])
    results = {
        TAG: [_valued(rows["topic"], rows["tag"], rows["size_bytes"])],
        MESSAGE_GROUP: [_valued(rows["topic"], rows["message_group"], rows["size_bytes"])],
        KEY: [
            _valued(one["topic"], one["keys"], one["size_bytes"]),
            _valued(several["topic"].take(at), values, several["size_bytes"].take(at)),
        ],
    }
    return pa.concat_tables(_hot(kind, parts) for kind, parts in results.items())


def _valued(
    topic: "pa.ChunkedArray", value: "pa.ChunkedArray", size: "pa.ChunkedArray"
) -> "pa.Table":
    """A row for each message that has a value."""
    rows = pa.table(
        {
            "topic": _plain(topic),
            "value": _plain(value),
            "messages": pa.array(np.ones(len(topic), dtype=np.int64)),
            "bytes": size.cast(pa.int64()),
        }
    )
    return rows.filter(pc.not_equal(rows["value"], ""))


def _hot(kind: str, rows: "list[pa.Table]") -> "pa.Table":
    sums = summed(pa.concat_tables(rows), HOT[1:], {"messages": SUM, "bytes": SUM})
    return sums.add_column(0, "kind", pa.array([kind] * sums.num_rows, pa.string()))


def slowest(
    attempts: DeliveryAttempts, names: TextCodes, target: int, count_max: int
) -> "pa.Table":
    """Of each topic and group those that took longest from birth to acknowledgement, ranked."""
    is_timed = is_in(attempts.acked_ms, target) & (attempts.born_ms != NEVER)
    rows = attempts.take(np.flatnonzero(is_timed))
    took = np.maximum(rows.acked_ms - rows.born_ms, 0)
    cell = np.unique(rows.origin * len(names) + rows.group, return_inverse=True)[1]
    near = np.flatnonzero(took >= _bounds(cell, took, count_max)[cell])
    rows, took, cell = rows.take(near), took[near], cell[near]
    order = np.lexsort((rows.offset, rows.queue, names.ranks()[rows.topic], -took, cell))
    top = order[_ranks(cell[order]) < count_max]
    rows, took = rows.take(top), took[top]
    return pa.table(
        {
            "topic": names.texts(rows.origin),
            "group": names.texts(rows.group),
            "end_to_end_ms": took,
            "stored_topic": names.texts(rows.topic),
            "queue": rows.queue,
            "offset": rows.offset,
            "born_ms": rows.born_ms,
            "stored_ms": _or_null(rows.stored_ms, NEVER),
            "delivered_ms": _or_null(rows.delivered_ms, NEVER),
            "acked_ms": rows.acked_ms,
            "attempt": _or_null(rows.attempt, 0),
            "client": names.texts(rows.client),
        }
    )


def _bounds(cell: Ints, took: Ints, count_max: int) -> Ints:
    """By cell the time that so many took at least; few rows are left to be sorted by the rest."""
    order = np.lexsort((-took, cell))
    is_last = _ranks(cell[order]) == count_max - 1
    bounds = np.zeros(int(cell.max(initial=-1)) + 1, dtype=np.int64)
    bounds[cell[order[is_last]]] = took[order[is_last]]
    return bounds


def _ranks(ordered: Ints) -> Ints:
    """0, 1, 2 … within each stretch of equal numbers."""
    return repeated(np.diff(begins(ordered), append=len(ordered)))[1]


def transactions(
    events: TraceEvents, records: "pa.Table", half_messages: Halves, names: TextCodes, target: int
) -> "pa.Table":
    """Half messages of the hour, decisions and checks by DECIDED_BY: messages."""
    begun = records.filter(pa.array(are_in(records["role"], ("half",))))
    kinds = [names.code(kind) for kind in OUTCOMES[1:]]
    rows = events.where(np.isin(events.kind, kinds) & is_in(events.at_ms, target))
    at = half_messages.find(rows)
    none = names.code("")
    bound_for = (
        np.where(at >= 0, half_messages.topic[at], none)
        if len(half_messages.topic)
        else at * 0 + none
    )
    columns = {
        "topic": [_plain(begun["target_topic"]), names.texts(bound_for)],
        "group": [_plain(begun["producer_group"]), names.texts(rows.group)],
        "outcome": [pa.array([OUTCOMES[0]] * begun.num_rows, pa.string()), names.texts(rows.kind)],
        "detail": [pa.array([""] * begun.num_rows, pa.string()), names.texts(rows.detail)],
    }
    parts = [pa.table({name: pair[side] for name, pair in columns.items()}) for side in (0, 1)]
    table = pa.concat_tables(parts)
    table = table.append_column("messages", pa.array(np.ones(table.num_rows, dtype=np.int64)))
    return summed(table, DECIDED_BY, {"messages": SUM})


def _plain(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Texts in place of a dictionary's numbers."""
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def _or_null(values: Ints, unknown: int) -> "pa.Array":
    return pa.array(values, mask=values == unknown)
