"""Columns: the values of many messages side by side, so that no message costs a call of its own.

Every number is big-endian. A column says in its first byte how it is written:

| form     | byte | number column   | text column                                          |
|----------|------|-----------------|------------------------------------------------------|
| NOTHING  | 0    | every one is 0  | every one is ""                                      |
| SAME     | 1    | one i64 for all | u16 length, UTF-8: one text for all                  |
| EACH     | 2    | N times i64     | N times u16 length, then the N texts without a gap   |

A bytes column is always EACH and has no form byte: N times u32 length, then the bytes.
A maps column (properties) is NOTHING, or SAME with one JSON object, or EACH with one JSON array of
N objects of texts; its JSON follows a u32 length. Whatever does not fit raises `ProtocolError`.
"""

import struct
import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate, pairwise

import msgspec

from kitemq.protocol.json_values import has_too_many_values

NOTHING = 0
SAME = 1
EACH = 2
ENTRIES_MAX = 200_000  # of all maps of a column: 48 for each of 4,096 messages

U8 = struct.Struct(">B")
U16 = struct.Struct(">H")
U32 = struct.Struct(">I")
I64 = struct.Struct(">q")
assert (U8.size, U16.size, U32.size, I64.size) == (1, 2, 4, 8)
assert [array(code).itemsize for code in "HIq"] == [2, 4, 8]

TEXT_BYTES_MAX = 0xFFFF
_SWAPS = sys.byteorder == "little"
_FORMS = (bytes((NOTHING,)), bytes((SAME,)), bytes((EACH,)))
_MAP_DECODER = msgspec.json.Decoder(dict[str, str])
_MAPS_DECODER = msgspec.json.Decoder(list[dict[str, str]])
_JSON_ENCODER = msgspec.json.Encoder()


class ProtocolError(Exception):
    """Bytes that are no frame of this protocol, or values that fit into none."""


def _pack(code: str, values: Sequence[int], what: str) -> bytes:
    try:
        packed = array(code, values)
    except (OverflowError, TypeError) as error:
        raise ProtocolError(f"a value of {what} does not fit its width") from error
    if _SWAPS:
        packed.byteswap()
    return packed.tobytes()


def _unpack(code: str, data: bytes, start: int, end: int, what: str) -> list[int]:
    if end > len(data):
        raise ProtocolError(f"{what} goes beyond the end of its frame")
    values = array(code)
    values.frombytes(data[start:end])
    if _SWAPS:
        values.byteswap()
    return values.tolist()


def put_numbers(values: Sequence[int]) -> bytes:
    """A number column of i64; the shortest form that holds `values`."""
    if not values:
        return _FORMS[NOTHING]
    first = values[0]
    if values.count(first) == len(values):
        return _FORMS[SAME] + _pack("q", (first,), "a number column") if first else _FORMS[NOTHING]
    return _FORMS[EACH] + _pack("q", values, "a number column")


def put_number(value: int) -> bytes:
    """The same of a number that all share, or the only one."""
    return _FORMS[SAME] + I64.pack(value) if value else _FORMS[NOTHING]


def put_packed_numbers(packed: bytes) -> bytes:
    """The same of one or more numbers that are packed already: big-endian i64, side by side."""
    first = packed[: I64.size]
    if packed != first * (len(packed) // I64.size):
        return _FORMS[EACH] + packed
    return _FORMS[SAME] + first if any(first) else _FORMS[NOTHING]


def take_number(data: bytes, at: int) -> tuple[int, int]:
    """The number that all share in the column that begins at `at`, and where it ends.

    ProtocolError also where each has its own.
    """
    form = data[at : at + 1]
    if form == _FORMS[NOTHING]:
        return 0, at + 1
    end = at + 1 + I64.size
    if form != _FORMS[SAME] or end > len(data):
        raise ProtocolError("no number column whose numbers are all the same")
    number: int = I64.unpack_from(data, at + 1)[0]
    return number, end


def take_numbers(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    """The column that begins at `at`, and where it ends."""
    form = take_byte(data, at)
    at += 1
    if form == NOTHING:
        return [0] * count, at
    if form == SAME:
        return _unpack("q", data, at, at + 8, "a number column") * count, at + 8
    if form != EACH:
        raise ProtocolError(f"a number column of the unknown form {form}")
    end = at + 8 * count
    return _unpack("q", data, at, end, "a number column"), end


def put_text(text: str) -> bytes:
    """u16 length and UTF-8."""
    packed = _encode(text)
    if len(packed) > TEXT_BYTES_MAX:
        raise ProtocolError(f"a text is {len(packed)} bytes long; at most {TEXT_BYTES_MAX} fit")
    return U16.pack(len(packed)) + packed


def take_text(data: bytes, at: int) -> tuple[str, int]:
    """The text that begins at `at`, and where it ends."""
    start = at + 2
    if start > len(data):
        raise ProtocolError("a text goes beyond the end of its frame")
    end: int = start + U16.unpack_from(data, at)[0]
    if end > len(data):
        raise ProtocolError("a text goes beyond the end of its frame")
    return _decode(data[start:end]), end


def put_texts(texts: Sequence[str]) -> bytes:
    """A text column; the shortest form that holds `texts`."""
    if not texts:
        return _FORMS[NOTHING]
    first = texts[0]
    if texts.count(first) == len(texts):
        return _FORMS[SAME] + put_text(first) if first else _FORMS[NOTHING]
    joined = "".join(texts)
    packed = _encode(joined)
    lengths = list(map(len, texts if len(packed) == len(joined) else map(str.encode, texts)))
    return b"".join((_FORMS[EACH], _pack("H", lengths, "a text column"), packed))


def take_texts(data: bytes, at: int, count: int) -> tuple[list[str], int]:
    """The column that begins at `at`, and where it ends."""
    form = take_byte(data, at)
    at += 1
    if form == NOTHING:
        return [""] * count, at
    if form == SAME:
        text, at = take_text(data, at)
        return [text] * count, at
    if form != EACH:
        raise ProtocolError(f"a text column of the unknown form {form}")
    start = at + 2 * count
    ends = list(accumulate(_unpack("H", data, at, start, "a text column"), initial=0))
    end = start + ends[-1]
    if end > len(data):
        raise ProtocolError("a text column goes beyond the end of its frame")
    packed = data[start:end]
    if packed.isascii():  # one decoding for all of them; a slice of text costs half of a decoding
        text = packed.decode("ascii")
        return [text[a:b] for a, b in pairwise(ends)], end
    return [_decode(packed[a:b]) for a, b in pairwise(ends)], end


def put_blobs(blobs: Sequence[bytes]) -> bytes:
    """A bytes column."""
    return _pack("I", list(map(len, blobs)), "a bytes column") + b"".join(blobs)


def take_blobs(data: bytes, at: int, count: int) -> tuple[list[bytes], int]:
    """The column that begins at `at`, and where it ends; each value is a copy of its own."""
    start = at + 4 * count
    lengths = _unpack("I", data, at, start, "a bytes column")
    ends = list(accumulate(lengths, initial=start))
    if ends[-1] > len(data):
        raise ProtocolError("a bytes column goes beyond the end of its frame")
    return [data[a:b] for a, b in pairwise(ends)], ends[-1]


def put_maps(maps: Sequence[dict[str, str]]) -> bytes:
    """A maps column; empty maps take one byte for all."""
    if not any(maps):
        return _FORMS[NOTHING]
    first = maps[0]
    is_same = maps.count(first) == len(maps)
    packed = _encode_json(first if is_same else maps)
    return b"".join((_FORMS[SAME if is_same else EACH], U32.pack(len(packed)), packed))


def take_maps(data: bytes, at: int, count: int) -> tuple[list[dict[str, str]], int]:
    """The column that begins at `at`, and where it ends; no two messages share a dict."""
    form = take_byte(data, at)
    at += 1
    if form == NOTHING:
        return [{} for _ in range(count)], at
    if at + 4 > len(data):
        raise ProtocolError("a maps column goes beyond the end of its frame")
    start = at + 4
    end = start + U32.unpack_from(data, at)[0]
    if end > len(data):
        raise ProtocolError("a maps column goes beyond the end of its frame")
    return _decode_maps(form, data[start:end], count), end


def _decode_maps(form: int, packed: bytes, count: int) -> list[dict[str, str]]:
    if has_too_many_values(packed, ENTRIES_MAX):
        raise ProtocolError(f"a maps column holds at most {ENTRIES_MAX} entries")
    try:
        if form == SAME:
            shared = _MAP_DECODER.decode(packed)
            if len(shared) * count > ENTRIES_MAX:  # a small frame must not become gigabytes
                raise ProtocolError(f"a maps column holds at most {ENTRIES_MAX} entries")
            return [shared.copy() for _ in range(count)]
        if form == EACH:
            maps = _MAPS_DECODER.decode(packed)
            if len(maps) != count:
                raise ProtocolError(f"{len(maps)} maps were given for {count} messages")
            return maps
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("a maps column is no JSON of texts") from error
    raise ProtocolError(f"a maps column of the unknown form {form}")


def take_byte(data: bytes, at: int) -> int:
    """The byte at `at`."""
    if at >= len(data):
        raise ProtocolError("a frame ends before its last value")
    return data[at]


def _encode_json(value: object) -> bytes:
    try:
        return _JSON_ENCODER.encode(value)
    except UnicodeEncodeError as error:
        raise ProtocolError("a text holds a lone surrogate, which UTF-8 cannot write") from error


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ProtocolError("a text holds a lone surrogate, which UTF-8 cannot write") from error


def _decode(packed: bytes) -> str:
    try:
        return packed.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError("a text is no UTF-8") from error
