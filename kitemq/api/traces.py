# Made from kitemq/async_api/traces.py by `python -m tools.synchronous`: change that file.
"""Journeys of messages."""

from kitemq.api.connection import Api
from kitemq.model.journeys import Journey, TraceStatus
from kitemq.rest import segment


class TracesApi(Api):
    """`client.traces`: what happened to a message, and how the recording goes."""

    def journey(self, message_id: str) -> Journey:
        """What happened to the message with this id or offset id: its `stages` in order of time.

        `groups` says how it stands with each group. Without stages nothing is known of it, and
        `reasons_checked` says why that can be. Times are ms since 1970 UTC.
        """
        return self._rest.fetch(Journey, "GET", f"/messages/{segment(message_id)}/journey")

    def status(self) -> TraceStatus:
        """How many events were recorded, left out by a sample, and dropped."""
        return self._rest.fetch(TraceStatus, "GET", "/traces/status")
