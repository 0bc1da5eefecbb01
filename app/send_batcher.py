"""Stores the sends of all endpoints that arrive in one turn of the event loop by one append.

A client that sends one message per frame would otherwise cost a write of the log for each. Order
is kept; a send that is turned down does not touch its neighbours.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.eager import as_engine_error
from app.host import EngineHost
from engine.errors import Corrupt, EngineError
from engine.message import BATCH_BYTES_MAX, BATCH_COUNT_MAX, Durability, Message, PutResult

# Room that properties and the record's own fields need besides the bodies.
JOINED_BYTES_MAX = BATCH_BYTES_MAX // 2


class BatchSlice(NamedTuple):
    """The result of one send, by column."""

    messages: Sequence[Message]
    offsets: list[int]
    positions: list[int]
    durability: Durability


Done = Callable[[BatchSlice | None, EngineError | None], None]  # one of the two is given


class PendingSend(NamedTuple):
    """One send of this turn; `done` is called once, when it has its durability or failed."""

    messages: Sequence[Message]
    durability: Durability | None
    done: Done


class SendBatcher:
    """Collects sends until the loop's next turn."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host
        self._waiting: list[PendingSend] = []

    def add(self, messages: Sequence[Message], durability: Durability | None, done: Done) -> None:
        """Store `messages`, all of one topic, at the end of this turn; `done` gets the result."""
        if not self._waiting:
            self._host.loop.call_soon(self._flush)
        self._waiting.append(PendingSend(messages, durability, done))

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if len(waiting) == 1:
            self._store(waiting)
            return
        run: list[PendingSend] = []
        count = size_bytes = 0
        for item in waiting:
            item_bytes = sum([len(message.body) for message in item.messages])
            count += len(item.messages)
            size_bytes += item_bytes
            if run and (
                not _joins(run[-1], item)
                or count > BATCH_COUNT_MAX
                or size_bytes > JOINED_BYTES_MAX
            ):
                self._store(run)
                run = []
                count, size_bytes = len(item.messages), item_bytes
            run.append(item)
        self._store(run)

    def _store(self, run: list[PendingSend]) -> None:
        if len(run) == 1:
            messages = run[0].messages
        else:
            messages = [message for item in run for message in item.messages]
        try:
            sent = self._host.broker.send(messages, durability=run[0].durability)
        except Exception as error:
            if len(run) == 1:
                run[0].done(None, as_engine_error(error))
                return
            for item in run:  # one of them is at fault: each for itself
                self._store([item])
            return

        def answer(error: Exception | None) -> None:
            failure = _flush_failure(error)
            at = 0
            for item in run:
                end = at + len(item.messages)
                item.done(None if failure else _slice(sent, at, end), failure)
                at = end

        if sent.durability is Durability.FLUSHED:
            self._host.broker.when_flushed(sent.flush_position, answer)
        else:
            answer(None)


def _joins(before: PendingSend, item: PendingSend) -> bool:
    """Whether both may go into one append: they get the same durability."""
    if before.durability is not item.durability:
        return False
    return item.durability is not None or before.messages[-1].topic == item.messages[0].topic


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
