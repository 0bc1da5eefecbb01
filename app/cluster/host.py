"""A server before a RocketMQ cluster: it starts with the cluster away, too, and finds it later."""

import asyncio
import logging
import shutil
from contextlib import suppress

from app.cluster.administration import ClusterAdministration
from app.cluster.lag_sampler import ClusterLagSampler
from app.cluster.messaging import ClusterMessaging
from app.cluster.traffic import ClusterTraffic
from app.cluster.traffic_sampler import ClusterTrafficSampler
from app.host import LoopPool
from app.server_host import STOP_TIMEOUT_S, DiskRoom, RollSource, ServerHost
from app.tasks import end_tasks
from engine.broker import LagStatistics
from engine.clock import Clock
from engine.config import EngineConfig
from engine.errors import EngineError

log = logging.getLogger("kitemq.cluster")

START_S = 5.0  # that a start waits for the cluster
RETRY_S = 1.0
POOL_THREADS = 1  # for the files of the history of lag


class ClusterHost(ServerHost):
    """Keeps the verbs of a cluster, and samples its lag and traffic, between `start` and `stop`."""

    def __init__(
        self,
        config: EngineConfig,
        messaging: ClusterMessaging,
        administration: ClusterAdministration,
        *,
        roll_source: RollSource,
        clock: Clock,
    ) -> None:
        super().__init__(config, clock)
        self._roll_source = roll_source
        self._messaging = messaging
        self._administration = administration
        self._lags: LagStatistics | None = None
        self._samplers: list[ClusterLagSampler | ClusterTrafficSampler] = []
        self._pool: LoopPool | None = None
        self._is_started = False
        self._connecting: asyncio.Task[None] | None = None

    @property
    def lags(self) -> LagStatistics:
        assert self._lags is not None, "the server is not started"
        return self._lags

    @property
    def statistics(self) -> ClusterTraffic:
        return self._administration.traffic

    async def roll_source(self) -> RollSource:
        return self._roll_source

    async def disk_room(self) -> DiskRoom:
        return DiskRoom((await asyncio.to_thread(shutil.disk_usage, self.config.data)).free)

    @property
    def is_ready(self) -> bool:
        return self._is_started and not self._is_draining

    @property
    def waiting_count(self) -> int:
        return self._messaging.waiting_count

    async def start(self) -> None:
        """Reach the cluster within START_S, or go on trying in the background."""
        self._pool = LoopPool(self.loop, threads=POOL_THREADS)
        self._lags = LagStatistics(self.config, pool=self._pool)
        await asyncio.to_thread(self._lags.load)
        self._samplers = [
            ClusterTrafficSampler(self._administration, self.clock),
            ClusterLagSampler(self._administration, self._lags, self.clock),
        ]
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
        for each in self._samplers:
            await each.stop()
        await self._messaging.close()
        if self._pool is not None:
            with suppress(TimeoutError):  # a disk that does not answer keeps nobody
                await self._pool.close(timeout_s)
                self.lags.close()

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
        for each in self._samplers:
            each.start()
