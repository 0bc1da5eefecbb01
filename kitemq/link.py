"""A connection that comes back: connects, tells its user, and connects again when it is lost."""

import asyncio
import logging
from collections.abc import Callable

from kitemq.address import server_urls, socket_url, tls_contexts
from kitemq.backoff import Backoff
from kitemq.connection import ServerConnection
from kitemq.errors import KiteError, Unreachable

log = logging.getLogger("kitemq")

CONNECT_TIMEOUT_S = 5.0
CLOSE_REPLACED = 4001
REPLACED_FIRST_S = 1.0  # how long a client stays away that was replaced, at first
REPLACED_MAX_S = 60.0  # and at most
# Of several addresses one will lead soon: so long they are looked at so often.
SOON_S, SOON_WAIT_S = 10.0, 0.2
# A connection that lasts longer than any client stays away is not being fought over.
UNDISTURBED_S = 2 * REPLACED_MAX_S


class ServerLink:
    """Keeps one connection to a server until stopped; of several addresses to the one that leads.

    `on_up` is called with each new connection, `on_down` when it is lost; both on the loop's
    thread, and never while the other is missing.

    Where another connection took over this client's name, it comes back as well: an earlier
    process may have been replaced by mistake, or the later one may be gone. Two processes of one
    name replace each other ever more slowly, at last once a minute, with a warning each time.
    """

    def __init__(
        self,
        server: str,
        client: str,
        *,
        on_up: Callable[[ServerConnection], None],
        on_down: Callable[[], None],
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        ca: str = "",
    ) -> None:
        self._urls = server_urls(server)
        self._tls = tls_contexts(self._urls, ca)
        self.client = client
        self.connection: ServerConnection | None = None
        self._on_up = on_up
        self._on_down = on_down
        self._connect_timeout_s = connect_timeout_s
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The address that is used, or tried next."""
        return self._urls[0]

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

    async def _connect(self) -> ServerConnection:
        """A connection to the first address from the last one on that is no standby's."""
        failure = Unreachable("no address was tried")
        for _ in range(len(self._urls)):
            try:
                connection = await ServerConnection.open(
                    socket_url(self.url),
                    self.client,
                    timeout_s=self._connect_timeout_s,
                    tls=self._tls,
                )
            except Unreachable as error:
                failure = error
            else:
                standby = connection.wire.standby
                if not standby or len(self._urls) == 1:
                    return connection
                connection.abort()
                failure = Unreachable(f"{self.url} is a {standby}", remedy="promote a standby")
            self._urls.append(self._urls.pop(0))
        raise failure

    def _up(self, connection: ServerConnection) -> None:
        self.connection = connection
        self._on_up(connection)

    async def _keep(self, connection: ServerConnection) -> None:
        loop = asyncio.get_running_loop()
        backoff = Backoff()
        replaced = Backoff(REPLACED_FIRST_S, REPLACED_MAX_S)
        while True:
            began_s = loop.time()
            reason = await asyncio.shield(connection.wire.lost)
            log.info("connection to %s lost: %s", self.url, reason)
            self.connection = None
            self._on_down()
            if loop.time() - began_s > UNDISTURBED_S:
                replaced.reset()
            if connection.wire.close_code == CLOSE_REPLACED:
                await self._stay_away(replaced.next_s())
            connection = await self._reconnect(backoff)
            backoff.reset()
            self._up(connection)

    async def _stay_away(self, wait_s: float) -> None:
        log.warning(
            "another connection took over the client name %r at %s; connecting again in %.1f s. "
            "Give each process a client name of its own, or stop one of the two",
            self.client,
            self.url,
            wait_s,
        )
        await asyncio.sleep(wait_s)

    async def _reconnect(self, backoff: Backoff) -> ServerConnection:
        loop = asyncio.get_running_loop()
        soon_s = loop.time() + SOON_S if len(self._urls) > 1 else 0.0
        while True:
            wait_s = backoff.next_s()
            await asyncio.sleep(min(wait_s, SOON_WAIT_S) if loop.time() < soon_s else wait_s)
            try:
                return await self._connect()
            except Unreachable:
                continue
            except KiteError as error:
                log.warning("the server at %s turned us away: %s", self.url, error)
