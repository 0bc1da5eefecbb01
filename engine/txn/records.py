"""Finds the records of a transaction by its id, through the key index.

A transaction is named by the id of its message, or by the offset id of its half message. A half
message that its producer sent again, under the same id to the same topic, is the same transaction:
one decision is about all of them, and one at most is delivered.
"""

from collections.abc import Sequence
from typing import NamedTuple

from engine.errors import Conflict, MessageNotFound
from engine.message import PGROUP, REAL_TOPIC, StoredMessage
from engine.store.encode import position_of_id
from engine.store.store import Store
from engine.topic.names import GIVEN_UP_TOPIC, HALF_TOPIC
from engine.txn.half_messages import COMMIT_BIT, QUEUE, TRANSACTION_BITS
from engine.txn.journal import GIVEN_UP, HALVES
from engine.txn.pending_transactions import TOPICS, PendingTransactions

RECORDS_MAX = 64
READ_BYTES_MAX = 1024 * 1024


class TransactionIdentity(NamedTuple):
    """Identity of a transaction, equal for all its half messages."""

    group: str
    topic: str
    message_id: str


class DeliveredMessage(NamedTuple):
    """Place of the committed message; `flush_position` as in `Sent`, 0 where nothing waits."""

    topic: str
    queue: int
    offset: int
    flush_position: int = 0


class TransactionRecords(NamedTuple):
    """A transaction's records, oldest first, by what became of them."""

    identity: TransactionIdentity
    pending: list[StoredMessage]  # in the half topic, undecided
    given_up: list[StoredMessage]  # given up, undecided
    finished: list[StoredMessage]
    delivered: DeliveredMessage | None

    @property
    def open(self) -> list[StoredMessage]:
        """Those that wait for a decision."""
        return [*self.pending, *self.given_up]


class TransactionReader:
    """Reads what the log and the board know, also what waits for a flush before others see it."""

    def __init__(self, store: Store, pending_transactions: PendingTransactions) -> None:
        self._store = store
        self._pending_transactions = pending_transactions

    def find(self, name: str, group: str = "") -> TransactionRecords:
        """The transaction of this id, of this producer group if one is given.

        Raises MessageNotFound where there is none; Conflict where the id names several, which the
        offset ids of their half messages tell apart.
        """
        named_record = self._find_by_offset_id(name)
        message_id = name if named_record is None else named_record.message_id
        half_messages = self._with_id(HALF_TOPIC, message_id)
        if len(half_messages) == 1 and self._is_pending(
            half_messages[0]
        ):  # mostly: nothing else to look for
            identity = identity_of(half_messages[0])
            if group in ("", identity.group) and named_record in (None, half_messages[0]):
                return TransactionRecords(identity, half_messages, [], [], None)
        moved = self._with_id(GIVEN_UP_TOPIC, message_id)
        matches = [
            each for each in (*half_messages, *moved) if group in ("", identity_of(each).group)
        ]
        if named_record is not None:
            matches = [each for each in matches if identity_of(each) == identity_of(named_record)]
        if not matches:
            raise MessageNotFound(
                f"there is no transaction {name!r}" + (f" of {group!r}" if group else ""),
                field="id",
                remedy="give the id that sending the half message answered, and its own group",
                code="transaction_not_found",
            )
        identity = identity_of(matches[-1])
        if any(identity_of(each) != identity for each in matches):
            raise Conflict(
                f"{name!r} names transactions of several groups or topics",
                field="id",
                remedy="give the offset id of the half message",
                code="ambiguous_transaction",
            )
        return self._sorted(identity, matches)

    def _sorted(
        self, identity: TransactionIdentity, messages: Sequence[StoredMessage]
    ) -> TransactionRecords:
        pending = [each for each in messages if self._is_pending(each)]
        given_up = [
            each
            for each in messages
            if each.topic == GIVEN_UP_TOPIC
            and not self._pending_transactions.is_finished(GIVEN_UP, each.offset)
        ]
        done = [each for each in messages if each not in pending and each not in given_up]
        delivered = self._delivered(identity) if done or len(messages) > 1 else None
        return TransactionRecords(identity, pending, given_up, done, delivered)

    def is_readable(self, delivered: DeliveredMessage) -> bool:
        """Whether consumers can have it already."""
        return delivered.offset < self._store.bounds(delivered.topic, delivered.queue)[1]

    def read_half_messages(
        self, kind: int, offsets: Sequence[int]
    ) -> dict[int, StoredMessage | None]:
        """Records by offset, as many as 1 MiB holds and at least one; None for a damaged one.

        Those that retention took are None, too.
        """
        entries = {
            entry.offset: entry for entry in self._pending_transactions.entries(kind, offsets)
        }
        size_bytes = 0
        batch: list[int] = []
        for offset in offsets:
            entry = entries.get(offset)
            size_bytes += entry.size_bytes if entry is not None and entry.has_record else 0
            if batch and size_bytes > READ_BYTES_MAX:
                break
            batch.append(offset)
        place = (TOPICS[kind], QUEUE)
        with_entry = sorted(entries[offset] for offset in batch if offset in entries)
        messages = self._store.read_entries(with_entry, place)
        read = dict(zip((entry.offset for entry in with_entry), messages, strict=True))
        return {offset: read.get(offset) for offset in batch}

    # -- inside ----------------------------------------------------------------------------------

    def _find_by_offset_id(self, name: str) -> StoredMessage | None:
        """The half message, or given-up one, whose offset id this is."""
        position = position_of_id(name)
        stored = None if position is None else self._read(position)
        if stored is None or stored.offset_id != name.upper():
            return None
        return stored if stored.topic in (HALF_TOPIC, GIVEN_UP_TOPIC) else None

    def _with_id(self, topic: str, message_id: str) -> list[StoredMessage]:
        positions = self._store.positions_of_key(topic, message_id, count_max=RECORDS_MAX)
        # A decision must not have to wait for a flush that another message asked for.
        positions += self._store.positions_held(topic, message_id)
        records = (self._read(position) for position in sorted(set(positions)))
        return [
            each
            for each in records
            if each is not None and (each.topic, each.message_id) == (topic, message_id)
        ]

    def _delivered(self, identity: TransactionIdentity) -> DeliveredMessage | None:
        """The committed message, which is known by the transaction bits of its system flag."""
        for each in self._with_id(identity.topic, identity.message_id):
            is_committed = each.sys_flag & TRANSACTION_BITS == COMMIT_BIT
            if is_committed and each.properties.get(PGROUP, "") == identity.group:
                delivered = DeliveredMessage(each.topic, each.queue, each.offset)
                is_flushed = self.is_readable(delivered)
                end = each.position + each.size_bytes
                return delivered if is_flushed else delivered._replace(flush_position=end)
        return None

    def _is_pending(self, stored: StoredMessage) -> bool:
        return stored.topic == HALF_TOPIC and not self._pending_transactions.is_finished(
            HALVES, stored.offset
        )

    def _read(self, position: int) -> StoredMessage | None:
        try:
            return self._store.read_at(position, held=True)
        except MessageNotFound:
            return None


def identity_of(half: StoredMessage) -> TransactionIdentity:
    """Of a half message, or of one that was given up."""
    properties = half.properties
    return TransactionIdentity(
        properties.get(PGROUP, ""), properties.get(REAL_TOPIC, ""), half.message_id
    )
