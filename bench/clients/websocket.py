"""KiteMQ over WebSocket: the SDK's frames, written beforehand, over a client that only counts.

A client has to mask what it sends; the mask here is zero, so that masking costs the generator
nothing and the server as much as ever.
"""

import struct
from typing import NamedTuple

from bench.load import LoadError, Taken
from kitemq.protocol.batches import AckFrame, DeliverFrame, ResultFrame
from kitemq.protocol.frames import HEADER, CreditFrame, ErrorFrame, SubscribeFrame, encode
from kitemq.protocol.sends import DurabilityCode, SendFrame, SentFrame

UPGRADE = (
    "GET /ws/v1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Version: 13\r\n\r\n"
)
BINARY = 2
CLOSE = 8
CREDIT = 4096
INVISIBLE_MS = 60_000
U16 = struct.Struct(">H")
U32 = struct.Struct(">I")
U64 = struct.Struct(">Q")
# Where SEND has the number of its first message id: behind durability, queue and count.
ID_FIRST_AT = HEADER.size + 9
ID_MASK = 0xFFFFFFFF


def masked(payload: bytes) -> bytes:
    """One binary WebSocket message of a client, its mask zero."""
    size = len(payload)
    if size < 126:
        head = bytes((0x82, 0x80 | size))
    elif size < 1 << 16:
        head = b"\x82\xfe" + U16.pack(size)
    else:
        head = b"\x82\xff" + U64.pack(size)
    return head + b"\0\0\0\0" + payload


class Piece(NamedTuple):
    """One frame of the protocol within what came: its type, and where its payload lies."""

    kind: int
    start: int
    end: int


class SocketClient:
    """The upgrade, and taking messages apart."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._rest = b""

    def greeting(self) -> bytes:
        return UPGRADE.format(port=self._port).encode()

    def is_welcome(self, data: bytes) -> bool:
        if data.endswith(b"\r\n\r\n") and not data.startswith(b"HTTP/1.1 101"):
            raise LoadError(data[:300].decode(errors="replace"))
        return data.endswith(b"\r\n\r\n")

    def split(self, data: bytes) -> tuple[bytes, list[Piece]]:
        """The whole frames that came by now and the bytes they lie in; LoadError for an ERROR."""
        data = self._rest + data if self._rest else data
        at, size, pieces = 0, len(data), []
        while size - at >= 2:
            length, start = data[at + 1], at + 2
            if length == 126 and size >= start + 2:
                length, start = U16.unpack_from(data, start)[0], start + 2
            elif length == 127 and size >= start + 8:
                length, start = U64.unpack_from(data, start)[0], start + 8
            elif length >= 126:
                break
            end = start + length
            if end > size:
                break
            opcode = data[at] & 0x0F
            if opcode == CLOSE:
                raise LoadError(f"closed: {data[start:end]!r}")
            if opcode == BINARY:
                pieces += _pieces(data, start, end)
            at = end
        self._rest = data[at:]
        return data, pieces


def _pieces(data: bytes, at: int, end: int) -> list[Piece]:
    pieces = []
    while at < end:
        kind, _, size = HEADER.unpack_from(data, at)
        start = at + HEADER.size
        at = start + size
        if kind == ErrorFrame.TYPE:
            raise LoadError(str(ErrorFrame.parse(data[start:at], 0)))
        pieces.append(Piece(kind, start, at))
    return pieces


class SocketSend(SocketClient):
    """SENDs of `per_request` messages; each message has an id of its own, as the SDK's have."""

    def __init__(
        self,
        port: int,
        topic: str,
        body: bytes,
        *,
        per_request: int = 1,
        durability: DurabilityCode = DurabilityCode.STORED,
        delay_level: int = 0,
    ) -> None:
        super().__init__(port)
        self.per_request = per_request
        message = masked(encode(1, _send(topic, body, per_request, durability, delay_level)))
        self._message = bytearray(message)
        self._id_at = message.index(HEADER.pack(SendFrame.TYPE, 1, 0)[:5]) + ID_FIRST_AT
        self._next_id = 0

    def requests(self, count: int) -> bytes:
        parts = []
        for _ in range(count):
            U32.pack_into(self._message, self._id_at, self._next_id & ID_MASK)
            self._next_id += self.per_request
            parts.append(bytes(self._message))
        return parts[0] if count == 1 else b"".join(parts)

    def answers(self, data: bytes) -> int:
        _, pieces = self.split(data)
        return sum(piece.kind == SentFrame.TYPE for piece in pieces)


def _send(
    topic: str, body: bytes, count: int, durability: DurabilityCode, delay_level: int
) -> SendFrame:
    texts, zeros = [""] * count, [0] * count
    return SendFrame(
        topic,
        [body] * count,
        texts,
        texts,
        texts,
        [{}] * count,
        [delay_level] * count,
        zeros,
        zeros,
        durability=durability,
        id_prefix="0123456789ABCDEF0123",
    )


class SocketTake(SocketClient):
    """A push subscription; each DELIVER is answered by one ACK and the credit it used."""

    def __init__(self, port: int, topic: str, group: str, *, credit: int = CREDIT) -> None:
        super().__init__(port)
        frame = SubscribeFrame(group, {topic: "*"}, credit, INVISIBLE_MS)
        self._subscribe = masked(encode(1, frame))
        self._group = U16.pack(len(group)) + group.encode()

    def begin(self) -> bytes:
        return self._subscribe

    def take(self, data: bytes) -> Taken:
        data, pieces = self.split(data)
        delivered = settled = 0
        replies = []
        for piece in pieces:
            count = U32.unpack_from(data, piece.start)[0]
            if piece.kind == DeliverFrame.TYPE:
                delivered += count
                replies.append(self._acknowledge(data, piece.start, count))
            elif piece.kind == ResultFrame.TYPE:
                settled += count
                if data[piece.start + U32.size]:  # a column of zeros takes one byte: all done
                    raise LoadError("an acknowledgement was stale")
        return Taken(delivered, settled, b"".join(replies))

    def _acknowledge(self, data: bytes, start: int, count: int) -> bytes:
        """ACK takes receipts in the very bytes in which DELIVER brings them."""
        payload = self._group + data[start : _receipts_end(data, start, count)]
        ack = HEADER.pack(AckFrame.TYPE, 2, len(payload)) + payload
        return masked(encode(0, CreditFrame(1, count))) + masked(ack)


def _receipts_end(data: bytes, at: int, count: int) -> int:
    at += U32.size
    topics = data[at]
    at += 1
    for _ in range(topics):
        at += 2 + U16.unpack_from(data, at)[0]
    for _ in range(4):
        at += (1, 9, 1 + 8 * count)[data[at]]
    return at
