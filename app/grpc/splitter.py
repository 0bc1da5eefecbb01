"""One port for plain text and TLS: looks at a connection's first byte, then relays it inside.

A TLS client begins with 0x16, a plain one with the letter P of HTTP/2's preface. gRPC's own server
cannot tell them apart, nor be handed a connection; so it listens on a loopback port that only we
know, and we bring it every connection, decrypted. Who a call comes from is known by the inner
connection's port.
"""

import asyncio
import errno
import logging
import socket
import ssl
from typing import cast

from app.grpc.call import Origin
from app.services.rpc_figures import RpcFigures

log = logging.getLogger("kitemq.grpc")

TLS_FIRST = b"\x16"
FIRST_BYTE_S = 10.0
HANDSHAKE_S = 10.0
STALL_S = 60.0  # a peer that reads too little for so long is gone, whatever it answers
CLOSE_S = 10.0  # for a peer to read what was left for it when the other one hung up
LOOPBACK = "127.0.0.1"
FULL_WAIT_S = 0.1
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Side(asyncio.Protocol):
    """One of the two connections of a relay; what it reads the other one writes."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: Side | None = None
        self.early = b""
        self._limit: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def link(self, other: "Side") -> None:
        """From now on write what `other` reads; it may have read something already."""
        other.other = self
        if self.transport is not None and other.early:
            self.transport.write(other.early)
            other.early = b""

    def data_received(self, data: bytes) -> None:
        other = self.other
        if other is None or other.transport is None:
            self.early += data  # the inner server speaks first: a few settings
        else:
            other.transport.write(data)

    def pause_writing(self) -> None:
        # The other side is not read meanwhile, not even that it has hung up.
        if self.transport is not None:
            loop = asyncio.get_running_loop()
            self._stall = loop.call_later(STALL_S, self.transport.abort)
        other = self.other
        if other is not None and other.transport is not None and other.transport.is_reading():
            other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
        other = self.other
        if other is not None and other.transport is not None and not other.closed.done():
            other.transport.resume_reading()

    def eof_received(self) -> None:
        """The transport closes itself when what is left is written."""
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
        """Write what is left, then close; who does not read it within CLOSE_S loses it."""
        self._limit_closing()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()

    def _limit_closing(self) -> None:
        """Else a peer that reads nothing would keep its connection, and what it holds, for good."""
        if self.transport is not None and self._limit is None and not self.closed.done():
            loop = asyncio.get_running_loop()
            self._limit = loop.call_later(CLOSE_S, self.transport.abort)


class Splitter:
    """Accepts on `listener` until `stop`; at most `connections_max` at once."""

    def __init__(
        self,
        listener: socket.socket,
        inner_port: int,
        context: ssl.SSLContext | None,
        figures: RpcFigures,
        *,
        connections_max: int,
    ) -> None:
        self._listener = listener
        self._inner_port = inner_port
        self._context = context
        self._figures = figures
        self._connections_max = connections_max
        self._origins: dict[str, Origin] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def origin_of(self, peer: str) -> Origin | None:
        """The connection behind gRPC's name of an inner one; None for one that is not ours."""
        return self._origins.get(peer)

    async def stop_accepting(self) -> None:
        """Take no more connections; those that are open go on."""
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
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                if error.errno in OUT_OF_FILES:
                    log.warning("no connection can be accepted: %s", error)
                await asyncio.sleep(FULL_WAIT_S)
                continue
            if len(self._tasks) >= self._connections_max:
                self._figures.connections_refused += 1
                accepted.close()
                continue
            task = loop.create_task(self._serve(accepted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        """The whole life of one connection."""
        self._figures.connections += 1
        outer: Side | None = None
        inner: Side | None = None
        peer = ""
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            is_tls = await _first_byte(accepted) == TLS_FIRST
            if is_tls and self._context is None:
                return
            origin = Origin(_text(accepted.getpeername()), _text(accepted.getsockname()), is_tls)
            inner = await self._connected()
            assert inner.transport is not None, "it is connected"
            peer = f"ipv4:{_text(inner.transport.get_extra_info('sockname'))}"
            self._origins[peer] = origin
            outer = await self._relayed(accepted, inner, is_tls=is_tls)
            await outer.closed
        except (OSError, TimeoutError, ssl.SSLError) as error:
            log.debug("a connection broke off: %s", error)
        except Exception:
            log.exception("a connection failed")
        finally:
            self._figures.connections -= 1
            for side in (outer, inner):
                if side is not None:
                    side.close()
            if outer is None:
                accepted.close()
            if inner is not None:
                await inner.closed
            self._origins.pop(peer, None)

    async def _connected(self) -> Side:
        loop = asyncio.get_running_loop()
        _, inner = await loop.create_connection(Side, LOOPBACK, self._inner_port)
        return inner

    async def _relayed(self, accepted: socket.socket, inner: Side, *, is_tls: bool) -> Side:

        loop = asyncio.get_running_loop()
        context = self._context if is_tls else None
        wait_s = HANDSHAKE_S if is_tls else None
        outer = Side()  # with TLS, uvloop hands back a protocol of its own around it
        await loop.connect_accepted_socket(
            lambda: outer, accepted, ssl=context, ssl_handshake_timeout=wait_s
        )
        outer.link(inner)
        inner.link(outer)
        if inner.closed.done():
            outer.close()
        return outer


async def _first_byte(accepted: socket.socket) -> bytes:
    """The first byte, which stays to be read; TimeoutError where none comes."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def on_readable() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(accepted, on_readable)
    try:
        async with asyncio.timeout(FIRST_BYTE_S):
            await ready
    finally:
        loop.remove_reader(accepted)
    return accepted.recv(1, socket.MSG_PEEK)


def _text(address: tuple[str, int] | tuple[str, int, int, int]) -> str:
    """ "127.0.0.1:52100", "[::1]:52100"."""
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
