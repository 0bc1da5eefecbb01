"""What waits to be written to a telemetry stream, bounded in number and in bytes.

A client that does not read is not asked any more; it costs no more memory than this.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

OUTBOX_MAX = 64  # commands that wait for a slow stream
OUTBOX_BYTES_MAX = 8 * 1024 * 1024  # of one stream; a question about a message brings its body
OUTBOXES_BYTES_MAX = 64 * 1024 * 1024  # of all streams


class StreamBytesBudget:
    """So many bytes for many takers together."""

    def __init__(self, size_bytes: int) -> None:
        self._left_bytes = size_bytes

    def take(self, size_bytes: int) -> bool:
        """Whether there is room for these, which are taken then; `give` them back one day."""
        if size_bytes > self._left_bytes:
            return False
        self._left_bytes -= size_bytes
        return True

    def give(self, size_bytes: int) -> None:
        self._left_bytes += size_bytes


class TelemetryStream:
    """What is to be written to one telemetry stream; None ends it."""

    def __init__(self, metadata: Mapping[str, str], room: StreamBytesBudget) -> None:
        """`metadata` is what its call said of the caller; `room` is for all streams."""
        self.metadata = metadata
        self.is_open = True
        self.error: Exception | None = None  # why it ends, where the client is at fault
        self._outbox: asyncio.Queue[Any] = asyncio.Queue(OUTBOX_MAX)
        self._room = room
        self._held_bytes = 0
        self._written_bytes = 0  # of the command that was taken last

    def offer(self, command: Any) -> bool:
        """Write a command soon; False where the stream is closed, too slow, or all are."""
        size_bytes = command.ByteSize()
        if not self.is_open or self._outbox.full():
            return False
        if self._held_bytes + size_bytes > OUTBOX_BYTES_MAX or not self._room.take(size_bytes):
            return False
        self._held_bytes += size_bytes
        self._outbox.put_nowait(command)
        return True

    async def next(self) -> Any:
        """The next command, once there is one; None at the end. The one before was written."""
        self._give(self._written_bytes)
        self._written_bytes = 0
        command = await self._outbox.get()
        if command is not None:
            self._written_bytes = command.ByteSize()
        return command

    def close(self) -> None:
        """Write what waits, then end."""
        if self.is_open:
            self.is_open = False
            if self._outbox.full():
                self._outbox.get_nowait()
            self._outbox.put_nowait(None)

    def refuse(self, error: Exception) -> None:
        """End, with the reason and without what waits."""
        self.error = error
        while not self._outbox.empty():
            self._outbox.get_nowait()
        self.close()

    def is_over(self) -> None:
        """Nobody writes any more: what waits is thrown away."""
        self.is_open = False
        self._give(self._held_bytes)

    def _give(self, size_bytes: int) -> None:
        self._held_bytes -= size_bytes
        self._room.give(size_bytes)
