"""Messages to be stored as REST takes them, and where the server stored them.

`app/api/messages/produce.py` fills the answer by hand, as storing has to be fast.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kitemq.model.scheduled import DelayMs, Time
from kitemq.model.topics import Durability

BATCH_MAX = 4096
LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

DelayLevel = Annotated[int, Meta(ge=0, le=18, description=f"0: at once; 1 to 18: {LEVELS}.")]
CheckImmunity = Annotated[
    int, Meta(ge=0, le=86_400, description="Transactions: no check before; 0 as the setting says.")
]
Queue = Annotated[int, Meta(ge=-1, le=65535, description="-1: the broker chooses.")]


class NewMessage(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A message to be stored."""

    body: Annotated[str, Meta(description="At most 4 MiB; text, or base64 where so said.")]
    encoding: Literal["utf-8", "base64"] = "utf-8"
    tag: Annotated[str, Meta(description="What consumers filter by.")] = ""
    keys: Annotated[tuple[str, ...], Meta(description="What it is found by.")] = ()
    properties: dict[str, str] = {}
    message_group: Annotated[str, Meta(description="Messages of one group stay in order.")] = ""
    queue: Queue = -1
    delay_level: DelayLevel = 0
    delay_ms: DelayMs = 0
    deliver_at_ms: Annotated[Time, Meta(description="At this time, at most a year ahead.")] = 0
    id: Annotated[str, Meta(description="Letters and digits, at most 64; made if empty.")] = ""
    born_ms: Time = 0
    event_ms: Annotated[Time | None, Meta(description="When what it tells happened.")] = None
    transaction_group: Annotated[
        str, Meta(description="Kept until this producer group commits it; see transactions.")
    ] = ""
    check_immunity_s: CheckImmunity = 0


class NewBatch(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Messages that are stored together, or not at all."""

    messages: Annotated[list[NewMessage], Meta(min_length=1, max_length=BATCH_MAX)]
    durability: Durability | None = None


class NewMessageAlone(NewMessage):
    """One message, its fields at the top."""

    durability: Durability | None = None


class StoredAt(msgspec.Struct, gc=False):
    """The ids and the position of one stored message."""

    message_id: str
    offset_id: str
    queue: int
    offset: str
    position: str


class ProduceResult(msgspec.Struct):
    """The messages in the order sent, and the durability they have."""

    messages: list[StoredAt]
    durability: Durability
