"""Callbacks of producer groups before a cluster: in a file of the server's own directory.

Brokers ask any producer of a group about its transactions, and know nothing of callbacks: the
server gives signs of life for each group that has one, and calls it when it is asked.
"""

import asyncio
import logging
from pathlib import Path

import msgspec

from app.atomic_files import sync_folder
from app.security.private_files import write_private
from engine.broker import Callback, CallbackTable
from engine.errors import DiskFull

log = logging.getLogger("kitemq.cluster")

FILE = "transaction_callbacks.json"


class ClusterCallbacks(CallbackTable):
    """Those that were registered here, readable by the server's user only."""

    def __init__(self, folder: Path | None) -> None:
        """Without a folder they end with the process."""
        super().__init__()
        self._path = folder / FILE if folder else None
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """Read the file; a damaged one is set aside, and there are no callbacks."""
        if self._path is None:
            return
        try:
            content = await asyncio.to_thread(self._path.read_bytes)
            callbacks = msgspec.json.decode(content, type=list[Callback])
        except FileNotFoundError:
            return
        except ValueError as error:
            damaged = self._path.with_name(f"{FILE}.damaged")
            await asyncio.to_thread(self._path.replace, damaged)
            log.error("callbacks are gone: %s is damaged and now %s: %s", FILE, damaged.name, error)
            return
        self._callbacks = {each.group: each for each in callbacks}

    async def set(self, callback: Callback) -> Callback:
        """Register one, in the place of an older one. Raises Invalid, Busy, DiskFull."""
        async with self._writing:
            self.check_new(callback)
            await self._keep({**self._callbacks, callback.group: callback})
        return callback

    async def delete(self, group: str) -> None:
        """Call a group no more; GroupNotFound where it has no callback."""
        async with self._writing:
            self.get(group)
            rest = {name: each for name, each in self._callbacks.items() if name != group}
            await self._keep(rest)

    async def _keep(self, callbacks: dict[str, Callback]) -> None:
        if self._path is not None:
            content = msgspec.json.encode(list(callbacks.values()))
            try:
                await asyncio.to_thread(_write, self._path, content)
            except OSError as error:
                raise DiskFull(
                    f"the callbacks cannot be kept: {error}",
                    remedy=f"look at the space and the rights of {self._path.parent}",
                ) from error
        self._callbacks = callbacks


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f"{path.name}.part")
    write_private(part, content)
    part.replace(path)
    sync_folder(path.parent)
