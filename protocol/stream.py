"""From one binary WebSocket message to its frames, by type."""

from collections.abc import Iterator

from protocol.batches import (
    Ack,
    Deliver,
    Extend,
    Nack,
    Release,
    Result,
    Send,
    Sent,
    Subscribed,
)
from protocol.calls import Answer, Call
from protocol.columns import ProtocolError
from protocol.frames import HEADER, Credit, Error, Frame, Hello, Subscribe, Unsubscribe, Welcome
from protocol.transactions import Check, ChecksUnwanted, ChecksWanted, Decide, Decided

CLIENT_FRAMES: dict[int, type[Frame]] = {
    kind.TYPE: kind
    for kind in (
        *(Hello, Send, Subscribe, Credit, Ack, Nack, Extend, Release, Unsubscribe, Call),
        *(ChecksWanted, ChecksUnwanted, Decide),
    )
}
SERVER_FRAMES: dict[int, type[Frame]] = {
    kind.TYPE: kind
    for kind in (
        *(Welcome, Sent, Subscribed, Deliver, Result, Error, Answer),
        *(Check, Decided),
    )
}


class Unreadable(ProtocolError):
    """A frame whose header is sound but whose payload is not; the next frame can be read."""

    def __init__(self, request: int, detail: str) -> None:
        super().__init__(detail)
        self.request = request


def iter_frames(
    data: bytes, kinds: dict[int, type[Frame]]
) -> Iterator[tuple[int, Frame | Unreadable]]:
    """Request number and frame, one after the other, of a whole WebSocket message.

    A frame that cannot be read comes as an `Unreadable` in its place; a header that is broken
    raises ProtocolError, for nothing after it can be found.
    """
    at = 0
    size = len(data)
    while at < size:
        if at + HEADER.size > size:
            raise ProtocolError("a message ends within a frame's header")
        kind, request, payload_bytes = HEADER.unpack_from(data, at)
        start = at + HEADER.size
        at = start + payload_bytes
        if at > size:
            raise ProtocolError("a frame is longer than its message")
        yield request, _parse(kinds, kind, request, data, start, at)


def _parse(
    kinds: dict[int, type[Frame]], kind: int, request: int, data: bytes, start: int, end: int
) -> Frame | Unreadable:
    frame = kinds.get(kind)
    if frame is None:
        return Unreadable(request, f"no frame has the type {kind} in this direction")
    try:
        if end == len(data):  # the usual case, one frame in a message: nothing is copied
            return frame.parse(data, start)
        return frame.parse(data[start:end], 0)
    except ProtocolError as error:
        return Unreadable(request, str(error))
