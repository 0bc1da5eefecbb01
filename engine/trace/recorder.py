"""The recorder: writes traced events into the trace topic in batches.

Hearing costs a look into a table and a place in a list; rows, compression and the write are a
service's ticks. So nothing waits for a trace, and no send fails for one: what finds no room in the
buffer is dropped and counted. A process that is killed loses what was not written, which is what
happened in the last 0.2 s (`WRITE_EVERY_S`) unless the log refuses writes.
"""

import logging
from collections import deque

import msgspec

from engine.clock import Clock
from engine.errors import Busy, Corrupt, EngineError
from engine.events import EngineEvent
from engine.message import Message
from engine.service import IDLE_WAIT_MAX_S, Service
from engine.store.store import Store
from engine.trace.record import TraceRecordBuilder
from engine.trace.rows import RECIPES
from engine.trace.sampling import TraceSampler

log = logging.getLogger("kitemq.trace")

WRITE_EVERY_S = 0.2
REFUSED_WAIT_S = 1.0
TICK_ROWS = 1000  # written in one tick, or those of one event
WAITING_EARLY = 20_000  # messages in the buffer that are not left to wait
WAITING_MAX = 200_000  # and that it holds at most, some 20 MiB
RECORD_BYTES_MAX = 128 * 1024  # before it is compressed


class RecorderCounts(msgspec.Struct, frozen=True):
    """What became of the events since the start, counted by the messages that they speak of."""

    recorded: int
    sampled_out: int
    dropped: int
    waiting: int
    records: int
    rows: int
    bytes: int
    refusal: str  # why the log takes no traces at the moment; empty when it does


class Recorder(Service):
    """Subscribe `hear`; woken by the first event after a write."""

    name = "traces"

    def __init__(
        self, store: Store, sampler: TraceSampler, clock: Clock, *, segment_bytes: int
    ) -> None:
        super().__init__()
        self._store = store
        self._sampler = sampler
        self._clock = clock
        self._bytes_max = min(RECORD_BYTES_MAX, segment_bytes // 4)
        self._events: deque[tuple[int, EngineEvent]] = deque()
        self._waiting = 0
        self._since_s = 0.0
        self._is_early = False
        self._recorded = self._sampled_out = self._dropped = 0
        self._records = self._rows = self._bytes = 0
        self._refusal = ""

    def hear(self, event: EngineEvent) -> None:
        """Remember an event that a trace keeps; never raises, never waits."""
        weight = RECIPES[type(event)].weigh(event)
        if self._waiting + weight > WAITING_MAX:
            self._dropped += weight
            return
        self._events.append((weight, event))
        self._waiting += weight
        if len(self._events) == 1:
            self._since_s = self._clock.monotonic_s()
            self.wake()
        elif self._waiting > WAITING_EARLY and not self._is_early:
            self._is_early = True
            self.wake()

    def tick(self) -> float:
        """Write what has waited for long enough; seconds until the next has."""
        if not self._events:
            return IDLE_WAIT_MAX_S
        wait_s = self._since_s + WRITE_EVERY_S - self._clock.monotonic_s()
        if wait_s > 0 and not self._is_early:
            return wait_s
        try:
            self._write()
        except (Busy, Corrupt) as error:
            self._refusal = error.detail
            return REFUSED_WAIT_S
        return 0.0 if self._events else IDLE_WAIT_MAX_S

    def settle(self, writes_max: int) -> None:
        """Write what waits, with at most so many writes; what the log refuses stays."""
        for _ in range(writes_max):
            if not self._events:
                return
            try:
                self._write()
            except (Busy, Corrupt) as error:
                self._refusal = error.detail
                return

    def recorded(self) -> RecorderCounts:
        """The figures up to now."""
        return RecorderCounts(
            recorded=self._recorded,
            sampled_out=self._sampled_out,
            dropped=self._dropped,
            waiting=self._waiting,
            records=self._records,
            rows=self._rows,
            bytes=self._bytes,
            refusal=self._refusal,
        )

    def _write(self) -> None:
        """One write of the rows of the oldest events; raises Busy or Corrupt, and they stay."""
        self._store.check_room()
        rows, weight, builders, record_rows = self._built()
        messages = [builder.message() for builder in builders]
        try:
            self._append(messages)
        except (Busy, Corrupt):
            raise
        except EngineError as error:  # it can never be written: the next ones may
            log.warning("%d trace records are dropped: %s", len(messages), error.detail)
            self._dropped += weight
        else:
            self._recorded += record_rows
            self._sampled_out += weight - record_rows
            self._records += len(messages)
            self._rows += sum(map(len, builders))
        self._refusal = ""
        for _ in range(rows):
            self._events.popleft()
        self._waiting -= weight
        self._is_early = self._is_early and self._waiting > WAITING_EARLY

    def _append(self, messages: list[Message]) -> None:
        if messages:
            # Not by way of intake: these are no users' messages, and are not counted as such.
            begin = self._store.written
            self._bytes += self._store.append(messages, waits=False).flush_position - begin

    def _built(self) -> tuple[int, int, list[TraceRecordBuilder], int]:
        """How many events were taken, of what weight; their rows; how many messages these keep."""
        builders: list[TraceRecordBuilder] = []
        taken = weight = kept = rows = 0
        for event_weight, event in self._events:
            if rows >= TICK_ROWS:
                break
            taken += 1
            weight += event_weight
            for row in self._sampler.sift(RECIPES[type(event)].rows(event)):
                if not builders or not builders[-1].add(row):
                    builders.append(TraceRecordBuilder(self._bytes_max))
                    builders[-1].add(row)
                rows += 1
                kept += row.message_count
        return taken, weight, builders, kept
