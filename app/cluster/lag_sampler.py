"""Samples the lag of a cluster's groups for its history, one round after the other.

A broker that is away leaves a gap in the history: the offsets of a group are known of all brokers,
or not at all.
"""

import asyncio
import logging
import time

from app.administration import Administration
from app.tasks import end_tasks
from engine.broker import LagStatistics
from engine.clock import Clock
from engine.errors import Busy, EngineError

log = logging.getLogger("kitemq.cluster")

GROUPS_MAX = 10_000  # by name; later ones have no history
SHARE_MAX = 0.1  # of the time that rounds may take, however many groups there are
UNKNOWN = -1  # which reset was the last


class ClusterLagSampler:
    """Keeps a round of all groups every `interval_s` between `start` and `stop`."""

    def __init__(self, administration: Administration, lags: LagStatistics, clock: Clock) -> None:
        self._administration = administration
        self._lags = lags
        self._clock = clock
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; without an interval there is nothing to do."""
        if self._lags.interval_s:
            self._running = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Give up the round under way."""
        await end_tasks(self._running)

    async def _run(self) -> None:
        due_s = time.monotonic()
        while True:
            began_s = time.monotonic()
            rows, rest_s = 0, 0.0
            try:
                rows = await self.sample()
                rest_s = (time.monotonic() - began_s) * (1 / SHARE_MAX - 1)
            except EngineError as error:
                log.debug("no sample of lag was taken: %s", error.detail)
            except Exception:  # the next round may go well
                log.exception("no sample of lag was taken")
            # A round that came too late moves those behind it.
            due_s = max(due_s + self._lags.wait_s(rows), time.monotonic() + rest_s)
            await asyncio.sleep(due_s - time.monotonic())

    async def sample(self) -> int:
        """Keep a round if it has any rows, and return their count. Busy while a broker is away."""
        lags, administration = self._lags, self._administration
        builder = lags.begin_round(self._clock.now_ms())
        for group in (await administration.groups())[:GROUPS_MAX]:
            try:
                lag = await administration.lag(group.name)
                # Nobody knows of those that receive by POP: none is not the same as 0.
                members = await administration.members.count(group.name) or None
            except Busy:
                raise
            except EngineError:
                continue  # deleted since the groups were listed
            builder.add(group.name, lag, members, UNKNOWN, lambda _group, _topic, _queue: 0)
        if len(builder):
            lags.keep(builder)
        return len(builder)
