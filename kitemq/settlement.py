"""Settlements of delivered messages, stored until the server has confirmed them."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from kitemq.protocol.batches import (
    NOT_GIVEN,
    AckFrame,
    NackFrame,
    Receipt,
    ReleaseFrame,
    ResultCode,
)
from kitemq.received import AckResult, OnSettled

log = logging.getLogger("kitemq")

ACK_RESULTS = {
    ResultCode.DONE: AckResult.DONE,
    ResultCode.ALREADY: AckResult.ALREADY,
    ResultCode.STALE: AckResult.STALE,
}

Kind = type[AckFrame] | type[NackFrame] | type[ReleaseFrame]
KINDS: tuple[Kind, ...] = (AckFrame, NackFrame, ReleaseFrame)


@dataclass(slots=True)
class Settlement:
    """The settlement of one message."""

    receipt: Receipt
    kind: Kind
    on_settled: OnSettled | None = None
    error: str = ""
    delay_ms: int = NOT_GIVEN
    delay_level: int = NOT_GIVEN


def tell(batch: list[Settlement], results: Sequence[int]) -> None:
    """Report each message's result to the callers."""
    for settlement, code in zip(batch, results, strict=True):
        if settlement.on_settled is not None:
            try:
                settlement.on_settled(ACK_RESULTS[ResultCode(code)])
            except Exception:  # the user's own code; the other messages are not to suffer
                log.exception("on_settled failed for %s", settlement.receipt)


def settling_frame(
    group: str, kind: Kind, batch: list[Settlement]
) -> AckFrame | NackFrame | ReleaseFrame:
    """The one frame that settles all of them."""
    receipts = [settlement.receipt for settlement in batch]
    if kind is AckFrame:
        return AckFrame(group, receipts)
    if kind is ReleaseFrame:
        return ReleaseFrame(group, receipts)
    return NackFrame(
        group,
        receipts,
        [settlement.delay_ms for settlement in batch],
        [settlement.delay_level for settlement in batch],
        [settlement.error for settlement in batch],
    )
