"""Brings the frames up to what a RocketMQ cluster has: messages, dead letters, client traces.

Each queue is read from its own broker, from the offset that the manifest has beside the rows that
were read before it: so what is read and how far counts in one step. Brokers record no deliveries:
the rows of `trace` are what clients traced, and dead letters. The position of a row is that in the
log of its broker, with the broker's number above it.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.brokers import BrokerClient, BrokerQueue, not_numbered
from analytics.client_traces import TEXTS, WHOLE, ClientTraceRows
from analytics.errors import Refused, ServerFailed
from analytics.frames import frame_table, messages_table, role_of
from analytics.manifest import HOUR_MS
from analytics.partitions import Partitions
from analytics.records import Ints, LogRecords
from analytics.schemas import MESSAGES, TRACE
from analytics.server import QueueBounds
from engine.message import REAL_TOPIC
from engine.topic.names import CLIENT_TRACE_TOPIC, RETRY_PREFIX

BUDGET_S = 240.0  # of one run; the next one goes on
BEGIN_HOURS = 4  # before the first run: one more than an hour is computed from
COMMIT_ROWS = 1_000_000  # so many are read again at most after a kill
CONTEXTS_MAX = 200_000  # of traces that are put together at once, in some 200 MiB
POSITION_BITS = 48
ROLES = ("message", "retry", "dead")
REPLIES = "_REPLY_TOPIC"  # behind the name of a cluster
MOVED = "KITE_MOVED"  # of a copy that `kitemq move` made
BrokerTopics = dict[str, dict[str, int]]  # by broker: queues that can be read, by topic
BEHIND = "the cluster has more than was read within {:.0f} s: the next run goes on"


class ClusterRoll:
    """One run, by connections that the caller closes."""

    def __init__(self, client: BrokerClient, into: Partitions, root: Path, now_ms: int) -> None:
        self._client = client
        self._into = into
        self._manifest = into.manifest
        self._traces = ClientTraceRows(root, into.manifest)
        self._now_ms = now_ms
        self._end_s = time.monotonic() + BUDGET_S
        self._rows = 0  # since the last commit
        self._numbers: dict[str, int] = {}
        self._groups: set[str] = set()

    def run(self) -> bool:
        """Read what came since the last run; whether every broker was there.

        Raises ServerFailed or Refused where it cannot go on; what was read until then counts.
        """
        manifest = self._manifest
        if manifest.position:
            raise Refused(
                "the folder has the records of a server without a cluster",
                "give this one a folder of its own (report_root), or move the old one away",
                field="root",
            )
        if not manifest.begin_ms:
            manifest.begin_ms = (self._now_ms // HOUR_MS - BEGIN_HOURS) * HOUR_MS
        order, registered = self._client.order(), self._client.registered()
        self._numbers = {name: number for number, name in enumerate(order)}
        topics = {name: self._client.topics(name) for name in registered}
        for name in registered:
            if name not in order and any(map(_has_messages, topics.pop(name))):
                raise not_numbered(name)
        self._groups = {group for name in topics for group in self._client.groups(name)}
        # Before the messages: what is traced up to here has been stored before.
        traced = dict(self._bounds(topics, CLIENT_TRACE_TOPIC))
        for topic in sorted({topic for table in topics.values() for topic in table}):
            if _has_messages(topic):
                self._read_topic(topics, topic)
        self._into.commit()
        self._read_traces(traced)
        self._forget(topics)
        return set(order) <= topics.keys()

    # -- messages -------------------------------------------------------------------------------

    def _read_topic(self, topics: BrokerTopics, topic: str) -> None:
        """One that is deleted meanwhile ends there."""
        try:
            for place, bounds in self._bounds(topics, topic):
                for records in self._records(topic, place, bounds):
                    self._add_messages(topic, place, records)
                    self._rows += len(records)
                    if self._rows >= COMMIT_ROWS:
                        self._into.commit()
                        self._rows = 0
        except Refused as refusal:
            if refusal.field != "topic":
                raise

    def _add_messages(self, topic: str, place: BrokerQueue, records: LogRecords) -> None:
        table, count, role = messages_table(records), len(records), role_of(topic)
        texts = records.properties((REAL_TOPIC, MOVED))
        is_moved = pc.not_equal(texts[MOVED], "")
        columns = {name: table[name] for name in table.column_names}
        columns["log_position"] = pa.array(self._positions(place, records))
        columns["queue"] = pa.array(np.full(count, self._number(place)))
        if role == "message":
            # Brokers do not say which record a message replaced that waited, nor when it was due.
            is_copy = pc.or_(pc.not_equal(texts[REAL_TOPIC], ""), is_moved)
            columns["source_topic"] = pc.if_else(is_copy, topic, table["source_topic"])
            columns["due_ms"] = pa.nulls(count, pa.int64())
        group, origin = self._reader(topic)
        if group:
            columns["group"] = pa.array([group] * count)
            is_told = pc.not_equal(table["origin_topic"], topic)
            columns["origin_topic"] = pc.if_else(is_told, table["origin_topic"], origin)
        messages = frame_table(MESSAGES, columns, count)
        self._into.add(MESSAGES, messages)
        if role == "dead":
            self._add_dead(messages.filter(pc.invert(is_moved)))

    def _add_dead(self, letters: "pa.Table") -> None:
        """A row of `trace` for each message that was given up."""
        count = letters.num_rows
        if not count:
            return
        texts = {name: pa.array([""] * count) for name in TEXTS}
        columns: dict[str, Any] = {
            **texts,
            "log_position": letters["log_position"],
            "row_number": pa.array(np.zeros(count, dtype=np.int64)),
            "at_ms": letters["stored_ms"],
            "kind": pa.array(["dead"] * count),
            "group": letters["group"],
            "topic": letters["origin_topic"],
            "client": letters["failed_client"],
            "detail": letters["reason"],
            "message_count": pa.array(np.ones(count, dtype=np.int64)),
            "wait_ms": pa.array(np.zeros(count, dtype=np.int64)),
            "sample": pa.array(np.full(count, WHOLE)),
        }
        for name in ("queue", "first_offset", "attempt", "born_ms", "stored_ms"):
            columns[name] = pa.nulls(count, pa.int64())
        self._into.add(TRACE, frame_table(TRACE, columns, count))

    def _reader(self, topic: str) -> tuple[str, str]:
        """Group and origin of a retry topic of POP, which has both in its name; "" for others."""
        name = topic.removeprefix(RETRY_PREFIX)
        if name == topic or name in self._groups:
            return "", ""
        named = [each for each in self._groups if name.startswith((f"{each}_", f"{each}+"))]
        group = max(named, key=len, default="")
        return group, name[len(group) + 1 :] if group else ""

    # -- traces ---------------------------------------------------------------------------------

    def _read_traces(self, queues: dict[BrokerQueue, QueueBounds]) -> None:
        """A piece of each queue in turns, so that what belongs together is read together."""
        readers = {
            place: self._records(CLIENT_TRACE_TOPIC, place, bounds)
            for place, bounds in queues.items()
        }
        try:
            while readers:
                for place, reader in list(readers.items()):
                    records = next(reader, None)
                    if records is None:
                        del readers[place]
                        continue
                    self._traces.add(records, self._positions(place, records))
                    if len(self._traces) >= CONTEXTS_MAX:
                        self._add_traces()
        finally:
            self._add_traces()

    def _add_traces(self) -> None:
        table = self._traces.table()
        if table is not None:
            self._into.add(TRACE, table)
        self._manifest.counters.damaged_records += self._traces.damaged
        self._traces.damaged = 0
        self._into.commit()

    # -- queues ---------------------------------------------------------------------------------

    def _bounds(
        self, topics: BrokerTopics, topic: str
    ) -> Iterator[tuple[BrokerQueue, QueueBounds]]:
        """The queues of a topic that can be read, broker by broker."""
        for broker, table in topics.items():
            if table.get(topic):
                for queue, bounds in self._client.bounds(topic, broker).items():
                    if queue < table[topic]:
                        yield BrokerQueue(broker, queue), bounds

    def _records(self, topic: str, place: BrokerQueue, bounds: QueueBounds) -> Iterator[LogRecords]:
        """What came to a queue since it was read, which the caller adds before the next commit.

        Raises ServerFailed once the time is over.
        """
        offsets = self._offsets(topic, place)
        start, is_behind_gap = self._start(topic, place, bounds)
        for records, missing in self._client.records(topic, place, start, bounds.end, None):
            self._manifest.counters.damaged_records += records.damaged
            if len(records):
                if is_behind_gap:
                    self._begin_after(int(records.stored_ms()[0]))
                offsets[place.queue] = int(records.offset()[-1]) + 1
                is_behind_gap = False
                yield records
            is_behind_gap |= bool(missing)
            if time.monotonic() > self._end_s:
                raise ServerFailed(BEHIND.format(BUDGET_S))
        if is_behind_gap:
            self._begin_after(self._now_ms)
        offsets[place.queue] = bounds.end

    def _start(self, topic: str, place: BrokerQueue, bounds: QueueBounds) -> tuple[int, bool]:
        """Where to go on, and whether something before it may be missing.

        A queue that is new, or begun anew, is read from where its messages are young enough.
        """
        offset = self._offsets(topic, place).get(place.queue)
        if offset is not None and offset <= bounds.end:
            return offset, False
        if bounds.least >= bounds.end:
            return bounds.end, False
        start = self._client.first_since(topic, place, self._manifest.begin_ms)
        return start, 0 < start == bounds.least

    def _begin_after(self, at_ms: int) -> None:
        """Leave hours alone of which something may be missing."""
        begin_ms = (at_ms // HOUR_MS + 1) * HOUR_MS
        self._manifest.begin_ms = max(self._manifest.begin_ms, begin_ms)

    def _offsets(self, topic: str, place: BrokerQueue) -> dict[int, int]:
        return self._manifest.offsets.setdefault(topic, {}).setdefault(place.broker, {})

    def _number(self, place: BrokerQueue) -> int:
        """As KiteMQ numbers it."""
        return place.queue * len(self._numbers) + self._numbers[place.broker]

    def _positions(self, place: BrokerQueue, records: LogRecords) -> Ints:
        return records.position() + (self._numbers[place.broker] << POSITION_BITS)

    def _forget(self, topics: BrokerTopics) -> None:
        """Leave out topics that brokers do not have any more."""
        offsets = self._manifest.offsets
        for topic, by_broker in list(offsets.items()):
            for broker in [each for each in by_broker if topic not in topics.get(each, {topic})]:
                del by_broker[broker]
            if not by_broker:
                del offsets[topic]


def _has_messages(topic: str) -> bool:
    """Whether a topic is read for its messages."""
    return role_of(topic) in ROLES and not topic.endswith(REPLIES)
