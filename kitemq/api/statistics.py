# Made from kitemq/async_api/statistics.py by `python -m tools.synchronous`: change that file.
"""Rates, totals and lag over time."""

from kitemq.api.connection import Api
from kitemq.model.statistics import BrokerStatistics, GroupStatistics, LagHistory, TopicStatistics
from kitemq.rest import Json, segment

HOUR_MS = 3_600_000


class StatisticsApi(Api):
    """`client.statistics`: what goes through the broker, a topic or a group."""

    def broker(self) -> BrokerStatistics:
        """Totals, messages and bytes per second, and latency of sends of the whole broker."""
        return self._rest.fetch(BrokerStatistics, "GET", "/statistics")

    def topic(self, name: str) -> TopicStatistics:
        """A topic's rates in and out, by queue and by group."""
        path = f"/topics/{segment(name)}/statistics"
        return self._rest.fetch(TopicStatistics, "GET", path)

    def group(self, name: str) -> GroupStatistics:
        """A group's deliveries, acknowledgements, failures and dead letters, by topic."""
        path = f"/groups/{segment(name)}/statistics"
        return self._rest.fetch(GroupStatistics, "GET", path)

    def lag_history(
        self,
        group: str,
        *,
        topic: str = "",
        queue: int | None = None,
        from_ms: int = -HOUR_MS,
        to_ms: int = 0,
        points: int = 300,
    ) -> LagHistory:
        """A group's lag over time in at most `points` (2,000); one without samples has nulls.

        `to_ms` 0 is now; a `from_ms` below 1 is so long before `to_ms`.
        """
        params: Json = {"topic": topic, "from_ms": from_ms, "to_ms": to_ms, "points": points}
        if queue is not None:
            params["queue"] = queue
        path = f"/groups/{segment(group)}/lag/history"
        return self._rest.fetch(LagHistory, "GET", path, params=params)
