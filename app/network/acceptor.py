"""Accepts the connections of one port; each takes a slot before a protocol is created.

asyncio's own server accepts all waiting connections first: a thousand that arrive at once would use
up the file descriptors. If none is left all the same, the acceptor pauses before it tries again.
"""

import asyncio
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any

from app.network import connection_limits
from app.network.connection_limits import ConnectionLimits, ConnectionRefusals, ConnectionSlot
from app.tasks import end_tasks
from app.tls import Certificate, refuse_plain, speaks_tls

AT_ONCE = 64  # connections accepted in one turn of the event loop
SCARCE_S = 0.05  # after the first failure to accept; twice as long after each further one
SCARCE_MAX_S = 1.0


class AcceptLoop(ABC):
    """Accepts the connections of one non-blocking listener, which its owner closes."""

    def __init__(self, listener: socket.socket, refusals: ConnectionRefusals) -> None:
        """`refusals` counts and logs that there was no file for a connection."""
        self._listener = listener
        self._refusals = refusals
        self._tasks: set[asyncio.Task[None]] = set()
        self._scarce_s = SCARCE_S
        self._pause: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start accepting."""
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def stop_accepting(self) -> None:
        """Stop accepting; connections go on."""
        if self._pause is not None:
            self._pause.cancel()
        if self._listener.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._listener)

    async def stop(self) -> None:
        """Stop accepting, and end the connections that a task serves."""
        self.stop_accepting()
        await end_tasks(*self._tasks)

    @abstractmethod
    def _take(self, accepted: socket.socket, address: str) -> None:
        """Begin to serve a connection, or close it."""

    def _begin(self, serving: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(serving)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
            accepted.setblocking(False)
            self._take(accepted, str(address[0]))

    def _rest(self, error: OSError) -> None:
        """Pause for lack of file descriptors or memory."""
        self._note_shortage(error)
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        self._pause = loop.call_later(self._scarce_s, self.start)
        self._scarce_s = min(2 * self._scarce_s, SCARCE_MAX_S)

    def _note_shortage(self, error: OSError) -> None:
        text = f"nobody: {error.strerror or error}"
        self._refusals.note(connection_limits.SHORT_OF_FILES, text)


class Acceptor(AcceptLoop):
    """Accepts between `start` and `stop`; `make` creates a connection's protocol."""

    def __init__(
        self,
        listener: socket.socket,
        limits: ConnectionLimits,
        make: Callable[[ConnectionSlot], asyncio.Protocol],
        *,
        certificate: Certificate | None,
        handshake_s: float,
        takes_plain: bool = False,
    ) -> None:
        """With a `certificate` the port speaks TLS and refuses plain clients with a message.

        With `takes_plain`, the first byte of each connection decides instead.
        """
        super().__init__(listener, limits.refusals)
        self._takes_plain = takes_plain
        self._limits = limits
        self._make = make
        self._certificate = certificate
        self._keeping_fresh: asyncio.Task[None] | None = None
        self._handshake_s = handshake_s

    def start(self) -> None:
        super().start()
        if self._certificate is not None and self._keeping_fresh is None:
            self._keeping_fresh = asyncio.create_task(self._certificate.keep_fresh())

    async def stop(self) -> None:
        """Stop accepting; ends connections in their handshake, the others go on."""
        await super().stop()
        await end_tasks(self._keeping_fresh)

    def _take(self, accepted: socket.socket, address: str) -> None:
        slot = self._limits.take(address)
        if slot is None:
            accepted.close()
        else:
            self._begin(self._serve(accepted, slot))

    async def _serve(self, accepted: socket.socket, slot: ConnectionSlot) -> None:
        """Create the connection, with TLS after its handshake."""
        try:
            if self._certificate is None:
                await self._connect(accepted, slot)
            elif await speaks_tls(accepted, self._handshake_s):
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
