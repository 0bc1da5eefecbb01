"""Outgoing commands of a telemetry stream, bounded in number and bytes.

A client that does not read gets no further commands.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

OUTBOX_MAX = 64  # commands of one stream
OUTBOX_BYTES_MAX = 8 * 1024 * 1024  # of one stream; a check of a message includes its body
OUTBOXES_BYTES_MAX = 64 * 1024 * 1024  # of all streams


class StreamBytesBudget:
    """A budget of bytes that streams share."""

    def __init__(self, size_bytes: int) -> None:
        self._left_bytes = size_bytes

    def take(self, size_bytes: int) -> bool:
        """Reserve bytes; False if there is no room. Return them by `give`."""
        if size_bytes > self._left_bytes:
            return False
        self._left_bytes -= size_bytes
        return True

    def give(self, size_bytes: int) -> None:
        self._left_bytes += size_bytes


class TelemetryStream:
    """The outbox of one telemetry stream; None ends it."""

    def __init__(self, metadata: Mapping[str, str], room: StreamBytesBudget) -> None:
        """`metadata` are the headers of its call; `room` is shared by all streams."""
        self.metadata = metadata
        self.is_open = True
        self.error: Exception | None = None  # why it ends, if the client caused it
        self._outbox: asyncio.Queue[Any] = asyncio.Queue(OUTBOX_MAX)
        self._room = room
        self._outbox_bytes = 0
        self._written_bytes = 0  # of the last command

    def offer(self, command: Any) -> bool:
        """Queue a command; False if the stream is closed, or it or all streams are full."""
        size_bytes = command.ByteSize()
        if not self.is_open or self._outbox.full():
            return False
        if self._outbox_bytes + size_bytes > OUTBOX_BYTES_MAX or not self._room.take(size_bytes):
            return False
        self._outbox_bytes += size_bytes
        self._outbox.put_nowait(command)
        return True

    async def next(self) -> Any:
        """Wait for the next command; None at the end. The previous one counts as written."""
        self._give(self._written_bytes)
        self._written_bytes = 0
        command = await self._outbox.get()
        if command is not None:
            self._written_bytes = command.ByteSize()
        return command

    def close(self) -> None:
        """End after the queued commands."""
        if self.is_open:
            self.is_open = False
            if self._outbox.full():
                self._outbox.get_nowait()
            self._outbox.put_nowait(None)

    def refuse(self, error: Exception) -> None:
        """End with `error`, without the queued commands."""
        self.error = error
        while not self._outbox.empty():
            self._outbox.get_nowait()
        self.close()

    def is_over(self) -> None:
        """Discard the queued commands: the stream has ended."""
        self.is_open = False
        self._give(self._outbox_bytes)

    def _give(self, size_bytes: int) -> None:
        self._outbox_bytes -= size_bytes
        self._room.give(size_bytes)
