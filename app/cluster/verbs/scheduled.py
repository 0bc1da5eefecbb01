"""Messages that wait in a cluster: its brokers deliver them, and neither list nor change them."""

from typing import NoReturn

from app.capabilities import require
from app.cluster.verbs.part import ClusterPart


class ClusterScheduleVerbs(ClusterPart):
    """All refused, by the capability `timer_changes`."""

    async def scheduled(
        self, *, topic: str = "", from_ms: int = 0, after: str = "", count_max: int = 50
    ) -> NoReturn:
        """Refused."""
        self._refuse("timer_changes")

    async def delay_levels(self) -> NoReturn:
        """Refused: brokers do not say how many wait in a level."""
        self._refuse("timer_changes")

    async def find_scheduled(self, message_id: str) -> NoReturn:
        """Refused."""
        self._refuse("message_id")

    async def recall(self, message_id: str) -> NoReturn:
        """Refused."""
        self._refuse("message_id")

    async def deliver_now(self, message_id: str) -> NoReturn:
        """Refused."""
        self._refuse("message_id")

    async def reschedule(self, message_id: str, deliver_at_ms: int) -> NoReturn:
        """Refused."""
        self._refuse("message_id")

    def _refuse(self, field: str) -> NoReturn:
        require(self._catalog.capabilities, "timer_changes", field=field)
        raise AssertionError("a cluster changes no timers")
