"""Bodies as people can read them."""

import json
import sys
import zlib

import msgspec
import pytest

from app.ui.bodies import avro, bodies, protobuf, trees, unpack
from app.ui.bodies.trees import NotDecodable
from engine.compression import plain_body
from tests.app.ui.bodies.containers import PROTOBUF, SYNC, avro_file, long, text


def tried(body: bodies.Body) -> dict[str, bool]:
    return {step.name: step.is_ok for step in body.results}


def test_json_is_shown_as_a_tree_with_its_order_kept() -> None:
    body = bodies.decode(b'{"b": [1, true], "a": null}')
    assert body.view == "json"
    assert body.views == ("json", "pretty", "text", "hex")
    assert body.tree is not None
    assert [node.label for node in body.tree.children] == ["b", "a"]
    assert [node.text for node in body.tree.children[0].children] == ["1", "true"]


def test_text_that_is_no_json_says_why() -> None:
    body = bodies.decode(b"{broken")
    assert body.view == "text"
    assert tried(body) == {
        "text": True,
        "json": False,
        "avro": False,
        "msgpack": False,
        "protobuf": False,
        "hex": True,
    }


def test_bytes_that_are_no_text_are_shown_in_hex_with_the_byte_at_fault() -> None:
    body = bodies.decode(b"ok\xff")
    assert body.views == ("hex",)
    assert body.results[0].detail == "byte 2 (0xff) is not UTF-8"
    assert (body.rows[0].octets, body.rows[0].text) == ("6f 6b ff", "ok.")


def test_a_view_that_does_not_fit_falls_back_to_one_that_does() -> None:
    assert bodies.decode(b"\x00\x01", view="json").view == "hex"


def test_a_large_body_is_cut_and_says_so() -> None:
    body = bodies.decode(b"x" * 300_000)
    assert body.is_cut
    assert body.shown_bytes == len(body.text) == bodies.SHOWN_BYTES_MAX
    assert not bodies.decode(b"x" * 300_000, is_all=True).is_cut


def test_a_cut_never_splits_a_character() -> None:
    body = bodies.decode("ä".encode() * bodies.SHOWN_BYTES_MAX + b"x", view="text")
    assert set(body.text) == {"ä"}


def test_a_tree_is_bounded_in_width_and_depth() -> None:
    wide = bodies.decode(json.dumps(list(range(5000))).encode())
    assert wide.tree_cut
    assert wide.tree is not None
    assert len(wide.tree.children) < trees.NODES_MAX
    deep = bodies.decode(b"[" * 200 + b"]" * 200)
    assert deep.tree_cut
    assert bodies.decode(b"[" * 100_000).view == "text"


def test_a_preview_is_one_line_of_text_or_the_first_bytes() -> None:
    assert bodies.preview(b'{\n  "a": 1\n}') == '{ "a": 1 }'
    assert bodies.preview(b"\x00\xff") == "00 ff"
    assert bodies.preview(b"") == ""
    assert len(bodies.preview(b"y" * 5000)) == bodies.PREVIEW_CHARS + 1


# -- binary forms ------------------------------------------------------------------------------

PEOPLE = [{"name": "Ada", "age": 36}, {"name": "Gräce", "age": None}]


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_an_avro_container_is_read_with_the_schema_it_carries(codec: str) -> None:
    document, is_cut = avro.decode(avro_file(PEOPLE, codec))
    assert document == {"schema": "Person", "codec": codec, "records": PEOPLE}
    assert not is_cut
    assert bodies.decode(avro_file(PEOPLE, codec)).view == "avro"


def test_every_type_of_avro_is_read() -> None:
    schema = {
        "type": "record",
        "name": "All",
        "fields": [
            {"name": "flag", "type": "boolean"},
            {"name": "big", "type": "long"},
            {"name": "half", "type": "double"},
            {"name": "raw", "type": "bytes"},
            {"name": "hash", "type": {"type": "fixed", "name": "Two", "size": 2}},
            {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["A", "B"]}},
            {"name": "again", "type": "Suit"},
            {"name": "list", "type": {"type": "array", "items": "int"}},
            {"name": "map", "type": {"type": "map", "values": "string"}},
            {"name": "next", "type": ["null", "All"]},
        ],
    }
    record = b"".join(
        [
            b"\x01",
            long(-(2**40)),
            b"\x00\x00\x00\x00\x00\x00\xe0\x3f",
            long(2) + b"\xff\x00",
            b"ab",
            long(1),
            long(0),
            long(-2) + long(2) + long(7) + long(-8) + long(0),
            long(1) + text("k") + text("v") + long(0),
            long(0),
        ]
    )
    head = b"Obj\x01" + long(1) + text("avro.schema") + text(json.dumps(schema)) + long(0) + SYNC
    document, _ = avro.decode(head + long(1) + long(len(record)) + record + SYNC)
    assert document["records"] == [
        {
            "flag": True,
            "big": -(2**40),
            "half": 0.5,
            "raw": b"\xff\x00",
            "hash": b"ab",
            "suit": "B",
            "again": "A",
            "list": [7, -8],
            "map": {"k": "v"},
            "next": None,
        }
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\xc3\x01" + bytes(range(8)) + b"x", "schema fingerprint 0706050403020100"),
        (b"\x00\x00\x00\x00\x2a\x06", "schema registry frame, schema 42"),
        (avro_file(PEOPLE)[:-1], "fewer present"),
        (avro_file(PEOPLE)[:-1] + b"x", "sync marker differs from the header's"),
        (avro_file(PEOPLE, "zstandard"), "unsupported block compression: zstandard"),
        (b"Obj\x01\x00" + SYNC, "the schema in the header is not JSON"),
        (b"Obj\x01", "ends inside a value"),
    ],
)
def test_avro_that_cannot_be_read_says_why(body: bytes, reason: str) -> None:
    with pytest.raises(NotDecodable, match=reason):
        avro.decode(body)


def test_no_container_is_too_large_or_too_deep_to_be_looked_at() -> None:
    many, is_cut = avro.decode(avro_file(PEOPLE * 2000))
    assert is_cut
    assert len(many["records"]) < 4000
    body = bodies.decode(avro_file(PEOPLE * 2000))
    assert body.tree_cut
    nested = {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}
    head = b"Obj\x01" + long(1) + text("avro.schema") + text(json.dumps(nested)) + long(0) + SYNC
    with pytest.raises(NotDecodable, match="nested too deeply"):
        avro.decode(head + long(1) + long(0) + SYNC)


def test_without_its_library_an_avro_file_is_shown_in_hex_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "app.ui.bodies.avro_container", raising=False)
    monkeypatch.delattr("app.ui.bodies.avro_container", raising=False)
    monkeypatch.setitem(sys.modules, "fastavro", None)
    body = bodies.decode(avro_file(PEOPLE))
    assert body.view == "hex"
    details = {step.name: step.detail for step in body.results}
    assert "pip install kitemq-server[avro]" in details["avro"]


def test_protobuf_is_read_by_field_number_and_wire_type() -> None:
    assert protobuf.decode(PROTOBUF) == {
        "1 (varint)": 150,
        "2 (text)": "testing",
        "3 (message)": {"1 (varint)": 1},
    }
    assert protobuf.decode(b"\x08\x01\x08\x02\x08\x03") == {"1 (varint)": [1, 2, 3]}
    assert protobuf.decode(b"\x0d\x00\x00\x80\x3f") == {"1 (32-bit)": "1065353216 or 1"}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty"),
        (b"\x0a\x05ab", "5 bytes declared, 2 present"),
        (b"\x00\x01", "number 0"),
        (b"\x0b", "wire type 3"),
        (b"\x08" + b"\xff" * 11, "longer than 10 bytes"),
        (b"\x09\x01", "ends inside a 64-bit value"),
        (b"\x08\x01" * 3000, "more than 2000 fields"),
    ],
)
def test_bytes_that_are_no_protobuf_say_why(body: bytes, reason: str) -> None:
    with pytest.raises(NotDecodable, match=reason):
        protobuf.decode(body)


def test_messagepack_is_shown_where_it_is_a_map_or_an_array_to_the_last_byte() -> None:
    value = {"n": 1, "raw": b"\x00\xff", "ext": msgspec.msgpack.Ext(5, b"\x01")}
    body = bodies.decode(msgspec.msgpack.encode(value))
    assert body.view == "msgpack"
    assert body.tree is not None
    assert [node.text for node in body.tree.children] == [
        "1",
        "2 bytes: 00 ff",
        "extension 5: 1 byte: 01",
    ]
    assert bodies.decode(msgspec.msgpack.encode(value) + b"\xc1").view != "msgpack"
    assert bodies.decode(b"\xa5\xff").view == "hex"


def test_compressed_bodies_are_unpacked_or_named() -> None:
    packed = bodies.decode(zlib.compress(b"hello " * 100))
    assert (packed.view, packed.packing, packed.size_bytes) == ("text", "zlib", 600)
    assert packed.results[0] == bodies.DecoderResult(
        "compression", True, f"zlib, {packed.stored_bytes} bytes to 600"
    )
    for magic, kind in ((b"\x28\xb5\x2f\xfd", "zstd"), (b"\x04\x22\x4d\x18", "lz4")):
        body = bodies.decode(magic + b"\xff\x00rest")
        assert (body.view, body.results[0].is_ok) == ("hex", False)
        assert kind in body.results[0].detail
    flagged = unpack.unpack(plain_body(b"\xff\x01", 0x1 | 1 << 8, bytes_max=1000))
    assert (flagged.kind, flagged.is_unpacked) == ("lz4", False)


def test_a_small_body_cannot_unpack_to_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "UNPACKED_BYTES_MAX", 1000)
    bomb = unpack.unpack(zlib.compress(b"x" * 100_000))
    assert len(bomb.body) == 1000
    assert "only the first" in bomb.detail
    cut = unpack.unpack(zlib.compress(bytes(range(256)))[:-3])
    assert (cut.is_unpacked, "truncated" in cut.detail) == (False, True)


@pytest.mark.parametrize("length", range(1, 24))
def test_no_bytes_make_a_decoder_fail(length: int) -> None:
    for start in (b"", b"Obj\x01", b"\x81", b"\x0a", b"\x1f\x8b", b"\xc3\x01"):
        for step in range(64):
            body = start + bytes((step * 37 + place * 101) % 256 for place in range(length))
            assert bodies.decode(body).views[-1] == "hex"
