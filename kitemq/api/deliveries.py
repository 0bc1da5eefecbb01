# Made from kitemq/async_api/deliveries.py by `python -m tools.synchronous`: change that file.
"""Consuming without a connection: receive messages and settle them, call by call."""

from collections.abc import Mapping, Sequence

from kitemq.api.connection import Api
from kitemq.rest import Json, segment


class DeliveriesApi(Api):
    """`client.deliveries`: messages delivered to a group, by their receipts.

    The documents are those of docs/rest.md.
    """

    def receive(
        self,
        group: str,
        topics: str | Mapping[str, str],
        *,
        max: int = 1,
        invisible_s: float = 60.0,
        wait_s: float = 0.0,
        client: str = "",
    ) -> list[Json]:
        """Hand out up to `max` messages (256); waits up to 30 s for the first."""
        document = {
            "topics": {topics: "*"} if isinstance(topics, str) else dict(topics),
            "max": max,
            "invisible_ms": round(invisible_s * 1000),
            "wait_ms": round(wait_s * 1000),
            "client": client,
        }
        answer = self._rest.call(
            "POST", f"/groups/{segment(group)}/receive", json=document, wait_s=wait_s
        )
        deliveries: list[Json] = answer["deliveries"]
        return deliveries

    def ack(self, group: str, receipts: Sequence[str]) -> list[Json]:
        """These are done; what became of each receipt."""
        return self._settle(group, "ack", {"receipts": list(receipts)})

    def nack(
        self, group: str, receipts: Sequence[str], *, error: str = "", delay_s: float | None = None
    ) -> list[Json]:
        """These failed: deliver them again, after `delay_s` or as the group's retries do."""
        delay = {} if delay_s is None else {"delay_ms": round(delay_s * 1000)}
        nacks = [{"receipt": receipt, "error": error, **delay} for receipt in receipts]
        return self._settle(group, "nack", {"nacks": nacks})

    def extend(self, group: str, receipts: Sequence[str], invisible_s: float) -> list[Json]:
        """Keep these invisible for `invisible_s` from now."""
        document = {"receipts": list(receipts), "invisible_ms": round(invisible_s * 1000)}
        return self._settle(group, "extend", document)

    def release(self, group: str, receipts: Sequence[str]) -> list[Json]:
        """Put these back untouched."""
        return self._settle(group, "release", {"receipts": list(receipts)})

    def _settle(self, group: str, verb: str, document: Json) -> list[Json]:
        answer = self._rest.call("POST", f"/groups/{segment(group)}/{verb}", json=document)
        results: list[Json] = answer["results"]
        return results
