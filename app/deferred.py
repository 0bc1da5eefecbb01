"""An ASGI application that is loaded on a thread, with its first request.

Requests wait until it is there; the event loop goes on meanwhile. Where loading fails, such as with
too many open files, the waiting requests get the error, and the next one tries again.
"""

import asyncio
import gc
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send


class Deferred:
    """ASGI callable that passes requests to what `load` returns; `load` runs on a thread."""

    def __init__(self, load: Callable[[], ASGIApp]) -> None:
        self._load = load
        self._app: ASGIApp | None = None
        self._loading: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while self._app is None:
            await self._loaded()
        await self._app(scope, receive, send)

    async def _loaded(self) -> None:
        """Wait until it is loaded; raises what `load` raised."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._load_beside())
            self._loading.add_done_callback(self._end)
        # A client that goes away does not end what others wait for.
        await asyncio.shield(self._loading)

    async def _load_beside(self) -> None:
        self._app = await asyncio.to_thread(self._load)
        # It stays until the end: no collector need look at it (see `settle_memory` in serve.py).
        if gc.get_freeze_count():
            gc.freeze()

    def _end(self, task: "asyncio.Task[None]") -> None:
        self._loading = None
        if not task.cancelled():
            task.exception()  # its requests tell of it
