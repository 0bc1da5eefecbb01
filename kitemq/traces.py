"""Journeys of messages over REST: a part of `kitemq.Client`."""

from urllib.parse import quote

from kitemq.model.journeys import Journey, TraceStatus
from kitemq.rest import RestConnection


class Tracing(RestConnection):
    """What a client can ask of traces."""

    def journey(self, message_id: str) -> Journey:
        """What happened to the message with this id or offset id: its `stages` in order of time.

        `groups` says how it stands with each group. Without stages nothing is known of it, and
        `reasons_checked` says why that can be. Times are ms since 1970 UTC.
        """
        path = f"/messages/{quote(message_id, safe='')}/journey"
        return self._typed(Journey, "GET", path)

    def traces_status(self) -> TraceStatus:
        """How many events were recorded, left out by a sample, and dropped."""
        return self._typed(TraceStatus, "GET", "/traces/status")
