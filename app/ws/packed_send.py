"""SEND frames whose columns stay as they came: no object for each message.

Only frames whose messages are plain, as nearly all are: no delay, message group or properties of
their own. Any other, and one with an error, is parsed as a `SendFrame`.
"""

from array import array
from collections.abc import Sequence
from functools import partial
from sys import byteorder

from app.ws.shapes import DURABILITIES, build_messages
from engine.message import Message
from engine.message_columns import SHARED, MessageColumns
from engine.plain_columns import COLUMNS_COUNT_MIN
from kitemq.protocol.columns import (
    EACH,
    ENTRIES_MAX,
    NOTHING,
    SAME,
    ProtocolError,
    take_byte,
    take_maps,
    take_numbers,
    take_text,
)
from kitemq.protocol.frames import COUNT_MAX, Frame
from kitemq.protocol.sends import SEND, SendFrame

ID_NUMBERS = 1 << 32


class PackedSendFrame(Frame, frozen=True):
    """A SEND with its columns as they came; see `MessageColumns` for the fields."""

    topic: str
    durability: int
    queue: int
    count: int
    data: bytes
    at: int
    bodies_at: int
    body_bytes: int
    tag: str
    tags_at: int
    keys: str
    keys_at: int
    properties: dict[str, str]
    flag: int
    flags_at: int
    born_ms: int
    born_at: int
    id_prefix: str
    id_first: int

    def columns(self, remote: str) -> MessageColumns:
        """The messages, sent by a client at the address `remote`."""
        return MessageColumns(
            topic=self.topic,
            queue=self.queue,
            count=self.count,
            data=self.data,
            bodies_at=self.bodies_at,
            body_bytes=self.body_bytes,
            messages=partial(self._messages, remote),
            tags_at=self.tags_at,
            keys_at=self.keys_at,
            flags_at=self.flags_at,
            born_at=self.born_at,
            tag=self.tag,
            keys=tuple(self.keys.split()),
            properties=self.properties,
            flag=self.flag,
            born_ms=self.born_ms,
            born_host=remote,
            id_prefix=self.id_prefix,
            id_first=self.id_first,
        )

    def _messages(self, remote: str) -> Sequence[Message]:
        return build_messages(SendFrame.parse(self.data, self.at), remote, 0)


class PackedSend:
    """The parser of SEND for the server."""

    def parse(self, data: bytes, at: int) -> Frame:
        """A `PackedSendFrame`, or else a `SendFrame`; raises ProtocolError."""
        try:
            packed = parse_plain(data, at, COLUMNS_COUNT_MIN)
        except ProtocolError:
            packed = None
        return packed or SendFrame.parse(data, at)


def parse_plain(data: bytes, start: int, count_min: int) -> PackedSendFrame | None:
    """A SEND of `count_min` plain messages or more, from `start` to the end of `data`.

    None, or ProtocolError, where it has to be looked at more closely.
    """
    if start + SEND.size > len(data):
        return None
    durability, queue, count, id_first = SEND.unpack_from(data, start)
    if not count_min <= count <= COUNT_MAX or durability not in DURABILITIES:
        return None
    topic, at = take_text(data, start + SEND.size)
    id_prefix, at = take_text(data, at)
    if id_prefix and id_first + count > ID_NUMBERS:
        return None
    tag, tags_at, at = _texts(data, at, count)
    keys, keys_at, at = _texts(data, at, count)
    if take_byte(data, at) != NOTHING or take_byte(data, at + 1) == EACH:
        return None  # message groups, or properties of each message
    maps, at = take_maps(data, at + 1, 1)
    if len(maps[0]) * count > ENTRIES_MAX or take_byte(data, at) != NOTHING:
        return None  # many properties, or delay levels
    flag, flags_at, at = _numbers(data, at + 1, count)
    born_ms, born_at, at = _numbers(data, at, count)
    body_bytes = sum_of_lengths(data, at, count, "I")
    if at + 4 * count + body_bytes != len(data):
        return None  # delays, or an error
    return PackedSendFrame(
        *(topic, durability, queue, count, data, start, at, body_bytes, tag, tags_at),
        *(keys, keys_at, maps[0], flag, flags_at, born_ms, born_at, id_prefix, id_first),
    )


def _texts(data: bytes, at: int, count: int) -> tuple[str, int, int]:
    """The text that all share, where the texts begin (or SHARED), and where the column ends."""
    form = take_byte(data, at)
    if form == NOTHING:
        return "", SHARED, at + 1
    if form == SAME:
        text, at = take_text(data, at + 1)
        return text, SHARED, at
    at += 1
    end = at + 2 * count + sum_of_lengths(data, at, count, "H")
    if form != EACH or end > len(data) or not data[at + 2 * count : end].isascii():
        raise ProtocolError("a text column that has to be looked at more closely")
    return "", at, end


def _numbers(data: bytes, at: int, count: int) -> tuple[int, int, int]:
    """The number that all share, where the numbers begin (or SHARED), and where the column ends."""
    if take_byte(data, at) == EACH:
        return 0, at + 1, at + 1 + 8 * count
    numbers, at = take_numbers(data, at, 1)
    return numbers[0], SHARED, at


def sum_of_lengths(data: bytes, at: int, count: int, code: str) -> int:
    """The sum of the lengths that begin at `at`; `code` is their width as in `array`."""
    lengths = array(code)
    end = at + lengths.itemsize * count
    if end > len(data):
        raise ProtocolError("a column goes beyond the end of its frame")
    lengths.frombytes(data[at:end])
    if byteorder == "little":
        lengths.byteswap()
    return sum(lengths)
