"""Finds the records of a message, and has the engine tell what happened to them."""

from collections.abc import Sequence

from app.administration import JourneyVerbs
from app.services.search import SearchService
from engine.broker import GroupState, Journey
from engine.message import StoredMessage

MOVED_ON = frozenset({GroupState.RETRY_WAITING, GroupState.DEAD})


class Journeys:
    """Journeys by a message's id, or of its records."""

    def __init__(self, verbs: JourneyVerbs, search: SearchService) -> None:
        self._verbs = verbs
        self._search = search
        self.recent, self.status = verbs.recent, verbs.status

    async def find(self, message_id: str) -> Journey:
        """The journey of the message with this id or offset id.

        An empty journey is no error: `reasons_checked` lists the possible reasons. Raises Invalid
        for an id of more than 255 characters, Busy when too many searches run.
        """
        records = await self._search.by_id(message_id)
        journey = await self.of(message_id, records)
        if any(branch.state in MOVED_ON for branch in journey.groups):
            # It may have gone on as another record while its trace was read.
            again = await self._search.by_id(message_id)
            if len(again) != len(records):
                journey = await self.of(message_id, again)
        return journey

    async def of(self, message_id: str, records: Sequence[StoredMessage]) -> Journey:
        """The same for records, oldest first, that are at hand already."""
        return await self._verbs.journey(message_id, records)
