"""Samples the ends of a cluster's topics and the offsets of its groups for its traffic."""

from app.cluster.administration import ClusterAdministration
from app.cluster.rounds import Rounds
from app.cluster.traffic import INTERVAL_S, TrafficSample
from app.cluster.verbs.part import all_of, bounded
from engine.clock import Clock
from engine.errors import EngineError, NotFound

FIRST_S = 2.0  # from the first sample to the second, before which no rate is known
TOPICS_MAX = 10_000  # by name; where there are more, the rest and all together are unknown
PART = 1_000  # topics that are asked about in one go


class ClusterTrafficSampler:
    """Takes a sample of all topics and groups every INTERVAL_S between `start` and `stop`."""

    def __init__(self, administration: ClusterAdministration, clock: Clock) -> None:
        self._administration = administration
        self._clock = clock
        self._rounds = Rounds("traffic", self._take, INTERVAL_S)
        self.start, self.stop = self._rounds.start, self._rounds.stop

    async def _take(self) -> float:
        is_begun = self._administration.traffic.is_begun
        await self.sample()
        return INTERVAL_S if is_begun else FIRST_S

    async def sample(self) -> None:
        """Take one; Busy where not even names can be listed."""
        at_ms, administration = self._clock.now_ms(), self._administration
        names = [each.name for each in await administration.topics(system=True)]
        try:
            offsets = await administration.current_offsets()
        except EngineError:
            offsets = None
        ends: dict[str, dict[int, int]] = {}
        for part in bounded(PART, names[:TOPICS_MAX]):
            answers = zip(part, await all_of(map(self._ends, part)), strict=True)
            ends |= {name: queues for name, queues in answers if queues is not None}
        await administration.traffic.enter(TrafficSample(at_ms, names, ends, offsets))

    async def _ends(self, topic: str) -> dict[int, int] | None:
        """The end of each queue, none of a topic that is gone; None where they are unknown."""
        try:
            stats = await self._administration.current_stats(topic)
        except NotFound:
            return {}
        except EngineError:
            return None
        return {each.queue: each.max_offset for each in stats.queues}
