"""KiteMQ's own port for classic clients in a cluster's place, for servers that stand before one.

Figures that such a server keeps for a second or two are asked for again at each look, since a test
looks at once; how long they are kept is tested where they are made.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from app.cluster import catalog, census
from app.cluster.verbs import group_lists, member_lists, topic_lists
from app.main import Application, create_app
from app.settings import Settings
from engine.clock import Clock, SystemClock
from engine.config import EngineConfig
from tests.remoting import port
from tests.remoting.port import Running

START_TIMEOUT_S = 60.0
KEPT = (
    (census, "TABLE_S"), (topic_lists, "STATS_S"), (group_lists, "AGES_S"),
    (member_lists, "MEMBERS_S"),
)  # fmt: skip
OF_THE_ENGINE = {each.name for each in fields(EngineConfig)} - {"data", "disk_free_min_bytes"}


def place_of(data: Path) -> Path:
    """The cluster's own directory, beside that of a server."""
    return data.with_name(f"{data.name}-cluster")


def apart(changes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of a server before a cluster, and those of the engine in the cluster's place."""
    own = {name: value for name, value in changes.items() if name not in OF_THE_ENGINE}
    return own, {name: value for name, value in changes.items() if name in OF_THE_ENGINE}


def application_of(settings: Settings, *, clock: Clock | None = None) -> Application:
    """A server that keeps no figures."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in KEPT:
            patch.setattr(module, name, 0.0)
        return create_app(settings, clock=clock)


def check(app: Application) -> None:
    """What tests were left out for is lacking indeed, and nothing else."""
    assert app.services.messaging.capabilities == catalog.CLUSTER


@asynccontextmanager
async def opened(data: Path, **changes: Any) -> AsyncIterator[Running]:
    """The cluster in the test's own loop."""
    async with port.opened(data, **changes) as running:
        yield running


class LiveStandIn:
    """The cluster in a thread of its own, between `start` and `stop`; each once."""

    def __init__(self, data: Path, **changes: Any) -> None:
        self._data, self._changes = data, changes
        self._is_ready = threading.Event()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._running: Running | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    @property
    def address(self) -> str:
        """Its name server."""
        assert self._running is not None
        return self._running.port.address

    @property
    def broker(self) -> Any:
        """Its engine, for functions that `LiveServer.call` runs."""
        assert self._running is not None
        return self._running.broker

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        assert self._is_ready.wait(START_TIMEOUT_S), "the cluster's place is empty"

    def stop(self) -> None:
        """End it; what it has lies in its directory."""
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self._end.set)
        self._thread.join(START_TIMEOUT_S)
        assert not self._thread.is_alive(), "the cluster's place is not left"

    async def _serve(self) -> None:
        async with opened(self._data, clock=SystemClock(), **self._changes) as running:
            self.loop, self._running = asyncio.get_running_loop(), running
            self._is_ready.set()
            await self._end.wait()
