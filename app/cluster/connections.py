"""Connections by address: one each, made when it is needed, and again after it was lost.

After a failure the address is left alone for a while that doubles up to BACKOFF_MAX_S; who asks in
that time gets the failure at once.
"""

import asyncio
import time
from collections.abc import Callable

from app.cluster.connection import ClusterConnection, OnRequest, connect, take_none
from app.cluster.errors import ClusterError, ClusterUnreachable
from app.tasks import end_tasks
from protocol.remoting.frames import Command
from protocol.remoting.signature import ACCESS_KEY, SIGNATURE, sign

BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 5.0
FAILURES_MAX = 10


class ConnectionPool:
    """The connections of one client, which signs its requests where it has an access key."""

    def __init__(self, access_key: str = "", secret_key: str = "") -> None:
        self._access_key, self._secret_key = access_key, secret_key
        self.on_requests: dict[int, OnRequest] = {}  # by request code
        self.on_connect: Callable[[], None] = lambda: None
        self._connections: dict[str, ClusterConnection] = {}
        self._making: dict[str, asyncio.Task[ClusterConnection]] = {}
        self._failures: dict[str, tuple[int, float, ClusterError]] = {}  # how many, until when

    async def ask(self, address: str, command: Command, timeout_s: float) -> Command:
        """The answer of who listens there; ClusterUnreachable, ClusterNoAnswer."""
        if self._access_key:
            command.fields[ACCESS_KEY] = self._access_key
            command.fields[SIGNATURE] = sign(command, self._secret_key)
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            connection = await self._connect(address)
        return await connection.ask(command, timeout_s)

    async def close(self) -> None:
        """Close all."""
        await end_tasks(*self._making.values())
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def _connect(self, address: str) -> ClusterConnection:
        """The one connection that all who ask at the same time wait for."""
        _, until_s, error = self._failures.get(address, (0, 0.0, ClusterError("")))
        if time.monotonic() < until_s:
            raise ClusterUnreachable(error.detail, remedy=error.remedy)
        making = self._making.get(address)
        if making is None:
            making = self._making[address] = asyncio.create_task(self._make(address))
        return await asyncio.shield(making)

    def _hear(self, address: str, command: Command) -> int:
        return self.on_requests.get(command.code, take_none)(address, command)

    async def _make(self, address: str) -> ClusterConnection:
        try:
            connection = await connect(address, self._hear)
        except ClusterUnreachable as error:
            failures = min(self._failures.get(address, (0, 0.0, error))[0] + 1, FAILURES_MAX)
            wait_s = min(BACKOFF_FIRST_S * 2.0**failures, BACKOFF_MAX_S)
            self._failures[address] = failures, time.monotonic() + wait_s, error
            raise
        finally:
            del self._making[address]
        self._failures.pop(address, None)
        self._connections[address] = connection
        self.on_connect()
        return connection
