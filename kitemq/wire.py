"""One WebSocket as an asyncio protocol: bytes of whole messages in and out, nothing else.

It stands directly on the sans-I/O half of `websockets`: answers are handled in the same step of
the event loop that read them, and writing needs no task. That is worth half of a round trip.
"""

import asyncio
import os
import ssl
from collections.abc import Callable
from typing import cast

from websockets.client import ClientProtocol
from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from kitemq.address import tls_context, token_headers
from kitemq.errors import Unreachable
from kitemq.protocol.frames import STANDBY_HEADER

MESSAGE_BYTES_MAX = 64 * 1024 * 1024
PING_S = 20.0
CLOSE_TIMEOUT_S = 2.0
WRITE_BUFFER_BYTES = 1024 * 1024


class Wire(asyncio.Protocol):
    """An open connection; `on_message` and `on_lost` are called on the loop's thread."""

    def __init__(self, url: str, on_message: Callable[[bytes], None]) -> None:
        self._on_message = on_message
        self._ws = ClientProtocol(parse_uri(url), max_size=MESSAGE_BYTES_MAX)
        loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[str] = loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._parts: list[bytes] = []
        self._ping: asyncio.TimerHandle | None = None
        self._was_heard = True
        self.standby = ""  # what the server says of itself where it is one

    @classmethod
    async def open(
        cls,
        url: str,
        on_message: Callable[[bytes], None],
        *,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
    ) -> "Wire":
        """Connect and shake hands; raises Unreachable when that fails or takes too long."""
        address = parse_uri(url)
        loop = asyncio.get_running_loop()
        context = (tls or tls_context(url)) if address.secure else None
        wire = cls(url, on_message)
        try:
            async with asyncio.timeout(timeout_s):
                await loop.create_connection(lambda: wire, address.host, address.port, ssl=context)
                await wire._opened
        except (OSError, WebSocketException, TimeoutError) as error:
            wire.abort()
            reason = str(error) or f"no answer within {timeout_s:g} s"
            raise Unreachable(
                f"no KiteMQ at {url}: {reason}",
                remedy="start it with `kitemq serve`, or give --server or KITEMQ_SERVER",
            ) from None
        return wire

    @property
    def is_open(self) -> bool:
        return self._opened.done() and not self.lost.done() and self._ws.state is State.OPEN

    @property
    def close_code(self) -> int:
        """The code with which the other side closed; 1006 where it said nothing."""
        return self._ws.close_rcvd.code if self._ws.close_rcvd else 1006

    def write(self, data: bytes) -> None:
        """Send one binary message; kept in memory until the other side takes it."""
        self._ws.send_binary(data)
        self._flush()

    async def close(self) -> None:
        """Say goodbye and wait, a short time, until the other side has."""
        if self._ws.state is State.OPEN:
            self._ws.send_close(1000)
            self._flush()
        done, _ = await asyncio.wait([self.lost], timeout=CLOSE_TIMEOUT_S)
        if not done:
            self.abort()

    def abort(self) -> None:
        """Drop the connection without a goodbye."""
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        request = self._ws.connect()
        for name, value in token_headers().items():
            request.headers[name] = value
        self._ws.send_request(request)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._was_heard = True
        self._ws.receive_data(data)
        for event in self._ws.events_received():
            if isinstance(event, Response):
                self._on_response(event)
            elif isinstance(event, Frame):
                self._on_frame(event)
        self._flush()
        if self._ws.state in (State.CLOSING, State.CLOSED) and self._transport is not None:
            self._transport.close()

    def eof_received(self) -> None:
        self._ws.receive_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._ping is not None:
            self._ping.cancel()
        goodbye = self._ws.close_rcvd.reason if self._ws.close_rcvd else ""
        reason = str(exc) if exc else goodbye or "the connection was closed"
        if not self._opened.done():
            self._opened.set_exception(OSError(reason))
        if not self.lost.done():
            self.lost.set_result(reason)

    # -- helpers --------------------------------------------------------------------------------

    def _on_response(self, response: Response) -> None:
        if self._opened.done():
            return
        if self._ws.handshake_exc is not None:
            self._opened.set_exception(self._ws.handshake_exc)
            return
        self.standby = response.headers.get(STANDBY_HEADER, "")
        self._opened.set_result(None)
        self._schedule_ping()

    def _on_frame(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.BINARY, Opcode.CONT):
            data = frame.data
            if frame.fin and not self._parts:
                self._on_message(bytes(data))
                return
            self._parts.append(bytes(data))
            if frame.fin:
                whole = b"".join(self._parts)
                self._parts.clear()
                self._on_message(whole)

    def _flush(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            for data in self._ws.data_to_send():
                if data:
                    self._transport.write(data)

    def _schedule_ping(self) -> None:
        self._ping = asyncio.get_running_loop().call_later(PING_S, self._on_ping)

    def _on_ping(self) -> None:
        """Ask for a sign of life; none since the last time means that the connection is dead."""
        if not self._was_heard:
            self.abort()
            return
        self._was_heard = False
        self._ws.send_ping(os.urandom(4))
        self._flush()
        self._schedule_ping()
