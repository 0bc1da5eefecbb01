"""Journeys of messages."""

from kitemq.async_api.connection import AsyncApi
from kitemq.model.journeys import Journey, TraceStatus
from kitemq.rest import segment


class AsyncTracesApi(AsyncApi):
    """`client.traces`: what happened to a message, and how the recording goes."""

    async def journey(self, message_id: str) -> Journey:
        """The journey of the message with this id or offset id: its `stages` in order of time.

        `groups` has the state of each group. Without stages the message is unknown, and
        `reasons_checked` has the possible reasons. Times are ms since 1970 UTC.
        """
        return await self._rest.fetch(Journey, "GET", f"/messages/{segment(message_id)}/journey")

    async def status(self) -> TraceStatus:
        """Counts of recorded, unsampled and dropped events."""
        return await self._rest.fetch(TraceStatus, "GET", "/traces/status")
