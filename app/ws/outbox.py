"""Output queue of one WebSocket: bounded by its users, written at the end of the loop's turn.

Binary frames that wait together leave as one WebSocket message, so a loop turn that answered a
hundred requests costs one write.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from app.turn_end import TurnEnd

JOINED_BYTES_MAX = 256 * 1024


class OutgoingFrame(NamedTuple):
    """One frame on its way; `undo` runs if it never reaches the socket."""

    data: bytes | str
    undo: Callable[[], None] | None


class FrameWriter(Protocol):
    """The connection's socket, as an outbox sees it."""

    @property
    def can_write(self) -> bool:
        """Whether the connection is open and its transport has room; `resume` tells of more."""

    def write_message(self, data: bytes | str) -> None:
        """Write one WebSocket message."""

    def close_with(self, code: int, reason: str) -> None:
        """Begin the closing handshake."""


class Outbox:
    """Frames in the order they were put; `size_bytes` says how much waits."""

    def __init__(self, writer: FrameWriter, on_room: Callable[[], None], turn_end: TurnEnd) -> None:
        self._writer = writer
        self._on_room = on_room
        self._waiting: deque[OutgoingFrame] = deque()
        self._loop = asyncio.get_running_loop()
        self._turn_end = turn_end
        self._is_due = False
        self.is_reading = False  # `end_read` is called at the end of this callback of the loop
        self._close: tuple[int, str] | None = None
        self.size_bytes = 0

    def put(self, data: bytes | str, undo: Callable[[], None] | None = None) -> None:
        """Let `data` be written soon; never waits, so callers look at `size_bytes` first."""
        self._waiting.append(OutgoingFrame(data, undo))
        self.size_bytes += len(data)
        self.resume()

    def put_now(self, data: bytes) -> None:
        """The same, and it leaves at once where nothing else waits."""
        if self._waiting or self._close is not None or not self._writer.can_write:
            self.put(data)
        else:
            self._writer.write_message(data)

    def close(self, code: int, reason: str) -> None:
        """Close the WebSocket once everything put before is written."""
        self._close = (code, reason)
        self.resume()

    def resume(self) -> None:
        """Write soon; called also when the transport has room again."""
        if self._is_due:
            return
        self._is_due = True
        if not (self.is_reading or self._turn_end.defer(self._write)):
            self._loop.call_soon(self._write)

    def end_read(self) -> None:
        """Write what answers the messages of one read."""
        if self.is_reading:
            self.is_reading = False
            if self._is_due:
                self._write()

    def abandon(self) -> None:
        """Undo unwritten frames; the connection is gone."""
        for item in self._waiting:
            if item.undo is not None:
                item.undo()
        self._waiting.clear()

    def forget_owner(self) -> None:
        """Drop what refers to this outbox: nothing more is written."""
        self._waiting.clear()
        self._close = None
        self._on_room = _nothing

    def _write(self) -> None:
        self._is_due = False
        writer = self._writer
        while self._waiting and writer.can_write:
            data = self._take()
            self.size_bytes -= len(data)
            writer.write_message(data)
            self._on_room()
        if self._close is not None and not self._waiting and writer.can_write:
            writer.close_with(*self._close)

    def _take(self) -> bytes | str:
        """The next text frame, or the next binary frames joined up to `JOINED_BYTES_MAX`."""
        waiting = self._waiting
        first = waiting.popleft().data
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
            waiting.popleft()
        return b"".join(joined)


def _nothing() -> None:
    """Ignore a call: the owner is gone."""
