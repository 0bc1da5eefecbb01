"""Trace records: what goes in comes out, keys lead to every message, damage is told."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import Corrupt
from engine.trace.record import (
    BLOCK_SHIFT,
    HEAD,
    KEYS_BYTES_MAX,
    NAMED_MAX,
    TraceColumns,
    TraceRecordBuilder,
    block_key,
    decode,
    message_key,
    rows_about,
    rows_of_id,
)
from engine.trace.rows import Row, RowKind

NOW_MS = 1_700_000_000_000


def row(first=0, count=1, *, topic="t", queue=0, kind=RowKind.ACKED, at_ms=NOW_MS, **fields):
    return Row(kind, at_ms, fields.pop("group", "g"), topic, queue, first, count, **fields)


def record_of(rows, bytes_max=1 << 17):
    builder = TraceRecordBuilder(bytes_max)
    assert all(builder.add(each) for each in rows)
    return builder.message()


text = st.text(max_size=20).map(lambda each: each.encode(errors="replace").decode())
big = st.integers(0, 2**63 - 1)
rows = st.lists(
    st.builds(
        Row,
        kind=st.sampled_from([int(kind) for kind in RowKind]),
        at_ms=st.integers(NOW_MS, NOW_MS + 2**32 - 1),
        group=text,
        topic=st.text("abc%_-", min_size=1, max_size=30),
        queue=st.integers(-1, 1023),
        first=st.integers(-1, 2**62),
        message_count=st.integers(1, 4096),
        client=text,
        attempt=st.integers(0, 65535),
        wait_ms=st.integers(0, 2**32 - 1),
        born_ms=big,
        stored_ms=big,
        detail=text,
        message_id=st.text("abc019", max_size=32),
        sample=st.integers(1, 10_000),
    ),
    min_size=1,
    max_size=30,
)


@given(rows)
def test_what_goes_in_comes_out(rows):
    rows[0] = rows[0]._replace(at_ms=NOW_MS)
    assert decode(record_of(rows).body) == rows


@given(rows)
def test_the_keys_lead_to_every_message(rows):
    rows[0] = rows[0]._replace(at_ms=NOW_MS)
    keys = set(record_of(rows).keys)
    for each in rows:
        if each.first < 0:
            assert each.message_id in keys or not each.message_id
            continue
        for offset in (each.first, each.first + each.message_count - 1):
            place = (each.topic, each.queue, offset)
            assert {message_key(*place), block_key(*place)} & keys


def test_few_messages_of_a_block_are_named_and_many_are_one_key():
    few = record_of([row(offset * 2) for offset in range(NAMED_MAX)])
    assert sorted(few.keys) == sorted(message_key("t", 0, 2 * each) for each in range(NAMED_MAX))
    many = record_of([row(offset * 2) for offset in range(NAMED_MAX + 1)])
    assert many.keys == (block_key("t", 0, 0),)
    run = record_of([row(1000, 2048)])
    assert {key for key in run.keys if "+" in key} == {"t@0+1", "t@0+2"}
    assert {key for key in run.keys if "+" not in key} == {
        f"t@0@{each}" for each in range(1000, 1024)
    }
    assert 1 << BLOCK_SHIFT == 1024


def test_rows_about_one_message_are_told_from_those_about_its_neighbours():
    rows = [row(0, 10), row(5), row(5, queue=1), row(5, topic="u"), row(6), row(-1, message_id="X")]
    columns = TraceColumns(record_of(rows).body)
    assert rows_about(columns, "t", 0, 5) == [rows[0], rows[1]]
    assert rows_about(columns, "nowhere", 0, 5) == []
    assert rows_of_id(columns, "X") == [rows[5]]
    assert rows_of_id(columns, "Y") == []


@pytest.mark.parametrize("topic", ["t", "%RETRY%" + "g" * 120])
def test_a_record_stays_within_its_bounds(topic):
    builder, taken = TraceRecordBuilder(8 * 1024), 0
    while builder.add(row(taken * 5000, topic=topic, detail=str(taken), client="c" * 200)):
        taken += 1
    message = builder.message()
    assert 10 < taken < 200
    assert len(zlib.decompress(message.body[HEAD.size :])) < 8 * 1024 + 1000
    assert sum(map(len, message.keys)) < KEYS_BYTES_MAX * 2


def test_keys_alone_fill_a_record_too():
    builder, taken = TraceRecordBuilder(1 << 20), 0
    while builder.add(row(taken * 5000, topic="t" * 120)):
        taken += 1
    assert sum(len(key) + 1 for key in builder.message().keys) <= KEYS_BYTES_MAX + 200


def test_a_row_before_the_first_begins_another_record():
    builder = TraceRecordBuilder(1 << 17)
    assert builder.add(row(1))
    assert not builder.add(row(2, at_ms=NOW_MS - 1))


def test_text_that_is_no_unicode_is_kept_readable():
    assert decode(record_of([row(detail="half \ud800")]).body)[0].detail == "half ?"


def test_what_is_no_trace_record_is_told():
    body = record_of([row(1), row(2)]).body
    wrong_count = struct.pack(">4sIqI", b"KTR1", 3, NOW_MS, 1) + body[HEAD.size :]
    bomb = HEAD.pack(b"KTR1", 1, NOW_MS, 5) + zlib.compress(bytes(50_000_000))
    for bad in (b"", b"text", b"XXXX" + body[4:], body[:-1], wrong_count, bomb):
        with pytest.raises(Corrupt):
            decode(bad)
