"""Rates, totals and lag over time, over REST: a part of `kitemq.Client`."""

from kitemq.model.statistics import BrokerStatistics, GroupStatistics, LagHistory, TopicStatistics
from kitemq.rest import Json, RestConnection, segment

HOUR_MS = 3_600_000


class Counting(RestConnection):
    """What a client can ask of the server's statistics."""

    def statistics(self) -> BrokerStatistics:
        """What the whole broker does: totals, messages and bytes per second, time of sends."""
        return self._typed(BrokerStatistics, "GET", "/statistics")

    def topic_statistics(self, topic: str) -> TopicStatistics:
        """What goes into a topic and is taken from it, by queue and by group."""
        return self._typed(TopicStatistics, "GET", f"/topics/{segment(topic)}/statistics")

    def group_statistics(self, group: str) -> GroupStatistics:
        """What a group takes, acknowledges, fails with and gives up, by topic."""
        return self._typed(GroupStatistics, "GET", f"/groups/{segment(group)}/statistics")

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
        return self._typed(LagHistory, "GET", path, params=params)
