"""Stores the sends of all endpoints that arrive in one turn of the event loop by one append.

A client that sends one message per frame would otherwise cost a write of the log for each. Order
is kept; a send that is turned down does not touch its neighbours.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from time import perf_counter
from typing import Any, NamedTuple

from app.eager import as_engine_error
from app.host import EngineHost
from engine.broker import LoneSender
from engine.errors import Corrupt, EngineError
from engine.message import BATCH_BYTES_MAX, BATCH_COUNT_MAX, Durability, Message, PutResult
from engine.message_columns import ColumnsResult, LonePlace, MessageColumns

# Room that properties and the record's own fields need besides the bodies.
JOINED_BYTES_MAX = BATCH_BYTES_MAX // 2
TURN_S = 0.01  # of each turn of the event loop, where sends are refused and stored by parts


class BatchSlice(NamedTuple):
    """The result of one send, by column; with `offset_ids` where not all lie at this server."""

    messages: Sequence[Message]
    offsets: list[int]
    positions: list[int]
    durability: Durability
    offset_ids: Sequence[str] = ()


# One of the two is given.
Done = Callable[[BatchSlice | None, EngineError | None], None]
ColumnsDone = Callable[[BatchSlice | ColumnsResult | None, EngineError | None], None]


class PendingSend(NamedTuple):
    """One send of this turn; `done` is called once, when it has its durability or failed."""

    batch: Sequence[Message] | MessageColumns
    topic: str
    message_count: int
    size_bytes: int
    durability: Durability | None
    done: Callable[[Any, EngineError | None], None]
    split: Callable[[], None] | None = None

    def messages(self) -> Sequence[Message]:
        """The messages as objects; raises what is wrong with columns."""
        return self.batch.messages() if isinstance(self.batch, MessageColumns) else self.batch


class SendBatcher:
    """Collects sends until the loop's next turn."""

    def __init__(self, host: EngineHost) -> None:
        self.host = host
        self._waiting: list[PendingSend] = []
        self.has_waiting = False  # sends that are not stored yet
        self.is_crowded = False  # several came in one turn, the last time that any came
        self._has_stored_alone = False  # a send of this turn
        self._runs: deque[list[PendingSend]] = deque()  # which go into one append each

    def add(self, messages: Sequence[Message], durability: Durability | None, done: Done) -> None:
        """Store `messages`, all of one topic, at the end of this turn; `done` gets the result."""
        topic = messages[0].topic if messages else ""
        size_bytes = sum([len(message.body) for message in messages])
        self._add(PendingSend(messages, topic, len(messages), size_bytes, durability, done))

    def add_columns(
        self,
        columns: MessageColumns,
        durability: Durability | None,
        done: ColumnsDone,
        split: Callable[[], None] | None = None,
    ) -> None:
        """The same for messages that came as columns.

        Columns of several sends have a `split`, which is called instead of `done` where they are
        refused together: it adds them again by parts, which keep their place.
        """
        count, size_bytes = columns.count, columns.body_bytes
        self._add(
            PendingSend(
                columns, columns.topic, count, size_bytes, durability, done=done, split=split
            )
        )

    def note_alone(self) -> None:
        """A send was stored by itself. Where that was not the first in this turn, others may come
        as well: they had better wait for each other.
        """
        if self._has_stored_alone:
            self.is_crowded = True
        else:
            self._has_stored_alone = True
            self.host.loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._has_stored_alone = False

    def _add(self, item: PendingSend) -> None:
        if not self.has_waiting:
            self._schedule()
        self._waiting.append(item)

    def _schedule(self) -> None:
        self.has_waiting = True
        self.host.loop.call_soon(self.host.turn_end.run, self._flush)

    def _flush(self) -> None:
        """Store what waits, in order; the next turn goes on where this one has no more time."""
        end_s = perf_counter() + TURN_S
        waiting, self._waiting = self._waiting, []
        self.is_crowded = len(waiting) > 1
        self._runs.extend(_runs_of(waiting))
        try:
            while self._runs:
                self._store(self._runs.popleft())
                if perf_counter() > end_s:
                    break
        finally:
            self.has_waiting = False
            if self._runs or self._waiting:
                self._schedule()

    def _store(self, run: list[PendingSend]) -> None:
        is_joined = len(run) > 1 or run[0].split is not None
        try:
            slices, durability, flush_position = self._send(run, is_joined=is_joined)
        except Exception as error:
            if is_joined:
                self._part(run)
            else:
                run[0].done(None, as_engine_error(error))
            return

        def answer(level: Durability, error: Exception | None) -> None:
            failure = _flush_failure(error)
            for item, part in zip(run, slices, strict=True):
                result = part if level is durability else part._replace(durability=level)
                item.done(None if failure else result, failure)

        if durability is Durability.STORED:
            answer(durability, None)
        else:
            self.host.broker.when_accepted(flush_position, durability, answer)

    def _part(self, run: list[PendingSend]) -> None:
        """Store what was refused together by parts, before all that came later."""
        if len(run) > 1:
            middle = len(run) // 2
            parts = [run[:middle], run[middle:]]
        else:
            later, self._waiting = self._waiting, []
            if run[0].split is not None:
                run[0].split()
            parts, self._waiting = list(_runs_of(self._waiting)), later
        self._runs.extendleft(reversed(parts))

    def _send(
        self, run: list[PendingSend], *, is_joined: bool
    ) -> tuple[Sequence[BatchSlice | ColumnsResult], Durability, int]:
        """Store a run by one append: what each send gets, and when."""
        durability, broker = run[0].durability, self.host.broker
        columns = [item.batch for item in run if isinstance(item.batch, MessageColumns)]
        if len(columns) == len(run):
            put = broker.send_columns(columns, durability=durability, is_joined=is_joined)
            if put is not None:
                return put.results, put.durability, put.flush_position
        parts = [item.messages() for item in run]
        messages = parts[0] if len(parts) == 1 else [each for part in parts for each in part]
        sent = broker.send(messages, durability=durability, is_joined=is_joined)
        ends = list(accumulate(map(len, parts), initial=0))
        slices = [_slice(sent, start, end) for start, end in pairwise(ends)]
        return slices, sent.durability, sent.flush_position


class LoneSends:
    """Stores messages of one sender one at a time, in the turn of the loop in which they come."""

    def __init__(self, batcher: SendBatcher, sender: LoneSender) -> None:
        self._batcher = batcher
        self._sender = sender
        self.durability = sender.durability
        self.waits = sender.durability is not Durability.STORED

    @property
    def is_current(self) -> bool:
        """Whether it may go on; else a new one is to be prepared."""
        return self._sender.is_current

    def send(
        self, data: bytes, bodies_at: int, born_ms: int, id_number: int, born_host: bytes = b""
    ) -> LonePlace | None:
        """As `LoneSender.send`; None also while sends wait for the end of the turn, or had better.

        They had where there were several in a turn: together they cost less.
        """
        batcher = self._batcher
        if batcher.has_waiting or batcher.is_crowded:
            return None
        place = self._sender.send(data, bodies_at, born_ms, id_number, born_host)
        if place is not None:
            batcher.note_alone()
        return place

    def result_of(self, place: LonePlace, level: Durability) -> ColumnsResult:
        """The result of a message with this durability."""
        offsets, positions = range(place.offset, place.offset + 1), [place.position]
        return ColumnsResult(place.queue, offsets, positions, level, self._sender.id_prefix)

    def when_accepted(self, place: LonePlace, done: ColumnsDone) -> None:
        """Call `done` once the message that stands there has its durability, or failed to."""

        def answer(level: Durability, error: Exception | None) -> None:
            failure = _flush_failure(error)
            done(None if failure else self.result_of(place, level), failure)

        self._batcher.host.broker.when_accepted(place.end, self.durability, answer)


def _runs_of(sends: Sequence[PendingSend]) -> Iterator[list[PendingSend]]:
    """The sends in their order, those that may go into one append together."""
    run: list[PendingSend] = []
    count = size_bytes = 0
    for item in sends:
        count += item.message_count
        size_bytes += item.size_bytes
        if run and (
            not _joins(run[-1], item) or count > BATCH_COUNT_MAX or size_bytes > JOINED_BYTES_MAX
        ):
            yield run
            run = []
            count, size_bytes = item.message_count, item.size_bytes
        run.append(item)
    if run:
        yield run


def _joins(before: PendingSend, item: PendingSend) -> bool:
    """Whether both may go into one append: they get the same durability."""
    if before.durability is not item.durability:
        return False
    return item.durability is not None or before.topic == item.topic


def part_of(result: BatchSlice | ColumnsResult, span: slice) -> BatchSlice | ColumnsResult:
    """The result of some of the messages."""
    positions = result.positions[span]
    if isinstance(result, ColumnsResult):
        return result._replace(offsets=result.offsets[span], positions=positions)
    messages, offsets = result.messages[span], result.offsets[span]
    return result._replace(messages=messages, offsets=offsets, positions=positions)


def _slice(sent: PutResult, start: int, end: int) -> BatchSlice:
    if end - start == len(sent.messages):
        return BatchSlice(sent.messages, sent.offsets, sent.positions, sent.durability)
    span = slice(start, end)
    return BatchSlice(
        sent.messages[span], sent.offsets[span], sent.positions[span], sent.durability
    )


def _flush_failure(error: Exception | None) -> EngineError | None:
    if error is None or isinstance(error, EngineError):
        return error
    return Corrupt(
        f"the messages are stored, but flushing them to the disk failed: {error}",
        remedy="look at the server's log; sending again may store them twice",
    )
