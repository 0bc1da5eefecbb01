"""A slave's side of RocketMQ's HA protocol: says how far its log goes, and hears the bytes behind.

A master that is asked from 0 on begins with its last segment, so one that has nothing here is asked
from 1 on. The byte before that is known: a record's size is less than 16 MB.
"""

import asyncio

from engine.errors import Corrupt
from protocol.replication import HEAD, REPORT

CONNECT_S = 10.0
SILENCE_S = 20.0  # a master with nothing to give sends a heartbeat every 5 s
FRAME_BYTES_MAX = 4 * 1024 * 1024 - HEAD.size  # RocketMQ's own slaves take no more
BUFFER_BYTES = 64 * 1024
FIRST_BYTE = b"\0"


class MasterLink:
    """An open connection; `close` it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._begin = self._expected = 0

    @classmethod
    async def open(cls, host: str, port: int, position: int) -> "MasterLink":
        """Connect, and ask for the log from `position` on; OSError, TimeoutError."""
        async with asyncio.timeout(CONNECT_S):
            link = cls(*await asyncio.open_connection(host, port, limit=BUFFER_BYTES))
        link._begin, link._expected = position, position or len(FIRST_BYTE)
        link.report(link._expected)
        return link

    async def next(self) -> tuple[int, bytes]:
        """The next bytes and their position; none with a heartbeat.

        Corrupt for a frame that does not follow; OSError, TimeoutError.
        """
        try:
            async with asyncio.timeout(SILENCE_S):
                position, size = HEAD.unpack(await self._reader.readexactly(HEAD.size))
                self._check(position, size)
                data = await self._reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise ConnectionResetError("the master closed the connection") from None
        self._expected += size
        if data and self._begin < position == len(FIRST_BYTE):
            return self._begin, FIRST_BYTE + data
        return position, data

    def _check(self, position: int, size: int) -> None:
        if position != self._expected:
            raise Corrupt(f"the master goes on at {position}, not at {self._expected}")
        if not 0 <= size <= FRAME_BYTES_MAX:
            raise Corrupt(f"the master sent a frame of {size} bytes")

    def report(self, position: int) -> None:
        """Say how far the log goes here, once a frame has come; ConnectionError."""
        if self._writer.is_closing():
            raise ConnectionResetError("the master closed the connection")
        self._writer.write(REPORT.pack(position))

    def close(self) -> None:
        self._writer.close()
