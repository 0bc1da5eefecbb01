"""Samples the lag of a cluster's groups for its history, one round after the other.

A broker that is away leaves a gap in the history: the offsets of a group are known of all brokers,
or not at all.
"""

from app.administration import Administration
from app.cluster.rounds import Rounds
from engine.broker import LagStatistics
from engine.clock import Clock
from engine.errors import Busy, EngineError

GROUPS_MAX = 10_000  # by name; later ones have no history
UNKNOWN = -1  # which reset was the last


class ClusterLagSampler:
    """Keeps a round of all groups every `interval_s` between `start` and `stop`."""

    def __init__(self, administration: Administration, lags: LagStatistics, clock: Clock) -> None:
        self._administration = administration
        self._lags = lags
        self._clock = clock
        self._rounds = Rounds("lag", self._take, lags.interval_s)
        self.stop = self._rounds.stop

    def start(self) -> None:
        """Begin; without an interval there is nothing to do."""
        if self._lags.interval_s:
            self._rounds.start()

    async def _take(self) -> float:
        return self._lags.wait_s(await self.sample())

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
