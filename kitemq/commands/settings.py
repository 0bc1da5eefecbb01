"""Options of the command line for the settings of a thing, made from its struct.

A field `trace_sample` becomes `--trace-sample`, with the field's description as its help. A length
`retention_ms` becomes `--retention` and takes `12h`; a field that may be null takes `default`.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec
from msgspec import inspect

from kitemq.commands.command import Run, option, several
from kitemq.commands.times import milliseconds
from kitemq.errors import Invalid

NULL = "default"
LENGTH = "_ms"
NULL_HELP = f'"{NULL}" stands for the broker\'s setting.'


def settings_options(
    kind: type[msgspec.Struct], *, but: Collection[str] = ()
) -> Callable[[Run], Run]:
    """An option for every field of a struct of settings, except those named in `but`."""
    return several(
        *(_made(name, types, text) for name, types, text in _fields(kind) if name not in but)
    )


def _made(name: str, types: tuple[inspect.Type, ...], text: str) -> Callable[[Run], Run]:
    written = _option(name)
    if any(isinstance(each, inspect.BoolType) for each in types):
        return option(f"{written}/--no-{written[2:]}", name, default=None, help=text)
    metavar = "TIME" if name.endswith(LENGTH) else "VALUE"
    return option(written, name, metavar=metavar, help=text)


def settings_of(given: dict[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The settings that were given but for the name, texts converted to their fields' types.

    Invalid names the option with a wrong value.
    """
    values = {
        name: _value(given[name], name, types)
        for name, types, _ in _fields(kind)
        if given.get(name) is not None
    }
    try:
        settings = msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        detail, _, place = str(error).partition(" - at `$.")
        name = place.rstrip("`")
        raise Invalid(
            f"{_option(name)} {given.get(name, '')}: {detail}",
            field=_option(name),
            remedy="correct the value",
        ) from None
    return {name: getattr(settings, name) for name in values if name != "name"}


def _value(value: Any, name: str, types: tuple[inspect.Type, ...]) -> Any:
    if value == NULL and any(isinstance(each, inspect.NoneType) for each in types):
        return None
    is_length = isinstance(value, str) and name.endswith(LENGTH)
    return milliseconds(value, _option(name)) if is_length else value


def _option(name: str) -> str:
    return "--" + name.removesuffix(LENGTH).replace("_", "-")


def _fields(kind: type[msgspec.Struct]) -> Iterator[tuple[str, tuple[inspect.Type, ...], str]]:
    """Each field's name, the types that it may have, and its description."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    for field in info.fields:
        types, texts = _flat(field.type)
        yield field.name, types, " ".join(texts)


def _flat(kind: inspect.Type) -> tuple[tuple[inspect.Type, ...], list[str]]:
    """The members of a union, also of one inside another, and the descriptions on the way."""
    if isinstance(kind, inspect.Metadata):
        types, texts = _flat(kind.type)
        text = (kind.extra_json_schema or {}).get("description")
        return types, [text] if text else texts
    if isinstance(kind, inspect.UnionType):
        parts = [_flat(each) for each in kind.types]
        return sum((part[0] for part in parts), ()), [text for part in parts for text in part[1]]
    return (kind,), []
