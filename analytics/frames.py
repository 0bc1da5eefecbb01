"""Records of the log, and blocks of lag samples, as tables of the three frames (`schemas.py`)."""

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analytics.records import Ints, LogRecords, Mask
from analytics.schemas import LAG, MESSAGES, TRACE, arrow_schema
from engine.errors import Corrupt
from engine.message import (
    DELAY,
    DLQ_ORIGIN_TOPIC,
    EVENT_MS,
    FAILED_CLIENT,
    FAILED_ERROR,
    FAILED_REASON,
    KEYS,
    PGROUP,
    REAL_TOPIC,
    REDRIVEN_FROM,
    REDRIVEN_JOB,
    RETRY_TOPIC,
    SHARDING_KEY,
    SOURCE,
    TAGS,
    UNIQ_KEY,
    offset_id,
)
from engine.schedule.levels import DelayLevels
from engine.schedule.timer import TIMER_OUT_MS
from engine.statistics.lag_block import Block
from engine.statistics.lag_round import LagColumn
from engine.store.record import decode
from engine.topic.names import (
    DEAD_LETTER_PREFIX,
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    REPLY_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRACE_TOPIC,
    is_system_topic,
)
from engine.trace.record import CODES, TraceColumns
from engine.trace.rows import NO_PLACE, RowKind

ROLES = {
    SCHEDULE_TOPIC: "delayed",
    TIMER_TOPIC: "delayed",
    HALF_TOPIC: "half",
    GIVEN_UP_TOPIC: "given_up",
    REPLY_TOPIC: "reply",
    TRACE_TOPIC: "trace",
}
COMMITTED_FLAG, TRANSACTION_BITS = 0x8, 0xC
KINDS = {kind.value: kind.name.lower() for kind in RowKind}
KINDS_MAX = 256  # a kind is one byte
# Columns that are a property of the record as it stands.
AS_STORED = {
    "tag": TAGS,
    "keys": KEYS,
    "message_group": SHARDING_KEY,
    "reason": FAILED_REASON,
    "error": FAILED_ERROR,
    "failed_client": FAILED_CLIENT,
    "producer_group": PGROUP,
    "redriven_job": REDRIVEN_JOB,
    "redriven_from": REDRIVEN_FROM,
}
PROPERTIES = (
    *AS_STORED.values(),
    UNIQ_KEY,
    DELAY,
    REAL_TOPIC,
    RETRY_TOPIC,
    DLQ_ORIGIN_TOPIC,
    TIMER_OUT_MS,
    SOURCE,
    EVENT_MS,
)
DIGITS_MAX = 18
SOURCE_FORM = re.compile(r"[^@]*(?:@[^@]*)??@([^@]+)@([0-9]{1,9})@([0-9]{1,18})(?:[@,;]|$)")
LEVELS = DelayLevels()


def role_of(topic: str) -> str:
    """What the messages of a topic are; "" for the engine's own, which no frame holds."""
    if topic in ROLES:
        return ROLES[topic]
    if topic.startswith(RETRY_PREFIX):
        return "retry"
    if topic.startswith(DEAD_LETTER_PREFIX):
        return "dead"
    return "" if is_system_topic(topic) else "message"


def by_role(records: LogRecords) -> tuple[list[str], Ints]:
    """The roles there are, and for each record which of them it has."""
    topics = records.topic().dictionary_encode()
    roles = [role_of(topic) for topic in topics.dictionary.to_pylist()]
    names = sorted(set(roles))
    codes = np.array([names.index(role) for role in roles], dtype=np.int64)
    which: Ints = codes[topics.indices.to_numpy()] if roles else np.zeros(0, dtype=np.int64)
    return names, which


def messages_table(records: LogRecords) -> "pa.Table":
    """The frame `messages` of these records, whose topics all have a role."""
    count = len(records)
    texts = records.properties(PROPERTIES)
    topic, roles, codes = records.topic(), *by_role(records)
    role = pa.array(roles, pa.string()).take(pa.array(codes))
    is_delayed, is_half = pc.equal(role, "delayed"), pc.equal(role, "half")
    stored_ms, flags = records.stored_ms(), records.flags()
    target = pc.if_else(pc.or_(is_delayed, is_half), texts[REAL_TOPIC], "")
    level = _numbers(texts[DELAY])
    sources = _source_positions(texts[SOURCE])
    is_committed = (records.prepared() > 0) | (flags & TRANSACTION_BITS == COMMITTED_FLAG)
    columns: dict[str, Any] = {
        "log_position": records.position(),
        "topic": topic,
        "queue": records.queue(),
        "offset": records.offset(),
        "role": role,
        "stored_ms": stored_ms,
        "born_ms": _or_null(records.born_ms(), records.born_ms() > 0),
        "event_ms": _numbers(texts[EVENT_MS]),
        "size_bytes": records.size_bytes,
        "body_bytes": records.body_bytes,
        "message_id": message_ids(records, texts[UNIQ_KEY]),
        "attempt": records.attempt(),
        "group": _groups(topic, target),
        "origin_topic": _first(texts[RETRY_TOPIC], texts[DLQ_ORIGIN_TOPIC], target, topic),
        "target_topic": target,
        "due_ms": _due_ms(texts[TIMER_OUT_MS], level, is_delayed, stored_ms),
        "delay_level": level,
        "source_topic": sources[0],
        "source_queue": sources[1],
        "source_offset": sources[2],
        "is_transaction": pc.or_(is_half, pa.array(is_committed, pa.bool_())),
        "producer_host": records.born_address(),
    }
    columns |= {column: texts[name] for column, name in AS_STORED.items()}
    return frame_table(MESSAGES, columns, count)


class TraceTable:
    """Collects trace records and makes one table of their rows."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._parts: dict[str, list[npt.NDArray[np.int64]]] = {name: [] for name in CODES}
        self._positions: list[int] = []
        self._counts: list[int] = []
        self.damaged = 0

    def add(self, position: int, body: bytes) -> None:
        """Take the record that lies there; one that is none is counted as damaged."""
        try:
            columns = TraceColumns(body)
            part = {name: _column(columns, name) for name in CODES}
        except (Corrupt, ValueError):
            self.damaged += 1
            return
        if any((part[name] >= len(columns.texts)).any() for name in TEXTS):
            self.damaged += 1
            return
        for name in TEXTS:
            part[name] += len(self._texts)
        part["at_ms"] += columns.base_ms
        self._texts += columns.texts
        for name, column in part.items():
            self._parts[name].append(column)
        self._positions.append(position)
        self._counts.append(columns.count)

    def table(self) -> "pa.Table | None":
        """Every row so far; None without any."""
        if not sum(self._counts):
            return None
        numbers = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        # What a log holds over and over is kept once, also across records.
        texts = pa.array(self._texts, pa.string())
        has_place = numbers["first"] != NO_PLACE
        kinds = pa.array([KINDS.get(code, f"kind_{code}") for code in range(KINDS_MAX)])
        columns = {
            "log_position": np.repeat(self._positions, self._counts),
            "row_number": np.concatenate([np.arange(count) for count in self._counts]),
            "at_ms": numbers["at_ms"],
            "kind": kinds.take(pa.array(numbers["kind"])),
            "queue": _or_null(numbers["queue"], has_place),
            "first_offset": _or_null(numbers["first"], has_place),
            "message_count": numbers["message_count"],
            "attempt": _or_null(numbers["attempt"], numbers["attempt"] > 0),
            "wait_ms": numbers["wait_ms"],
            "born_ms": _or_null(numbers["born_ms"], numbers["born_ms"] > 0),
            "stored_ms": _or_null(numbers["stored_ms"], numbers["stored_ms"] > 0),
            "sample": numbers["sample"],
        }
        columns |= {name: texts.take(pa.array(numbers[name])) for name in TEXTS}
        return frame_table(TRACE, columns, sum(self._counts))


TEXTS = ("group", "topic", "client", "detail", "message_id")


def lag_table(block: Block, after_ms: int) -> "pa.Table | None":
    """The samples of a block that were taken after a time; None without any."""
    rounds, rows = len(block.times_ms), len(block.names)
    times = np.array(block.times_ms, dtype=np.int64)
    columns = block.columns(LagColumn)
    grid = {
        # Differences along each row, so a running sum gives the numbers back.
        column: np.frombuffer(columns[column], dtype=np.int64).reshape(rows, rounds).cumsum(axis=1)
        for column in LagColumn
    }
    is_new = (grid[LagColumn.PRESENT] == 1) & (times > after_ms)[None, :]
    # Round by round, as they were sampled.
    which_round, which_row = np.nonzero(is_new.T)
    if not len(which_row):
        return None
    values = {column: grid[column].T[is_new.T] for column in LagColumn}
    groups, topics, queues = zip(*block.names, strict=True)
    rows_taken = pa.array(which_row)
    table = {
        "at_ms": times[which_round],
        "group": pa.array(groups, pa.string()).take(rows_taken),
        "topic": pa.array(topics, pa.string()).take(rows_taken),
        "queue": pa.array(queues, pa.int64()).take(rows_taken),
        "min_offset": values[LagColumn.MIN_OFFSET],
        "max_offset": values[LagColumn.MAX_OFFSET],
        "committed": values[LagColumn.COMMITTED],
        "cursor": values[LagColumn.CURSOR],
        "lag": values[LagColumn.COUNT],
        "is_matching": pa.array(values[LagColumn.IS_MATCHING] == 1),
        "oldest_ms": _or_null(values[LagColumn.OLDEST_MS], values[LagColumn.OLDEST_MS] > 0),
        "inflight": _or_null(values[LagColumn.INFLIGHT], values[LagColumn.INFLIGHT] >= 0),
        "retry_waiting": _or_null(
            values[LagColumn.RETRY_WAITING], values[LagColumn.RETRY_WAITING] >= 0
        ),
        "dead": values[LagColumn.DEAD],
        "members": _or_null(values[LagColumn.MEMBERS], values[LagColumn.MEMBERS] >= 0),
        "active_ms": _or_null(values[LagColumn.ACTIVE_MS], values[LagColumn.ACTIVE_MS] > 0),
        "expired": _or_null(values[LagColumn.EXPIRED], values[LagColumn.EXPIRED] >= 0),
        "resets": _or_null(values[LagColumn.RESETS], values[LagColumn.RESETS] >= 0),
    }
    return frame_table(LAG, table, len(which_row))


def frame_table(frame: str, columns: dict[str, Any], count: int) -> "pa.Table":
    """These columns, all of a frame's, as its table of so many rows."""
    schema = arrow_schema(frame)
    arrays = []
    for field in schema:
        column = columns[field.name]
        if isinstance(column, np.ndarray):
            column = pa.array(column)
        arrays.append(column.cast(field.type) if column.type != field.type else column)
    table = pa.Table.from_arrays(arrays, schema=schema)
    assert table.num_rows == count
    return table


def _column(columns: TraceColumns, name: str) -> Ints:
    numbers = np.frombuffer(columns.packed(name), dtype=np.dtype(f">{NUMPY[CODES[name]]}"))
    return numbers.astype(np.int64)


NUMPY = {"B": "u1", "H": "u2", "h": "i2", "I": "u4", "q": "i8"}  # struct's codes


def _or_null(numbers: Ints, is_known: Mask) -> "pa.Array":
    return pa.array(numbers, mask=~is_known)


def _numbers(texts: "pa.StringArray") -> "pa.Array":
    """What is written in digits; NULL for everything else."""
    if not texts.nbytes or not pc.any(pc.not_equal(texts, "")).as_py():
        return pa.nulls(len(texts), pa.int64())
    digits = pc.match_substring_regex(texts, rf"^[0-9]{{1,{DIGITS_MAX}}}$")
    return pc.if_else(digits, texts, None).cast(pa.int64())


def _first(*choices: "pa.StringArray") -> "pa.StringArray":
    """Of each row the first text that is not empty."""
    value = choices[-1]
    for texts in reversed(choices[:-1]):
        value = pc.if_else(pc.not_equal(texts, ""), texts, value)
    return value


def message_ids(records: LogRecords, ids: "pa.StringArray") -> "pa.StringArray":
    """Message ids; a record without one goes by its own place, as the engine says."""
    missing = pc.equal(ids, "")
    if not pc.any(missing).as_py():
        return ids
    made = ids.to_pylist()
    for index in np.flatnonzero(missing.to_numpy(zero_copy_only=False)).tolist():
        made[index] = _offset_id(records, index)
    return pa.array(made, pa.string())


def _offset_id(records: LogRecords, index: int) -> str:
    stored = decode(records.whole(index))
    return offset_id(stored.store_host, stored.position)


def _groups(topic: "pa.StringArray", target: "pa.StringArray") -> "pa.StringArray":
    """The consumer group of retries and dead letters, wherever they lie."""
    groups = pa.array([""], pa.string()).take(pa.array(np.zeros(len(topic), dtype=np.int64)))
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        for names in (topic, target):
            tail = pc.utf8_slice_codeunits(names, len(prefix))
            groups = pc.if_else(pc.starts_with(names, prefix), tail, groups)
    return groups


def _due_ms(
    stated: "pa.StringArray", level: "pa.Array", is_delayed: "pa.Array", stored_ms: Ints
) -> "pa.Array":
    """When a delayed message is due: as stated, or so long after it came as its level says."""
    waits = pa.array([LEVELS.delay_ms(number) for number in range(LEVELS.count + 1)])
    known = pc.fill_null(pc.min_element_wise(level, LEVELS.count), 0)
    by_level = pc.add(pa.array(stored_ms), waits.take(known))
    has_level = pc.and_(is_delayed, pc.greater(known, 0))
    return pc.coalesce(_numbers(stated), pc.if_else(has_level, by_level, None))


def _source_positions(texts: "pa.StringArray") -> "tuple[pa.Array, pa.Array, pa.Array]":
    """Topic, queue and offset of "group@topic@queue@offset", which may go on behind."""
    topics, queues, offsets = [], [], []
    for text in texts.to_pylist():
        match = SOURCE_FORM.match(text) if text else None
        topics.append(match[1] if match else "")
        queues.append(int(match[2]) if match else None)
        offsets.append(int(match[3]) if match else None)
    integers = (pa.array(numbers, pa.int64()) for numbers in (queues, offsets))
    return pa.array(topics, pa.string()), *integers
