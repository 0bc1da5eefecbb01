"""Looks at every open connection once a second: what takes too long, and who reads too slowly.

Connections say what they wait for; nothing here costs a request any time. Bytes that wait for slow
clients are counted as soon as a transport's buffer is full, and bounded over all connections.
"""

import asyncio
import logging
from collections import Counter
from typing import Any, Protocol

from app.connection_settings import ConnectionSettings
from app.network import connection_limits
from app.network.connection_limits import ConnectionLimits, ConnectionSlot
from app.network.open_files import open_count

log = logging.getLogger("kitemq.network")

LOOK_S = 1.0
AT_ONCE = 500  # connections looked at before others run
FILES_EVERY = 5  # looks from one count of the open files to the next
LINGER_S = 10.0  # for a peer to read the rest of what was written before its connection was closed
FRAMES_BYTES_MAX = 1024 * 1024  # that wait for one WebSocket client while it goes on asking


class MonitoredTransport(Protocol):
    """What is asked of a connection's transport."""

    def is_closing(self) -> bool: ...

    def abort(self) -> None: ...

    def get_write_buffer_size(self) -> int: ...


class TransferRate:
    """Whether something comes on with a least speed over each span of time."""

    __slots__ = ("_count", "_since_s")

    def __init__(self, now_s: float, count: int) -> None:
        self._since_s = now_s
        self._count = count

    def is_too_slow(self, now_s: float, count: int, span_s: float, bytes_per_s: int) -> bool:
        """Look at a count of bytes that only grows; begins a new span when one is over."""
        if now_s - self._since_s < span_s:
            return False
        is_slow = count - self._count < span_s * bytes_per_s
        self._since_s, self._count = now_s, count
        return is_slow


class MonitoredConnection(asyncio.Protocol):
    """What HTTP and WebSocket connections share; stands before uvicorn's protocol as a base."""

    transport: Any
    _place: ConnectionSlot
    _watch: "ConnectionMonitor"
    _closing_s = 0.0
    _stall: TransferRate | None = None
    _stall_bytes = 0  # that waited when it was looked at last

    def _enter(self, place: ConnectionSlot, watch: "ConnectionMonitor") -> None:
        self._place = place
        self._watch = watch

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._watch.connections.add(self)

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
        """The buffer is full: what more is written waits in the application."""
        self._stall_bytes = self.transport.get_write_buffer_size()
        self._watch.begin_stall(self)

    def _end_stall(self) -> None:
        self._stall = None
        self._watch.end_stall(self)

    def _leave(self) -> None:
        """The connection is over."""
        self._end_stall()
        self._watch.connections.discard(self)
        self._place.release()

    def end(self, reason: str) -> None:
        """Close it at once, with whatever waits to be written."""
        self._watch.places.refusals.note(reason, self._place.address)
        self.transport.abort()

    def look(self, now_s: float) -> None:
        """End it where it is closed and its peer does not read the rest, or reads too slowly."""
        if self.transport.is_closing():
            self._closing_s = self._closing_s or now_s
            if now_s - self._closing_s >= LINGER_S:
                self.transport.abort()
        elif self._watch.is_stalled(self):
            self._look_at_stall(now_s)

    def _look_at_stall(self, now_s: float) -> None:
        settings = self._watch.settings
        left = self.transport.get_write_buffer_size()
        self._watch.count_stall(self, left)
        if self._stall is None:
            self._stall = TransferRate(now_s, -left)
        elif self._stall.is_too_slow(
            now_s, -left, settings.write_timeout_s, settings.transfer_bytes_per_s_min
        ):
            self.end(connection_limits.SLOW_READER)


class ConnectionMonitor:
    """The connections of the HTTP port; `start` and `stop` once, on the event loop."""

    def __init__(self, settings: ConnectionSettings, places: ConnectionLimits) -> None:
        self.settings = settings
        self.places = places
        self.connections: set[MonitoredConnection] = set()
        self.unread_bytes = 0
        self._stalled: dict[MonitoredConnection, int] = {}  # the oldest stall first
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._looking = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
            self._looking = None

    def is_stalled(self, connection: MonitoredConnection) -> bool:
        return connection in self._stalled

    def begin_stall(self, connection: MonitoredConnection) -> None:
        """A client does not read as fast as it is written to."""
        self.count_stall(connection, connection._stall_bytes)
        if self.unread_bytes > self.settings.unread_bytes_max:
            # Not from within the write that led here.
            asyncio.get_running_loop().call_soon(self._end_largest)

    def count_stall(self, connection: MonitoredConnection, size_bytes: int) -> None:
        """So many bytes wait for a stalled client now."""
        self.unread_bytes += size_bytes - self._stalled.get(connection, 0)
        self._stalled[connection] = size_bytes

    def end_stall(self, connection: MonitoredConnection) -> None:
        self.unread_bytes -= self._stalled.pop(connection, 0)

    def _end_largest(self) -> None:
        """Of the address for which most bytes wait, end the oldest stalls, until it is enough."""
        while self.unread_bytes > self.settings.unread_bytes_max and self._stalled:
            sizes: Counter[str] = Counter()
            for connection, size_bytes in self._stalled.items():
                sizes[connection._place.address] += size_bytes
            ((largest, _),) = sizes.most_common(1)
            oldest = next(each for each in self._stalled if each._place.address == largest)
            self.end_stall(oldest)
            oldest.end(connection_limits.UNREAD)

    async def _run(self) -> None:
        loop, looks = asyncio.get_running_loop(), 0
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self._look_at_all(loop.time())
                if looks % FILES_EVERY == 0:
                    await self._count_files()
            except Exception:
                log.exception("a look at the connections failed")
            looks += 1

    async def _look_at_all(self, now_s: float) -> None:
        connections = tuple(self.connections)
        for start in range(0, len(connections), AT_ONCE):
            for connection in connections[start : start + AT_ONCE]:
                if connection in self.connections:
                    connection.look(now_s)
            await asyncio.sleep(0)
        if self.unread_bytes > self.settings.unread_bytes_max:
            self._end_largest()

    async def _count_files(self) -> None:
        of_connections = self.places.files
        count = await asyncio.to_thread(open_count)
        if count is not None:
            self.places.make_room(count - min(of_connections, self.places.files))
