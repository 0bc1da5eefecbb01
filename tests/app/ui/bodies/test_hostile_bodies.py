"""Bodies made on purpose: each is shown as something, and as text that can be sent."""

import json
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.ui.bodies import bodies, json_text
from app.ui.bodies.trees import NotDecodable
from tests.app.ui import page_context
from tests.app.ui.bodies.containers import SYNC, container, long, text

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
WORDS = ("record", "enum", "fixed", "array", "map", "union", "null", "int", "string", "bytes", "R")
KEYS = ("type", "name", "namespace", "fields", "symbols", "size", "items", "values", "aliases")
# What nearly is a schema: its words in places where they make no sense.
SCHEMAS = st.recursive(
    JSON_VALUES | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS), inner | st.sampled_from(WORDS), max_size=6)
    ),
    max_leaves=16,
)
ODD_SCHEMAS: tuple[Any, ...] = (
    None, True, 7, 1.5, "", "nothing", [], [[]], {}, {"type": None}, {"type": []}, {"type": {}},
    {"type": "record"}, {"type": "record", "fields": 7}, {"type": "record", "fields": [7]},
    {"type": "record", "fields": [{}]}, {"type": "record", "fields": [{"name": "a"}]},
    {"type": "record", "fields": {"a": "int"}}, {"type": "record", "name": [], "fields": []},
    {"type": "record", "name": {}, "fields": []}, {"type": "enum"}, {"type": "enum", "symbols": 3},
    {"type": "enum", "symbols": {"a": 1}}, {"type": "fixed"}, {"type": "fixed", "size": "x"},
    {"type": "fixed", "size": -1}, {"type": "fixed", "size": 1e300}, {"type": "fixed", "size": []},
    {"type": "array"}, {"type": "array", "items": None}, {"type": "array", "items": 7},
    {"type": "map"}, {"type": "map", "values": {}}, {"type": ["null", 7]},
    {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]},
    {"type": "record", "name": "\ud800", "fields": [{"name": "\udfff", "type": "int"}]},
    {"type": "enum", "name": "E", "symbols": ["\ud800"]}, "\ud800", {"name": "\ud800"},
)  # fmt: skip


@dataclass(frozen=True)
class Page:
    body: bodies.Body


def decode_for_pages(body: bytes) -> bodies.Body:
    """The body as a page and its twin show it."""
    decoded = bodies.decode(body)
    for view in decoded.views:
        page_context.encoded(Page(bodies.decode(body, view=view))).decode()
        str(bodies.decode(body, view=view)).encode()
    for read in (bodies.line, bodies.document):
        for view in ("json", "avro", "msgpack", "protobuf", "text"):
            _readable(read, body, view)
    bodies.preview(body).encode()
    return decoded


def _readable(read: Callable[..., Any], body: bytes, view: str) -> None:
    try:
        value = read(body, view)
    except NotDecodable:
        return
    (value if isinstance(value, str) else str(value)).encode()


@pytest.mark.parametrize("schema", ODD_SCHEMAS, ids=lambda schema: ascii(schema)[:60])
def test_an_odd_avro_schema_is_a_reason_and_no_failure(schema: Any) -> None:
    decode_for_pages(container(schema, b"\x02" * 40, count=3))


def record_of(name: str, *types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{at}", "type": kind} for at, kind in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def bomb(size_bytes: int, blocks: int = 1) -> bytes:
    """A container whose blocks of zeros, each one value of bytes, are much larger inflated."""
    one = container("bytes", long(size_bytes) + bytes(size_bytes), "deflate", count=1)
    header_bytes = one.index(SYNC) + len(SYNC)
    return one + one[header_bytes:] * (blocks - 1)


DOUBLING = [record_of("R0")] + [record_of(f"R{n}", f"R{n - 1}", f"R{n - 1}") for n in range(1, 60)]
HOSTILE_CONTAINERS = {
    "many nulls": container({"type": "array", "items": "null"}, long(2**62), count=1),
    "many empty records": container(record_of("R"), b"", count=2**62),
    "wide empty records": container(
        record_of("W", *(record_of(f"R{n}") for n in range(2_000))), b"", count=2**62
    ),
    "doubling records": container(DOUBLING, long(59), count=1),
    "a record of itself": container(record_of("R", "R"), b"", count=1),
    "a long list": container(record_of("R", ["null", "R"]), b"\x02" * 200_000, count=1),
    "a long number": container("long", b"\xff" * 200_000, count=1),
    "a size below zero": container("string", long(-5), count=1),
    "a large block": bomb(50_000_000),
    "many blocks": bomb(1_000_000, 200),
    "a schema said to be parsed": container(
        record_of("R", "int") | {"__fastavro_parsed": True, "__named_schemas": {"R": 7}},
        long(1),
        count=1,
    ),
}


@pytest.mark.parametrize("body", HOSTILE_CONTAINERS.values(), ids=HOSTILE_CONTAINERS)
def test_a_hostile_avro_container_costs_little_time_and_memory(body: bytes) -> None:
    assert len(body) < bodies.TREE_BYTES_MAX
    decode_for_pages(body)
    began_s = time.process_time()
    tracemalloc.start()
    try:
        bodies.decode(body)
        assert tracemalloc.get_traced_memory()[1] < 32 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert time.process_time() - began_s < 2


@settings(deadline=None)
@given(SCHEMAS, st.binary(max_size=60), st.integers(-3, 3))
def test_whatever_an_avro_file_says_it_is_shown(schema: Any, records: bytes, count: int) -> None:
    decode_for_pages(container(schema, records, count=count))


@pytest.mark.parametrize(
    ("body", "tree_text"),
    [
        (rb'["\ud800"]', r'"\\ud800"'),
        (rb'["a\udfffb"]', r'"a\\udfffb"'),
        (rb'["\ud83d\ude00"]', '"\U0001f600"'),
        (rb'["\\ud800"]', r'"\\ud800"'),
        (rb'["\ud800\u0041"]', r'"\\ud800A"'),
        (b'["\xed\xa0\x80"]', None),  # not even UTF-8
        (b"[NaN]", "NaN"),
        (b"[1e999]", "Infinity"),
        (b"[" + b"9" * 4000 + b"]", "9" * 4000),
        (b"[" + b"9" * 5000 + b"]", None),  # longer than Python reads
        (b"[" * 5000, None),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, None),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_odd_json_is_shown_as_a_tree_or_as_text(body: bytes, tree_text: str | None) -> None:
    decoded = decode_for_pages(body)
    if tree_text is None:
        assert decoded.tree is None
    else:
        assert decoded.tree is not None
        assert decoded.tree.children[0].text == tree_text


def test_a_lone_surrogate_in_a_name_is_shown_as_it_was_written() -> None:
    decoded = decode_for_pages(rb'{"\udead": 1, "\\udead": 2}')
    assert decoded.tree is not None
    assert [node.label for node in decoded.tree.children] == [r"\udead"]
    assert json_text.loads(rb'["\\\ud800"]') == ["\\\\ud800"]


@settings(deadline=None)
@given(JSON_VALUES)
def test_json_without_lone_surrogates_is_read_as_by_everybody(value: Any) -> None:
    data = json.dumps(value).encode()
    assert repr(json_text.loads(data)) == repr(json.loads(data))


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_shown(body: bytes) -> None:
    decode_for_pages(body)


@settings(deadline=None)
@given(st.sampled_from([b"\x81", b"\x91", b"\xde", b"\xdc", b"\x1f\x8b", b"\x78\x9c", b"Obj\x01"]),
       st.binary(max_size=60))  # fmt: skip
def test_what_only_begins_like_a_format_is_shown(begin: bytes, rest: bytes) -> None:
    decode_for_pages(begin + rest)


@settings(deadline=None)
@given(JSON_VALUES)
def test_any_messagepack_is_shown(value: Any) -> None:
    try:
        body = msgspec.msgpack.encode([value])
    except (OverflowError, ValueError):
        return
    decode_for_pages(body)


def test_a_union_that_names_itself_ends() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": ["R", "null"]}]}
    decode_for_pages(container(schema, long(0) * 100 + text("x"), count=1))
