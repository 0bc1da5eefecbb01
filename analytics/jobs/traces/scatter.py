"""The first step: sends each row to the task that needs it, for each hour that reads it."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analytics.jobs.definitions import ATTEMPTED, OUTCOMES, TRACED_KINDS
from analytics.jobs.pieces import FilePart
from analytics.jobs.traces import blobs
from analytics.jobs.traces.blobs import Ints, Mask, are_in, is_null, mapped, numbers, repeated
from analytics.schemas import MESSAGES, TRACE, arrow_schema
from engine.report_hours import LOOKBACK_HOURS

Places = npt.NDArray[np.uint64]
EVENTS, RECORDS, RELEASES = "events", "records", "releases"
EVENT_PLACE = ("topic", "queue", "first_offset")
EVENT_COLUMNS = (
    "log_position", "row_number", "at_ms", "kind", "group", "topic", "queue", "first_offset",
    "message_count", "client", "attempt", "born_ms", "stored_ms", "detail", "sample",
)  # fmt: skip
RECORD_COLUMNS = (
    "log_position", "topic", "queue", "offset", "role", "stored_ms", "born_ms", "size_bytes",
    "tag", "keys", "message_group", "group", "origin_topic", "target_topic", "due_ms",
    "delay_level", "producer_group",
)  # fmt: skip
PLACE = ("topic", "queue", "offset")
SOURCE = ("source_topic", "source_queue", "source_offset")
RELEASE_COLUMNS = ("log_position", *SOURCE, "stored_ms", "origin_topic", "group")
READ = {
    TRACE: EVENT_COLUMNS,
    MESSAGES: (*RECORD_COLUMNS, *SOURCE, "is_transaction", "redriven_job"),
}
# What a later hour wants of an earlier one, besides attempts.
HELD = ("retry", "delayed", "half")
STRETCH = 2**16  # neighbours of a queue that go to one task
# Odd numbers without a pattern, so that neighbouring queues and stretches go to different tasks.
SPREAD = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)))


@dataclass(frozen=True)
class Scatter:
    """`tasks`: of each wanted hour, by its number, its first task and how many it has."""

    tasks: dict[int, tuple[int, int]]

    def run(self, piece: FilePart) -> "Iterator[pa.RecordBatch]":
        """Rows of BLOB."""
        return self._events(piece) if piece.frame == TRACE else self._records(piece)

    def _targets(self, piece: FilePart) -> list[int]:
        reads = range(piece.hour, piece.hour + LOOKBACK_HOURS[piece.frame] + 1)
        return [hour for hour in reads if hour in self.tasks]

    def _events(self, piece: FilePart) -> "Iterator[pa.RecordBatch]":
        targets = self._targets(piece)
        if not targets:
            return
        rows = piece.read(READ[TRACE])
        is_attempt = are_in(rows["kind"], ATTEMPTED) & ~is_null(rows["first_offset"])
        rows_now = rows.filter(
            pa.array(is_attempt | are_in(rows["kind"], (*TRACED_KINDS, *OUTCOMES)))
        )
        for target in targets:
            sent = rows_now if target == piece.hour else rows.filter(pa.array(is_attempt))
            yield from self._send(EVENTS, target, whole_stretches(sent), EVENT_PLACE)

    def _records(self, piece: FilePart) -> "Iterator[pa.RecordBatch]":
        targets = self._targets(piece)
        if not targets:
            return
        rows = piece.read(READ[MESSAGES])
        is_held = pa.array(are_in(rows["role"], HELD))
        for target in targets:
            sent = rows if target == piece.hour else rows.filter(is_held)
            is_new = pa.array(_is_new(sent))
            sent = sent.select(RECORD_COLUMNS).append_column("is_new", is_new)
            yield from self._send(RECORDS, target, sent, PLACE)
        if piece.hour in targets:
            is_released = are_in(rows["role"], ("message", "retry")) & ~is_null(rows["delay_level"])
            released = rows.filter(pa.array(is_released)).select(RELEASE_COLUMNS)
            yield from self._send(RELEASES, piece.hour, released, SOURCE)

    def _send(
        self, name: str, target: int, rows: "pa.Table", place: tuple[str, str, str]
    ) -> "Iterator[pa.RecordBatch]":
        if not rows.num_rows:
            return
        first, count = self.tasks[target]
        number = rows["log_position"][0].as_py()
        if count == 1:
            yield blobs.row(first, target, name, number, rows)
            return
        which = _spread(rows, place) % np.uint64(count)
        for task in range(count):
            part = rows.filter(pa.array(which == task))
            if part.num_rows:
                yield blobs.row(first + task, target, name, number, part)


def empty(name: str) -> "pa.Table":
    """What is sent under a name, without rows."""
    columns = {EVENTS: EVENT_COLUMNS, RECORDS: RECORD_COLUMNS, RELEASES: RELEASE_COLUMNS}[name]
    schema = arrow_schema(TRACE if name == EVENTS else MESSAGES)
    table = pa.schema([schema.field(column) for column in columns]).empty_table()
    if name == RECORDS:
        table = table.append_column("is_new", pa.array([], pa.bool_()))
    return table


def whole_stretches(events: "pa.Table") -> "pa.Table":
    """The same, runs of messages cut where another stretch of their queue begins."""
    first, count = numbers(events["first_offset"], -1), numbers(events["message_count"])
    pieces = np.where(first < 0, 1, (first + count - 1) // STRETCH - first // STRETCH + 1)
    if (pieces <= 1).all():
        return events
    rows, step = repeated(pieces)
    begin = np.maximum(first[rows], (first[rows] // STRETCH + step) * STRETCH)
    end = np.minimum(first[rows] + count[rows], (first[rows] // STRETCH + step + 1) * STRETCH)
    has_place = first[rows] >= 0
    cut = events.take(pa.array(rows))
    for name, values in (("first_offset", begin), ("message_count", end - begin)):
        column = pc.if_else(pa.array(has_place), pa.array(values), cut[name])
        cut = cut.set_column(cut.column_names.index(name), name, column)
    return cut


def _spread(rows: "pa.Table", place: tuple[str, str, str]) -> Places:
    topic, queue, offset = place
    names = mapped(rows[topic], lambda text: zlib.crc32(text.encode()))
    return spread(names, numbers(rows[queue], -1), numbers(rows[offset], -1))


def spread(topic: Ints, queue: Ints, offset: Ints) -> Places:
    """A number for each place, the same for all of a stretch; its upper half is as good alone."""
    hashes: Places = topic.astype(np.uint64) * SPREAD[0] + queue.astype(np.uint64) * SPREAD[1]
    hashes += (offset // STRETCH).astype(np.uint64) * SPREAD[2]
    hashes ^= hashes >> np.uint64(32)
    return hashes


def _is_new(records: "pa.Table") -> Mask:
    """Whether records came from a producer at once."""
    is_copy = numbers(records["is_transaction"]) > 0
    for name in ("source_topic", "redriven_job"):
        is_copy |= ~are_in(records[name], ("",))
    return are_in(records["role"], ("message",)) & ~is_copy
