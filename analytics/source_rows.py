"""The columns of the data source `kitemq`, and how both of its ways of reading fill them."""

from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.errors import Refused
from analytics.frames import message_ids
from analytics.records import Ints, LogRecords
from analytics.row_bounds import RowBounds
from engine.compression import COMPRESSED_FLAG, plain_body
from engine.message import KEYS, SHARDING_KEY, TAGS, UNIQ_KEY, WAIT, split_properties

# Name, Spark's type, what it means.
COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("topic", "STRING", "where it lies"),
    ("queue", "INT", ""),
    ("offset", "BIGINT", "in its queue"),
    ("position", "BIGINT", "in the log"),
    ("stored_at", "TIMESTAMP", "when the server stored it"),
    ("born_at", "TIMESTAMP", "the producer's clock; NULL if it gave no time"),
    ("tag", "STRING", '"" for none'),
    ("keys", "STRING", 'separated by spaces; "" for none'),
    ("message_id", "STRING", "the same through retries and replays"),
    ("message_group", "STRING", "of an ordered message"),
    ("attempt", "INT", "1 for the first"),
    ("size_bytes", "INT", "of the whole record"),
    ("properties", "MAP<STRING,STRING>", "all but those that have a column"),
    ("body", "BINARY", "CAST(body AS STRING) for text"),
)
TYPES = {name: kind for name, kind, _ in COLUMNS}
ARROW = {
    "STRING": pa.string(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "MAP<STRING,STRING>": pa.map_(pa.string(), pa.string()),
    "BINARY": pa.binary(),
}
PLAIN_BYTES_MAX = 64 * 1024 * 1024  # of a body that is decompressed
OWN_COLUMN = frozenset({TAGS, KEYS, UNIQ_KEY, SHARDING_KEY, WAIT})


def column_names(text: str) -> list[str]:
    """The columns that the option `columns` names, all if it is empty; Refused for an unknown."""
    if not text.strip():
        return list(TYPES)
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in TYPES:
            raise Refused(
                f"there is no column {name!r}", f"choose of {', '.join(TYPES)}", field="columns"
            )
    return list(dict.fromkeys(names))


def ddl(names: Sequence[str]) -> str:
    """These columns as Spark reads a schema."""
    return ", ".join(f"`{name}` {TYPES[name]}" for name in names)


def batch_of(names: Sequence[str], columns: "dict[str, pa.Array]") -> "pa.RecordBatch":
    """These columns in this order."""
    fields = [(name, ARROW[TYPES[name]]) for name in names]
    arrays = [columns[name].cast(kind) for name, kind in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


# -- from the store's files ------------------------------------------------------------------------


def from_records(records: LogRecords, names: Sequence[str]) -> "dict[str, pa.Array]":
    """These columns of some records; none that was not asked for is looked at."""
    texts = {"tag": TAGS, "keys": KEYS, "message_group": SHARDING_KEY, "message_id": UNIQ_KEY}
    text_names = [name for name in names if name in texts]
    texts_by_name = records.properties([texts[name] for name in text_names]) if text_names else {}
    columns = {name: texts_by_name[texts[name]] for name in text_names}
    if "message_id" in columns:
        columns["message_id"] = message_ids(records, columns["message_id"])
    return columns | {name: READERS[name](records) for name in names if name in READERS}


def _bodies(records: LogRecords) -> "pa.Array":
    """As their producers sent them; the log keeps compressed ones as they came."""
    compressed = np.flatnonzero(records.flags() & COMPRESSED_FLAG).tolist()
    if not compressed:
        return records.bodies()
    bodies, flags = records.bodies().to_pylist(), records.flags()
    for row in compressed:
        bodies[row] = plain_body(bodies[row], int(flags[row]), bytes_max=PLAIN_BYTES_MAX).body
    return pa.array(bodies, pa.binary())


def _times(ms: Ints) -> "pa.Array":
    return pa.array(ms * 1000, pa.timestamp("us", tz="UTC"), mask=ms <= 0)


def _properties(records: LogRecords) -> "pa.Array":
    blocks = [str(records.property_block(at), errors="replace") for at in range(len(records))]
    return _maps([split_properties(block) for block in blocks])


def _maps(properties: Sequence[dict[str, str]]) -> "pa.Array":
    items = [
        [(name, value) for name, value in each.items() if name not in OWN_COLUMN]
        for each in properties
    ]
    return pa.array(items, ARROW["MAP<STRING,STRING>"])


READERS: "dict[str, Callable[[LogRecords], pa.Array]]" = {
    "topic": LogRecords.topic,
    "queue": lambda records: pa.array(records.queue()),
    "offset": lambda records: pa.array(records.offset()),
    "position": lambda records: pa.array(records.position()),
    "stored_at": lambda records: _times(records.stored_ms()),
    "born_at": lambda records: _times(records.born_ms()),
    "attempt": lambda records: pa.array(records.attempt()),
    "size_bytes": lambda records: pa.array(records.size_bytes),
    "properties": _properties,
    "body": _bodies,
}


# -- from the server's answers ---------------------------------------------------------------------


def from_answer(messages: Sequence[dict[str, Any]], names: Sequence[str]) -> "dict[str, pa.Array]":
    """The same of messages as REST tells them."""
    return {name: _column(messages, name) for name in names}


def _column(messages: Sequence[dict[str, Any]], name: str) -> "pa.Array":
    if name in ("stored_at", "born_at"):
        field = name.replace("_at", "_ms")
        return _times(np.array([each[field] for each in messages], dtype=np.int64))
    if name in ("offset", "position"):
        return pa.array([int(each[name]) for each in messages], pa.int64())
    if name == "keys":
        return pa.array([" ".join(each["keys"]) for each in messages], pa.string())
    if name == "properties":
        return _maps([each["properties"] for each in messages])
    if name == "body":
        return pa.array([b64decode(each["body"]) for each in messages], pa.binary())
    return pa.array([each[name] for each in messages], ARROW[TYPES[name]])


def matching(batch: "pa.RecordBatch", bounds: RowBounds) -> "pa.RecordBatch":
    """The rows that the options ask for."""
    if bounds.key:
        padded = pc.binary_join_element_wise("", batch.column("keys"), "", " ")
        batch = batch.filter(pc.match_substring(padded, f" {bounds.key} "))
    if bounds.tag is not None:
        batch = batch.filter(pc.equal(batch.column("tag"), bounds.tag))
    for bound_ms, holds in ((bounds.from_ms, pc.greater_equal), (bounds.to_ms, pc.less)):
        if bound_ms is not None:
            stored_ms = pc.divide(batch.column("stored_at").cast(pa.int64()), 1000)
            batch = batch.filter(holds(stored_ms, bound_ms))
    return batch
