"""Plain frames are read as the library reads them, and its place in the stream is known."""

import random

import pytest
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side, State

from app.network.websocket_frames import FrameBoundaries, binary_head, plain_frame

SIZES = (0, 1, 125, 126, 300, 65535, 65536, 70000)


def body_of(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def written(size: int, *, opcode: Opcode = Opcode.BINARY, fin: bool = True) -> bytes:
    frame = Frame(opcode, body_of(size), fin)
    return frame.serialize(mask=True)


def read(data: bytes) -> list[Frame]:
    """What the library reads as a server."""
    library = Protocol(Side.SERVER, state=State.OPEN)
    library.receive_data(data)
    assert library.parser_exc is None
    return [event for event in library.events_received() if isinstance(event, Frame)]


@pytest.mark.parametrize("size", [size for size in SIZES if size < 1 << 16])
def test_a_plain_frame_is_what_the_library_reads(size: int) -> None:
    data = b"before" + written(size) + b"after"
    frame = plain_frame(data, 6)
    assert frame is not None
    assert frame.payload == read(data[6 : frame.end])[0].data
    assert data[frame.end :] == b"after"


@pytest.mark.parametrize("size", [0, 1, 125, 126, 300])
def test_a_part_of_a_frame_is_none(size: int) -> None:
    data = written(size)
    assert all(plain_frame(data[:end], 0) is None for end in range(len(data)))


OTHERS = {
    "text": written(3, opcode=Opcode.TEXT),
    "ping": written(3, opcode=Opcode.PING),
    "fragment": written(3, fin=False),
    "long": written(70000),
    "unmasked": Frame(Opcode.BINARY, b"unmasked").serialize(mask=False),
    "reserved bit": b"\xc2" + written(3)[1:],
}


@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS)
def test_any_other_frame_is_the_librarys(data: bytes) -> None:
    assert plain_frame(data, 0) is None


@pytest.mark.parametrize("size", SIZES)
def test_a_written_message_is_what_the_library_writes(size: int) -> None:
    body = body_of(size)
    assert binary_head(size) + body == Frame(Opcode.BINARY, body).serialize(mask=False)


@pytest.mark.parametrize("seed", range(50))
def test_boundaries_are_known_wherever_a_stream_is_cut(seed: int) -> None:
    randoms = random.Random(seed)
    frames = [
        written(randoms.choice([0, 1, 125, 126, 300, 70000]), fin=randoms.random() < 0.8)
        for _ in range(8)
    ]
    stream, ends, at = b"".join(frames), set(), 0
    for frame in frames:
        at += len(frame)
        ends.add(at)
    boundaries, position = FrameBoundaries(), 0
    while position < len(stream):
        size = randoms.choice([1, 1, 2, 3, 5, 200, 65000])
        if randoms.random() < 0.3:
            size = min(end for end in ends if end > position) - position
        boundaries.follow(stream[position : position + size])
        position = min(position + size, len(stream))
        assert boundaries.is_at_frame == (position in ends)
