# Made from kitemq/async_api/traces.py by `python -m tools.synchronous`: change that file.
"""Journeys of messages."""

from kitemq.api.connection import Api
from kitemq.model.journeys import Journey, TraceStatus
from kitemq.rest import segment


class TracesApi(Api):
    """`client.traces`: what happened to a message, and how the recording goes."""

    def journey(self, message_id: str) -> Journey:
        """The journey of the message with this id or offset id: its `stages` in order of time.

        `groups` has the state of each group. Without stages the message is unknown, and
        `reasons_checked` has the possible reasons. Times are ms since 1970 UTC.
        """
        return self._rest.fetch(Journey, "GET", f"/messages/{segment(message_id)}/journey")

    def status(self) -> TraceStatus:
        """Counts of recorded, unsampled and dropped events."""
        return self._rest.fetch(TraceStatus, "GET", "/traces/status")
