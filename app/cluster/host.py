"""A server before a RocketMQ cluster: it starts with the cluster away, too, and finds it later."""

import asyncio
import logging

from app.cluster.messaging import ClusterMessaging
from app.server_host import STOP_TIMEOUT_S, ServerHost
from app.tasks import end_tasks
from engine.clock import Clock
from engine.config import EngineConfig
from engine.errors import EngineError

log = logging.getLogger("kitemq.cluster")

START_S = 5.0  # that a start waits for the cluster
RETRY_S = 1.0


class ClusterHost(ServerHost):
    """Keeps the verbs of a cluster between `start` and `stop`."""

    def __init__(self, config: EngineConfig, messaging: ClusterMessaging, *, clock: Clock) -> None:
        super().__init__(config, clock)
        self._messaging = messaging
        self._is_started = False
        self._connecting: asyncio.Task[None] | None = None

    @property
    def is_ready(self) -> bool:
        return self._is_started and not self._is_draining

    @property
    def waiting_count(self) -> int:
        return self._messaging.waiting_count

    async def start(self) -> None:
        """Reach the cluster within START_S, or go on trying in the background."""
        await self._messaging.load()
        self._connecting = asyncio.create_task(self._connect())
        await asyncio.wait({self._connecting}, timeout=START_S)
        self._is_started = True

    def drain(self) -> None:
        super().drain()
        self._messaging.drain()

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        self.drain()
        await end_tasks(self._connecting)
        await self._messaging.close()

    async def _connect(self) -> None:
        """Learn what the cluster is, which it has to be reached for."""
        said = ""
        while True:
            try:
                await self._messaging.start()
            except EngineError as error:
                if error.detail != said:
                    said = error.detail
                    log.error("the cluster cannot be reached, and is tried again: %s", said)
                await asyncio.sleep(RETRY_S)
            else:
                break
        if said:
            log.warning("the cluster is reached")
