"""Requests without a reply, in memory, by correlation id and by deadline.

A restart forgets them all, as their callers' connections end with it; a reply that comes afterwards
is late.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from engine.message import PutResult, StoredMessage

GAPS_MAX = 1024  # deadlines of requests that have ended, before they are swept out


class PendingRequest:
    """One request under way. `reply` is there once it came; `is_over` is true from then on, too.

    `is_replied` says that its reply is stored, which may be a moment before it can be read.
    """

    __slots__ = (
        "_waiting", "client", "correlation_id", "is_over", "is_replied", "message_id",
        "on_end", "reply", "sent", "started_s", "timeout_ms", "topic",
    )  # fmt: skip

    def __init__(
        self,
        waiting: "PendingRequests",
        *,
        correlation_id: str,
        topic: str,
        client: str,
        timeout_ms: int,
        started_s: float,
        on_end: Callable[[], None],
        sent: PutResult,
    ) -> None:
        self._waiting = waiting
        self.correlation_id = correlation_id
        self.message_id = sent.messages[0].message_id
        self.topic = topic
        self.client = client
        self.timeout_ms = timeout_ms
        self.started_s = started_s
        self.on_end = on_end
        self.sent = sent
        self.reply: StoredMessage | None = None
        self.is_replied = False
        self.is_over = False

    @property
    def deadline_s(self) -> float:
        """When it gives up, on the steady clock."""
        return self.started_s + self.timeout_ms / 1000

    def cancel(self) -> None:
        """Stop waiting: a reply that comes is a late one. `on_end` is not called."""
        self._waiting.drop(self)


class PendingRequests:
    """All requests under way, each until it ends in one of its ways."""

    def __init__(self) -> None:
        self._requests: dict[str, PendingRequest] = {}
        self._deadlines: list[tuple[float, int, PendingRequest]] = []
        self._number = 0
        self.cancelled_count = 0

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def first_s(self) -> float | None:
        """The first moment at which one may give up; it may have ended already."""
        return self._deadlines[0][0] if self._deadlines else None

    def find(self, correlation_id: str) -> PendingRequest | None:
        return self._requests.get(correlation_id)

    def add(self, request: PendingRequest) -> None:
        """Wait for a reply to `request` from now on."""
        self._requests[request.correlation_id] = request
        self._number += 1
        heappush(self._deadlines, (request.deadline_s, self._number, request))
        if len(self._deadlines) > 2 * len(self._requests) + GAPS_MAX:
            self._deadlines = [each for each in self._deadlines if not each[2].is_over]
            heapify(self._deadlines)

    def end(self, request: PendingRequest, reply: StoredMessage | None) -> None:
        """Notify the waiting caller that the reply is there, or that none will come in time."""
        if self._take(request):
            request.reply = reply
            request.on_end()

    def drop(self, request: PendingRequest) -> None:
        """Forget it: its caller stopped waiting."""
        if self._take(request):
            self.cancelled_count += 1

    def take_due(self, now_s: float, count_max: int) -> list[PendingRequest]:
        """At most `count_max` requests whose time is over; each still has to be ended."""
        due: list[PendingRequest] = []
        while self._deadlines and self._deadlines[0][0] <= now_s and len(due) < count_max:
            request = heappop(self._deadlines)[2]
            if not request.is_over:
                due.append(request)
        return due

    def _take(self, request: PendingRequest) -> bool:
        if request.is_over:
            return False
        request.is_over = True
        del self._requests[request.correlation_id]
        return True
