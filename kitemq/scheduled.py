"""Messages that wait for their time, over REST: a part of `kitemq.Client`."""

from collections.abc import Iterator

from msgspec import UNSET

from kitemq.model.scheduled import NewTime, ScheduledChange, WaitingMessage, WaitingPage
from kitemq.rest import RestConnection, segment

PAGE = 200


class Scheduling(RestConnection):
    """What a client can do with messages that were sent with `delay_ms` or `deliver_at_ms`."""

    def scheduled(
        self, *, topic: str = "", from_ms: int = 0, limit: int = 0
    ) -> Iterator[WaitingMessage]:
        """Waiting messages by time, page by page: those bound for `topic`, due from `from_ms` on.

        At most `limit` of them; 0 means all.
        """
        after: str | None = ""
        left = limit
        while after is not None:
            size = min(PAGE, left) if limit else PAGE
            params = {"topic": topic, "from_ms": from_ms, "after": after, "limit": size}
            page = self._typed(WaitingPage, "GET", "/scheduled", params=params)
            yield from page.items
            left -= len(page.items)
            after = page.next if not limit or left > 0 else None

    def recall(self, message_id: str) -> str:
        """See to it that it is never delivered: "recalled" or "already_delivered"; NotFound."""
        return self._scheduled(message_id, "recall")

    def deliver_now(self, message_id: str) -> str:
        """Deliver it at once: "delivered", "already_delivered" or "recalled"; NotFound."""
        return self._scheduled(message_id, "deliver")

    def reschedule(
        self, message_id: str, *, deliver_at_ms: int | None = None, delay_ms: int | None = None
    ) -> str:
        """Let it wait until a time, or for so long from now; give one of the two.

        "rescheduled", "delivered" where that time has come, "already_delivered" or "recalled";
        NotFound where no such message waited.
        """
        time = NewTime(
            UNSET if deliver_at_ms is None else deliver_at_ms,
            UNSET if delay_ms is None else delay_ms,
        )
        return self._scheduled(message_id, "reschedule", time)

    def _scheduled(self, message_id: str, verb: str, time: NewTime | None = None) -> str:
        path = f"/scheduled/{segment(message_id)}/{verb}"
        return self._typed(ScheduledChange, "POST", path, body=time).result
