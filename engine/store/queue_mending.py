"""Repairs consume-queue entries that do not fit their records: reports them and rewrites them.

The log is the truth: a record states its topic, queue, offset and position. What an entry said
before it was mended is kept in the damage log's folder.
"""

from typing import NamedTuple

from engine.message import StoredMessage
from engine.store.commit_log import CommitLog
from engine.store.consume_queue import ENTRY, ConsumeQueue, QueueEntry, QueueId
from engine.store.damage import Damage, DamageLog
from engine.store.entry_codes import EntryCodes
from engine.store.record import HEAD_BYTES_MAX, place_in
from engine.store.recovery import LogScan

WALK_MAX = 1000  # entries that are looked at to find one that fits, each way
MEND_BYTES_MAX = 4 * 1024 * 1024  # of the log that is read for it while a reader waits


class MissingRange(NamedTuple):
    """Offsets `first` to `end` - 1 of a queue; the log has them between `start` and `stop`."""

    first: int
    end: int
    start: int
    stop: int


class Mender:
    """Used by the owner's thread, and at a start."""

    def __init__(
        self,
        log: CommitLog,
        damage_log: DamageLog,
        codes: EntryCodes,
    ) -> None:
        self._log = log
        self._damages = damage_log
        self._codes = codes

    def fits(self, queue: QueueId, entry: QueueEntry) -> bool:
        """Whether the record at the entry's position says that it belongs to this place."""
        head = self._log.read(entry.position, HEAD_BYTES_MAX)
        place = place_in(head)
        return place == (entry.size_bytes, queue.queue, entry.offset, entry.position)

    def mend(self, queue: ConsumeQueue, offset: int) -> StoredMessage | None:
        """Mend the entry at `offset` and its neighbours; its message, if the log has it.

        Reads at most 4 MiB of the log; where that is not enough the damage is still reported.
        """
        stretch = self._stretch(queue, offset)
        if stretch.stop - stretch.start > MEND_BYTES_MAX:
            self._tell(
                queue, offset, b"", "it does not fit its record; `kitemq store repair` mends"
            )
            return None
        candidate: StoredMessage | None = None
        for message in self._scan(stretch).records():
            if (message.topic, message.queue) != queue.id:
                continue
            if stretch.first <= message.offset < stretch.end:
                self.put(queue, message)
                candidate = message if message.offset == offset else candidate
        return candidate

    def _scan(self, stretch: MissingRange) -> LogScan:
        return LogScan(self._log, stretch.start, stretch.stop, self._log.crc_range)

    def put(self, queue: ConsumeQueue, message: StoredMessage) -> None:
        """Let the entry of a readable offset be that of its message; reported if it was not."""
        entry = queue.entry(message.offset)
        if (
            entry is not None
            and entry[1:3] == (message.position, message.size_bytes)
            and self._codes.fits(message, entry.tag_code)
        ):
            return
        data = ENTRY.pack(message.position, message.size_bytes, self._codes.code_of(message))
        before = queue.put(message.offset, data)
        self._tell(queue, message.offset, before, "it did not fit its record and was mended")

    def restore(self, queue: ConsumeQueue, message: StoredMessage) -> None:
        """Let a queue have the entry of a message, also where it ends before that."""
        if message.offset >= queue.visible:
            queue.fill_to(message.offset + 1, message.position)
        self.put(queue, message)

    def _stretch(self, queue: ConsumeQueue, offset: int) -> MissingRange:
        low = queue.min_offset(self._log.oldest)
        first, start = low, self._log.oldest
        for each in range(offset - 1, max(low, offset - WALK_MAX) - 1, -1):
            entry = queue.entry(each)
            if entry is not None and self.fits(queue.id, entry):
                first, start = each + 1, entry.position + entry.size_bytes
                break
        end, stop = queue.visible, self._log.written
        for each in range(offset + 1, min(queue.visible, offset + WALK_MAX)):
            entry = queue.entry(each)
            if entry is not None and self.fits(queue.id, entry):
                end, stop = each, entry.position
                break
        return MissingRange(first, end, start, stop)

    def _tell(self, queue: ConsumeQueue, offset: int, before: bytes, detail: str) -> None:
        topic, number = queue.id
        base = queue.base_of(offset)
        at = offset * ENTRY.size - base
        file = f"consumequeue/{topic}/{number}/{base:020d}"
        copy = self._damages.try_copy(f"queue-{topic}-{number}@{offset}", before)
        text = f"the entry of offset {offset}: {detail}"
        self._damages.add(Damage(at, at + ENTRY.size, text, file, copy))
