"""Forms and queries parsed by typed structs."""

from enum import StrEnum
from typing import Annotated, Literal

import pytest
from msgspec import Meta
from starlette.datastructures import QueryParams

from app.ui.framework import typed_forms, zones
from app.ui.framework.forms import Posted
from app.ui.framework.typed_forms import Fields, InvalidField, Moment, Verbatim


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def percent(text: str) -> float | None:
    """A share as a test's form has it."""
    if not text:
        return None
    if not text.isdecimal():
        raise InvalidField("That is no percentage.")
    return int(text) / 100


class Sample(Fields, frozen=True, rename={"from_ms": "from"}):
    name: Annotated[str, Meta(max_length=5)] = ""
    body: Verbatim = ""
    count: Annotated[int, Meta(title="Count", ge=1, le=1000)] = 10
    days: Annotated[int | None, Meta(title="Days", ge=1, le=30)] = None
    colour: Annotated[Colour, Meta(title="Colour")] = Colour.BLUE
    paint: Annotated[Colour | None, Meta(title="Paint")] = None
    size: Annotated[Literal[25, 50], Meta(title="Size")] = 50
    from_ms: Moment | None = None
    share: Annotated[float | None, percent] = None
    is_open: bool = False
    zone: str = ""
    topic: tuple[str, ...] = ()


TEXTS = {
    "name": "  longer ", "body": " as typed\n", "count": " 12 ", "days": "", "colour": "red",
    "paint": "blue", "size": "25", "from": "2026-11-20T14:30", "share": "25", "is_open": "yes",
    "zone": "Europe/Berlin",
}  # fmt: skip


def posted(**changes: str) -> Posted:
    """A form as a browser sends it."""
    values = {name: [text] for name, text in {**TEXTS, **changes}.items()}
    return Posted(values | {"topic": ["orders", "bills", "orders"]})


def test_each_field_has_the_value_that_its_annotation_names() -> None:
    form, fields = typed_forms.read(posted(), Sample)
    assert not form.is_wrong
    assert fields == Sample(
        name="longe", body=" as typed\n", count=12, colour=Colour.RED, paint=Colour.BLUE, size=25,
        from_ms=1_795_181_400_000, share=0.25, is_open=True, zone="Europe/Berlin",
        topic=("orders", "bills"),
    )  # fmt: skip


def test_times_are_shown_in_the_zone_of_the_page() -> None:
    form, __ = typed_forms.read(posted(), Sample, zones.UTC_ZONE)
    assert form.values["from"] == "2026-11-20T13:30:00"
    assert form.values["zone"] == "UTC"
    form, __ = typed_forms.read(posted(), Sample, zones.Zone("Europe/Berlin"))
    assert form.values["from"] == "2026-11-20T14:30:00"
    assert form.values["zone"] == "Europe/Berlin"


def test_every_invalid_field_has_its_error_and_keeps_its_text() -> None:
    invalid = {
        "count": "1001", "days": "soon", "colour": "green", "paint": "grey", "size": "30",
        "from": "yesterday", "share": "half",
    }  # fmt: skip
    form, __ = typed_forms.read(posted(**invalid), Sample)
    assert form.errors == {
        "count": "Count must be a whole number from 1 to 1,000.",
        "days": "Days must be a whole number from 1 to 30.",
        "colour": "Colour must be one of: red, blue.",
        "paint": "Paint must be one of: , red, blue.",
        "size": "Size must be one of: 25, 50.",
        "from": "Invalid time. Use the format 2026-11-20T14:30, in the time zone Europe/Berlin.",
        "share": "That is no percentage.",
    }
    assert {name: form.values[name] for name in invalid} == invalid


def test_a_missing_field_of_a_form_is_an_error_where_it_must_be_there() -> None:
    form, fields = typed_forms.read(Posted({}), Sample)
    assert set(form.errors) == {"count", "colour", "size"}
    assert fields.paint is None
    assert fields.topic == ()


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", Sample()),
        ("count=7&size=25&colour=red", Sample(count=7, size=25, colour=Colour.RED)),
        ("count=0&size=26&colour=green&from=then&share=x&days=", Sample()),
        ("topic=a&topic=b&topic=a&name=+abcdefgh", Sample(topic=("a", "b"), name="abcde")),
    ],
)
def test_an_invalid_field_of_a_query_has_its_default(text: str, fields: Sample) -> None:
    assert typed_forms.query(QueryParams(text), Sample) == fields
