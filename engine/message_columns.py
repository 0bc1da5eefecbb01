"""Messages as columns: a batch of one sender that is stored without an object for each message.

Only plain messages travel so: no delay, transaction or message group. The layout of the columns is
`engine.store.kernel.interface`'s.
"""

import struct
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import msgspec

from engine.message import Durability, Message, SentRun

SHARED = -1  # in the place of a column's beginning: all messages share one value
BODY_LENGTH_BYTES = 4
ID_LENGTH_BYTES = 2


def body_column(body: bytes) -> bytes:
    """The column of bodies of one message."""
    return len(body).to_bytes(BODY_LENGTH_BYTES, "big") + body


class BatchColumns(NamedTuple):
    """Plain messages of a batch as columns of `data`, where the bodies come first.

    The batch's byte at `end` is where the first message begins that is not plain, if any. Columns
    in which no message has anything are left out: SHARED.
    """

    data: bytes
    message_count: int
    end: int
    body_bytes: int
    ids_at: int
    tags_at: int
    keys_at: int
    properties_at: int
    flags_at: int


class MessageColumns(msgspec.Struct, frozen=True, gc=False):
    """`count` messages of one topic, whose columns lie in `data`.

    A column begins at `bodies_at` and so on; SHARED: all have the value given beside it.
    Ids are a column, or with an `id_prefix` the i-th message has the id prefix + 8 upper-case hex
    digits of `id_first` + i, else the store makes them. `properties` all messages have; a column of
    property strings adds to them, and is always of `engine.plain_columns`' making. `messages` makes
    objects of them, for batches that are not plain after all; what it raises is said of the batch.
    """

    topic: str
    queue: int
    count: int
    data: bytes
    bodies_at: int
    body_bytes: int  # of all together
    messages: Callable[[], Sequence[Message]]
    tags_at: int = SHARED
    keys_at: int = SHARED
    flags_at: int = SHARED
    born_at: int = SHARED
    ids_at: int = SHARED
    properties_at: int = SHARED
    tag: str = ""
    keys: tuple[str, ...] = ()
    properties: dict[str, str] = {}
    flag: int = 0
    born_ms: int = 0
    born_host: str = ""
    id_prefix: str = ""
    id_first: int = 0

    def body_size(self, index: int) -> int:
        """The bytes of one body."""
        at = self.bodies_at + index * BODY_LENGTH_BYTES
        return int.from_bytes(self.data[at : at + BODY_LENGTH_BYTES], "big")

    def message_ids(self, count_max: int) -> tuple[str, ...]:
        """The ids that the sender chose, at most so many."""
        if self.ids_at >= 0:
            return tuple([each.decode() for each in self.own_ids()[:count_max]])
        if not self.id_prefix:
            return ()
        numbers = range(self.id_first, self.id_first + min(self.count, count_max))
        return tuple([f"{self.id_prefix}{number:08X}" for number in numbers])

    def own_ids(self) -> list[bytes]:
        """The ids of the column, which are ASCII."""
        start = self.ids_at + ID_LENGTH_BYTES * self.count
        sizes = struct.unpack_from(f">{self.count}H", self.data, self.ids_at)
        ends = accumulate(sizes, initial=start)
        return [self.data[a:b] for a, b in pairwise(ends)]


class ColumnsResult(NamedTuple):
    """Where the messages of one `MessageColumns` stand; `flush_position` as in `PutResult`.

    `id_prefix` begins the ids that the store made: the 16 hex digits of the position follow.
    """

    queue: int
    offsets: range
    positions: list[int]
    durability: Durability
    id_prefix: str

    def message_ids(self) -> list[str]:
        """The ids of messages whose sender chose none."""
        return [f"{self.id_prefix}{position:016X}" for position in self.positions]


class PutColumns(NamedTuple):
    """The result of one write, for each of its batches; else as `PutResult`."""

    results: list[ColumnsResult]
    durability: Durability
    flush_position: int
    runs: list[SentRun]


class LonePlace(NamedTuple):
    """Where a message that was sent by itself stands; its record ends at `end`."""

    queue: int
    offset: int
    position: int
    end: int = 0
    stored_ms: int = 0
