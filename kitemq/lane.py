"""The messages of one topic on their way: gathered, sent in batches, tried again, answered.

A lane sends a batch as soon as none is on the road, and gathers what comes meanwhile: under load
batches grow by themselves, and a lone message waits for nobody (`linger_s` can make it wait). One
of 100 messages waits for no others either, so that the server has work while more are made.
Messages with a message group keep their order: their lane has one batch on the road at a time.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Protocol

from kitemq.backoff import Backoff
from kitemq.connection import ServerConnection
from kitemq.errors import (
    UNWRITABLE,
    Busy,
    Invalid,
    KiteError,
    ProtocolViolation,
    TimedOut,
    Unreachable,
)
from kitemq.message import (
    DURABILITIES,
    Entry,
    SendResult,
    entry_bytes,
    is_ordered,
    send_frame,
)
from kitemq.model.topics import Durability
from kitemq.protocol.frames import Frame
from kitemq.protocol.sends import SentFrame, message_ids

ID_MASK = 0xFFFFFFFF
OFFLINE_S = 0.25  # without a connection, batches are cut so often
AMPLE = 100  # messages that need no others: a frame's own cost is lost among theirs
FAULT = re.compile(r"messages\[(\d+)\]\.?")


@dataclass(frozen=True, kw_only=True)
class LaneRules:
    """How a producer batches and how long it tries; sizes in bytes, times in seconds."""

    linger_s: float
    batch_count_max: int
    batch_bytes_max: int
    inflight_max: int
    timeout_s: float


class Sink(Protocol):
    """What takes the results of `count` neighbouring messages, or their error."""

    count: int

    def set_results(self, results: list[SendResult]) -> None:
        """The result of each."""

    def set_exception(self, error: KiteError) -> None:
        """The error of one of them, or of all."""

    def part(self, start: int, end: int) -> "Sink":
        """The sink of some of them, where they travel apart."""


class FutureSink:
    """The sink of one message: a future of asyncio or of threads."""

    __slots__ = ("_future", "count")

    def __init__(self, future: Any) -> None:
        self._future = future
        self.count = 1

    def set_results(self, results: list[SendResult]) -> None:
        if not self._future.done():
            self._future.set_result(results[0])

    def set_exception(self, error: KiteError) -> None:
        if not self._future.done():
            self._future.set_exception(error)

    def part(self, start: int, end: int) -> "FutureSink":
        assert (start, end) == (0, 1)
        return self


@dataclass(slots=True)
class Batch:
    """Messages that travel, fail and are repeated together, then always under the same ids."""

    entries: list[Entry] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)
    size_bytes: int = 0
    id_first: int = 0
    deadline_s: float = 0.0
    is_uncertain: bool = False  # it was sent, and no answer came


class Outside(Protocol):
    """What a lane needs of its producer."""

    @property
    def connection(self) -> ServerConnection | None:
        """The open connection, if there is one."""

    @property
    def id_prefix(self) -> str:
        """The common prefix of this producer's message ids."""

    def take_ids(self, count: int) -> int:
        """The first of `count` numbers that no other batch gets."""

    def freed(self, size_bytes: int) -> None:
        """So many bytes of messages are answered."""


class Lane:
    """All messages of one (topic, durability, queue) of one producer."""

    def __init__(
        self,
        outside: Outside,
        rules: LaneRules,
        topic: str,
        durability: Durability | None,
        queue: int,
    ) -> None:
        self._outside = outside
        self._rules = rules
        self._topic = topic
        self._durability = durability
        self._queue = queue
        self._loop = asyncio.get_running_loop()
        self._open = Batch()  # takes messages; those before it are full
        self._full: deque[Batch] = deque()
        self._again: deque[Batch] = deque()
        self._inflight: set[int] = set()
        self._handle: asyncio.Handle | None = None
        self._is_ordered = False
        self._not_before_s = 0.0  # a busy server asked for a pause
        self._backoff = Backoff()

    @property
    def is_idle(self) -> bool:
        return not (self._open.entries or self._full or self._again or self._inflight)

    def add(
        self, entries: Sequence[Entry], size_bytes: int, sink: Sink, *, is_lone: bool = False
    ) -> None:
        """Take messages, which travel in one batch and are at most as many as one may have.

        `is_lone` says that their sender waits for them, so that nothing is to be gathered yet.
        """
        rules, batch = self._rules, self._open
        if batch.entries and (
            batch.size_bytes + size_bytes > rules.batch_bytes_max
            or len(batch.entries) + len(entries) > rules.batch_count_max
        ):
            batch = self._close()
        batch.entries += entries
        batch.sinks.append(sink)
        batch.size_bytes += size_bytes
        if any(map(is_ordered, entries)):
            self._is_ordered = True
        if len(batch.entries) >= rules.batch_count_max:
            self._close()
        if self._handle is None:
            goes_now = len(batch.entries) >= AMPLE or (is_lone and not self._inflight)
            if goes_now and not rules.linger_s:
                self.pump()
            else:
                self._handle = self._loop.call_soon(self._gathered)

    def _close(self) -> Batch:
        """The open batch is full: begin another."""
        self._full.append(self._open)
        self._open = Batch()
        return self._open

    def _gathered(self) -> None:
        """This turn of the loop is over: send, or linger if there is little to send."""
        self._handle = None
        if self._rules.linger_s and not self._full and not self._again:
            self._handle = self._loop.call_later(self._rules.linger_s, self.pump)
        else:
            self.pump()

    def pump(self) -> None:
        """Send what may go now."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        connection = self._outside.connection
        if connection is None or not connection.is_open:
            self._wait_for_connection()
            return
        if self._loop.time() < self._not_before_s:
            self._handle = self._loop.call_at(self._not_before_s, self.pump)
            return
        while len(self._inflight) < self._road_max:
            batch = self._next()
            if batch is None:
                return
            self._send(connection, batch)

    def go_on(self) -> None:
        """Send over a new connection: a pause that the last one was asked for is over."""
        self._not_before_s = 0.0
        self._backoff.reset()
        self.pump()

    def fail_all(self, error: KiteError) -> None:
        """Give up on everything that has no answer yet."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        while (batch := self._next()) is not None:
            self._fail(batch, error)

    # -- batches --------------------------------------------------------------------------------

    @property
    def _road_max(self) -> int:
        return 1 if self._is_ordered else self._rules.inflight_max

    def _next(self) -> Batch | None:
        """The oldest messages: first what goes again, then full batches, then the open one."""
        if self._again:
            return self._again.popleft()
        if self._full:
            batch = self._full.popleft()
        elif self._open.entries:
            batch, self._open = self._open, Batch()
        else:
            return None
        batch.id_first = self._outside.take_ids(len(batch.entries))
        batch.deadline_s = self._loop.time() + self._rules.timeout_s
        return batch

    def _send(self, connection: ServerConnection, batch: Batch) -> None:
        frame = send_frame(
            self._topic,
            batch.entries,
            durability=self._durability,
            queue=self._queue,
            id_prefix=self._id_prefix(batch),
            id_first=batch.id_first & ID_MASK,
        )
        self._inflight.add(id(batch))

        def answered(answer: Frame | KiteError) -> None:
            timer.cancel()
            self._inflight.discard(id(batch))
            self._answered(batch, answer)
            self.pump()

        number = connection.ask(frame, answered)
        timer = self._loop.call_at(batch.deadline_s, self._time_out, connection, number, answered)

    def _id_prefix(self, batch: Batch) -> str:
        return f"{self._outside.id_prefix}{batch.id_first >> 32:04X}"

    def _time_out(
        self, connection: ServerConnection, number: int, answered: Callable[[KiteError], None]
    ) -> None:
        connection.forget(number)
        answered(_uncertain(self._rules.timeout_s))

    def _answered(self, batch: Batch, answer: Frame | KiteError) -> None:
        if isinstance(answer, SentFrame) and _fits(answer, batch):
            self._backoff.reset()
            self._succeed(batch, answer)
        elif isinstance(answer, Busy):
            self._pause(batch, answer)
        elif isinstance(answer, Unreachable) and not isinstance(answer, TimedOut):
            batch.is_uncertain = True
            self._put_back(batch)  # it goes again when there is a connection, or runs out of time
        elif isinstance(answer, Invalid) and len(batch.entries) > 1:
            self._part(batch, answer)
        elif isinstance(answer, KiteError):
            answer.field = FAULT.sub("", answer.field)  # it is about the only message
            self._fail(batch, answer)
        else:
            self._fail(batch, ProtocolViolation(f"{type(answer).__name__} is no answer to a send"))

    def _put_back(self, *batches: Batch) -> None:
        self._again = deque(sorted((*self._again, *batches), key=lambda batch: batch.id_first))

    def _pause(self, batch: Batch, error: Busy) -> None:
        """Let the batch go again after a wait, under the same ids, unless its time is over."""
        again_s = self._loop.time() + max(error.retry_after_s, self._backoff.next_s())
        if again_s >= batch.deadline_s:
            self._fail(batch, error)
            return
        self._not_before_s = max(self._not_before_s, again_s)
        self._put_back(batch)

    def _part(self, batch: Batch, error: Invalid) -> None:
        """One message is at fault: it alone gets the error, the others go again without it."""
        match = FAULT.match(error.field)
        count = len(batch.entries)
        if match and int(match[1]) < count:
            index = int(match[1])
            error.field = error.field[match.end() :]
            self._fail(_cut(batch, index, index + 1), error)
            cuts = [(0, index), (index + 1, count)]
        elif error.code == UNWRITABLE:
            cuts = [(0, count // 2), (count // 2, count)]
        else:  # it speaks of all of them
            self._fail(batch, error)
            return
        self._put_back(*(_cut(batch, start, end) for start, end in cuts if start < end))

    def _succeed(self, batch: Batch, sent: SentFrame) -> None:
        durability = DURABILITIES[sent.durability]
        ids = message_ids(self._id_prefix(batch), batch.id_first & ID_MASK, len(batch.entries))
        columns = (sent.queues, sent.offsets, sent.positions)
        results = list(map(SendResult, ids, repeat(self._topic), *columns, repeat(durability)))
        at = 0
        for sink in batch.sinks:
            sink.set_results(results[at : at + sink.count])
            at += sink.count
        self._outside.freed(batch.size_bytes)

    def _fail(self, batch: Batch, error: KiteError) -> None:
        for sink in batch.sinks:
            sink.set_exception(error)
        self._outside.freed(batch.size_bytes)

    def _wait_for_connection(self) -> None:
        """Fail what is over its time, and look again soon; the producer pumps once connected."""
        now_s = self._loop.time()
        waiting = self._again
        self._again = deque()
        while (batch := self._next()) is not None:
            waiting.append(batch)
        self._again = waiting
        while self._again and self._again[0].deadline_s <= now_s:
            batch = self._again.popleft()
            if batch.is_uncertain:
                self._fail(batch, _uncertain(self._rules.timeout_s))
            else:
                detail = f"no connection to the server within {self._rules.timeout_s:g} s"
                self._fail(batch, Unreachable(detail))
        if self._again:
            self._handle = self._loop.call_later(OFFLINE_S, self.pump)


def _fits(sent: SentFrame, batch: Batch) -> bool:
    """Whether an answer speaks of as many messages, and of a durability that is known."""
    return len(sent.offsets) == len(batch.entries) and sent.durability in DURABILITIES


def _uncertain(timeout_s: float) -> TimedOut:
    return TimedOut(
        f"no answer within {timeout_s:g} s; the messages may have been stored",
        remedy="look for the message id before sending again",
    )


def _cut(batch: Batch, start: int, end: int) -> Batch:
    """The messages `start` to `end` of a batch as one of their own, with the ids they had."""
    entries = batch.entries[start:end]
    size_bytes = sum(entry_bytes(entry) for entry in entries)
    return Batch(
        entries,
        _cut_sinks(batch.sinks, start, end),
        size_bytes,
        batch.id_first + start,
        batch.deadline_s,
        batch.is_uncertain,
    )


def _cut_sinks(sinks: list[Sink], start: int, end: int) -> list[Sink]:
    """What takes the results of the messages `start` to `end`."""
    parts: list[Sink] = []
    first = 0
    for sink in sinks:
        begin, stop = max(start - first, 0), min(end - first, sink.count)
        if begin < stop:
            parts.append(sink.part(begin, stop))
        first += sink.count
    return parts
