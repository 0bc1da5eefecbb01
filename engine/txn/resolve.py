"""Resolves half messages: commits, rolls back, gives up or resumes each, once.

A record that takes a half message's place names it (SOURCE), which is the proof that that is
finished: the journal is written after the log, and a crash in between is healed from the log. Each
decision also leaves RocketMQ's op record, so that the directory can be carried there.
"""

import logging
from collections.abc import Sequence
from enum import StrEnum

from engine.context import EngineContext
from engine.errors import Conflict, Invalid, TopicNotFound
from engine.events import (
    CheckGivenUp,
    CheckResumed,
    TransactionCommitted,
    TransactionRolledBack,
)
from engine.message import (
    CHECK_TIMES,
    REAL_QID,
    REAL_TOPIC,
    SOURCE,
    Message,
    PutResult,
    StoredMessage,
    copy_of,
)
from engine.topic.names import GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC
from engine.txn.half_messages import COMMIT_BIT, QUEUE, TRANSACTION_BITS
from engine.txn.pending_transactions import PendingTransactions
from engine.txn.records import (
    DeliveredMessage,
    TransactionIdentity,
    TransactionReader,
    TransactionRecords,
    identity_of,
)
from engine.txn.recovery_evidence import source_text

log = logging.getLogger("kitemq.txn")

OP_TAG = "d"


class TransactionDecision(StrEnum):
    """A producer's decision about its transaction."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"


class Decider(StrEnum):
    """The source of a decision, for later inspection."""

    PRODUCER = "producer"  # by itself
    CHECK = "check"  # because it was asked
    OPERATOR = "operator"


class Resolver:
    """Every change is kept when its verb returns (in the page cache, as a send is)."""

    def __init__(
        self,
        context: EngineContext,
        pending_transactions: PendingTransactions,
        records: TransactionReader,
    ) -> None:
        self._intake = context.intake
        self._catalog = context.catalog
        self._pending_transactions = pending_transactions
        self._records = records
        self._clock = context.clock
        self._events = context.events

    def commit(self, records: TransactionRecords, by: Decider) -> DeliveredMessage:
        """Deliver the message, once; where it lies.

        Raises Conflict where it was rolled back, TopicNotFound where its topic is gone, DiskFull
        or Corrupt where nothing can be written; then nothing has changed.
        """
        if records.delivered is not None:
            self._drop(records.open)
            return records.delivered
        if not records.open:
            raise _decided(records.identity, "rolled back")
        first = records.open[0]
        self._check_topic(first)
        real = self._real(records)
        sent = self._put([real, _op(records.pending)] if records.pending else [real])
        self._finish(records.open, sent.flush_position)
        delivered = DeliveredMessage(real.topic, real.queue, sent.offsets[0], sent.flush_position)
        if self._records.is_readable(delivered):
            delivered = delivered._replace(flush_position=0)
        if self._events.has_subscribers:
            self._events.emit(
                TransactionCommitted(*self._about(first), offset=delivered.offset, by=by.value)
            )
        return delivered

    def roll_back(self, records: TransactionRecords, by: Decider) -> None:
        """See to it that the message is never delivered; nothing where it was rolled back before.

        Raises Conflict where it was committed; DiskFull or Corrupt, and nothing has changed.
        """
        if records.delivered is not None:
            self._drop(records.open)
            raise _decided(records.identity, "committed")
        if not records.open:
            return
        op = _op(records.pending or records.open)
        op.properties = {SOURCE: source_text(records.open)}
        sent = self._put([op])
        self._finish(records.open, sent.flush_position)
        if self._events.has_subscribers:
            self._events.emit(TransactionRolledBack(*self._about(records.open[0]), by=by.value))

    def give_up(self, half_messages: Sequence[StoredMessage]) -> None:
        """Check these no more: they move to where an operator sees them and decides.

        Raises DiskFull or Corrupt, and nothing has changed.
        """
        copies = []
        for half in half_messages:
            copy = copy_of(half)
            copy.topic, copy.queue = GIVEN_UP_TOPIC, QUEUE
            checks = self._pending_transactions.checks(half.offset)
            copy.properties |= {CHECK_TIMES: str(checks), SOURCE: source_text([half])}
            copies.append(copy)
        sent = self._put([*copies, _op(half_messages)])
        offsets = [half.offset for half in half_messages]
        events = [
            CheckGivenUp(*self._about(half), checks=self._pending_transactions.checks(half.offset))
            for half in half_messages
        ]
        self._pending_transactions.finish(half_offsets=offsets, record_end=sent.flush_position)
        log.warning(
            "%d transactions got no answer, the first is %s of %s",
            len(events),
            events[0].message_id,
            events[0].producer_group,
        )
        for event in events:
            self._events.emit(event)

    def resume(self, records: TransactionRecords) -> None:
        """Check a given-up transaction again, from the first check on. Conflict for any other."""
        if records.pending or not records.given_up or records.delivered is not None:
            raise Conflict(
                f"the checks of {records.identity.message_id!r} were not given up",
                field="id",
                remedy="only what was given up and not decided can be checked again",
            )
        half = copy_of(records.given_up[0])
        half.topic, half.queue = HALF_TOPIC, QUEUE
        half.properties.pop(CHECK_TIMES, None)
        half.properties[SOURCE] = source_text(records.given_up)
        sent = self._put([half])
        self._finish(records.given_up, sent.flush_position)
        if self._events.has_subscribers:
            self._events.emit(CheckResumed(*self._about(records.given_up[0])))

    # -- inside ----------------------------------------------------------------------------------

    def _put(self, messages: list[Message]) -> PutResult:
        try:
            return self._intake.put(messages)
        except Invalid:
            # A half message from elsewhere may leave no room for the proof: it can do without.
            stripped = [message for message in messages if message.properties.pop(SOURCE, "")]
            if not stripped:
                raise
            return self._intake.put(messages)

    def _real(self, records: TransactionRecords) -> Message:
        """The message as its consumers get it; RocketMQ's keep the same properties."""
        half = records.open[0]
        message = copy_of(half)
        message.topic = records.identity.topic
        message.queue = self._queue(message)
        message.sys_flag = message.sys_flag & ~TRANSACTION_BITS | COMMIT_BIT
        message.prepared_position = half.position
        message.properties[SOURCE] = source_text(records.open)
        return message

    def _queue(self, message: Message) -> int:
        """The queue that was chosen at first, unless the topic has shrunk meanwhile."""
        topic = self._catalog.get(message.topic)
        text = message.properties.get(REAL_QID, "")
        queue = int(text) if text.isdecimal() else 0
        return queue if queue < topic.read_queues else queue % topic.write_queues

    def _check_topic(self, half: StoredMessage) -> None:
        name = half.properties.get(REAL_TOPIC, "")
        if not self._catalog.is_current(name, half.position):
            raise TopicNotFound(
                f"the topic {name!r} was deleted after the half message was sent",
                field="topic",
                remedy="roll the transaction back",
            )

    def _finish(self, left: Sequence[StoredMessage], record_end: int) -> None:
        self._pending_transactions.finish(
            half_offsets=[each.offset for each in left if each.topic == HALF_TOPIC],
            given_up=[each.offset for each in left if each.topic == GIVEN_UP_TOPIC],
            record_end=record_end,
        )

    def _drop(self, copies: Sequence[StoredMessage]) -> None:
        """Half messages that were sent again, of a transaction that is decided."""
        if copies:
            self._finish(copies, record_end=0)

    def _about(self, half: StoredMessage) -> tuple[int, str, str, int, int, str]:
        """The fields that all events of transactions begin with."""
        identity = identity_of(half)
        text = half.properties.get(REAL_QID, "")
        queue = int(text) if text.isdecimal() else 0
        offset = half.offset if half.topic == HALF_TOPIC else -1
        now_ms = self._clock.now_ms()
        return now_ms, identity.group, identity.topic, queue, offset, identity.message_id


def _op(half_messages: Sequence[StoredMessage]) -> Message:
    """RocketMQ's note that half messages are finished: their offsets as a text."""
    body = "".join(f"{half.offset}," for half in half_messages if half.topic == HALF_TOPIC)
    return Message(OP_TOPIC, body.encode() or b",", tag=OP_TAG, queue=QUEUE)


def _decided(identity: TransactionIdentity, what: str) -> Conflict:
    return Conflict(
        f"the transaction {identity.message_id!r} was {what}",
        field="id",
        remedy="a decision is final: send a new message to say otherwise",
        code=f"transaction_{what.replace(' ', '_')}",
    )
