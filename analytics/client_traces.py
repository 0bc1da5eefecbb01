"""What consumers of a cluster traced, as rows of the frame `trace`.

A client says which message it got (SubBefore), and how that ended (SubAfter), by the id of the
message and a number of the call. Neither names a topic: places are looked up among the records that
are in the frame `messages`, and the call of an end among the deliveries in `trace`. What is not
there keeps its group, and has no place.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analytics.frames import frame_table
from analytics.manifest import HOUR_MS, FrameManifest
from analytics.records import Ints, LogRecords
from analytics.schemas import MESSAGES, TRACE, arrow_schema
from engine.compression import COMPRESSED_FLAG, plain_body
from engine.trace.client_traces import ClientTrace, ContextKind, parse

BODY_BYTES_MAX = 64 * 1024 * 1024  # of a trace that its client compressed
LOOKUP_ROWS_MAX = 3_000_000  # newest rows of a frame among which a place is looked for
# A time that is further from when the broker stored the trace is not believed.
EARLY_MS, LATE_MS = 24 * HOUR_MS, HOUR_MS
WHOLE = 10_000  # of `sample`
DELIVERIES = (ContextKind.SUB_BEFORE, ContextKind.SUB_AFTER)
RECORD_COLUMNS = (
    "message_id", "role", "group", "topic", "origin_topic", "queue", "offset", "born_ms",
    "stored_ms", "attempt",
)  # fmt: skip
CALL_COLUMNS = ("message_id", "group", "topic", "queue", "first_offset", "attempt", "at_ms")
TEXTS = ("group", "topic", "client", "detail", "message_id")
Row = dict[str, Any]


class TracedCall(NamedTuple):
    """A context with where it was written, by row of that record, and from which address."""

    position: int
    row_number: int
    client: str
    trace: ClientTrace

    @property
    def name(self) -> str:
        """What both contexts of a call have in common."""
        return f"{self.trace.request_id} {self.trace.message_id}"


class ClientTraceRows:
    """Collects contexts, and makes a table of those since the last."""

    def __init__(self, root: Path, manifest: FrameManifest) -> None:
        self._root = root
        self._manifest = manifest
        self._calls: list[TracedCall] = []
        self.damaged = 0  # contexts that cannot be read, or whose time cannot be

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, records: LogRecords, positions: Ints) -> None:
        """Take records of the trace topic; each row is named by the position of its record."""
        flags, stored = records.flags().tolist(), records.stored_ms().tolist()
        clients = records.born_address().to_pylist()
        for index, position in enumerate(positions.tolist()):
            body = records.body(index)
            if flags[index] & COMPRESSED_FLAG:
                body = plain_body(body, flags[index], bytes_max=BODY_BYTES_MAX).body
            self.take(body, position, stored[index], clients[index])

    def take(self, body: bytes, position: int, stored_ms: int, client: str) -> None:
        """Take one text, stored then, from that address."""
        traces, bad = parse(body)
        self.damaged += bad
        for number, trace in enumerate(traces):
            if trace.kind not in DELIVERIES:
                continue
            at_ms = trace.at_ms or stored_ms
            if stored_ms - EARLY_MS <= at_ms <= stored_ms + LATE_MS:
                self._calls.append(TracedCall(position, number, client, trace))
            else:
                self.damaged += 1

    def table(self) -> "pa.Table | None":
        """The rows of what was added since the last table; None without any."""
        calls, self._calls = self._calls, []
        begun = {each.name: each for each in calls if each.trace.kind is ContextKind.SUB_BEFORE}
        earlier = self._calls_before({each.name for each in calls} - begun.keys())
        records = self._records({each.trace.message_id for each in calls})
        rows: list[Row] = []
        for each in calls:
            begin = begun.get(each.name)
            row = _row(each, begin and begin.trace, earlier.get(each.name), records)
            if row is None:
                self.damaged += 1
            else:
                rows.append(row)
        if not rows:
            return None
        columns = {
            field.name: pa.array([row.get(field.name) for row in rows], field.type)
            for field in arrow_schema(TRACE)
        }
        return frame_table(TRACE, columns, len(rows))

    def _calls_before(self, names: set[str]) -> dict[str, Row]:
        """The deliveries that are rows already, by name."""
        return {
            row["message_id"]: row
            for row in self._look_up(TRACE, names, CALL_COLUMNS)
            if row["queue"] is not None or row["topic"]
        }

    def _records(self, ids: set[str]) -> dict[str, list[Row]]:
        records = defaultdict(list)
        for row in self._look_up(MESSAGES, ids, RECORD_COLUMNS):
            records[row["message_id"]].append(row)
        return records

    def _look_up(self, frame: str, values: set[str], columns: Sequence[str]) -> list[Row]:
        """Rows with one of these message ids, the newest hours first until each is there."""
        rows: list[Row] = []
        missing, left = set(values), LOOKUP_ROWS_MAX
        names = pa.array(sorted(values), pa.string())
        for hour in sorted(self._manifest.partitions(frame), reverse=True) if values else ():
            for path in self._manifest.paths(frame, [hour]):
                with pq.ParquetFile(self._root / path) as file:
                    for group in range(file.num_row_groups):
                        if not missing or left <= 0:
                            return rows
                        ids = file.read_row_group(group, ["message_id"])["message_id"]
                        left -= len(ids)
                        is_one = pc.is_in(ids, names)
                        if pc.any(is_one).as_py():
                            there = file.read_row_group(group, list(columns)).filter(is_one)
                            rows += there.to_pylist()
            # A retry lies behind what it is of, which its other attempts are found by.
            missing -= {row["message_id"] for row in rows if row.get("role") != "retry"}
        return rows


def _row(
    call: TracedCall,
    begin: ClientTrace | None,
    earlier: Row | None,
    records: Mapping[str, Sequence[Row]],
) -> Row | None:
    """The row of a context; None where it does not say of which group, or when it was."""
    trace = call.trace
    is_end = trace.kind is ContextKind.SUB_AFTER
    begin_ms = begin.at_ms if begin else earlier["at_ms"] if earlier else 0
    at_ms = trace.at_ms or (begin_ms and begin_ms + max(0, trace.duration_ms))
    group = trace.group or (begin.group if begin else earlier["group"] if earlier else "")
    if not group or not at_ms:
        return None
    row: Row = dict.fromkeys(TEXTS, "") | {
        "log_position": call.position,
        "row_number": call.row_number,
        "at_ms": at_ms,
        "kind": "delivered",
        "group": group,
        "message_count": 1,
        "client": call.client,
        "wait_ms": 0,
        "sample": WHOLE,
    }
    if is_end:
        row["kind"] = "acked" if trace.is_success else "failed"
        row["detail"] = "" if trace.is_success else trace.code
    else:
        row["message_id"] = call.name
    if earlier is not None and begin is None:
        place = {name: earlier[name] for name in ("topic", "queue", "first_offset", "attempt")}
        return row | place
    attempt = begin.retry_times + 1 if begin else None
    return row | _place(records.get(trace.message_id, ()), group, attempt, at_ms, is_end=is_end)


def _place(
    records: Sequence[Row], group: str, attempt: int | None, at_ms: int, *, is_end: bool
) -> Row:
    """Where the message lay at that attempt; of an end without its call if it lies once only."""
    retries = [each for each in records if each["role"] == "retry" and each["group"] == group]
    own = [each for each in records if each["role"] == "message"]
    if attempt is None and len(own) + len(retries) != 1:
        topics = {each["topic"] for each in own} | {each["origin_topic"] for each in retries}
        return {"topic": topics.pop() if len(topics) == 1 else ""}
    choices = [each for each in retries if attempt in (None, each["attempt"])] or own
    if not choices:
        return {"topic": retries[0]["origin_topic"] if retries else "", "attempt": attempt}
    # Of copies under one id the last one that was there by then.
    last = max(choices, key=lambda each: (each["stored_ms"] <= at_ms, each["stored_ms"]))
    place = {"topic": last["topic"], "queue": last["queue"], "first_offset": last["offset"]}
    place["attempt"] = attempt or last["attempt"]
    return place if is_end else place | {name: last[name] for name in ("born_ms", "stored_ms")}
