"""Counting the values of a JSON text before it is decoded."""

import json
import struct

import pytest

from kitemq.protocol.columns import EACH, ENTRIES_MAX, SAME, ProtocolError, take_maps
from kitemq.protocol.json_values import SMALL_BYTES, VALUES_MAX, has_too_many_values

MANY = VALUES_MAX + 10


@pytest.mark.parametrize(
    "text",
    [
        "[" + ",".join(["{}"] * MANY) + "]",
        "[" + ",".join(["1"] * (VALUES_MAX * 2)) + "]",
        "[" + ",".join(['"a"'] * MANY) + "]",
        "{" + ",".join(f'"k{number}":"v"' for number in range(MANY)) + "}",
        "[" * (SMALL_BYTES + MANY),
        "[" + ",".join([r'"\\\\"'] * MANY) + "]",
        "[" + ",".join([r'"\""'] * MANY) + "]",
        json.dumps([{"body": "a", "keys": ["k"]}] * MANY),
    ],
    ids=range(8),
)
def test_a_text_of_nothing_but_values_has_too_many(text: str) -> None:
    assert has_too_many_values(text.encode())


@pytest.mark.parametrize(
    "value",
    [
        "a,[{" * 2_000_000,
        json.dumps([{"a": [1, 2]}] * 200_000),  # a document within a string
        ["\\" * 1_000_000, '"' * 1_000_000, '\\",[{' * 1_000_000],
        [{"body": "a" * 4000, "tag": "t", "properties": {"p": "v"}}] * 1000,
        "\u00fc\U0001f600" * 500_000,
    ],
    ids=range(5),
)
def test_large_strings_are_few_values(value: object) -> None:
    assert not has_too_many_values(json.dumps(value).encode())
    assert not has_too_many_values(json.dumps(value, ensure_ascii=False).encode())


def test_what_is_small_is_never_counted() -> None:
    assert not has_too_many_values(b"[" * SMALL_BYTES)


def maps_column(form: int, document: object) -> bytes:
    packed = json.dumps(document, separators=(",", ":")).encode()
    return bytes([form]) + struct.pack(">I", len(packed)) + packed


def test_a_map_for_all_messages_is_not_copied_into_gigabytes() -> None:
    shared = {f"k{number}": "" for number in range(5_000)}
    with pytest.raises(ProtocolError, match="entries"):
        take_maps(maps_column(SAME, shared), 0, 4096)
    maps, __ = take_maps(maps_column(SAME, shared), 0, 3)
    assert maps == [shared] * 3


def test_a_column_of_very_many_entries_is_refused_before_it_is_decoded() -> None:
    large = {f"k{number}": "" for number in range(ENTRIES_MAX + 10)}
    for column in (maps_column(SAME, large), maps_column(EACH, [large])):
        with pytest.raises(ProtocolError, match="entries"):
            take_maps(column, 0, 1)


def test_a_full_frame_with_many_properties_is_taken() -> None:
    each = [{f"k{number}": "v" for number in range(40)}] * 4096
    maps, __ = take_maps(maps_column(EACH, each), 0, 4096)
    assert maps == each
