"""Finds the trace rows and client traces of the records of one message.

Everything goes through the key index, in steps of one record; a journey has a few of them mostly,
and some hundred at most.
"""

from collections.abc import Generator, Sequence
from typing import TypeVar

import msgspec

from engine.errors import Corrupt, MessageNotFound
from engine.message import StoredMessage
from engine.store.store import Store
from engine.topic.names import CLIENT_TRACE_TOPIC, TRACE_TOPIC
from engine.trace.client_traces import ClientTrace, traces_of
from engine.trace.record import TraceColumns, block_key, message_key, rows_about, rows_of_id
from engine.trace.rows import Row

CORRELATION_ID = "CORRELATION_ID"  # a property of a request and of its reply
READS_MAX = 100  # trace records read for one journey
CLIENT_READS_MAX = 64  # clients' trace messages, as RocketMQ's own dashboard reads


class ClientReport(msgspec.Struct, frozen=True):
    """A context that a client sent, and when it arrived here."""

    trace: ClientTrace
    at_ms: int


class JourneyEvidence(msgspec.Struct):
    """All there is about a message; `rows` go with `records`."""

    message_id: str
    records: list[StoredMessage]
    rows: list[list[Row]]
    unplaced: list[Row]  # that name the message but no place, such as a refused send
    correlated: list[Row]  # about the request that it is, or replies to
    client_reports: list[ClientReport]
    is_complete: bool = True


T = TypeVar("T")
Steps = Generator[None, None, T]  # each step reads one record at most


class Finder:
    """Looks things up about the records of one message."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.bad_contexts = 0  # of clients' traces, as read up to now

    def find(self, message_id: str, records: list[StoredMessage]) -> Steps[JourneyEvidence]:
        """What there is about the message with this id or offset id, whose records these are.

        Empty lists where there is nothing.
        """
        if records:
            message_id = records[0].message_id
        reads = TraceReader(self._store)
        rows = []
        for record in records:
            rows.append((yield from reads.about(record)))
        unplaced = yield from reads.by_id(message_id)
        correlation_id = records[0].properties.get(CORRELATION_ID, "") if records else ""
        correlated = (yield from reads.by_id(correlation_id)) if correlation_id else []
        reports = yield from self._client_reports(message_id, records)
        return JourneyEvidence(
            message_id=message_id,
            records=records,
            rows=rows,
            unplaced=unplaced,
            correlated=correlated,
            client_reports=reports,
            is_complete=not reads.is_exhausted,
        )

    def _client_reports(
        self, message_id: str, records: Sequence[StoredMessage]
    ) -> Steps[list[ClientReport]]:
        names = {message_id, *(record.offset_id for record in records)}
        places = self._store.positions_of_key(
            CLIENT_TRACE_TOPIC, message_id, count_max=CLIENT_READS_MAX
        )
        reports: list[ClientReport] = []
        for position in sorted(set(places)):
            yield
            message = _read(self._store, position, CLIENT_TRACE_TOPIC)
            if message is None:
                continue
            traces, bad = traces_of(message)
            self.bad_contexts += bad
            reports += [
                ClientReport(each, message.stored_ms) for each in traces if each.message_id in names
            ]
        return reports


class TraceReader:
    """Reads of trace records for one journey, each record once and at most 100 of them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache: dict[int, TraceColumns | None] = {}
        self.is_exhausted = False

    def about(self, record: StoredMessage) -> Steps[list[Row]]:
        """Rows about one record, in the order in which they happened."""
        place = (record.topic, record.queue, record.offset)
        # What lies before the record speaks of an earlier topic of the same name.
        blocks = yield from self._columns((message_key(*place), block_key(*place)), record.position)
        return [row for columns in blocks for row in rows_about(columns, *place)]

    def by_id(self, message_id: str) -> Steps[list[Row]]:
        """Rows without a place that name this message, or this correlation id."""
        blocks = yield from self._columns((message_id,), 0)
        return [row for columns in blocks for row in rows_of_id(columns, message_id)]

    def _columns(self, keys: Sequence[str], after: int) -> Steps[list[TraceColumns]]:
        places: set[int] = set()
        count_max = READS_MAX + 1  # one more than may be read shows that there are more
        for key in keys:
            places.update(self._store.positions_of_key(TRACE_TOPIC, key, count_max=count_max))
        blocks: list[TraceColumns] = []
        for place in sorted(places):
            if place < after:
                continue
            if place not in self._cache:
                yield
            columns = self._read(place)
            if columns is not None:
                blocks.append(columns)
        return blocks

    def _read(self, position: int) -> TraceColumns | None:
        if position not in self._cache:
            if len(self._cache) >= READS_MAX:
                self.is_exhausted = True
                return None
            self._cache[position] = self._decoded(position)
        return self._cache[position]

    def _decoded(self, position: int) -> TraceColumns | None:
        message = _read(self._store, position, TRACE_TOPIC)
        try:
            return None if message is None else TraceColumns(message.body)
        except Corrupt:
            return None


def _read(store: Store, position: int, topic: str) -> StoredMessage | None:
    """The record there, if it is one of this topic: another key may have the same hash."""
    try:
        message = store.read_at(position)
    except MessageNotFound:
        return None
    return message if message.topic == topic else None
