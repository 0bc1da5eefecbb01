"""The gRPC port: open from the start, with the server behind it made for the first connection.

gRPC's library and the classes of its messages take some 16 MiB and a third of a second: a server
that no RocketMQ client calls has neither in memory. They are loaded beside the event loop.
"""

import asyncio
import logging
import os
import socket
import ssl
from typing import TYPE_CHECKING, Any

from app.grpc.certificate import context_of
from app.grpc.shares import Shares
from app.grpc.splitter import Splitter
from app.settings import Settings

if TYPE_CHECKING:
    from app.grpc.door import GrpcDoor

log = logging.getLogger("kitemq.grpc")

FILES_SPARE = 64  # that can be opened when gRPC's library starts; it takes some ten


class GrpcPort:
    """Listens on `listener`, which it closes at the end; `state` is the application's."""

    def __init__(self, state: Any, listener: socket.socket) -> None:
        self._state = state
        self._settings: Settings = state.settings
        self._listener = listener
        self._splitter: Splitter | None = None
        self._opening: asyncio.Future[GrpcDoor] | None = None
        self._is_stopping = False
        host, port = listener.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def start(self) -> None:
        """Begin to listen. OSError, ssl.SSLError or ValueError where files cannot be used."""
        await asyncio.to_thread(self._state.access_keys.load)
        context = await asyncio.to_thread(self._context)
        settings = self._settings
        shares = Shares(
            "connections",
            each_max=settings.grpc_address_connections_max,
            all_max=settings.grpc_connections_max,
        )
        self._splitter = Splitter(
            self._listener,
            self._inner_port,
            context,
            self._state.rpc_figures,
            shares,
            self._state.host.clock.monotonic_s,
        )
        self._splitter.start()
        log.info("RocketMQ clients are served on %s", self.address)

    async def opened(self) -> "GrpcDoor":
        """The server behind the port, made where there is none; what failed is tried again.

        ConnectionAbortedError once the port stops: nobody would end what is made then.
        """
        if self._is_stopping:
            raise ConnectionAbortedError("the gRPC port stops")
        opening = self._opening
        if opening is None or (opening.done() and opening.exception() is not None):
            opening = self._opening = asyncio.ensure_future(self._open())
        return await asyncio.shield(opening)

    async def stop(self) -> None:
        """Take no new connections, end streams, let calls end, then close.

        A server that is being made is waited for, as one half made could not be stopped.
        """
        self._is_stopping = True
        if self._splitter is not None:
            await self._splitter.stop_accepting()
        opening, self._opening = self._opening, None
        if opening is not None:
            (door,) = await asyncio.gather(opening, return_exceptions=True)
            if not isinstance(door, BaseException):
                await door.stop()
        if self._splitter is not None:
            await self._splitter.stop()
        self._listener.close()

    async def _inner_port(self) -> int:
        return (await self.opened()).inner_port

    async def _open(self) -> "GrpcDoor":
        assert self._splitter is not None, "the port was started"
        _check_files()
        made = await asyncio.to_thread(_door_class)
        _check_files()
        door = made(self._state, self.address, self._splitter)
        await door.start()
        return door

    def _context(self) -> ssl.SSLContext | None:
        settings = self._settings
        if not settings.grpc_tls:
            return None
        return context_of(
            settings.data, settings.grpc_tls_certificate, settings.grpc_tls_key, settings.host
        )


def _check_files() -> None:
    """Raise OSError unless FILES_SPARE can be opened: gRPC's library ends the process instead."""
    spare: list[int] = []
    try:
        while len(spare) < FILES_SPARE:
            spare.append(os.open(os.devnull, os.O_RDONLY))
    finally:
        for each in spare:
            os.close(each)


def _door_class() -> "type[GrpcDoor]":
    """Loads what takes long."""
    from app.grpc.door import GrpcDoor

    return GrpcDoor
