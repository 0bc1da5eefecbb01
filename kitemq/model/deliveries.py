"""Consuming by REST: what to receive, delivered messages, and their settlement by receipt.

`app/api/messages/receive.py` fills delivered messages by hand, as receiving has to be fast.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kitemq.model.messages import Filter, Stored, Wait

RECEIVE_MAX = 256
RECEIPTS_MAX = 1024
INVISIBLE_MS_MAX = 43_200_000

Receipts = Annotated[list[str], Meta(min_length=1, max_length=RECEIPTS_MAX)]
Invisible = Annotated[
    int,
    Meta(ge=10, le=INVISIBLE_MS_MAX, description="Then it is delivered again, unless acked."),
]
Client = Annotated[
    str,
    Meta(
        max_length=255,
        description="Who consumes: a member of the group while it is heard of. A broadcast group "
        "keeps progress by it.",
    ),
]
DelayMs = Annotated[int, Meta(ge=0, le=7_200_000, description="Rounded up to a delay level.")]
NackLevel = Annotated[
    int, Meta(ge=-1, le=18, description="1 to 18; 0: at once; -1: straight to the dead letters.")
]


class NewReceive(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What to receive: `topic` and `filter`, or `topics` as a map of topic to filter."""

    topic: str = ""
    filter: Filter = "*"
    topics: Annotated[dict[str, str], Meta(max_length=64)] | UnsetType = UNSET
    max: Annotated[int, Meta(ge=1, le=RECEIVE_MAX)] = 1
    invisible_ms: Invisible = 60_000
    wait_ms: Wait = 0
    client: Client = ""


class ReceivedMessage(Stored, gc=False):
    """A delivered message. The receipt is the only key to settle it."""

    receipt: str
    invisible_until_ms: int


class DeliveryList(msgspec.Struct):
    """The delivered messages; empty if none came in time."""

    deliveries: list[ReceivedMessage]


class ReceiptList(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Receipts as they were given."""

    receipts: Receipts
    client: Client = ""


class NewNack(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One failed message, and when to try again. Without a delay the group's schedule decides."""

    receipt: str
    delay_ms: DelayMs | None = None
    delay_level: NackLevel | None = None
    error: Annotated[str, Meta(description="Why; kept with the message.")] = ""


class NewNacks(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Messages that could not be processed."""

    nacks: Annotated[list[NewNack], Meta(min_length=1, max_length=RECEIPTS_MAX)]
    client: Client = ""


class NewExtension(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Receipts whose messages need more time, counted from now."""

    receipts: Receipts
    invisible_ms: Invisible
    client: Client = ""


class ReceiptResult(msgspec.Struct):
    """The result of one receipt.

    done: settled now; already: it was settled before; stale: the message was delivered again.
    """

    receipt: str
    result: str


class SettlementList(msgspec.Struct):
    """One result for each receipt, in the order given."""

    results: list[ReceiptResult]


class ReceiptExtension(ReceiptResult):
    """A receipt with its new end."""

    invisible_until_ms: int


class ExtensionList(msgspec.Struct):
    """One result for each receipt, in the order given."""

    results: list[ReceiptExtension]
