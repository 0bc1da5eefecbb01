"""A connection that comes back: connects, tells its user, and connects again when it is lost."""

import asyncio
import logging
from collections.abc import Callable

from kitemq.address import server_url, socket_url
from kitemq.backoff import Backoff
from kitemq.connection import Connection
from kitemq.errors import KiteError, Stopped, Unreachable

log = logging.getLogger("kitemq")

CONNECT_TIMEOUT_S = 5.0
CLOSE_REPLACED = 4001


class Link:
    """Keeps one connection to a server until stopped.

    `on_up` is called with each new connection, `on_down` when it is lost; both on the loop's
    thread, and never while the other is missing. `on_end` says that another connection took over
    this client's name: then nothing is tried any more, or the two would fight for ever.
    """

    def __init__(
        self,
        server: str,
        client: str,
        *,
        on_up: Callable[[Connection], None],
        on_down: Callable[[], None],
        on_end: Callable[[KiteError], None],
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self.url = server_url(server)
        self.client = client
        self.connection: Connection | None = None
        self._on_up = on_up
        self._on_down = on_down
        self._on_end = on_end
        self._connect_timeout_s = connect_timeout_s
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Make the first connection; raises Unreachable where there is no server."""
        connection = await self._connect()
        self._task = asyncio.create_task(self._keep(connection))
        self._up(connection)

    async def stop(self) -> None:
        """Close the connection cleanly and stay away."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        connection, self.connection = self.connection, None
        if connection is not None:
            await connection.close()

    async def _connect(self) -> Connection:
        return await Connection.open(
            socket_url(self.url), self.client, timeout_s=self._connect_timeout_s
        )

    def _up(self, connection: Connection) -> None:
        self.connection = connection
        self._on_up(connection)

    async def _keep(self, connection: Connection) -> None:
        backoff = Backoff()
        while True:
            reason = await asyncio.shield(connection.wire.lost)
            log.info("connection to %s lost: %s", self.url, reason)
            self.connection = None
            self._on_down()
            if connection.wire.close_code == CLOSE_REPLACED:
                detail = f"another connection took over the client name {self.client!r}"
                self._on_end(Stopped(detail, remedy="give each client a name of its own"))
                return
            connection = await self._reconnect(backoff)
            backoff.reset()
            self._up(connection)

    async def _reconnect(self, backoff: Backoff) -> Connection:
        while True:
            await asyncio.sleep(backoff.next_s())
            try:
                return await self._connect()
            except Unreachable:
                continue
            except KiteError as error:
                log.warning("the server at %s turned us away: %s", self.url, error)
