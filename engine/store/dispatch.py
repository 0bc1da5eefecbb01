"""Dispatches records from the log to consume queues, the key index and waiting readers.

Batches become readable in log order. One that was promised `flushed` holds back itself and what
follows until the flush, so that no consumer sees what a power loss could still take; one that was
promised `replicated` until a standby has it, so that none is further in a queue than a standby that
is promoted then: it would pass over what that one takes next.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from engine.message import StoredMessage
from engine.store.consume_queue import (
    ENTRY,
    FILL_COUNT_MAX,
    FILLER_BYTES,
    ConsumeQueue,
    QueueId,
)
from engine.store.encode import Keys, QueueRun, is_own_id
from engine.store.encode_columns import HashedKeys, PackedRun
from engine.store.files import DISK_FULL_ERRORS
from engine.store.key_index import KeyIndex, key_hash

PIECE_COUNT = 1000

OnVisible = Callable[[str, int, int, list[int]], None]


class DispatchBatch(NamedTuple):
    """One write of the log, on its way to the readers."""

    end: int
    stored_ms: int
    is_held: bool  # until the flush
    runs: list[QueueRun] | list[PackedRun]
    keyed: list[Keys]
    hashed: list[HashedKeys]  # of messages that came as columns
    needs_copy: bool = False  # held until a standby has it, too


class Dispatch:
    """`position` is the end of what is readable; what ends by `copied` waits for no standby.

    Where the disk refuses a queue's or the index's file, the batch (which the log has) and all
    behind it wait; `failure` says why. The store refuses sends meanwhile and calls `release` again.
    """

    def __init__(self, index: KeyIndex) -> None:
        self._index = index
        self._held: deque[DispatchBatch] = deque()
        self.on_visible: list[OnVisible] = []
        self.on_visible_in: dict[str, OnVisible] = {}  # by topic
        self.position = self.copied = 0
        self.failure: OSError | None = None
        self._owing: list[ConsumeQueue] = []
        self._owed_end = 0

    def add(self, batch: DispatchBatch) -> None:
        """Make `batch` readable, now or when the flush lets it through."""
        if batch.is_held or self._held or not self._show(batch):
            self._held.append(batch)

    def owe(self, queues: list[ConsumeQueue], end: int, failure: OSError) -> None:
        """What recovery could not write for want of room is readable, and written by `release`.

        `end` is where the log ends; until then `position` stays where it is.
        """
        self._owing, self._owed_end = queues, end
        self.failure = failure

    def positions_held(self, topic: str, key: str) -> list[int]:
        """Positions of records with this key or id that are in the log, but not readable yet.

        Of what came as columns only hashes are known: compare the text yourself.
        """
        positions, hash_ = [], key_hash(topic, key)
        for batch in self._held:
            positions += [
                position
                for name, message_id, keys, position in batch.keyed
                if name == topic and (message_id == key or key in keys)
            ]
            for hashed in batch.hashed:
                positions += hashed.positions_of(hash_)
        return positions

    def release(self, flushed: int) -> None:
        """The log is on disk up to `flushed`: show what waited for that."""
        runs = self._held
        if not self._pay():
            return
        while runs and self._is_due(runs[0], flushed):
            if not self._show(runs[0]):
                return
            runs.popleft()

    def _is_due(self, batch: DispatchBatch, flushed: int) -> bool:
        is_copied = not batch.needs_copy or batch.end <= self.copied
        return not batch.is_held or (is_copied and batch.end <= flushed)

    def _pay(self) -> bool:
        """Whether nothing of a recovery is left to be written."""
        if not self._owed_end:
            return True
        try:
            for queue in self._owing:
                queue.append(b"")
            self._index.write()
        except OSError as error:
            self.failure = error
            return False
        self.position = max(self.position, self._owed_end)
        self._owing, self._owed_end, self.failure = [], 0, None
        return True

    def _show(self, batch: DispatchBatch) -> bool:
        """Whether all of it is readable now; if not, to be called again for the rest."""
        try:
            if batch.keyed:
                keyed = batch.keyed.copy()
                batch.keyed.clear()  # the index has them from here on, even if it cannot write
                self._index.add_all(keyed, batch.stored_ms)
            elif batch.hashed:
                hashed = batch.hashed.pop()
                self._index.add_hashed(*hashed.numbers(), batch.stored_ms)
            elif self.failure is not None:
                self._index.write()
            while batch.runs:
                self._show_run(batch.runs[0])
                del batch.runs[0]
        except OSError as error:
            self.failure = error
            return False
        self.position = batch.end
        self.failure = None
        return True

    def _show_run(self, run: QueueRun | PackedRun) -> None:
        queue = run.queue
        if queue.is_deleted:
            return
        first = queue.visible
        queue.append(run.packed())
        topic, number = queue.id
        own = self.on_visible_in.get(topic)
        if own is not None:
            own(topic, number, first, run.tag_codes)
        for listener in self.on_visible:
            listener(topic, number, first, run.tag_codes)


class Redispatch:
    """In recovery: records read back go to their queues and the index again, in large pieces.

    On a full disk their entries stay in memory, 20 bytes each: there may be as many as came since
    the last checkpoint.
    """

    def __init__(
        self,
        index: KeyIndex,
        queue_of: Callable[[str, int], ConsumeQueue],
        code_of: Callable[[StoredMessage], int],
        *,
        oldest: int,
    ) -> None:
        """`oldest` is where the log begins."""
        self._oldest = oldest
        self._index = index
        self._queue_of = queue_of
        self._code_of = code_of
        self._entries: dict[tuple[str, int], bytearray] = {}
        self._count = 0  # of messages since entries were written
        self._messages: list[StoredMessage] = []
        self.gaps: set[QueueId] = set()  # queues that had no entries right before a record's
        self.failure: OSError | None = None  # the disk is full
        self.owing: dict[tuple[str, int], ConsumeQueue] = {}  # queues with entries in memory

    def add(self, message: StoredMessage) -> None:
        """Dispatch one record, unless its queue has it; a gap before it is filled."""
        if self._messages and (
            message.stored_ms != self._messages[0].stored_ms or len(self._messages) >= PIECE_COUNT
        ):
            self._index_messages()
        self._count += 1
        if self._count > PIECE_COUNT:
            self._write_entries()
        self._messages.append(message)
        key = (message.topic, message.queue)
        pending = self._entries.setdefault(key, bytearray())
        queue = self._queue_of(*key)
        end = queue.visible + len(pending) // ENTRY.size
        if message.offset < end:
            return
        missing = message.offset - end
        if missing > FILL_COUNT_MAX:
            queue.append(bytes(pending))
            pending.clear()
            self.gaps.add(queue.id)
            queue.fill_to(message.offset, message.position)
        else:
            if missing:
                self.gaps.add(queue.id)
                # What a log that does not begin at 0 lacks of a queue's begin is gone, not damaged.
                is_gone = self._oldest and not pending and queue.first() is None
                position = 0 if is_gone else message.position
                pending += ENTRY.pack(position, FILLER_BYTES, 0) * missing
        pending += ENTRY.pack(message.position, message.size_bytes, self._code_of(message))

    def finish(self) -> None:
        """Write what is pending; what a full disk refuses is kept, and readable."""
        self._write_entries()
        self._index_messages()

    def _write_entries(self) -> None:
        for key, pending in self._entries.items():
            if not pending:
                continue
            queue = self._queue_of(*key)
            try:
                queue.append_again(bytes(pending))
            except OSError as error:
                self._keep(error)
                queue.keep(bytes(pending))
                self.owing[key] = queue
        self._entries.clear()
        self._count = 0

    def _index_messages(self) -> None:
        """The index takes what was stored in one ms at a time."""
        if self._messages:
            keyed, stored_ms = list(map(_keys_of, self._messages)), self._messages[0].stored_ms
            self._messages.clear()
            try:
                self._index.add_all(keyed, stored_ms)
            except OSError as error:  # it knows them nevertheless, and tries again
                self._keep(error)

    def _keep(self, error: OSError) -> None:
        if error.errno not in DISK_FULL_ERRORS:
            raise error
        self.failure = error


def _keys_of(message: StoredMessage) -> Keys:
    message_id = message.message_id
    if is_own_id(message_id, message.position):
        message_id = ""
    return message.topic, message_id, message.keys, message.position
