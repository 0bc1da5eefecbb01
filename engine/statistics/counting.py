"""Counts events: adds each to the sums of its second, which enter the metrics later.

So the path of a message pays for one look into a dictionary. A second is closed by the first event
after it, or by a tick, and entered into the metrics in portions, or at once when they are read.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from engine.events import (
    Acked,
    Appended,
    CorruptRecord,
    DeadLettered,
    EngineEvent,
    MessagesDelivered,
    MessagesPulled,
    Released,
    Retried,
    Returned,
    SendRefused,
)
from engine.statistics.activity import Activity
from engine.statistics.traffic_metrics import TrafficMetrics
from engine.statistics.windows import SECOND_MS

K = TypeVar("K")

ENTRIES_PER_STEP = 100  # some ms where all of them are new
ENTRIES_PER_READ = 1_000
REASONS_MAX = 1_000
SET_BACK_MS = 10_000


class SecondSums:
    """Sums of one second, by place."""

    __slots__ = ("acked", "arrivals", "at_ms", "failed", "refused", "went")

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.arrivals: dict[tuple[str, int], list[int]] = {}  # topic, queue: messages, bytes
        self.went: dict[tuple[str, str, int], list[int]] = {}  # group, topic, queue: the same
        self.acked: dict[tuple[str, str], int] = {}  # group, topic
        self.failed: dict[tuple[str, str], list[int]] = {}  # group, topic: retried, dead
        self.refused: dict[str, int] = {}  # topic

    def __bool__(self) -> bool:
        return bool(self.arrivals or self.went or self.acked or self.failed or self.refused)


class EventCounter:
    """Subscribe `hear`; call `settle` every second or so, and `settle_all` before reading."""

    def __init__(
        self, books: TrafficMetrics, now_ms: int, note_acked: Callable[[Acked], None]
    ) -> None:
        self._books = books
        self._note_acked = note_acked
        self._running = SecondSums(now_ms)
        self._ends_ms = now_ms
        self._closed: deque[SecondSums] = deque()
        self.refused_by_code: dict[str, int] = {}
        self.dead_by_reason: dict[tuple[str, str], int] = {}
        self.released = 0
        self.corrupt = 0
        self.activity = Activity()
        self._hearers: dict[type[EngineEvent], Callable[..., None]] = {
            MessagesDelivered: self._delivered,
            MessagesPulled: self._pulled,
            Acked: self._acked,
            Retried: self._retried,
            DeadLettered: self._dead,
            Returned: self._active,
            SendRefused: self._refused,
            Released: self._released,
            CorruptRecord: self._corrupt,
        }

    @property
    def kinds(self) -> Iterable[type[EngineEvent]]:
        """What `hear` is to be subscribed to."""
        return Appended, *self._hearers

    def hear(self, event: EngineEvent) -> None:
        """Count one event, in about half a microsecond."""
        if event.at_ms >= self._ends_ms:
            self._close(event.at_ms)
        if type(event) is Appended:  # on the way of every send: no call for it
            key = (event.topic, event.queue)
            sums = self._running.arrivals.get(key)
            if sums is None:
                self._running.arrivals[key] = [event.count, event.size_bytes]
            else:
                sums[0] += event.count
                sums[1] += event.size_bytes
            return
        self._hearers[type(event)](event)

    def settle(self, now_ms: int) -> bool:
        """Enter a bounded part of what waits into the accounts; whether more waits."""
        if now_ms >= self._ends_ms or now_ms < self._ends_ms - SET_BACK_MS:
            self._close(now_ms)
        left = ENTRIES_PER_STEP
        while self._closed and left > 0:
            left -= self._books.enter(self._closed[0], left)
            if not self._closed[0]:
                self._closed.popleft()
        return bool(self._closed)

    def settle_all(self, now_ms: int) -> None:
        """Enter what waits, the running second as well: what is read next is up to date.

        But for what is beyond a thousand places: the next ticks enter those.
        """
        if self._running:
            self._close(now_ms)
        for _ in range(ENTRIES_PER_READ // ENTRIES_PER_STEP):
            if not self.settle(now_ms):
                break

    def _close(self, now_ms: int) -> None:
        if now_ms < self._running.at_ms - SET_BACK_MS:
            self._books.restart(now_ms)
        if self._running:
            self._closed.append(self._running)
        self._running = SecondSums(now_ms)
        self._ends_ms = (now_ms // SECOND_MS + 1) * SECOND_MS

    # -- one method for each event -----------------------------------------------------------------

    def _active(
        self, event: MessagesDelivered | MessagesPulled | Acked | Retried | DeadLettered | Returned
    ) -> None:
        self.activity.note(event.group, event.topic, event.queue, event.at_ms)

    def _delivered(self, event: MessagesDelivered) -> None:
        self._active(event)
        self._went(event.group, event.topic, event.queue, len(event.offsets), event.size_bytes)

    def _pulled(self, event: MessagesPulled) -> None:
        self._active(event)
        self._went(event.group, event.topic, event.queue, event.count, event.size_bytes)

    def _went(self, group: str, topic: str, queue: int, count: int, size_bytes: int) -> None:
        key = (group, topic, queue)
        sums = self._running.went.get(key)
        if sums is None:
            self._running.went[key] = [count, size_bytes]
        else:
            sums[0] += count
            sums[1] += size_bytes

    def _acked(self, event: Acked) -> None:
        self._active(event)
        key = (event.group, event.topic)
        acked = self._running.acked
        acked[key] = acked.get(key, 0) + len(event.offsets)
        self._note_acked(event)

    def _retried(self, event: Retried) -> None:
        self._active(event)
        self._failed(event.group, event.topic)[0] += 1

    def _dead(self, event: DeadLettered) -> None:
        self._active(event)
        self._failed(event.group, event.topic)[1] += 1
        _count(self.dead_by_reason, (event.group, event.reason), ("other", "other"))

    def _failed(self, group: str, topic: str) -> list[int]:
        return self._running.failed.setdefault((group, topic), [0, 0])

    def _refused(self, event: SendRefused) -> None:
        refused = self._running.refused
        refused[event.topic] = refused.get(event.topic, 0) + 1
        _count(self.refused_by_code, event.code, "other")

    def _released(self, event: Released) -> None:
        self.released += 1

    def _corrupt(self, event: CorruptRecord) -> None:
        self.corrupt += 1


def _count(counts: dict[K, int], key: K, other: K) -> None:
    """One more of `key`, or of `other` where there are too many already."""
    if key not in counts and len(counts) >= REASONS_MAX:
        key = other
    counts[key] = counts.get(key, 0) + 1
