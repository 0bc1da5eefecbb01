# Made from kitemq/async_api/deliveries.py by `python -m tools.synchronous`: change that file.
"""Consuming without a connection: receive messages and settle them, call by call."""

from collections.abc import Mapping, Sequence

from kitemq.api.connection import Api
from kitemq.model.deliveries import (
    DeliveryList,
    ExtensionList,
    NewExtension,
    NewNack,
    NewNacks,
    NewReceive,
    ReceiptExtension,
    ReceiptList,
    ReceiptResult,
    ReceivedMessage,
    SettlementList,
)
from kitemq.rest import segment

REJECT_LEVEL = -1  # the delay level of a nack without another attempt


class DeliveriesApi(Api):
    """`client.deliveries`: messages delivered to a group, by their receipts.

    `client` is the consumer's name, which a broadcast group needs. A settlement's `result` is
    "done"; "already" where it was settled before; "stale" where the message was delivered again.
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
    ) -> list[ReceivedMessage]:
        """Up to `max` messages (256) of a topic, or of topics by filter.

        Others do not get them for `invisible_s` (0.01 to 43,200). Waits up to `wait_s` (30) for the
        first.
        """
        body = NewReceive(
            topics={topics: "*"} if isinstance(topics, str) else dict(topics),
            max=max,
            invisible_ms=round(invisible_s * 1000),
            wait_ms=round(wait_s * 1000),
            client=client,
        )
        path = _path(group, "receive")
        answer = self._rest.fetch(DeliveryList, "POST", path, body=body, wait_s=wait_s)
        return answer.deliveries

    def ack(self, group: str, receipts: Sequence[str], *, client: str = "") -> list[ReceiptResult]:
        """These are done."""
        body = ReceiptList(list(receipts), client)
        return (self._rest.fetch(SettlementList, "POST", _path(group, "ack"), body=body)).results

    def nack(
        self,
        group: str,
        receipts: Sequence[str],
        *,
        error: str = "",
        delay_s: float | None = None,
        client: str = "",
    ) -> list[ReceiptResult]:
        """These failed: deliver them again after `delay_s`, or as the group's retries do."""
        delay_ms = None if delay_s is None else round(delay_s * 1000)
        nacks = [NewNack(receipt, delay_ms, error=error) for receipt in receipts]
        return self._nack(group, NewNacks(nacks, client))

    def reject(
        self, group: str, receipts: Sequence[str], *, error: str = "", client: str = ""
    ) -> list[ReceiptResult]:
        """These can never be processed: make them dead letters at once."""
        nacks = [NewNack(receipt, delay_level=REJECT_LEVEL, error=error) for receipt in receipts]
        return self._nack(group, NewNacks(nacks, client))

    def _nack(self, group: str, body: NewNacks) -> list[ReceiptResult]:
        path = _path(group, "nack")
        return (self._rest.fetch(SettlementList, "POST", path, body=body)).results

    def extend(
        self, group: str, receipts: Sequence[str], invisible_s: float, *, client: str = ""
    ) -> list[ReceiptExtension]:
        """Keep these invisible for `invisible_s` from now."""
        body = NewExtension(list(receipts), round(invisible_s * 1000), client)
        return (self._rest.fetch(ExtensionList, "POST", _path(group, "extend"), body=body)).results

    def release(
        self, group: str, receipts: Sequence[str], *, client: str = ""
    ) -> list[ReceiptResult]:
        """Put these back unprocessed: no attempt is counted."""
        body = ReceiptList(list(receipts), client)
        return (
            self._rest.fetch(SettlementList, "POST", _path(group, "release"), body=body)
        ).results


def _path(group: str, verb: str) -> str:
    return f"/groups/{segment(group)}/{verb}"
