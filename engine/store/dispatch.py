"""From the log to its readers: consume queues, key index, and whoever waits for arrivals.

Batches become readable in log order. One that was promised `flushed` holds back itself and what
follows until the flush, so that no consumer sees what a power loss could still take.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from engine.message import StoredMessage
from engine.store.consume_queue import ENTRY, ConsumeQueue
from engine.store.encode import Keys, Run, is_own_id
from engine.store.key_index import KeyIndex

PIECE_COUNT = 1000

OnVisible = Callable[[str, int, int, list[int]], None]


class Batch(NamedTuple):
    """One write of the log, on its way to the readers."""

    end: int
    stored_ms: int
    is_held: bool
    runs: list[Run]
    keyed: list[Keys]


class Dispatch:
    """`position` is the end of what is readable.

    Where the disk refuses a queue's or the index's file, the batch (which the log has) and all
    behind it wait; `failure` says why. The store refuses sends meanwhile and calls `release` again.
    """

    def __init__(self, index: KeyIndex) -> None:
        self._index = index
        self._held: deque[Batch] = deque()
        self.on_visible: list[OnVisible] = []
        self.position = 0
        self.failure: OSError | None = None

    def add(self, batch: Batch) -> None:
        """Make `batch` readable, now or when the flush lets it through."""
        if batch.is_held or self._held or not self._show(batch):
            self._held.append(batch)

    def positions_held(self, topic: str, key: str) -> list[int]:
        """Where records with this key or id lie that the log has, but nobody can read yet."""
        return [
            position
            for batch in self._held
            for name, message_id, keys, position in batch.keyed
            if name == topic and (message_id == key or key in keys)
        ]

    def release(self, flushed: int) -> None:
        """The log is on disk up to `flushed`: show what waited for that."""
        held = self._held
        while held and (not held[0].is_held or held[0].end <= flushed):
            if not self._show(held[0]):
                return
            held.popleft()

    def _show(self, batch: Batch) -> bool:
        """Whether all of it is readable now; if not, to be called again for the rest."""
        try:
            if batch.keyed:
                keyed = batch.keyed.copy()
                batch.keyed.clear()  # the index has them from here on, even if it cannot write
                self._index.add_all(keyed, batch.stored_ms)
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

    def _show_run(self, run: Run) -> None:
        queue = run.queue
        if queue.is_gone:
            return
        first = queue.visible
        queue.append(run.packed())
        for listener in self.on_visible:
            listener(queue.id.topic, queue.id.queue, first, run.tag_codes)


class Redispatch:
    """In recovery: records read back go to their queues and the index again, in large pieces."""

    def __init__(
        self,
        index: KeyIndex,
        queue_of: Callable[[str, int], ConsumeQueue],
        code_of: Callable[[StoredMessage], int],
    ) -> None:
        self._index = index
        self._queue_of = queue_of
        self._code_of = code_of
        self._entries: dict[tuple[str, int], bytearray] = {}
        self._messages: list[StoredMessage] = []

    def add(self, message: StoredMessage) -> None:
        """Dispatch one record, unless its queue has it; a gap before it is filled."""
        if self._messages and (
            message.stored_ms != self._messages[0].stored_ms or len(self._messages) >= PIECE_COUNT
        ):
            self.finish()
        self._messages.append(message)
        key = (message.topic, message.queue)
        pending = self._entries.setdefault(key, bytearray())
        queue = self._queue_of(*key)
        end = queue.visible + len(pending) // ENTRY.size
        if message.offset < end:
            return
        if message.offset > end:
            queue.append(bytes(pending))
            pending.clear()
            queue.fill_to(message.offset, message.position)
        pending += ENTRY.pack(message.position, message.size_bytes, self._code_of(message))

    def finish(self) -> None:
        """Write what is pending."""
        for key, pending in self._entries.items():
            self._queue_of(*key).append(bytes(pending))
        self._entries.clear()
        if self._messages:
            self._index.add_all(list(map(_keys_of, self._messages)), self._messages[0].stored_ms)
            self._messages.clear()


def _keys_of(message: StoredMessage) -> Keys:
    message_id = message.message_id
    if is_own_id(message_id, message.position):
        message_id = ""
    return message.topic, message_id, message.keys, message.position
