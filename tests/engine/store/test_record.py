"""Records as bytes: compared field by field with RocketMQ's layout table."""

import struct
from zlib import crc32

import pytest

from engine.errors import Corrupt, Invalid
from engine.host import pack_host, unpack_host
from engine.message import PROPERTIES_BYTES_MAX, Message
from engine.store.record import body_crc, decode
from tests.engine.store.parts import Bench

LONG_TOPIC = "%RETRY%" + "g" * 121  # 128 bytes: one more than V1 can say
HOST = b"\x7f\x00\x00\x01" + struct.pack(">i", 8080)
BORN = b"\x0a\x01\x02\x03" + struct.pack(">i", 52100)
V6 = bytes(15) + b"\x01" + struct.pack(">i", 5)


def expected(
    topic: bytes, properties: bytes, *, magic: int, position: int, offset: int, stored_ms: int
) -> bytes:
    """The record of the message in these tests, built by the table and nothing else."""
    body = b"123456789"
    parts = [
        struct.pack(">I", magic),
        struct.pack(">I", 0x4BF43926),  # CRC-32 of "123456789" with the top bit off
        struct.pack(">i", 3),  # queue
        struct.pack(">i", 7),  # the user's flag
        struct.pack(">q", offset),
        struct.pack(">q", position),
        struct.pack(">i", 0),  # system flag: both hosts are IPv4
        struct.pack(">q", 1_600_000_000_123),  # born
        BORN,
        struct.pack(">q", stored_ms),
        HOST,
        struct.pack(">i", 2),  # reconsumeTimes: the third attempt
        struct.pack(">q", 0),  # no half message
        struct.pack(">i", len(body)) + body,
        topic,
        struct.pack(">h", len(properties) + 20) + properties,
    ]
    rest = b"".join(parts)
    whole = struct.pack(">i", len(rest) + 4 + 20) + rest
    digits = f"{crc32(whole) & 0x7FFFFFFF:010d}"
    return whole + b"__CRC32#\x01" + digits[::-1].encode() + b"\x02"


def sample(topic: str) -> Message:
    return Message(
        topic,
        b"123456789",
        tag="a",
        keys=("k1", "k2"),
        properties={"colour": "blue"},
        message_id="ID1",
        queue=3,
        flag=7,
        attempt=3,
        born_ms=1_600_000_000_123,
        born_host="10.1.2.3:52100",
    )


PROPERTIES = b"UNIQ_KEY\x01ID1\x02TAGS\x01a\x02KEYS\x01k1 k2\x02colour\x01blue\x02"


def test_the_body_crc_is_crc32_without_its_top_bit() -> None:
    assert crc32(b"123456789") == 0xCBF43926
    assert body_crc(b"123456789") == 0x4BF43926


@pytest.mark.parametrize(
    ("topic", "magic", "field"),
    [
        ("orders", 0xDAA320A7, b"\x06orders"),
        ("t" * 127, 0xDAA320A7, b"\x7f" + b"t" * 127),
        (LONG_TOPIC, 0xDAA320AB, struct.pack(">h", 128) + LONG_TOPIC.encode()),
    ],
)
def test_a_record_is_rocketmqs_byte_for_byte(
    bench: Bench, topic: str, magic: int, field: bytes
) -> None:
    store = bench.open()
    bench.put(b"before", topic=topic, queue=3)
    sent = store.append([sample(topic)])
    position = sent.positions[0]
    record = expected(
        field,
        PROPERTIES,
        magic=magic,
        position=position,
        offset=1,
        stored_ms=bench.clock.now_ms(),
    )
    assert bench.log_bytes()[position : position + len(record)] == record
    assert store.written == position + len(record)


def test_a_record_reads_back_as_it_was_sent(bench: Bench) -> None:
    store = bench.open()
    store.append([sample(LONG_TOPIC)])
    (found,) = store.read_entries(store.entries(LONG_TOPIC, 3, 0, 10))
    assert found is not None
    assert (found.topic, found.queue, found.offset) == (LONG_TOPIC, 3, 0)
    assert (found.body, found.tag, found.keys) == (b"123456789", "a", ("k1", "k2"))
    assert (found.flag, found.attempt, found.message_id) == (7, 3, "ID1")
    assert (found.born_host, found.store_host) == ("10.1.2.3:52100", "127.0.0.1:8080")
    assert found.properties["colour"] == "blue"


def test_an_ipv6_host_takes_20_bytes_and_its_flag(bench: Bench) -> None:
    store = bench.open(store_host="[::1]:5")
    store.append(
        [
            Message("t", b"both", queue=0, born_host="[::1]:5"),
            Message("t", b"store", queue=0, born_host="10.1.2.3:52100"),
        ]
    )
    both, one = store.read_entries(store.entries("t", 0, 0, 10))
    assert both is not None
    assert one is not None
    data = bench.log_bytes()
    assert struct.unpack_from(">i", data, 36) == (0x30,)
    assert (data[48:68], data[76:96]) == (V6, V6)
    assert struct.unpack_from(">i", data, one.position + 36) == (0x20,)
    assert data[one.position + 48 : one.position + 56] == BORN
    assert data[one.position + 64 : one.position + 84] == V6
    assert (both.born_host, both.store_host) == ("[::1]:5", "[::1]:5")
    assert both.body == b"both"
    assert one.body == b"store"
    assert len(both.offset_id) == 56


def test_host_bits_of_an_earlier_record_do_not_come_along(bench: Bench) -> None:
    store = bench.open()
    store.append([Message("t", b"copied", queue=0, sys_flag=0x31)])
    assert bench.bodies() == [b"copied"]
    assert struct.unpack_from(">i", bench.log_bytes(), 36) == (0x01,)


@pytest.mark.parametrize(
    "host", ["1.2.3.4:5", "255.255.255.255:65535", "[::1]:5", "[2001:db8::a]:1"]
)
def test_a_host_survives_packing(host: str) -> None:
    assert unpack_host(pack_host(host)) == host


@pytest.mark.parametrize("host", ["", "localhost:1", "1.2.3.4", "1.2.3.4:x", "[::1]:99999999999"])
def test_what_is_no_address_packs_as_the_broker_itself(host: str) -> None:
    assert pack_host(host) == pack_host("127.0.0.1:0")


def test_properties_beyond_their_limit_are_refused_and_nothing_is_stored(bench: Bench) -> None:
    store = bench.open()
    room = PROPERTIES_BYTES_MAX - len("UNIQ_KEY\x01ID1\x02") - len("n\x01\x02")
    fits = Message("t", b"fits", queue=0, message_id="ID1", properties={"n": "v" * room})
    store.append([fits])
    too_long = Message("t", b"not", queue=0, message_id="ID1", properties={"n": "v" * (room + 1)})
    with pytest.raises(Invalid) as refused:
        store.append([Message("t", b"first", queue=0), too_long])
    assert refused.value.field == "properties"
    assert bench.bodies() == [b"fits"]


@pytest.mark.parametrize(
    ("at", "data", "reason"),
    [
        (0, b"\x7f\xff\xff\xff", "no record"),
        (4, b"\0\0\0\0", "no record"),
        (84, b"\xff\xff\xff\xff", "no record"),
        (84, b"\0\0\0\x04", "CRC"),
        (88, b"X", "CRC"),
        (93, b"\x7f", "lengths|unreadable"),
    ],
)
def test_a_changed_byte_is_noticed(bench: Bench, at: int, data: bytes, reason: str) -> None:
    bench.open()
    bench.put(b"body!")
    record = bytearray(bench.log_bytes()[: bench.store.written])
    record[at : at + len(data)] = data
    with pytest.raises(Corrupt, match=reason):
        decode(bytes(record))


def test_the_records_crc_is_rocketmqs_and_no_property_of_the_message(bench: Bench) -> None:
    """Its digits are RocketMQ's: the least significant first, ten of them."""
    store = bench.open()
    bench.put(b"body!", properties={"colour": "blue"})
    record = bench.log_bytes()[: store.written]
    stated = record[-20:]
    assert stated[:9] == b"__CRC32#\x01"
    assert int(stated[9:19][::-1]) == crc32(record[:-20]) & 0x7FFFFFFF
    assert set(decode(record).properties) == {"UNIQ_KEY", "colour"}


def test_every_flipped_bit_of_a_record_is_noticed(bench: Bench) -> None:
    store = bench.open()
    bench.put(b"body!", properties={"colour": "blue"}, tag="a", keys=("k",))
    record = bench.log_bytes()[: store.written]
    for at in range(len(record)):
        for bit in range(8):
            damaged = bytearray(record)
            damaged[at] ^= 1 << bit
            with pytest.raises(Corrupt):
                decode(bytes(damaged))


def without_crc(record: bytes) -> bytes:
    """The same record as versions without it wrote it."""
    cut = bytearray(record[:-20])
    cut[:4] = struct.pack(">i", len(cut))
    block = cut.rindex(b"UNIQ_KEY") - 2
    cut[block : block + 2] = struct.pack(">h", len(cut) - block - 2)
    return bytes(cut)


def test_a_record_without_its_crc_stays_readable(bench: Bench) -> None:
    store = bench.open()
    bench.put(b"body!", properties={"colour": "blue"})
    record = bench.log_bytes()[: store.written]
    assert decode(without_crc(record)).properties == decode(record).properties


def test_properties_that_leave_no_room_for_the_crc_are_stored_without(bench: Bench) -> None:
    store = bench.open(segment_bytes=1 << 20)
    room = PROPERTIES_BYTES_MAX - len("UNIQ_KEY\x01ID1\x02") - len("n\x01\x02")
    for spare in (19, 20):
        value = "v" * (room - spare)
        store.append([Message("t", b"x", queue=0, message_id="ID1", properties={"n": value})])
        assert (b"__CRC32#" in bench.log_bytes()) == (spare == 20)
    assert bench.bodies() == [b"x", b"x"]


def test_a_record_that_is_cut_short_is_noticed(bench: Bench) -> None:
    bench.open()
    bench.put(b"body!")
    record = bench.log_bytes()[: bench.store.written]
    for size in range(len(record)):
        with pytest.raises(Corrupt):
            decode(record[:size])
