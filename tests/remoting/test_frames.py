"""Frames: what RocketMQ's own classes write is read, and what is no frame is refused."""

import json
import struct
from pathlib import Path

import pytest

from protocol.remoting.batches import BatchError, BatchMessage, decode_batch, encode_batch
from protocol.remoting.codes import RequestCode, version_text
from protocol.remoting.frames import Command, FrameError, FrameReader, decode, encode

# Written by RocketMQ 5.3.3's own classes.
GOLDEN = {
    name: bytes.fromhex(text)
    for name, text in json.loads((Path(__file__).parent / "golden.json").read_text()).items()
}
PROPERTIES = "TAGS\x01paid\x02KEYS\x01k1 k2\x02"


def read(data: bytes, frame_bytes_max: int = 1 << 20) -> list[Command]:
    reader = FrameReader(frame_bytes_max=frame_bytes_max)
    reader.add(data)
    return list(reader.frames())


def framed(header: bytes, kind: int = 0, body: bytes = b"") -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


@pytest.mark.parametrize("kind", ["json", "rocketmq"])
def test_a_send_of_apaches_own_client_is_read(kind: str) -> None:
    (command,) = read(GOLDEN[f"send_v2_{kind}"])
    assert (command.code, command.opaque, command.flag) == (RequestCode.SEND_MESSAGE_V2, 5, 0)
    assert (command.language, command.version, command.remark) == ("JAVA", 479, "rä")
    assert command.body == b"hello"
    assert command.is_binary is (kind == "rocketmq")
    assert command.fields | {"k": "false", "m": "false"} == command.fields
    assert (command.fields["b"], command.fields["e"], command.fields["h"]) == ("orders", "2", "7")
    assert command.fields["i"] == PROPERTIES


def test_a_binary_frame_is_written_as_apache_writes_it() -> None:
    (command,) = read(GOLDEN["send_v2_rocketmq"])
    assert encode(command) == GOLDEN["send_v2_rocketmq"]


def test_an_answer_of_apache_is_read_and_written_again() -> None:
    (answer,) = read(GOLDEN["answer"])
    assert (answer.code, answer.is_answer, answer.remark) == (17, True, "no such topic")
    assert read(encode(answer)) == [answer]


def test_a_batch_of_apaches_own_client_is_read() -> None:
    first, second = decode_batch(GOLDEN["batch"], count_max=10)
    assert (first.flag, first.body, second.body) == (3, b"one", b"two")
    assert "TAGS\x01paid" in first.properties
    assert decode_batch(encode_batch([first, second]), count_max=2) == [first, second]


def test_frames_that_arrive_byte_by_byte_are_read_whole() -> None:
    reader = FrameReader(frame_bytes_max=1 << 20)
    found = []
    for byte in GOLDEN["pull"] * 3:
        reader.add(bytes((byte,)))
        found += reader.frames()
    assert [each.code for each in found] == [RequestCode.PULL_MESSAGE] * 3
    assert reader.pending_bytes == 0


def test_fields_that_are_numbers_and_booleans_become_text() -> None:
    header = b'{"code":10,"opaque":1,"extFields":{"queueId":0,"k":false,"n":null,"x":"y"}}'
    (command,) = read(framed(header))
    assert command.fields == {"queueId": "0", "k": "false", "x": "y"}


def test_a_code_beyond_16_bits_is_written_as_json_to_a_binary_client() -> None:
    (command,) = read(encode(Command(RequestCode.POP_MESSAGE, 1, is_binary=True)))
    assert (command.code, command.is_binary) == (RequestCode.POP_MESSAGE, False)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 3),
        struct.pack(">i", 1 << 30),
        struct.pack(">iI", 8, 9),  # a header longer than its frame
        struct.pack(">iI", 1 << 20, 1 << 20),
        framed(b"{}", kind=2),
        framed(b"not json"),
        framed(b"{}"),
        framed(b"[]"),
        framed(b'{"code":"x"}'),
        framed(b'{"code":99999999999}'),
        framed(b'{"code":1,"extFields":{"a":[1]}}'),
        framed(b'{"code":1,"extFields":{"a":' + b"9" * 5000 + b"}}"),
        framed(b'\xff{"code":1}'),
        framed(b"\x00", kind=1),
        framed(struct.pack(">hBhiii", 1, 0, 0, 0, 0, -5), kind=1),
        framed(struct.pack(">hBhiiii", 1, 0, 0, 0, 0, 0, 1 << 30), kind=1),
        framed(struct.pack(">hBhiiiih", 1, 0, 0, 0, 0, 0, 2, 9), kind=1),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        read(data, frame_bytes_max=1 << 19)


def test_a_frame_that_is_too_long_is_refused_by_its_first_bytes() -> None:
    with pytest.raises(FrameError, match="a frame of 101 bytes"):
        read(struct.pack(">i", 101), frame_bytes_max=100)


def test_frames_before_nonsense_are_read_before_it_is_refused() -> None:
    reader = FrameReader(frame_bytes_max=1 << 20)
    reader.add(GOLDEN["pull"] + b"\xff" * 8)
    frames = reader.frames()
    assert next(frames).code == RequestCode.PULL_MESSAGE
    with pytest.raises(FrameError):
        next(frames)


@pytest.mark.parametrize("cut", [1, 10, 19, 21, 40])
def test_a_batch_that_breaks_off_is_refused(cut: int) -> None:
    with pytest.raises(BatchError):
        decode_batch(GOLDEN["batch"][:cut], count_max=10)


def test_a_batch_of_too_many_messages_is_refused() -> None:
    with pytest.raises(BatchError, match="more than 2"):
        decode_batch(encode_batch([BatchMessage(0, b"x", "")] * 3), count_max=2)


def test_a_frame_of_no_bytes_is_none() -> None:
    with pytest.raises(FrameError):
        decode(b"")


@pytest.mark.parametrize(
    ("number", "text"),
    [(513, "5.5.0"), (479, "5.3.3"), (399, "4.9.3"), (401, "4.9.4"), (413, "5.0.0"), (0, "")],
)
def test_version_numbers_are_told_as_people_write_them(number: int, text: str) -> None:
    assert version_text(number) == text
