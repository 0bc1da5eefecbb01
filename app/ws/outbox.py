"""Output queue of one WebSocket: bounded by its users, written by one task.

Binary frames that wait together leave as one WebSocket message, so a loop turn that answered a
hundred requests costs one write.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from starlette.types import Send

JOINED_BYTES_MAX = 256 * 1024


class Outgoing(NamedTuple):
    """One frame on its way; `undo` runs if it never reaches the socket."""

    data: bytes | str
    undo: Callable[[], None] | None


class Outbox:
    """Frames in the order they were put; `size_bytes` says how much waits."""

    def __init__(self, on_room: Callable[[], None]) -> None:
        self._waiting: deque[Outgoing] = deque()
        self._leaving: list[Outgoing] = []  # handed to the socket, which has not taken them yet
        self._on_room = on_room
        self._wake = asyncio.Event()
        self._close: tuple[int, str] | None = None
        self.size_bytes = 0

    def put(self, data: bytes | str, undo: Callable[[], None] | None = None) -> None:
        """Let `data` be written soon; never waits, so callers look at `size_bytes` first."""
        self._waiting.append(Outgoing(data, undo))
        self.size_bytes += len(data)
        self._wake.set()

    def close(self, code: int, reason: str) -> None:
        """Close the WebSocket once everything put before is written."""
        self._close = (code, reason)
        self._wake.set()

    def abandon(self) -> None:
        """Undo unwritten frames; the connection is gone."""
        for item in (*self._leaving, *self._waiting):
            if item.undo is not None:
                item.undo()
        self._leaving.clear()
        self._waiting.clear()

    def forget_owner(self) -> None:
        """Drop the callbacks for room, which refer to this outbox: nothing more is written."""
        self._on_room = _nothing

    async def run(self, send: Send) -> None:
        """Write until closed; ends by itself after `close`, else with the task's cancellation."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                data = self._take()
                kind = "text" if isinstance(data, str) else "bytes"
                await send({"type": "websocket.send", kind: data})
                self._leaving.clear()
                self.size_bytes -= len(data)
                self._on_room()
            if self._close is not None:
                code, reason = self._close
                await send({"type": "websocket.close", "code": code, "reason": reason})
                return

    def _take(self) -> bytes | str:
        """The next text frame, or the next binary frames joined up to `JOINED_BYTES_MAX`."""
        waiting, leaving = self._waiting, self._leaving
        leaving.append(waiting.popleft())
        first = leaving[0].data
        if isinstance(first, str) or not waiting:
            return first
        joined = [first]
        size_bytes = len(first)
        while waiting:
            data = waiting[0].data
            size_bytes += len(data)
            if isinstance(data, str) or size_bytes > JOINED_BYTES_MAX:
                break
            joined.append(data)
            leaving.append(waiting.popleft())
        return b"".join(joined)


def _nothing() -> None:
    """Ignore a call: the owner is gone."""
