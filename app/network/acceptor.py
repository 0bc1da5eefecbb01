"""Accepts the connections of one port: each gets its place before anything is made for it.

The event loop's own server would accept whatever waits first, and count afterwards: a thousand
connections that arrive at once would take every file. Where a file is missing all the same, it
waits a little instead of trying again and again.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable

from app.network import connection_limits
from app.network.connection_limits import ConnectionLimits, ConnectionSlot
from app.tls import Certificate, refuse_plain, speaks_tls

AT_ONCE = 64  # accepted before others run
SCARCE_S = 0.05  # after the first failure to accept; twice as long after each further one
SCARCE_MAX_S = 1.0


class Acceptor:
    """Listens between `start` and `stop`; `make` gives the protocol of a connection."""

    def __init__(
        self,
        listener: socket.socket,
        places: ConnectionLimits,
        make: Callable[[ConnectionSlot], asyncio.Protocol],
        *,
        certificate: Certificate | None,
        handshake_s: float,
        takes_plain: bool = False,
    ) -> None:
        """With a `certificate` the port speaks TLS only, and a plain client is told so.

        Unless it `takes_plain`: then the first byte of each connection decides.
        """
        self._takes_plain = takes_plain
        self._listener = listener
        self._places = places
        self._make = make
        self._certificate = certificate
        self._keeping_fresh: asyncio.Task[None] | None = None
        self._handshake_s = handshake_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._scarce_s = SCARCE_S
        self._pause: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to accept; the listener is not blocking and closed by its owner."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._listener, self._accept)
        if self._certificate is not None and self._keeping_fresh is None:
            self._keeping_fresh = loop.create_task(self._certificate.keep_fresh())

    async def stop(self) -> None:
        """Accept no more; connections that are not made yet end, the others go on."""
        if self._pause is not None:
            self._pause.cancel()
        if self._listener.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._listener)
        tasks = list(self._tasks)
        if self._keeping_fresh is not None:
            tasks.append(self._keeping_fresh)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

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
        place = self._places.take(address)
        if place is None:
            accepted.close()
            return
        accepted.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._serve(accepted, place))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _rest(self, error: OSError) -> None:
        """No file is left, or no memory: others need time to give some back."""
        self._places.refusals.note(
            connection_limits.SHORT_OF_FILES, f"nobody: {error.strerror or error}"
        )
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        self._pause = loop.call_later(self._scarce_s, self.start)
        self._scarce_s = min(2 * self._scarce_s, SCARCE_MAX_S)

    async def _serve(self, accepted: socket.socket, place: ConnectionSlot) -> None:
        """Make the connection; with TLS its handshake is over when this is."""
        try:
            if self._certificate is None:
                await self._connect(accepted, place)
            elif await speaks_tls(accepted, self._handshake_s):
                await self._connect(accepted, place, self._certificate.context)
            elif self._takes_plain:
                await self._connect(accepted, place)
            else:
                await refuse_plain(accepted)
                place.release()
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            accepted.close()
            place.release()
            if isinstance(error, (ssl.SSLError, TimeoutError, ConnectionError)):
                self._places.refusals.note(connection_limits.TLS, place.address)
        except BaseException:
            accepted.close()
            place.release()
            raise

    async def _connect(
        self, accepted: socket.socket, place: ConnectionSlot, tls: ssl.SSLContext | None = None
    ) -> None:
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: self._make(place),
            accepted,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else self._handshake_s,
        )
