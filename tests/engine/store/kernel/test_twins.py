"""The twins of the kernel: the same answers and bytes for anything that a batch may hold."""

import struct
from array import array
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import Corrupt
from engine.host import unpack_host
from engine.message import Message, StoredMessage
from engine.message_columns import BatchColumns
from engine.plain_columns import batch_columns
from engine.store import kernel, record
from engine.store.consume_queue import ConsumeQueue
from engine.store.decoding import decode_run
from engine.store.encode import EncodedBatch, Encoder
from engine.store.kernel import RecordColumns, pure
from engine.store.record import OWN, SHARED_V4, decode
from protocol.remoting.batches import BatchMessage, encode_batch
from tests.engine.store.kernel.twins import FUNCTIONS, TWINS, using

COUNT_MAX = 6
HURTS = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=2)
ascii_text = st.text(st.characters(max_codepoint=0x7F), max_size=12)
key_text = st.lists(st.text("abz09~!", min_size=1, max_size=4), max_size=4).map(" ".join)
i64 = st.integers(-(1 << 63), (1 << 63) - 1)
SIZES = (1, 15, 16, 17, 63, 64, 65, 79, 80, 127, 128, 129, 255, 256, 1000, 4100)


@st.composite
def columns(draw: st.DrawFn, *, is_good: bool) -> tuple[bytes, int, list[int]]:
    """Columns behind some bytes that are not theirs: the data, the count, where each begins."""
    count = draw(st.integers(1, COUNT_MAX))

    def each(values: st.SearchStrategy[object]) -> list:  # type: ignore[type-arg]
        return draw(st.lists(values, min_size=count, max_size=count))

    data = draw(st.binary(max_size=9))
    sizes = each(st.sampled_from(SIZES) if is_good else st.integers(0, 3))
    bodies_at = len(data)
    data += struct.pack(f">{count}I", *sizes) + b"".join(
        draw(st.randoms()).randbytes(size) for size in sizes
    )
    starts = [bodies_at]
    texts = (st.text("abc~!", max_size=9), key_text) if is_good else (ascii_text, ascii_text)
    for text in texts:
        if draw(st.booleans()):
            values = each(text)
            starts.append(len(data))
            packed = [value.encode() for value in values]
            data += struct.pack(f">{count}H", *map(len, packed)) + b"".join(packed)
        else:
            starts.append(-1)
    flags = st.integers(-(1 << 31), (1 << 31) - 1) if is_good else i64
    for numbers in (flags, st.integers(0, (1 << 63) - 1) if is_good else i64):
        if draw(st.booleans()):
            starts.append(len(data))
            data += struct.pack(f">{count}q", *each(numbers))
        else:
            starts.append(-1)
    ids = st.text("abZ09", min_size=1, max_size=9) if is_good else ascii_text
    for text in (ids, st.text("ab\u00fc\x01\x02", max_size=12)):
        if draw(st.booleans()):
            packed = [value.encode() for value in each(text)]
            starts.append(len(data))
            data += struct.pack(f">{count}H", *map(len, packed)) + b"".join(packed)
        else:
            starts.append(-1)
    return data + draw(st.binary(max_size=3)), count, starts


@st.composite
def batches(draw: st.DrawFn) -> RecordColumns:
    data, count, starts = draw(columns(is_good=True))
    keys = draw(st.lists(st.integers(0, 0x7FFFFFFF), max_size=3))
    is_v6 = draw(st.booleans())
    return RecordColumns(
        data,
        count,
        *starts,
        position=draw(st.integers(0, 1 << 50)),
        first_offset=draw(st.integers(0, 1 << 50)),
        magic=-626843481,
        queue=draw(st.integers(0, 1 << 20)),
        flag=draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        tag_code=draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        born_ms=draw(st.integers(0, 1 << 45)),
        shared=draw(st.binary(min_size=56 if is_v6 else 44, max_size=56 if is_v6 else 44)),
        topic_field=b"\x06orders",
        id_prefix=draw(st.text("ABC019", min_size=1, max_size=40)).encode(),
        id_first=draw(st.integers(-1, (1 << 32) - COUNT_MAX)),
        tag=draw(st.sampled_from((b"", b"TAGS\x01a\x02", "TAGS\x01ü\x02".encode()))),
        keys=draw(st.sampled_from((b"", b"KEYS\x01k1 k2\x02"))),
        properties=draw(st.sampled_from((b"", b"colour\x01blue\x02"))),
        topic_hash=draw(st.integers(0, 0xFFFFFFFF)),
        key_hashes=array("I", keys).tobytes(),
    )


@given(batch=batches())
def test_both_encode_a_batch_to_the_same_bytes(batch: RecordColumns) -> None:
    expected = tuple(pure.encode_records(batch))
    for twin in TWINS.values():
        assert tuple(twin.encode_records(batch)) == expected


@given(drawn=st.one_of(columns(is_good=True), columns(is_good=False)))
@settings(max_examples=300)
def test_both_find_the_same_batches_plain(drawn: tuple[bytes, int, list[int]]) -> None:
    data, count, starts = drawn
    given = (data, count, *starts, 1000, 6, 12, 3, 8, 20)
    answers = {twin.are_plain(*given) for twin in TWINS.values()}
    assert len(answers) == 1


PROPERTY_TEXTS = st.lists(
    st.sampled_from(
        (
            "UNIQ_KEY\x01A1", "UNIQ_KEY\x01A1", "UNIQ_KEY\x01B2", "UNIQ_KEY\x01a-b", "WAIT\x01true",
            "WAIT\x01false", "TAGS\x01a", "TAGS\x01a|b", "TAGS\x01\u00e9", "KEYS\x01k1 k2",
            "KEYS\x01k1  k2", "KEYS\x01 k", "colour\x01blue", "\u00fc\x01\u00df", "n\x01\u00df1",
            "DELAY\x013", "a\x01", "\x01b", "c", "", "d\x01e\x01f", "g\x01\0h", " \x01i", "j\x01\t",
            "name\x01a longer value",
        )
    ),
    max_size=6,
).map("\x02".join)  # fmt: skip


@st.composite
def sent_batches(draw: st.DrawFn) -> bytes:
    """Batches of the classic protocol: mostly plain messages, some of them damaged."""
    plain = st.sampled_from(("UNIQ_KEY\x01A1\x02", "KEYS\x01k\x02n\x01v\x02UNIQ_KEY\x01B2"))
    message = st.builds(
        BatchMessage,
        st.sampled_from((0, 0, 1, -1, (1 << 31) - 1, -(1 << 31))),
        st.binary(max_size=9),
        plain | PROPERTY_TEXTS,
    )
    batch = bytearray(encode_batch(draw(st.lists(message, max_size=6))))
    for place, value in draw(HURTS):
        if batch:
            batch[place % len(batch)] = value
    return bytes(batch[: len(batch) - draw(st.sampled_from((0, 0, 0, 1, 9)))])


@given(batch=sent_batches(), start=st.sampled_from((0, 0, 0, 3)))
@settings(max_examples=500)
def test_both_make_the_same_columns_of_a_batch(batch: bytes, start: int) -> None:
    start = min(start, len(batch))
    limits = (start, 5, 8, 6, 12, 2, 2, 20, frozenset((b"DELAY", b"WAIT")))
    expected = pure.batch_columns(batch, *limits)
    for twin in TWINS.values():
        assert BatchColumns(*twin.batch_columns(batch, *limits)) == expected


@pytest.mark.parametrize("name", TWINS)
def test_columns_of_a_batch_end_before_the_first_message_that_is_special(name: str) -> None:
    texts = ("UNIQ_KEY\x01A1\x02WAIT\x01true\x02", "x\x01y\x02UNIQ_KEY\x01B2", "DELAY\x013\x02")
    messages = [BatchMessage(7, b"body", text) for text in (*texts, texts[0])]
    batch = encode_batch(messages)
    with using(name):
        found = batch_columns(batch)
        rest = batch_columns(batch, len(encode_batch(messages[:3])))
        special = batch_columns(batch, found.end)
    assert (found.message_count, found.body_bytes) == (2, 8)
    assert found.end == len(encode_batch(messages[:2]))
    assert found.data[found.ids_at :].startswith(b"\0\2\0\2A1B2")
    assert found.data[found.properties_at :].startswith(b"\0\0\0\4x\x01y\x02")
    assert (found.tags_at, found.keys_at) == (-1, -1)
    assert (rest.message_count, rest.end) == (1, len(batch))
    assert (special.message_count, special.end) == (0, found.end)


@given(
    items=st.lists(
        st.tuples(st.integers(0, 0x7FFFFFFF), st.integers(0, 1 << 60)), min_size=1, max_size=20
    ),
    slot_count=st.integers(1, 9),
    seconds=st.integers(0, 0x7FFFFFFF),
    number=st.integers(1, 1 << 20),
)
def test_both_chain_the_same_items(
    items: list[tuple[int, int]], slot_count: int, seconds: int, number: int
) -> None:
    hashes, places = array("I", [row[0] for row in items]), array("q", [row[1] for row in items])
    results = []
    for twin in TWINS.values():
        slots = array("i", range(slot_count))
        packed = twin.index_items(slots, hashes, memoryview(places), seconds, number)
        results.append((packed, slots))
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("name", TWINS)
def test_what_a_twin_encodes_is_a_record(name: str) -> None:
    shared = SHARED_V4.pack(0, 5, bytes(8), 6, bytes(8), 0, 0)
    body = bytes(range(200))
    batch = RecordColumns(
        *(struct.pack(">I", len(body)) + body, 1, 0, -1, -1, -1, -1, -1, -1, 1000, 7),
        *(
            -626843481,
            3,
            9,
            0,
            0,
            shared,
            b"\x06orders",
            b"ID",
            10,
            b"TAGS\x01a\x02",
            b"",
            b"",
            0,
            b"",
        ),
    )
    records, entries, positions, codes, _, _ = TWINS[name].encode_records(batch)
    message = decode(records, crc_range=range(1 << 40))
    assert (message.topic, message.queue, message.offset, message.flag) == ("orders", 3, 7, 9)
    assert (message.body, message.message_id, message.tag) == (body, "ID0000000A", "a")
    assert (positions, codes, message.size_bytes) == ([1000], None, len(records))
    assert entries == struct.pack(">qiq", 1000, len(records), 0)
    assert OWN.size + len(shared) + 4 == 88


@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("size", [0, 3, 4, 7, 11])
def test_no_twin_reads_behind_the_data(name: str, size: int) -> None:
    data = struct.pack(">II", 2, 3)[:size] + b"bodys"[: max(0, size - 8)]
    with pytest.raises((ValueError, struct.error)):
        TWINS[name].are_plain(data, 2, 0, 0, 0, 0, 0, 0, 0, 1000, 6, 12, 3, 8, 20)


def test_the_engine_uses_the_compiled_twin_where_there_is_one() -> None:
    used = TWINS[kernel.KERNEL]
    assert all(getattr(kernel, name) is getattr(used, name) for name in FUNCTIONS)


def log_of(messages: list[Message], host: str) -> tuple[bytes, list[int]]:
    """Records as the encoder makes them, and where each begins."""
    batch = batch_of(messages, host)
    return batch.data, batch.positions


def batch_of(messages: list[Message], host: str, position: int = 0) -> EncodedBatch:
    queue = cast(ConsumeQueue, SimpleNamespace(next_offset=5, id=("t", 1)))
    encoder = Encoder(host, "0123456789ABCDEF", lambda topic, number: queue, {})
    return encoder.encode(messages, position, 1_700_000_000_000)


MESSAGES = st.builds(
    Message,
    topic=st.sampled_from(("t", "orders", "ü" * 70, "%RETRY%" + "g" * 150)),
    body=st.binary(max_size=100) | st.sampled_from([bytes(300), bytes(9000)]),
    tag=st.sampled_from(("", "a", "ß")),
    keys=st.sampled_from(((), ("k1",), ("k1", "k2"))),
    properties=st.sampled_from([{}, {"colour": "blue"}, {"long": "x" * 32_600}]),
    queue=st.integers(0, 3),
    flag=st.integers(-(1 << 31), (1 << 31) - 1),
    sys_flag=st.sampled_from((0, 1, 8, 0x301)),
    attempt=st.integers(1, 20),
    born_ms=st.integers(0, 1 << 41),
    born_host=st.sampled_from(("", "10.1.2.3:4", "[::1]:5")),
    prepared_position=st.sampled_from((0, 77)),
)


@given(
    messages=st.lists(MESSAGES, min_size=1, max_size=4),
    host=st.sampled_from(("127.0.0.1:1", "[fe80::1]:9")),
    hurts=HURTS,
    cut=st.integers(0, 200) | st.just(0),
    further=st.lists(st.integers(0, 600), max_size=2),
)
@settings(max_examples=300, deadline=None)
def test_both_read_the_same_of_whole_and_of_damaged_records(
    messages: list[Message],
    host: str,
    hurts: list[tuple[int, int]],
    cut: int,
    further: list[int],
) -> None:
    data, starts = log_of(messages, host)
    hurt = bytearray(data)
    for place, value in hurts:
        hurt[place % len(hurt)] = value
    data, starts = bytes(hurt[: len(hurt) - cut]), starts + further
    for crc_range in (range(0), range(1 << 40)):
        expected = [describe(each) for each in record.decode_run(data, starts, crc_range)]
        for name in TWINS:
            with using(name):
                found = decode_run(data, starts, crc_range)
            assert [describe(each) for each in found] == expected


def describe(found: StoredMessage | Corrupt) -> object:
    """What is to be equal: all fields, or what is wrong."""
    return found if isinstance(found, StoredMessage) else found.detail


@given(
    messages=st.lists(MESSAGES, min_size=1, max_size=5),
    host=st.sampled_from(("127.0.0.1:1", "[fe80::1]:9")),
    hurts=HURTS,
    topic=st.sampled_from(("t", "ü" * 70)),
    start=st.sampled_from((0, 0, 7)),
    is_exact=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_both_make_the_same_columns_of_what_was_stored(
    messages: list[Message],
    host: str,
    hurts: list[tuple[int, int]],
    topic: str,
    start: int,
    is_exact: bool,
) -> None:
    for each in messages:
        if is_exact:  # else most batches end with their first message
            each.topic, each.queue = topic, 1
    batch = batch_of(messages, host, position=1000)
    entries = b"".join([run.packed() for run in batch.runs])
    hurt = bytearray(batch.data)
    for place, value in hurts:
        hurt[place % len(hurt)] = value
    given = (bytes(hurt), entries, 1000 + start, 5, 1, topic.encode())
    expected = tuple(pure.stored_columns(*given))
    for twin in TWINS.values():
        assert tuple(twin.stored_columns(*given)) == expected


@pytest.mark.parametrize("name", TWINS)
def test_columns_end_before_the_first_record_that_is_not_plain(name: str) -> None:
    for index, odd in (
        (1, {"sys_flag": 1}),
        (2, {"tag": "ß"}),
        (3, {"topic": "other"}),
        (4, {}),
    ):
        plain: dict[str, Any] = {"topic": "t", "queue": 1, "tag": "a"}
        fields = [plain | odd if number == index else plain for number in range(4)]
        messages = [
            Message(body=b"%d" % number, message_id=f"A{number}", **each)
            for number, each in enumerate(fields)
        ]
        batch = batch_of(messages, "127.0.0.1:1")
        entries = b"".join([run.packed() for run in batch.runs])
        columns = TWINS[name].stored_columns(batch.data, entries, 0, 5, 1, b"t")
        assert columns[0] == min(index, 4)


@given(data=st.binary(max_size=300))
def test_no_twin_finds_a_record_in_noise(data: bytes) -> None:
    for twin in TWINS.values():
        assert twin.decode_records(data, range(len(data) + 2), StoredMessage, str) == [None] * (
            len(data) + 2
        )


def test_the_compiled_twin_reads_whole_records_itself() -> None:
    data, starts = log_of([Message("t", bytes(90), message_id="A", queue=1)] * 3, "127.0.0.1:1")
    for name in TWINS.keys() - {"pure"}:
        found = TWINS[name].decode_records(data, starts, StoredMessage, unpack_host)
        assert found == record.decode_run(data, starts)
