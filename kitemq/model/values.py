"""Values that several things of the wire share."""

from typing import Annotated

from msgspec import Meta

NULL_IF_UNKNOWN = "Null where the engine cannot tell it, as a RocketMQ cluster."
QUEUES_MISSING = "Why queues are missing, as broker b is away; empty where these are all."

OFFSET_MAX = 2**63 - 1


class Int64(str):
    """An integer of up to 64 bits as decimal text: JavaScript's numbers are exact to 2^53 only."""

    __slots__ = ()


class OffsetInput(int):
    """An offset in a request: in JSON a text or a number, from 0 to 2^63 - 1."""

    __slots__ = ()


OffsetText = Annotated[OffsetInput, Meta(description="As a text, or a number.")]
Milliseconds = Annotated[int, Meta(description="Milliseconds since 1970-01-01 UTC.")]
