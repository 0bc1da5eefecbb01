"""A connection of the endpoint over a transport in memory, so that each read is as it is put."""

import asyncio
import struct
from collections.abc import Iterator
from typing import Any

from app.grpc.http2_connection import Http2Connection
from tests.grpc.endpoint import Running


class MemoryTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 52100), "sockname": ("127.0.0.1", 8081)})
        self.written = bytearray()
        self.protocol: Any = None
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

    def frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Kind, flags, stream and payload of each frame that was written; takes them away."""
        while self.written:
            word, flags, stream = struct.unpack_from(">IBI", self.written)
            end = 9 + (word >> 8)
            payload = bytes(self.written[9:end])
            del self.written[:end]
            yield word & 0xFF, flags, stream, payload


def connection_of(running: Running) -> Http2Connection:
    """A new connection of the endpoint, which has read nothing."""
    slot = running.port._shares.take("127.0.0.1")
    assert slot is not None
    connection = Http2Connection(running.port, slot)
    transport = MemoryTransport()
    transport.protocol = connection
    connection.connection_made(transport)
    return connection
