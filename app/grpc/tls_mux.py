"""Serves plain text and TLS on one port by a connection's first byte, and relays to gRPC's server.

A TLS client begins with 0x16, a plain one with the P of HTTP/2's preface. gRPC's own server cannot
distinguish them and accepts no existing connections, so it listens on a private loopback port, to
which each connection is relayed, decrypted. The inner connection's port identifies the client.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

from app.grpc.connection import GrpcConnection
from app.grpc.connection_bytes import ConnectionBytes
from app.grpc.quotas import ConnectionQuota
from app.network.acceptor import AcceptLoop
from app.network.keep_alive import keep_alive
from app.security.byte_budget import ByteBudget
from app.services.rpc_figures import RpcFigures
from app.tls import HANDSHAKE_S, refuse_plain, speaks_tls
from engine.host import host_text

log = logging.getLogger("kitemq.grpc")

FIRST_BYTE_S = 10.0
STALL_S = 60.0  # after which a peer that does not read is disconnected
CLOSE_S = 10.0  # for a peer to read the rest after the other side closed
LOOPBACK = "127.0.0.1"
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# A peer that vanished is detected within a minute, both while waiting for it and while writing to
# it. The server's pings (server.py) go through the relay as well.
VANISHED_MS = 50_000


class RelayEnd(asyncio.Protocol):
    """One of the two connections of a relay; writes what the other one reads."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: RelayEnd | None = None
        self.early = b""
        self.watch: Callable[[bytes], None] | None = (
            None  # called with the data that this side reads
        )
        self._may_read = True
        self._limit: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def link(self, other: "RelayEnd") -> None:
        """Write what `other` reads from now on, and what it has read already."""
        other.other = self
        if self.transport is not None and other.early:
            self.transport.write(other.early)
            if other.watch is not None:
                other.watch(other.early)
            other.early = b""

    def data_received(self, data: bytes) -> None:
        other = self.other
        if other is None or other.transport is None:
            self.early += data  # the inner server speaks first: a few settings
            return
        other.transport.write(data)
        if self.watch is not None:
            self.watch(data)

    def set_reading(self, may_read: bool) -> None:
        """Pause or resume reading, independently of the other side's buffer."""
        self._may_read = may_read
        transport, other = self.transport, self.other
        if transport is None or transport.is_closing():
            return
        if not may_read:
            if transport.is_reading():
                transport.pause_reading()
        elif other is None or other._stall is None:
            transport.resume_reading()

    def close_with(self, last: bytes) -> None:
        """Write `last`, then close."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(last)
        self.close()

    def pause_writing(self) -> None:
        # The other side is not read meanwhile, so its end goes unnoticed.
        if self.transport is not None:
            loop = asyncio.get_running_loop()
            self._stall = loop.call_later(STALL_S, self.transport.abort)
        other = self.other
        if other is not None and other.transport is not None and other.transport.is_reading():
            other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        other = self.other
        if other is None or other.transport is None or other.closed.done():
            return
        if other._may_read:
            other.transport.resume_reading()

    def eof_received(self) -> None:
        """The transport closes itself once its buffer is written."""
        self._limit_closing()

    def connection_lost(self, error: Exception | None) -> None:
        for timer in (self._limit, self._stall):
            if timer is not None:
                timer.cancel()
        if not self.closed.done():
            self.closed.set_result(None)
        if self.other is not None:
            self.other.close()

    def close(self) -> None:
        """Close after writing the buffer, at most CLOSE_S later."""
        self._limit_closing()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()

    def _limit_closing(self) -> None:
        """Abort after CLOSE_S, as a peer that reads nothing would keep its connection for ever."""
        if self.transport is not None and self._limit is None and not self.closed.done():
            loop = asyncio.get_running_loop()
            self._limit = loop.call_later(CLOSE_S, self.transport.abort)


class TlsMux(AcceptLoop):
    """Accepts on `listener` until `stop`, within the limits of `shares`.

    `inner_port` returns the port of gRPC's server, and starts the server if needed.
    """

    def __init__(
        self,
        listener: socket.socket,
        inner_port: Callable[[], Awaitable[int]],
        *,
        context: ssl.SSLContext | None,
        figures: RpcFigures,
        shares: ConnectionQuota,
        clock_s: Callable[[], float],
        budget: ByteBudget,
        is_plain_refused: bool = False,
    ) -> None:
        """`clock_s` is the monotonic clock that connections end by; `context` may be set later.

        `budget` bounds the bytes of unfinished requests.
        """
        super().__init__(listener, shares.refusals)
        self._inner_port = inner_port
        self.context = context
        self._is_plain_refused = is_plain_refused
        self._figures = figures
        self._shares = shares
        self._clock_s = clock_s
        self._budget = budget
        self._origins: dict[str, GrpcConnection] = {}
        self._outer: dict[str, RelayEnd] = {}  # by the client's address

    def origin_of(self, peer: str) -> GrpcConnection | None:
        """The client's connection for gRPC's name of the inner one; None if unknown."""
        return self._origins.get(peer)

    def grow_older(self) -> None:
        """End connections whose requests take too long to arrive."""
        for origin in tuple(self._origins.values()):
            origin.bytes.grow_older()

    def end(self, address: str) -> bool:
        """End the connection from an address; False if there is none."""
        outer = self._outer.get(address)
        if outer is not None:
            outer.close()
        return outer is not None

    def _take(self, accepted: socket.socket, address: str) -> None:
        if self._shares.take(address):
            self._figures.connections_refused += 1
            accepted.close()
        else:
            self._begin(self._serve(accepted, address))

    async def _serve(self, accepted: socket.socket, host: str) -> None:
        """Serve one connection until it ends."""
        self._figures.connections += 1
        try:
            is_tls = await _is_tls(accepted)
            if is_tls and self.context is None:
                accepted.close()
            elif not is_tls and self._is_plain_refused:
                await refuse_plain(accepted)
            else:
                await self._relay(accepted, is_tls=is_tls)
        except (OSError, TimeoutError, ssl.SSLError) as error:
            log.debug("a connection broke off: %s", error)
            if error.errno in OUT_OF_FILES:
                self._note_shortage(error)
        except Exception:
            log.exception("a connection failed")
        finally:
            self._figures.connections -= 1
            self._shares.give(host)

    async def _relay(self, accepted: socket.socket, *, is_tls: bool) -> None:
        """Relay a connection to gRPC's server until either side ends."""
        outer: RelayEnd | None = None
        try:
            side = RelayEnd()
            peer = accepted.getpeername()
            counted = ConnectionBytes(
                self._budget, str(peer[0]), set_reading=side.set_reading, end=side.close_with
            )
            origin = GrpcConnection(
                host_text(*peer[:2]), host_text(*accepted.getsockname()[:2]), is_tls, counted
            )
            inner = await self._connected()
            side.watch, inner.watch = counted.received, counted.sent
            async with self._registration(origin, inner):
                outer = await self._relayed(accepted, side, inner, is_tls=is_tls)
                self._outer[origin.client] = outer
                await outer.closed
        finally:
            if outer is None:
                accepted.close()
            else:
                outer.close()

    @asynccontextmanager
    async def _registration(self, origin: GrpcConnection, inner: RelayEnd) -> AsyncIterator[None]:
        """Map the inner connection to `origin` during the context; ends it afterwards."""
        assert inner.transport is not None, "it is connected"
        peer = f"ipv4:{host_text(*inner.transport.get_extra_info('sockname')[:2])}"
        self._origins[peer] = origin
        try:
            yield
        finally:
            origin.ended_s = self._clock_s()
            origin.bytes.close()
            inner.close()
            await inner.closed
            del self._origins[peer]
            self._outer.pop(origin.client, None)

    async def _connected(self) -> RelayEnd:
        loop = asyncio.get_running_loop()
        _, inner = await loop.create_connection(RelayEnd, LOOPBACK, await self._inner_port())
        return inner

    async def _relayed(
        self, accepted: socket.socket, outer: RelayEnd, inner: RelayEnd, *, is_tls: bool
    ) -> RelayEnd:
        loop = asyncio.get_running_loop()
        context = self.context if is_tls else None
        wait_s = HANDSHAKE_S if is_tls else None
        # With TLS, uvloop hands back a protocol of its own around `outer`.
        await loop.connect_accepted_socket(
            lambda: outer, accepted, ssl=context, ssl_handshake_timeout=wait_s
        )
        outer.link(inner)
        inner.link(outer)
        if inner.closed.done():
            outer.close()
        return outer


async def _is_tls(accepted: socket.socket) -> bool:
    """Whether the peer speaks TLS; closes the socket on errors."""
    try:
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(accepted, user_timeout_ms=VANISHED_MS)
        return await speaks_tls(accepted, FIRST_BYTE_S)
    except BaseException:
        accepted.close()
        raise
