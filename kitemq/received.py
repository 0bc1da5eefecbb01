"""Delivered messages and their settlement."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from kitemq.protocol.batches import DeliverFrame, Receipt
from kitemq.protocol.properties import (
    CORRELATION_ID,
    EVENT_MS,
    KEYS,
    RESERVED,
    RETRY_TOPIC,
    SHARDING_KEY,
    TAGS,
    UNIQ_KEY,
    split_properties,
)

if TYPE_CHECKING:
    from kitemq.consumer_core import ConsumerCore
    from kitemq.replies import OnReplied


class AckResult(StrEnum):
    """The result of a settlement: STALE: the delivery had expired, so it may come again."""

    DONE = "done"
    ALREADY = "already"
    STALE = "stale"


class Received(msgspec.Struct, gc=True, eq=False):
    """A message handed to this consumer until `invisible_until_ms` (which is extended by itself).

    `attempt` begins at 1. Settle it once, with `ack`, `nack` or
    `release`: each returns at once, is sent with others, and is repeated over a lost connection
    until the server has answered. `on_settled`, where given, is then called with the result, on the
    thread of the event loop.
    """

    body: bytes
    queue: int
    offset: int
    position: int
    attempt: int
    property_block: bytes
    born_ms: int
    stored_ms: int
    flag: int
    sys_flag: int
    invisible_until_ms: int
    receipt: Receipt
    received_s: float  # on this machine's steady clock, as is `deadline_s`
    deadline_s: float
    _core: Any
    _properties: dict[str, str] | None = None

    @property
    def topic(self) -> str:
        """The topic it was sent to, also when it comes back from a retry."""
        return self.all_properties.get(RETRY_TOPIC) or self.receipt[0]

    @property
    def properties(self) -> dict[str, str]:
        """The producer's own properties."""
        every = self.all_properties
        return {name: value for name, value in every.items() if name not in RESERVED}

    @property
    def all_properties(self) -> dict[str, str]:
        """The producer's properties and the broker's, such as TAGS."""
        if self._properties is None:
            self._properties = split_properties(self.property_block)
        return self._properties

    @property
    def tag(self) -> str:
        return self.all_properties.get(TAGS, "")

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.all_properties.get(KEYS, "").split())

    @property
    def message_id(self) -> str:
        """The id given when it was first sent; the same through retries."""
        return self.all_properties.get(UNIQ_KEY, "")

    @property
    def message_group(self) -> str:
        return self.all_properties.get(SHARDING_KEY, "")

    @property
    def event_ms(self) -> int | None:
        """When what it tells of happened, if its producer said so; ms since 1970 UTC."""
        text = self.all_properties.get(EVENT_MS, "")
        return int(text) if text.lstrip("-").isdecimal() else None

    @property
    def text(self) -> str:
        """The body as UTF-8; raises UnicodeDecodeError where it is none."""
        return self.body.decode()

    def ack(self, on_settled: "OnSettled | None" = None) -> None:
        """It is done."""
        self._core.settle_ack(self, on_settled)

    def nack(
        self,
        error: str = "",
        *,
        delay_s: float | None = None,
        on_settled: "OnSettled | None" = None,
    ) -> None:
        """It failed: come again after `delay_s` (rounded up to a delay level), else as retries do.

        `error` is kept with the message, at most 1 KiB of it, and shows in the dead letters.
        """
        self._core.settle_nack(self, error, delay_s, on_settled)

    def reject(self, error: str = "", on_settled: "OnSettled | None" = None) -> None:
        """It can never work: to the dead letters at once."""
        self._core.settle_reject(self, error, on_settled)

    @property
    def correlation_id(self) -> str:
        """Ties a reply to this request. Empty if the requester does not wait for a reply."""
        return self.all_properties.get(CORRELATION_ID, "")

    def reply(
        self,
        body: bytes | str,
        *,
        tag: str = "",
        properties: Mapping[str, str] | None = None,
        on_replied: "OnReplied | None" = None,
    ) -> None:
        """Answer a request; it still has to be settled.

        Returns at once; the reply is repeated over a lost connection for up to 30 s. `on_replied`
        is then called, on the thread of the event loop, with the result or the error. Raises
        Invalid where this is no request, BufferFull while 10,000 replies wait.
        """
        self._core.reply(self, body, tag, properties, on_replied)

    def release(self, on_settled: "OnSettled | None" = None) -> None:
        """It was not touched: let anyone have it at once; no attempt is counted."""
        self._core.settle_release(self, on_settled)


OnSettled = Callable[[AckResult], None]


def received_of(
    frame: DeliverFrame, core: "ConsumerCore", now_s: float, deadline_s: float
) -> list[Received]:
    """The messages of a DELIVER, in its order."""
    rows = zip(
        frame.receipts,
        frame.attempts,
        frame.invisible_until_ms,
        frame.born_ms,
        frame.stored_ms,
        frame.positions,
        frame.flags,
        frame.sys_flags,
        frame.properties,
        frame.bodies,
        strict=True,
    )
    return [
        Received(
            body,
            receipt[1],
            receipt[2],
            position,
            attempt,
            properties,
            born,
            stored,
            flag,
            sys_flag,
            until,
            receipt,
            now_s,
            deadline_s,
            core,
        )
        for (
            receipt,
            attempt,
            until,
            born,
            stored,
            position,
            flag,
            sys_flag,
            properties,
            body,
        ) in rows
    ]
