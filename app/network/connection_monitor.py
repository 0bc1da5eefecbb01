"""Checks every open connection once a second for timeouts and slow readers.

Bytes that wait for slow clients count as soon as a transport's buffer is full, and are bounded over
all connections. Requests are not slowed down by these checks.
"""

import asyncio
import logging
from collections import Counter
from typing import Any

from app.connection_settings import ConnectionSettings
from app.network import connection_limits
from app.network.connection_limits import ConnectionLimits, ConnectionSlot
from app.network.open_files import open_count
from app.tasks import end_tasks

log = logging.getLogger("kitemq.network")

LOOK_S = 1.0
AT_ONCE = 500  # connections checked in one turn of the event loop
FILES_EVERY = 5  # checks between two counts of open files
LINGER_S = 10.0  # for a peer to read the rest after its connection was closed
FRAMES_BYTES_MAX = 1024 * 1024  # waiting for a WebSocket client that goes on sending


class TransferRate:
    """Compares the rate of a byte count with a minimum, span by span."""

    __slots__ = ("_count", "_since_s")

    def __init__(self, now_s: float, count: int) -> None:
        self._since_s = now_s
        self._count = count

    def is_too_slow(self, now_s: float, count: int, span_s: float, bytes_per_s: int) -> bool:
        """Whether a growing byte count was below the minimum in the span that is over."""
        if now_s - self._since_s < span_s:
            return False
        is_slow = count - self._count < span_s * bytes_per_s
        self._since_s, self._count = now_s, count
        return is_slow


class MonitoredConnection(asyncio.Protocol):
    """Base of all monitored connections; precedes uvicorn's protocol in the bases."""

    transport: Any
    _slot: ConnectionSlot
    _monitor: "ConnectionMonitor"
    _closing_s = 0.0
    _stall: TransferRate | None = None
    _stall_bytes = 0  # waiting at the last check

    def _enter(self, slot: ConnectionSlot, monitor: "ConnectionMonitor") -> None:
        self._slot = slot
        self._monitor = monitor

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._monitor.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._leave()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._begin_stall()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_stall()

    def _begin_stall(self) -> None:
        """The transport's buffer is full; further data waits in the application."""
        self._stall_bytes = self.transport.get_write_buffer_size()
        self._monitor.begin_stall(self)

    def _end_stall(self) -> None:
        self._stall = None
        self._monitor.end_stall(self)

    def _leave(self) -> None:
        """The connection is over."""
        self._end_stall()
        self._monitor.connections.discard(self)
        self._slot.release()

    def end(self, reason: str) -> None:
        """Abort the connection; unsent data is lost."""
        self._monitor.limits.refusals.note(reason, self._slot.address)
        self.transport.abort()

    def check(self, now_s: float) -> None:
        """End a closing connection whose peer does not read, or a slow reader."""
        if self.transport.is_closing():
            self._closing_s = self._closing_s or now_s
            if now_s - self._closing_s >= LINGER_S:
                self.transport.abort()
        elif self._monitor.is_stalled(self):
            self._check_stall(now_s)

    def _check_stall(self, now_s: float) -> None:
        settings = self._monitor.settings
        unwritten_bytes = self.transport.get_write_buffer_size()
        self._monitor.count_stall(self, unwritten_bytes)
        if self._stall is None:
            self._stall = TransferRate(now_s, -unwritten_bytes)
        elif self._stall.is_too_slow(
            now_s, -unwritten_bytes, settings.write_timeout_s, settings.transfer_bytes_per_s_min
        ):
            self.end(connection_limits.SLOW_READER)


class ConnectionMonitor:
    """The connections of the HTTP port; `start` and `stop` once, on the event loop."""

    def __init__(self, settings: ConnectionSettings, limits: ConnectionLimits) -> None:
        self.settings = settings
        self.limits = limits
        self.connections: set[MonitoredConnection] = set()
        self.unread_bytes = 0
        self._stalled: dict[MonitoredConnection, int] = {}  # the oldest stall first
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._looking = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        await end_tasks(self._looking)
        self._looking = None

    def is_stalled(self, connection: MonitoredConnection) -> bool:
        return connection in self._stalled

    def begin_stall(self, connection: MonitoredConnection) -> None:
        """A client reads more slowly than it is sent data."""
        self.count_stall(connection, connection._stall_bytes)
        if self.unread_bytes > self.settings.unread_bytes_max:
            # Later, as this is called during a write.
            asyncio.get_running_loop().call_soon(self._end_largest)

    def count_stall(self, connection: MonitoredConnection, size_bytes: int) -> None:
        """Set the bytes that wait for a stalled client."""
        self.unread_bytes += size_bytes - self._stalled.get(connection, 0)
        self._stalled[connection] = size_bytes

    def end_stall(self, connection: MonitoredConnection) -> None:
        self.unread_bytes -= self._stalled.pop(connection, 0)

    def _end_largest(self) -> None:
        """End the oldest stalled connections of the address with most waiting bytes."""
        while self.unread_bytes > self.settings.unread_bytes_max and self._stalled:
            sizes: Counter[str] = Counter()
            for connection, size_bytes in self._stalled.items():
                sizes[connection._slot.address] += size_bytes
            ((largest, _),) = sizes.most_common(1)
            oldest = next(each for each in self._stalled if each._slot.address == largest)
            self.end_stall(oldest)
            oldest.end(connection_limits.UNREAD)

    async def _run(self) -> None:
        loop, looks = asyncio.get_running_loop(), 0
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self._check_all(loop.time())
                if looks % FILES_EVERY == 0:
                    await self._count_files()
            except Exception:
                log.exception("a look at the connections failed")
            looks += 1

    async def _check_all(self, now_s: float) -> None:
        connections = tuple(self.connections)
        for start in range(0, len(connections), AT_ONCE):
            for connection in connections[start : start + AT_ONCE]:
                if connection in self.connections:
                    connection.check(now_s)
            await asyncio.sleep(0)
        if self.unread_bytes > self.settings.unread_bytes_max:
            self._end_largest()

    async def _count_files(self) -> None:
        of_connections = self.limits.count
        count = await asyncio.to_thread(open_count)
        if count is not None:
            self.limits.make_room(count - min(of_connections, self.limits.count))
