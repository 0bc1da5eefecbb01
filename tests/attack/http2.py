"""A gRPC client of a few frames that keeps no rules but the server's flow control."""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 3, 4, 6, 7, 8, 9,
)  # fmt: skip
END_STREAM, ACK, END_HEADERS = 1, 1, 4
WINDOW = 65_535
FRAME_BYTES_MAX = 16_384
SEND = "/apache.rocketmq.v2.MessagingService/SendMessage"


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """One frame."""
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


def call_headers(path: str = SEND, **more: str) -> bytes:
    """The header block of a call, without compression."""
    given = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "127.0.0.1",
        "content-type": "application/grpc",
        "te": "trailers",
        "x-mq-client-id": "attacker@1@0@x",
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in given.items())


def _text(text: str) -> bytes:
    assert len(text) < 127, text
    return bytes((len(text),)) + text.encode()


@dataclass
class Window:
    """What the server lets a stream send, and whether it has ended the stream."""

    left: int = WINDOW
    is_over: bool = False


class Connection:
    """Begins with the preface; `poll` takes in what the server has sent."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._read = b""
        self.window = WINDOW
        self.streams: dict[int, Window] = {}
        self.is_over = False
        self.goodbye = b""
        link.sendall(PREFACE + frame(SETTINGS))
        link.settimeout(0.01)

    def send(self, data: bytes) -> bool:
        """Send bytes whatever they are; False where the connection is over."""
        try:
            self._link.settimeout(5)
            self._link.sendall(data)
        except OSError:
            self.is_over = True
        return not self.is_over

    def open(self, stream: int, path: str = SEND) -> None:
        """Begin a call."""
        self.streams[stream] = Window()
        self.send(frame(HEADERS, END_HEADERS, stream, call_headers(path)))

    def put(self, stream: int, data: bytes) -> int:
        """Send what the windows allow of `data` in one frame; how much that was."""
        window = self.streams[stream]
        size = min(len(data), self.window, window.left, FRAME_BYTES_MAX)
        if size <= 0 or window.is_over:
            return 0
        self.window -= size
        window.left -= size
        self.send(frame(DATA, 0, stream, data[:size]))
        return size

    def poll(self) -> None:
        """Take in what has arrived."""
        try:
            self._link.settimeout(0.01)
            data = self._link.recv(1 << 20)
        except TimeoutError:
            return
        except OSError:
            data = b""
        if not data:
            self.is_over = True
            return
        self._read += data
        for kind, flags, stream, payload in self._frames():
            self._take(kind, flags, stream, payload)

    def _frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        while len(self._read) >= 9:
            word, flags, stream = struct.unpack_from(">IBI", self._read)
            size = word >> 8
            if len(self._read) < 9 + size:
                return
            payload, self._read = self._read[9 : 9 + size], self._read[9 + size :]
            yield word & 0xFF, flags, stream, payload

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        found = self.streams.get(stream)
        if kind == WINDOW_UPDATE:
            more = struct.unpack(">I", payload)[0]
            if not stream:
                self.window += more
            elif found is not None:
                found.left += more
        elif kind == SETTINGS and not flags & ACK:
            self._settle(payload)
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            self.goodbye = payload
        elif found is not None and (
            kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM)
        ):
            found.is_over = True

    def _settle(self, payload: bytes) -> None:
        for position in range(0, len(payload), 6):
            name, value = struct.unpack_from(">HI", payload, position)
            if name == 4:
                for window in self.streams.values():
                    window.left += value - WINDOW
        self.send(frame(SETTINGS, ACK))
