"""Browsing a topic's messages: newest first over all queues, or along one queue.

Browsing changes no group's offsets and ignores the topic's permission, so that an operator sees
topics that are closed to consumers. Every read is bounded and reports how far it came.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.messaging import Messaging
from app.ui.framework.language import _
from engine.broker import QueueStats
from engine.errors import Invalid, MessageNotFound
from engine.message import StoredMessage

QUEUES_MAX = 64
READS_MAX = 500
READ_BYTES_MAX = 8 * 1024 * 1024


@dataclass(frozen=True)
class BrowsePage:
    """The messages of a page and the extent of the scan; the cursors are "" at either end."""

    messages: list[StoredMessage]
    scanned: int = 0
    stored: int = 0
    queues: int = 0
    next_cursor: str = ""
    previous_cursor: str = ""
    note: str = ""


class _Budget:
    """The number of reads and bytes that one page may use, over all its queues."""

    def __init__(self) -> None:
        self.reads = 0
        self._bytes = 0

    @property
    def is_spent(self) -> bool:
        return self.reads >= READS_MAX or self._bytes >= READ_BYTES_MAX

    async def read(
        self, messaging: Messaging, topic: str, queue: int, offset: int
    ) -> StoredMessage | None:
        """Read a message; None if its record is damaged or deleted."""
        self.reads += 1
        try:
            message = await messaging.message(topic, queue, offset)
        except MessageNotFound:
            return None
        self._bytes += message.size_bytes
        return message


class _Tail:
    """A queue that is read backwards; the next message is the last one below `upper`."""

    def __init__(self, queue: int, low: int, upper: int) -> None:
        self.queue = queue
        self.low = low
        self.upper = upper

    async def step(self, messaging: Messaging, topic: str, budget: _Budget) -> StoredMessage | None:
        """Read the next older intact message; None at the beginning or without budget."""
        while self.upper > self.low and not budget.is_spent:
            message = await budget.read(messaging, topic, self.queue, self.upper - 1)
            if message is not None:
                return message
            self.upper -= 1
        return None


async def newest(
    messaging: Messaging, topic: str, queues: Sequence[QueueStats], *, cursor: str, count_max: int
) -> BrowsePage:
    """The newest messages over `queues` by the time they were stored, below `cursor`."""
    note = ""
    if len(queues) > QUEUES_MAX:
        note = _(
            "Only the %(queues_max)s most recently written queues were read; select a queue for "
            "others.",
            queues_max=QUEUES_MAX,
        )
        queues = heapq.nlargest(QUEUES_MAX, queues, key=lambda queue: queue.last_stored_ms or 0)
    below = _parse_cursor(cursor)
    tails = [_Tail(q.queue, q.min_offset, _upper(q, below)) for q in queues]
    budget = _Budget()
    # Newest first; the index makes every entry comparable without its message.
    heap: list[tuple[int, int, int, StoredMessage]] = []

    async def push(index: int) -> None:
        message = await tails[index].step(messaging, topic, budget)
        if message is not None:
            heapq.heappush(heap, (-message.stored_ms, -message.position, index, message))

    for index in range(len(tails)):
        await push(index)
    messages: list[StoredMessage] = []
    while heap and len(messages) < count_max:
        index, message = heapq.heappop(heap)[2:]
        messages.append(message)
        tails[index].upper = message.offset
        if budget.is_spent:
            note = _("Shorter page because of large messages.")
            break
        await push(index)
    more = any(tail.upper > tail.low for tail in tails)
    return BrowsePage(
        messages=messages,
        scanned=budget.reads,
        stored=sum(queue.max_offset - queue.min_offset for queue in queues),
        queues=len(queues),
        next_cursor=_cursor({tail.queue: tail.upper for tail in tails}) if more else "",
        note=note,
    )


def _upper(queue: QueueStats, below: Mapping[int, int]) -> int:
    """The offset at which reading a queue backwards begins."""
    upper = below.get(queue.queue, queue.max_offset)
    return min(max(upper, queue.min_offset), queue.max_offset)


async def along(
    messaging: Messaging, topic: str, stats: QueueStats, *, offset: int, count_max: int
) -> BrowsePage:
    """One queue's messages from `offset`, oldest first; the offset is clamped to the queue."""
    begin = at = min(max(offset, stats.min_offset), stats.max_offset)
    budget = _Budget()
    messages: list[StoredMessage] = []
    while at < stats.max_offset and len(messages) < count_max and not budget.is_spent:
        message = await budget.read(messaging, topic, stats.queue, at)
        if message is not None:
            messages.append(message)
        at += 1
    stored = stats.max_offset - stats.min_offset
    note = ""
    if offset < stats.min_offset:
        note = _(
            "The queue begins at offset %(min_offset)s; older messages have expired.",
            min_offset=f"{stats.min_offset:,}",
        )
    elif offset >= stats.max_offset and stored:
        note = _(
            "The queue ends at offset %(max_offset)s; that message does not exist yet.",
            max_offset=f"{stats.max_offset:,}",
        )
    return BrowsePage(
        messages=messages,
        scanned=budget.reads,
        stored=stored,
        queues=1,
        next_cursor=str(at) if at < stats.max_offset else "",
        previous_cursor=(
            str(max(stats.min_offset, begin - count_max)) if begin > stats.min_offset else ""
        ),
        note=note,
    )


def _cursor(below: Mapping[int, int]) -> str:
    return ".".join(f"{queue}-{offset}" for queue, offset in below.items())


def _parse_cursor(text: str) -> dict[int, int]:
    pairs = (item.partition("-") for item in text.split(".") if item)
    try:
        return {int(queue): int(offset) for queue, __, offset in pairs}
    except ValueError as error:
        raise Invalid(
            _("invalid cursor in the address"),
            field="cursor",
            remedy=_("start again at the newest messages"),
        ) from error
