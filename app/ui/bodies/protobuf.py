"""Decodes Protobuf's wire format without a schema: field numbers, wire types, and a guess. Pure.

Only the schema has names and exact types: a number may be signed or not, and bytes may be a text, a
message or a packed list. The first interpretation that fits is shown.
"""

import struct
from typing import Any

from app.ui.bodies.trees import NotDecodable
from app.ui.framework.language import N_, _

FIELDS_MAX = 2000
DEPTH_MAX = 12
NUMBER_MAX = (1 << 29) - 1
VARINT_BYTES_MAX = 10
RESERVED_NUMBERS = range(19000, 20000)


class _FieldBudget:
    """The number of fields to decode, over all levels and guesses."""

    def __init__(self) -> None:
        self.left = FIELDS_MAX


def decode(body: bytes) -> dict[str, Any]:
    """The fields by number and wire type, repeated ones as lists; raises NotDecodable."""
    if not body:
        raise NotDecodable(N_("the body is empty"))
    return _message(body, 0, _FieldBudget())


def _message(data: bytes, depth: int, budget: _FieldBudget) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    at = 0
    while at < len(data):
        budget.left -= 1
        if budget.left < 0:
            raise NotDecodable(N_("more than %(fields_max)s fields"), fields_max=FIELDS_MAX)
        begin = at
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if not 1 <= number <= NUMBER_MAX or number in RESERVED_NUMBERS:
            raise NotDecodable(
                N_("byte %(begin)s: invalid field number %(number)s"),
                begin=begin,
                number=number,
            )
        name, value, at = _field(data, at, wire, depth, budget)
        _add(fields, f"{number} ({name})", value)
    return fields


def _add(fields: dict[str, Any], label: str, value: Any) -> None:
    """One value of a field; a second one makes a list of it, as repeated fields have."""
    value_so_far = fields.get(label)
    if value_so_far is None:
        fields[label] = value
    elif isinstance(value_so_far, _Repeated):
        value_so_far.append(value)
    else:
        fields[label] = _Repeated([value_so_far, value])


class _Repeated(list[Any]):
    """The values of one field in their order."""


def _field(
    data: bytes, at: int, wire: int, depth: int, budget: _FieldBudget
) -> tuple[str, Any, int]:
    """The wire type's name, the value, and the position of the next field."""
    if wire == 0:
        value, end = _varint(data, at)
        return "varint", value, end
    if wire == 1:
        return "64-bit", _fixed(data, at, 8), at + 8
    if wire == 5:
        return "32-bit", _fixed(data, at, 4), at + 4
    if wire == 2:
        size, begin = _varint(data, at)
        if begin + size > len(data):
            raise NotDecodable(
                N_("byte %(at)s: %(size)s bytes declared, %(begin)s present"),
                at=at,
                size=size,
                begin=len(data) - begin,
            )
        name, value = _delimited(data[begin : begin + size], depth, budget)
        return name, value, begin + size
    raise NotDecodable(
        N_("byte %(at)s: wire type %(wire)s is unknown or a deprecated group"), at=at - 1, wire=wire
    )


def _delimited(data: bytes, depth: int, budget: _FieldBudget) -> tuple[str, Any]:
    """Length-delimited bytes as text, message or bytes: the first that fits."""
    if not data:
        return "empty", ""
    text = _readable(data)
    if text is not None:
        return "text", text
    if depth < DEPTH_MAX:
        try:
            return "message", _message(data, depth + 1, budget)
        except NotDecodable:
            pass
    return "bytes", data


def _readable(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    is_text = all(character >= " " or character in "\t\n\r" for character in text)
    return text if is_text else None


def _fixed(data: bytes, at: int, size: int) -> str:
    """Four or eight bytes both as an integer and as a float, as only the schema decides."""
    piece = data[at : at + size]
    if len(piece) < size:
        raise NotDecodable(
            N_("byte %(at)s: the body ends inside a %(size)s-bit value"), at=at, size=size * 8
        )
    whole, fraction = struct.unpack("<q" if size == 8 else "<i", piece)[0], 0.0
    (fraction,) = struct.unpack("<d" if size == 8 else "<f", piece)
    return _("%(whole)s or %(fraction)s", whole=whole, fraction=f"{fraction:.6g}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for count in range(VARINT_BYTES_MAX):
        if at + count >= len(data):
            raise NotDecodable(N_("byte %(at)s: the body ends inside a number"), at=at)
        byte = data[at + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, at + count + 1
    raise NotDecodable(
        N_("byte %(at)s: a number is longer than %(varint_bytes_max)s bytes"),
        at=at,
        varint_bytes_max=VARINT_BYTES_MAX,
    )
