"""Messages that wait for their time, over REST: a part of `kitemq.Client`."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from kitemq.rest import Json, RestConnection

PAGE = 200


class Scheduling(RestConnection):
    """What a client can do with messages that were sent with `delay_ms` or `deliver_at_ms`."""

    def scheduled(self, *, topic: str = "", from_ms: int = 0, limit: int = 0) -> Iterator[Json]:
        """Waiting messages by time, page by page: those bound for `topic`, due from `from_ms` on.

        At most `limit` of them; 0 means all.
        """
        after: str | None = ""
        left = limit
        while after is not None:
            size = min(PAGE, left) if limit else PAGE
            params = {"topic": topic, "from_ms": from_ms, "after": after, "limit": size}
            page = self._call("GET", "/scheduled", params=params)
            yield from page["items"]
            left -= len(page["items"])
            after = page["next"] if not limit or left > 0 else None

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
        given = {"deliver_at_ms": deliver_at_ms, "delay_ms": delay_ms}
        document = {name: value for name, value in given.items() if value is not None}
        return self._scheduled(message_id, "reschedule", json=document)

    def _scheduled(self, message_id: str, verb: str, **given: Any) -> str:
        path = f"/scheduled/{quote(message_id, safe='')}/{verb}"
        return str(self._call("POST", path, **given)["result"])
