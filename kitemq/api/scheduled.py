# Made from kitemq/async_api/scheduled.py by `python -m tools.synchronous`: change that file.
"""Messages that wait for their time of delivery."""

from collections.abc import Iterator

from msgspec import UNSET

from kitemq.api.connection import Api
from kitemq.model.scheduled import NewTime, ScheduledChange, WaitingMessage, WaitingPage
from kitemq.rest import PAGE, segment


class ScheduledApi(Api):
    """`client.scheduled`: messages that were sent with a delay or a time of delivery."""

    def list(
        self, *, topic: str = "", from_ms: int = 0, limit: int = 0
    ) -> Iterator[WaitingMessage]:
        """Waiting messages by time, page by page: those bound for `topic`, due from `from_ms` on.

        At most `limit` of them; 0 means all.
        """
        after: str | None = ""
        remaining = limit
        while after is not None:
            size = min(PAGE, remaining) if limit else PAGE
            params = {"topic": topic, "from_ms": from_ms, "after": after, "limit": size}
            page = self._rest.fetch(WaitingPage, "GET", "/scheduled", params=params)
            yield from page.items
            remaining -= len(page.items)
            after = page.next if not limit or remaining > 0 else None

    def recall(self, message_id: str) -> str:
        """See to it that it is never delivered: "recalled" or "already_delivered"; NotFound."""
        return self._change(message_id, "recall")

    def deliver(self, message_id: str) -> str:
        """Deliver it at once: "delivered", "already_delivered" or "recalled"; NotFound."""
        return self._change(message_id, "deliver")

    def reschedule(
        self, message_id: str, *, deliver_at_ms: int | None = None, delay_ms: int | None = None
    ) -> str:
        """Let it wait for another time, or so many ms from now (one of the two).

        "rescheduled", "delivered" where that time has come, "already_delivered" or "recalled";
        NotFound where no such message waited.
        """
        time = NewTime(
            UNSET if deliver_at_ms is None else deliver_at_ms,
            UNSET if delay_ms is None else delay_ms,
        )
        return self._change(message_id, "reschedule", time)

    def _change(self, message_id: str, verb: str, time: NewTime | None = None) -> str:
        path = f"/scheduled/{segment(message_id)}/{verb}"
        return (self._rest.fetch(ScheduledChange, "POST", path, body=time)).result
