"""Forms and queries of pages parsed by typed structs: the annotation of a field says how.

    class TopicFields(Fields, frozen=True):
        name: str
        queues: Annotated[int, Meta(title=N_("Read queues"), ge=1, le=1024)]
        durability: Annotated[Durability | None, Meta(title=N_("Accepted means"))]
        before: Moment | None
        retention: Annotated[int | None, parse_retention] = None

A text loses the spaces around it and what exceeds `max_length`, unless it is `Verbatim`. An enum
or a Literal is a choice, a bool is true for any text, a tuple holds each value of its name once.
`| None` takes an empty text as None. A callable parses the text itself; it raises InvalidField, and
then the field has its default.
"""

import functools
import types
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta
from starlette.datastructures import QueryParams

from app.ui.framework.forms import Form, Posted
from app.ui.framework.language import translated
from app.ui.framework.zones import UTC_ZONE, Zone

Reader = Callable[[Form, str, Zone], Any]

NUMBER_MAX = 10**18 - 1
ZONE = "zone"  # the field that names the zone of a form's times


class Fields(msgspec.Struct, frozen=True):
    """The fields of a form or a query."""


class InvalidField(ValueError):
    """The text of a field is invalid; the error's text is the sentence for the user."""


T = TypeVar("T", bound=Fields)

Moment = Annotated[int, "moment"]  # ms since 1970, typed in the zone of the form's field `zone`
Verbatim = Annotated[str, str]  # a text as it was typed


def fill(values: Posted | Mapping[str, str], shape: type[Fields]) -> Form:
    """A form with the texts of the fields of `shape`; "" for those that are missing."""
    get = values.one if isinstance(values, Posted) else values.get
    form = Form({})
    for info in msgspec.structs.fields(shape):
        name = info.encode_name
        if get_origin(info.type) is tuple:
            form.lists[name] = _all(values, name)
        else:
            form.values[name] = get(name, "")
    return form


def read(
    values: Posted | Mapping[str, str], shape: type[T], zone: Zone | None = None
) -> tuple[Form, T]:
    """The form and its parsed fields, with an error at each field that is invalid.

    Times are rewritten in `zone`, which the page names beside them; other forms need none.
    """
    form = fill(values, shape)
    return form, parse(form, shape, zone)


def parse(form: Form, shape: type[T], zone: Zone | None = None) -> T:
    """The parsed fields of `shape`, of a form that may have others."""
    fields = shape(
        **{
            name: read(form, text_name, zone or UTC_ZONE)
            for name, text_name, read in _readers(shape)
        }
    )
    if zone is not None and ZONE in form.values:
        form.values[ZONE] = zone.name
    return fields


def query(values: Mapping[str, str], shape: type[T], zone: Zone = UTC_ZONE) -> T:
    """The fields of a query; an invalid or a missing one has its default, as people edit links."""
    form = fill(values, shape)
    parsed = [
        (name, text_name, read(form, text_name, zone))
        for name, text_name, read in _readers(shape)
        if text_name in values
    ]
    return shape(
        **{name: value for name, text_name, value in parsed if text_name not in form.errors}
    )


def _all(values: Posted | Mapping[str, str], name: str) -> tuple[str, ...]:
    """Each of the texts with this name once; none of a mapping that has one text by name."""
    if isinstance(values, Posted):
        return tuple(dict.fromkeys(values.values.get(name, ())))
    return tuple(dict.fromkeys(values.getlist(name))) if isinstance(values, QueryParams) else ()


@functools.cache
def _readers(shape: type[Fields]) -> list[tuple[str, str, Reader]]:
    """The name of each field, its name in the form, and what parses it there."""
    return [
        (info.name, info.encode_name, _reader(info.type, info.default))
        for info in msgspec.structs.fields(shape)
    ]


def _reader(annotation: Any, default: object) -> Reader:
    kind, notes, is_optional = _taken_apart(annotation)
    meta = next((note for note in notes if isinstance(note, Meta)), Meta())
    parser: Any = next(filter(callable, notes), None)
    choices = _choices(kind)
    if parser is not None:
        return _custom_reader(parser, default)
    if get_origin(kind) is tuple:
        return _list
    if choices:
        return _choice_reader(meta.title or "", {"": None} | choices if is_optional else choices)
    reader: Reader = _flag if kind is bool else _text_reader(meta.max_length)
    if kind is int:
        reader = _moment if "moment" in notes else _number_reader(meta)
    return _optional(reader) if is_optional else reader


def _taken_apart(annotation: Any) -> tuple[Any, tuple[object, ...], bool]:
    """The type without None, the notes of Annotated at it, and whether None is allowed."""
    notes: tuple[object, ...] = ()
    is_optional = False
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            notes = (*notes, *more)
        elif get_origin(annotation) in (Union, types.UnionType):
            annotation = next(each for each in get_args(annotation) if each is not type(None))
            is_optional = True
        else:
            return annotation, notes, is_optional


def _choices(kind: Any) -> dict[str, object]:
    """The values of an enum or a Literal by their texts."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {str(each.value): each for each in kind}
    return {str(each): each for each in get_args(kind)} if get_origin(kind) is Literal else {}


def _choice_reader(title: str, choices: Mapping[str, object]) -> Reader:
    def read(form: Form, name: str, zone: Zone) -> object:
        return choices[form.choice(name, translated(title), tuple(choices))]

    return read


def _number_reader(meta: Meta) -> Reader:
    low = int(meta.ge or 0)
    high = NUMBER_MAX if meta.le is None else int(meta.le)

    def read(form: Form, name: str, zone: Zone) -> int:
        return form.number(name, translated(meta.title or ""), low, high)

    return read


def _text_reader(max_length: int | None) -> Reader:
    def read(form: Form, name: str, zone: Zone) -> str:
        form.values[name] = form.values[name].strip()[:max_length]
        return form.values[name]

    return read


def _custom_reader(parser: Callable[[str], object], default: object) -> Reader:
    def read(form: Form, name: str, zone: Zone) -> object:
        try:
            return parser(form.values[name])
        except InvalidField as error:
            form.refuse(name, str(error))
            return default

    return read


def _optional(reader: Reader) -> Reader:
    def read(form: Form, name: str, zone: Zone) -> object:
        return reader(form, name, zone) if form.values[name].strip() else None

    return read


def _moment(form: Form, name: str, zone: Zone) -> int:
    return form.moment(name, form.values.get(ZONE, ""), zone) or 0


def _list(form: Form, name: str, zone: Zone) -> tuple[str, ...]:
    return form.lists[name]


def _flag(form: Form, name: str, zone: Zone) -> bool:
    return bool(form.values[name])
