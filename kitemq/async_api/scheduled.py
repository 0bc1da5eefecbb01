"""Messages that wait for their time of delivery."""

from collections.abc import AsyncIterator

from msgspec import UNSET

from kitemq.async_api.connection import AsyncApi
from kitemq.model.scheduled import NewTime, ScheduledChange, WaitingMessage, WaitingPage
from kitemq.rest import PAGE, segment


class AsyncScheduledApi(AsyncApi):
    """`client.scheduled`: messages that were sent with a delay or a time of delivery."""

    async def list(
        self, *, topic: str = "", from_ms: int = 0, limit: int = 0
    ) -> AsyncIterator[WaitingMessage]:
        """Waiting messages by time, page by page: those bound for `topic`, due from `from_ms` on.

        At most `limit` of them; 0 means all.
        """
        after: str | None = ""
        remaining = limit
        while after is not None:
            size = min(PAGE, remaining) if limit else PAGE
            params = {"topic": topic, "from_ms": from_ms, "after": after, "limit": size}
            page = await self._rest.fetch(WaitingPage, "GET", "/scheduled", params=params)
            for item in page.items:
                yield item
            remaining -= len(page.items)
            after = page.next if not limit or remaining > 0 else None

    async def recall(self, message_id: str) -> str:
        """See to it that it is never delivered: "recalled" or "already_delivered"; NotFound."""
        return await self._change(message_id, "recall")

    async def deliver(self, message_id: str) -> str:
        """Deliver it at once: "delivered", "already_delivered" or "recalled"; NotFound."""
        return await self._change(message_id, "deliver")

    async def reschedule(
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
        return await self._change(message_id, "reschedule", time)

    async def _change(self, message_id: str, verb: str, time: NewTime | None = None) -> str:
        path = f"/scheduled/{segment(message_id)}/{verb}"
        return (await self._rest.fetch(ScheduledChange, "POST", path, body=time)).result
