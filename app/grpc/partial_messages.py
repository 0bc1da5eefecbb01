"""Counts the bytes of unfinished requests of a gRPC connection from its HTTP/2 frames.

gRPC's library buffers a message until it is complete and does not report its size. The relay sees
the frames of both directions: `PartialMessages.received` gets the client's data,
`PartialMessages.sent` the server's. The bytes of a stream count until its message is complete, its
client resets it, or its call is answered.

Only headers of frames and of gRPC messages are read; the library validates them and ends the
connection if they are invalid.
"""

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = struct.Struct(">IBI")  # length (24 bits) and kind (8), flags, stream
assert HEAD.size == 9
MESSAGE_HEAD = struct.Struct(">BI")  # is it compressed, length
assert MESSAGE_HEAD.size == 5
DATA, HEADERS, RST_STREAM, GOAWAY = 0, 1, 3, 7
END_STREAM = 1
STREAM_BITS = 0x7FFFFFFF
FRAME_BYTES = 64  # the library's overhead for a frame
ENHANCE_YOUR_CALM = 0xB


class Http2FrameCutter:
    """Cuts one direction of a connection into frames; `at_boundary` is between two frames."""

    def __init__(self, skip_bytes: int = 0) -> None:
        """`skip_bytes` stand before the first frame."""
        self._left = skip_bytes  # of the frame that is read
        self._head = b""
        self.kind = -1
        self.flags = 0
        self.stream = 0

    @property
    def at_boundary(self) -> bool:
        return not self._left and not self._head

    def next(self, data: bytes, position: int) -> tuple[int, int, bool]:
        """The next piece of a payload: from where, to where, and whether its frame ends there.

        The piece may be empty. `kind`, `flags` and `stream` are those of its frame; -1 is no
        frame, or a head that is not whole.
        """
        bytes_left = self._left
        if not bytes_left:
            if self._head or len(data) - position < HEAD.size:
                more = data[position : position + HEAD.size - len(self._head)]
                self._head += more
                position += len(more)
                if len(self._head) < HEAD.size:
                    self.kind = -1
                    return position, position, False
                word, self.flags, stream = HEAD.unpack(self._head)
                self._head = b""
            else:
                word, self.flags, stream = HEAD.unpack_from(data, position)
                position += HEAD.size
            self.kind = word & 0xFF
            self.stream = stream & STREAM_BITS
            bytes_left = word >> 8
        end = min(position + bytes_left, len(data))
        self._left = bytes_left = bytes_left - (end - position)
        return position, end, not bytes_left


class PartialMessage:
    """The unfinished message of a stream."""

    __slots__ = ("_head", "_left", "rounds", "size_bytes")

    def __init__(self) -> None:
        self.rounds = 0
        self._head = b""
        self._left = 0
        self.size_bytes = 0

    def take(self, data: bytes, start: int, end: int) -> None:
        """Count a piece; `size_bytes` returns to 0 when it completes a message."""
        self.size_bytes += FRAME_BYTES
        while start < end:
            if not self._left:
                more = data[start : min(end, start + MESSAGE_HEAD.size - len(self._head))]
                self._head += more
                start += len(more)
                self.size_bytes += len(more)
                if len(self._head) < MESSAGE_HEAD.size:
                    return
                _, self._left = MESSAGE_HEAD.unpack(self._head)
                self._head = b""
            piece = min(self._left, end - start)
            self.size_bytes += piece
            self._left -= piece
            start += piece
            if not self._left:
                self.size_bytes = self.rounds = 0


class PartialMessages:
    """The streams of one connection, and the `size_bytes` of their unfinished messages."""

    def __init__(self) -> None:
        self._in = Http2FrameCutter(len(PREFACE))
        self._out = Http2FrameCutter()
        self._streams: dict[int, PartialMessage | None] = {}  # those that the client may send on
        self._last = 0
        self.size_bytes = 0

    @property
    def can_say_goodbye(self) -> bool:
        """Whether a frame may be put between those that the server has sent."""
        return self._out.at_boundary

    def received(self, data: bytes) -> None:
        """Count data from the client."""
        frames, position, size = self._in, 0, len(data)
        while position < size:
            start, position, is_over = frames.next(data, position)
            kind = frames.kind
            if kind == DATA:
                is_last = is_over and frames.flags & END_STREAM
                if not is_last or self._streams.get(frames.stream) is not None:
                    self._take(frames.stream, data, start, position)
            elif kind == HEADERS and frames.stream > self._last:
                self._last = frames.stream
                self._streams[frames.stream] = None
            if is_over and (
                kind == RST_STREAM or (frames.flags & END_STREAM and kind in (DATA, HEADERS))
            ):
                self._end(frames.stream)

    def sent(self, data: bytes) -> bool:
        """Remove answered streams; True if one ended before its client had finished."""
        has_ended = False
        frames, position, size = self._out, 0, len(data)
        while position < size:
            _, position, is_over = frames.next(data, position)
            kind = frames.kind
            if is_over and (
                kind == RST_STREAM or (frames.flags & END_STREAM and kind in (DATA, HEADERS))
            ):
                has_ended |= frames.stream in self._streams
                self._end(frames.stream)
        return has_ended

    def grow_older(self) -> int:
        """One more look at all; how many looks the oldest unfinished message has seen."""
        oldest = 0
        for message in self._streams.values():
            if message is not None and message.size_bytes:
                message.rounds += 1
                oldest = max(oldest, message.rounds)
        return oldest

    def _take(self, stream: int, data: bytes, start: int, end: int) -> None:
        message = self._streams.get(stream)
        if message is None:
            if stream not in self._streams:
                return  # its call is answered: the library throws this away
            message = self._streams[stream] = PartialMessage()
        before = message.size_bytes
        message.take(data, start, end)
        self.size_bytes += message.size_bytes - before

    def _end(self, stream: int) -> None:
        message = self._streams.pop(stream, None)
        if message is not None:
            self.size_bytes -= message.size_bytes


def goaway_frame(text: str) -> bytes:
    """A GOAWAY frame for a client that sends too much; `text` tells it so."""
    detail = text.encode()
    payload = struct.pack(">II", STREAM_BITS, ENHANCE_YOUR_CALM) + detail
    return HEAD.pack(len(payload) << 8 | GOAWAY, 0, 0) + payload
