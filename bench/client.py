"""The leanest HTTP/1.1 client that can load a server: one request at a time on one connection.

Requests are bytes made beforehand and answers are only checked for their status, so that the
figures are the server's and not this side's.
"""

import asyncio
import contextlib
from typing import Self

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length:"


def request(method: str, path: str, body: bytes, content_type: str = "application/json") -> bytes:
    """The bytes of one request."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Connection:
    """One kept connection; `ask` sends a request and waits for its whole answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Self:
        """Connect to loopback."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, request_bytes: bytes) -> bytes:
        """The answer's body; raises where the status is not 2xx."""
        self._writer.write(request_bytes)
        head = await self._reader.readuntil(HEAD_END)
        lowered = head.lower()
        at = lowered.index(LENGTH) + len(LENGTH)
        length = int(lowered[at : lowered.index(b"\r\n", at)])
        body = await self._reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(f"{head.splitlines()[0]!r}: {body[:500]!r}")
        return body

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        # The server may be gone: then there is nothing to close in order.
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
