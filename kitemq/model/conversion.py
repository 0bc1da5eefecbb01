"""One conversion between values of any kind: the engine's, the wire's, and JSON."""

from typing import Any, TypeVar

import msgspec

from kitemq.model.numbers import whole
from kitemq.model.values import OFFSET_MAX, Int64, OffsetInput

T = TypeVar("T")


def convert(value: object, kind: type[T], /, **others: object) -> T:
    """A `kind` made from the attributes of `value` with the same names, nested values included.

    `others` are fields that `value` lacks or that replace its own. A field that is UNSET counts as
    absent, so the default of `kind` applies. Enums are converted by their values, and integers
    become text where `kind` has Int64. Raises msgspec.ValidationError, which names the field.
    """
    return msgspec.convert(_Joined(value, others), kind, from_attributes=True, dec_hook=decoded)


def set_fields(value: msgspec.Struct) -> dict[str, Any]:
    """The fields of a request that are not UNSET, by name."""
    names = value.__struct_fields__
    return {name: each for name in names if (each := getattr(value, name)) is not msgspec.UNSET}


def changes(value: object, request: msgspec.Struct, /) -> dict[str, Any]:
    """The fields that `request` gives, each with the type that it has in `value`."""
    fields = set_fields(request)
    changed = convert(value, type(value), **fields)
    return {name: getattr(changed, name) for name in fields}


def from_json(content: bytes, kind: type[T]) -> T:
    """JSON as a `kind`; raises msgspec.DecodeError (ValidationError where the shape is another)."""
    return msgspec.json.decode(content, type=kind, dec_hook=decoded)


def decoded(kind: type, value: object) -> object:
    """For msgspec's `dec_hook`: the types that are defined here, from what JSON holds for them."""
    if kind not in (Int64, OffsetInput):
        raise NotImplementedError(f"nothing becomes {kind.__name__}")
    if not isinstance(value, int | str):
        raise ValueError(f"Expected `str | int`, got `{type(value).__name__}`")
    return Int64(value) if kind is Int64 else OffsetInput(_offset_of(value))


def _offset_of(value: str | int) -> int:
    """An offset as a text or a number, 0 to 2^63 - 1; raises ValueError for anything else."""
    text = str(value)
    offset = whole(text, OFFSET_MAX)
    if offset is None:
        raise ValueError(f"{text[:40]!r} is no offset: send a whole number from 0")
    return offset


def encoded(value: object) -> object:
    """For msgspec's `enc_hook`: what JSON holds for the types that are defined here."""
    if isinstance(value, Int64 | OffsetInput):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no form in JSON")


def schema_of(kind: type) -> dict[str, object]:
    """For msgspec's `schema_hook`: the JSON schema of the types that are defined here."""
    if kind is Int64:
        return {"type": "string"}
    if kind is OffsetInput:
        return {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    raise NotImplementedError(f"{kind.__name__} has no JSON schema")


class _Joined:
    """The attributes of a value, with others in front of them."""

    __slots__ = ("_others", "_value")

    def __init__(self, value: object, others: dict[str, object]) -> None:
        self._value = value
        self._others = others

    def __getattr__(self, name: str) -> object:
        value = self._others[name] if name in self._others else getattr(self._value, name)
        if value is msgspec.UNSET:
            raise AttributeError(name)
        # One of a union is known by its tag, which is no attribute.
        config = getattr(type(value), "__struct_config__", None)
        return msgspec.to_builtins(value) if config is not None and config.tag else value
