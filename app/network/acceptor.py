"""Accepts the connections of one port; each takes a slot before a protocol is created.

asyncio's own server accepts all waiting connections first: a thousand that arrive at once would use
up the file descriptors. If none is left all the same, the acceptor pauses before it tries again.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Protocol

from app.network import connection_limits
from app.network.connection_limits import ConnectionRefusals, ConnectionSlot
from app.tasks import end_tasks
from app.tls import Certificate, refuse_plain, speaks_tls

AT_ONCE = 64  # connections accepted in one turn of the event loop
SCARCE_S = 0.05  # after the first failure to accept; twice as long after each further one
SCARCE_MAX_S = 1.0


class Slots(Protocol):
    """The limits that a connection takes its slot from."""

    @property
    def refusals(self) -> ConnectionRefusals: ...

    def take(self, address: str) -> ConnectionSlot | None: ...


class Acceptor:
    """Accepts between `start` and `stop`; `make` creates a connection's protocol."""

    def __init__(
        self,
        listener: socket.socket,
        limits: Slots,
        make: Callable[[ConnectionSlot], asyncio.Protocol],
        *,
        certificate: Certificate | None,
        handshake_s: float,
        takes_plain: bool,
    ) -> None:
        """With a `certificate` the port speaks TLS; without `takes_plain` it refuses plain clients.

        They get a message. With both, the first byte of each connection decides.
        """
        self._takes_plain = takes_plain
        self._listener = listener
        self._limits = limits
        self._make = make
        self._certificate = certificate
        self._keeping_fresh: asyncio.Task[None] | None = None
        self._handshake_s = handshake_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._scarce_s = SCARCE_S
        self._pause: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start accepting; the listener is non-blocking, and its owner closes it."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._listener, self._accept)
        if self._certificate is not None:
            self.use(self._certificate)

    @property
    def has_certificate(self) -> bool:
        return self._certificate is not None

    def use(self, certificate: Certificate) -> None:
        """Speak TLS with a certificate from now on, and keep it fresh."""
        self._certificate = certificate
        if self._keeping_fresh is None:
            self._keeping_fresh = asyncio.get_running_loop().create_task(certificate.keep_fresh())

    async def stop(self) -> None:
        """Stop accepting; ends connections in their handshake, the others go on."""
        if self._pause is not None:
            self._pause.cancel()
        if self._listener.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._listener)
        await end_tasks(*self._tasks, self._keeping_fresh)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                accepted, address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._rest(error)
                return
            self._scarce_s = SCARCE_S
            self._take(accepted, str(address[0]))

    def _take(self, accepted: socket.socket, address: str) -> None:
        slot = self._limits.take(address)
        if slot is None:
            accepted.close()
            return
        accepted.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._serve(accepted, slot))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _rest(self, error: OSError) -> None:
        """Pause for lack of file descriptors or memory."""
        self._limits.refusals.note(
            connection_limits.SHORT_OF_FILES, f"nobody: {error.strerror or error}"
        )
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        self._pause = loop.call_later(self._scarce_s, self.start)
        self._scarce_s = min(2 * self._scarce_s, SCARCE_MAX_S)

    async def _serve(self, accepted: socket.socket, slot: ConnectionSlot) -> None:
        """Create the connection, with TLS after its handshake."""
        try:
            if self._certificate is None and self._takes_plain:
                await self._connect(accepted, slot)
            elif await speaks_tls(accepted, self._handshake_s):
                if self._certificate is None:
                    raise ConnectionAbortedError("the port speaks no TLS yet")
                await self._connect(accepted, slot, self._certificate.context)
            elif self._takes_plain:
                await self._connect(accepted, slot)
            else:
                await refuse_plain(accepted)
                slot.release()
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            accepted.close()
            slot.release()
            if isinstance(error, (ssl.SSLError, TimeoutError, ConnectionError)):
                self._limits.refusals.note(connection_limits.TLS, slot.address)
        except BaseException:
            accepted.close()
            slot.release()
            raise

    async def _connect(
        self, accepted: socket.socket, slot: ConnectionSlot, tls: ssl.SSLContext | None = None
    ) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: self._make(slot),
            accepted,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else self._handshake_s,
        )
