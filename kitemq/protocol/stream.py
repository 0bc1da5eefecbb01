"""Decodes a binary WebSocket message into its frames, by type."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from kitemq.protocol.batches import (
    AckFrame,
    DeliverFrame,
    ExtendFrame,
    NackFrame,
    ReleaseFrame,
    ResultFrame,
    SubscribedFrame,
)
from kitemq.protocol.calls import AnswerFrame, CallFrame
from kitemq.protocol.columns import ProtocolError
from kitemq.protocol.frames import (
    HEADER,
    CreditFrame,
    ErrorFrame,
    Frame,
    HelloFrame,
    SubscribeFrame,
    UnsubscribeFrame,
    WelcomeFrame,
)
from kitemq.protocol.sends import SendFrame, SentFrame
from kitemq.protocol.transactions import (
    CheckFrame,
    ChecksUnwantedFrame,
    ChecksWantedFrame,
    DecidedFrame,
    DecideFrame,
)


class FrameParser(Protocol):
    """Decodes the payload of one type of frame; every class of frames does."""

    def parse(self, data: bytes, at: int) -> Frame:
        """The frame whose payload is `data` from `at` to its end; raises ProtocolError."""


CLIENT_FRAMES: dict[int, type[Frame]] = {
    kind.TYPE: kind
    for kind in (
        *(
            HelloFrame,
            SendFrame,
            SubscribeFrame,
            CreditFrame,
            AckFrame,
            NackFrame,
            ExtendFrame,
            ReleaseFrame,
            UnsubscribeFrame,
            CallFrame,
        ),
        *(ChecksWantedFrame, ChecksUnwantedFrame, DecideFrame),
    )
}
SERVER_FRAMES: dict[int, type[Frame]] = {
    kind.TYPE: kind
    for kind in (
        *(
            WelcomeFrame,
            SentFrame,
            SubscribedFrame,
            DeliverFrame,
            ResultFrame,
            ErrorFrame,
            AnswerFrame,
        ),
        *(CheckFrame, DecidedFrame),
    )
}


class UnreadableFrame(ProtocolError):
    """A frame whose header is sound but whose payload is not; the next frame can be read."""

    def __init__(self, request: int, detail: str) -> None:
        super().__init__(detail)
        self.request = request


def iter_frames(
    data: bytes, kinds: Mapping[int, FrameParser]
) -> Iterator[tuple[int, Frame | UnreadableFrame]]:
    """Request number and frame, one after the other, of a whole WebSocket message.

    A frame that cannot be read comes as an `UnreadableFrame` in its place; a header that is broken
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


def only_frame(
    data: bytes, kinds: Mapping[int, FrameParser]
) -> tuple[int, Frame | UnreadableFrame] | None:
    """As `iter_frames`, of a message of one frame; None for any other."""
    if len(data) < HEADER.size:
        return None
    kind, request, payload_bytes = HEADER.unpack_from(data)
    if HEADER.size + payload_bytes != len(data):
        return None
    return request, _parse(kinds, kind, request, data, HEADER.size, len(data))


def _parse(
    kinds: Mapping[int, FrameParser], kind: int, request: int, data: bytes, start: int, end: int
) -> Frame | UnreadableFrame:
    frame = kinds.get(kind)
    if frame is None:
        return UnreadableFrame(request, f"no frame has the type {kind} in this direction")
    try:
        if end == len(data):  # the usual case, one frame in a message: nothing is copied
            return frame.parse(data, start)
        return frame.parse(data[start:end], 0)
    except ProtocolError as error:
        return UnreadableFrame(request, str(error))
