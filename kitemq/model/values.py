"""Values that several things of the wire share."""

from typing import Annotated

from msgspec import Meta


class Int64(str):
    """An integer of up to 64 bits as decimal text: JavaScript's numbers are exact to 2^53 only."""

    __slots__ = ()


Milliseconds = Annotated[int, Meta(description="Milliseconds since 1970-01-01 UTC.")]
