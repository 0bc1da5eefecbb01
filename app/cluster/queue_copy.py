"""Copies one queue of a running KiteMQ into one queue of a cluster, in its order, each once.

Each copy carries SOURCE: the name of the move, the queue and offset that it was read from, and when
it was stored there. The last copy at the end of the target is therefore what says where to go on,
after a crash as after an answer that never came: nothing else is believed. Others may send into the
target meanwhile; what has no SOURCE of this queue is passed over.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from app.cluster.client import ClusterClient
from app.cluster.errors import ClusterError
from app.cluster.messages import ClusterMessage, NewClusterMessage
from app.cluster.routes import ClusterQueue
from kitemq.model.messages import PullPage, Stored
from kitemq.protocol.properties import SHARDING_KEY

SOURCE = "KITE_MOVED"
# What the old broker noted on a message's way, or the new one would take for an order.
LEFT_BEHIND = frozenset(
    """DELAY TIMER_DELAY_SEC TIMER_DELAY_MS TIMER_DELIVER_MS TIMER_OUT_MS TIMER_ENQUEUE_MS
    TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_DEL_UNIQKEY REAL_TOPIC REAL_QID TRAN_MSG PGROUP POP_CK
    POP_CK_OFFSET 1ST_POP_TIME CLUSTER MSG_REGION TRACE_ON KITE_SOURCE INNER_NUM INNER_BASE
    RECONSUME_TIME MAX_RECONSUME_TIMES""".split()
)
RETRY_PREFIX = "%RETRY%"
PAGE = 160
LOOK_BACK = 256  # messages, doubled for each look further back
BATCH_BYTES_MAX = 1024 * 1024
MESSAGE_EXTRA_BYTES = 1024  # of a message in a batch, besides its body and properties
# A request that a killed process, or a lost connection, left behind is stored or dropped by then.
SETTLE_S = 3.0
COMMIT_EVERY = 4096  # copies after which the place is noted in the cluster


class SourceQueues(Protocol):
    """Reads the queues that are moved."""

    async def pull(self, topic: str, queue: int, offset: int, *, limit: int) -> PullPage:
        """Messages from `offset` on, at most `limit`."""


class Copy(NamedTuple):
    """A copy in the target, and the offset that it was read from."""

    target_offset: int
    source_offset: int


class QueueCopy:
    """The copying of one queue; `next_offset` is what is read from the source next."""

    def __init__(
        self,
        source: SourceQueues,
        cluster: ClusterClient,
        name: str,
        source_queue: int,
        target: ClusterQueue,
    ) -> None:
        """`name` is the move's, and of its group, which notes in the target how far it came."""
        self.target = target
        self.queue = source_queue
        self.first_offset = 0  # that the source keeps
        self.next_offset = 0
        self.copied = 0  # by this process
        self._source = source
        self._cluster = cluster
        self._group = name
        self._mark = f"{name}@{source_queue}@"
        self._last: Copy | None = None
        self._is_sure = False
        self._uncommitted = 0

    @property
    def reached(self) -> int:
        """What of the source is not to be copied any more ends here."""
        return max(self.next_offset, self.first_offset)

    async def catch_up(self) -> None:
        """Copy all that there is; ClusterError, after which it may be called again."""
        while await self._advance():
            pass

    async def _advance(self) -> bool:
        """Copy the next messages; False where there are none yet."""
        if not self._is_sure:
            await self._find_place()
        begin = self.reached
        page = await self._source.pull(self.target.topic, self.queue, begin, limit=PAGE)
        for batch in self._batches(page.messages):
            await self._send(batch)
        if int(page.next_offset) < begin:
            self._is_sure = False
            raise ClusterError(
                f"it ends at offset {page.next_offset} here, and was copied up to {begin}",
                remedy="it was made anew, or lost its end: delete the topic in the cluster",
            )
        is_on = int(page.next_offset) > begin
        self.next_offset = max(self.next_offset, int(page.next_offset))
        if self._uncommitted and (not is_on or self._uncommitted >= COMMIT_EVERY):
            await self._note()
        return is_on

    async def place_of(self, offset: int) -> int:
        """The offset in the target of the first copy from `offset` on, or after the last copy."""
        if not self._is_sure:
            await self._find_place()
        last = self._last
        if last is None:
            return await self._cluster.reads.max_offset(self.target)
        low, high = await self._cluster.reads.min_offset(self.target), last.target_offset + 1
        if offset > last.source_offset:
            return high
        probe = min(max(low, offset + last.target_offset - last.source_offset), high - 1)
        while low < high:
            copy = await self._copy_from(probe, high)
            if copy is not None and copy.source_offset == offset:
                return copy.target_offset
            if copy is None or copy.source_offset > offset:
                high = probe
            else:
                low = copy.target_offset + 1
            probe = (low + high) // 2
        copy = await self._copy_from(low, last.target_offset + 1)
        return copy.target_offset if copy else low

    async def first_foreign(self, begin: int, end: int) -> int:
        """The first offset in the target from `begin` on that holds no copy; `end` if all do.

        Copies next to each other come from offsets next to each other, so few are looked at.
        """
        first = await self._copy_from(begin, end)
        if first is None or first.target_offset > begin:
            return begin
        low, high, probe = begin, end, end - 1
        while high - low > 1:
            copy = await self._copy_from(probe, probe + 1)
            is_next = copy is not None and copy.target_offset - begin == (
                copy.source_offset - first.source_offset
            )
            low, high = (probe, high) if is_next else (low, probe)
            probe = (low + high) // 2
        return high

    # -- where it goes on -----------------------------------------------------------------------

    async def _find_place(self) -> None:
        """Read from the target's end which message was the last."""
        reads = self._cluster.reads
        first, end = await reads.min_offset(self.target), await reads.max_offset(self.target)
        noted = await self._cluster.groups.committed(self._group, self.target)
        begin, step = max(first, min(end, (noted or 0) - 1)), LOOK_BACK
        if noted is None:
            begin = max(first, end - step)
        self._last = await self._last_copy(begin, end)
        while self._last is None and begin > first:
            end, begin, step = begin, max(first, begin - step), step * 2
            self._last = await self._last_copy(begin, end)
        if self._last is None and noted:
            raise ClusterError(
                "its copies are gone from the cluster, so what was copied cannot be told",
                remedy="keep messages longer there, or delete the topic there to begin anew",
            )
        self.next_offset = self._last.source_offset + 1 if self._last else 0
        self._is_sure = True

    async def _last_copy(self, begin: int, end: int) -> Copy | None:
        last = None
        while begin < end:
            copies, begin = await self._page(begin)
            last = next((each for each in reversed(copies) if each.target_offset < end), last)
        return last

    async def _copy_from(self, offset: int, end: int) -> Copy | None:
        """The first copy of this queue in the target from `offset` on, before `end`."""
        while offset < end:
            copies, offset = await self._page(offset)
            if copies:
                return copies[0] if copies[0].target_offset < end else None
        return None

    async def _page(self, offset: int) -> tuple[list[Copy], int]:
        """The copies among the next messages of the target, and where those end."""
        page = await self._cluster.reads.pull(self.target, offset, is_from_master=True)
        if not page.messages and page.next_offset <= offset:
            raise ClusterError(f"{self.target}: nothing can be read at offset {offset} just now")
        return [copy for each in page.messages if (copy := self._read(each))], page.next_offset

    def _read(self, message: ClusterMessage) -> Copy | None:
        is_copy = message.properties.get(SOURCE, "").startswith(self._mark)
        return Copy(message.offset, self._offset_in(message.properties)) if is_copy else None

    def _offset_in(self, properties: Mapping[str, str]) -> int:
        return int(properties[SOURCE].removeprefix(self._mark).partition("@")[0])

    # -- sending --------------------------------------------------------------------------------

    def _batches(self, messages: Sequence[Stored]) -> list[list[NewClusterMessage]]:
        """What is sent together; retries go one by one, which keeps their attempts."""
        is_retry = self.target.topic.startswith(RETRY_PREFIX)
        batches: list[list[NewClusterMessage]] = []
        size = 0
        for stored in messages:
            bytes_of_it = stored.size_bytes + len(stored.content) + MESSAGE_EXTRA_BYTES
            if not batches or is_retry or size + bytes_of_it > BATCH_BYTES_MAX:
                batches.append([])
                size = 0
            batches[-1].append(self._copied(stored))
            size += bytes_of_it
        return batches

    def _copied(self, stored: Stored) -> NewClusterMessage:
        kept = {name: text for name, text in stored.properties.items() if name not in LEFT_BEHIND}
        if stored.message_group:
            kept[SHARDING_KEY] = stored.message_group
        kept[SOURCE] = f"{self._mark}{stored.offset}@{stored.stored_ms}"
        return NewClusterMessage(
            stored.content,
            stored.tag,
            stored.keys,
            kept,
            stored.message_id,
            born_ms=stored.born_ms,
            reconsume_times=stored.attempt - 1,
        )

    async def _send(self, batch: list[NewClusterMessage]) -> None:
        sends, topic = self._cluster.sends, self.target.topic
        try:
            if len(batch) == 1 and batch[0].body:
                sent = await sends.send(topic, batch[0], queue=self.target)
            else:
                sent = await sends.send_batch(topic, batch, queue=self.target)
        except ClusterError:
            self._is_sure = False  # it may have been stored: the target says
            await asyncio.sleep(SETTLE_S)
            raise
        self._last = Copy(sent.offset + len(batch) - 1, self._offset_in(batch[-1].properties))
        self.next_offset = self._last.source_offset + 1
        self.copied += len(batch)
        self._uncommitted += len(batch)

    async def _note(self) -> None:
        """Note the place in the cluster, so that a later start need not look far back."""
        if self._last is not None:
            await self._cluster.groups.commit(
                self._group, self.target, self._last.target_offset + 1
            )
        self._uncommitted = 0
