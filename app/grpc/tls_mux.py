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
from app.grpc.quotas import AddressQuota
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
SCARCE_S = 0.1  # after the first failure to accept; twice as long after each further one
SCARCE_MAX_S = 5.0
LOG_EACH_S = 60.0  # between two log lines about that
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


class AcceptBackoff:
    """The wait after failures to accept a connection, and their log lines."""

    def __init__(self) -> None:
        self._wait_s = SCARCE_S
        self._last_log_s: float | None = None
        self._unlogged = 0

    def met(self, error: OSError) -> float:
        """Seconds to wait after this failure; logs a line a minute with the count."""
        wait_s, self._wait_s = self._wait_s, min(2 * self._wait_s, SCARCE_MAX_S)
        if error.errno in OUT_OF_FILES:
            self._log(error)
        return wait_s

    def is_over(self) -> None:
        """Reset the wait after a success."""
        self._wait_s = SCARCE_S

    def _log(self, error: OSError) -> None:
        now_s = asyncio.get_running_loop().time()
        self._unlogged += 1
        if self._last_log_s is not None and now_s - self._last_log_s < LOG_EACH_S:
            return
        log.warning("no connection can be served (%d times): %s", self._unlogged, error)
        self._last_log_s, self._unlogged = now_s, 0


class TlsMux:
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
        shares: AddressQuota,
        clock_s: Callable[[], float],
        budget: ByteBudget,
        is_plain_refused: bool = False,
    ) -> None:
        """`clock_s` is the monotonic clock that connections end by; `context` may be set later.

        `budget` bounds the bytes of unfinished requests.
        """
        self._listener = listener
        self._inner_port = inner_port
        self.context = context
        self._is_plain_refused = is_plain_refused
        self._figures = figures
        self._shares = shares
        self._clock_s = clock_s
        self._budget = budget
        self._shortage = AcceptBackoff()
        self._origins: dict[str, GrpcConnection] = {}
        self._outer: dict[str, RelayEnd] = {}  # by the client's address
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

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

    async def stop_accepting(self) -> None:
        """Stop accepting; open connections go on."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
            self._accepting = None
            self._listener.close()

    async def stop(self) -> None:
        """End every connection."""
        await self.stop_accepting()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(self._listener)
            except OSError as error:
                await asyncio.sleep(self._shortage.met(error))
                continue
            self._shortage.is_over()
            host = str(address[0])
            if self._shares.take(host):
                self._figures.connections_refused += 1
                accepted.close()
                continue
            task = loop.create_task(self._serve(accepted, host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

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
                self._shortage.met(error)
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
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(accepted, user_timeout_ms=VANISHED_MS)
        return await speaks_tls(accepted, FIRST_BYTE_S)
    except BaseException:
        accepted.close()
        raise
