"""Reads message journeys in short steps, so that the event loop is never blocked."""

import asyncio

from app.host import EngineHost
from app.messaging import VerbSet, verb
from app.services.search import SearchService
from engine.broker import GroupState, Journey, Traces
from engine.message import StoredMessage

MOVED_ON = frozenset({GroupState.RETRY_WAITING, GroupState.DEAD})


class Journeys(VerbSet[Traces]):
    """Finds the records of a message, and has the engine tell what happened to them."""

    def __init__(self, host: EngineHost, search: SearchService) -> None:
        self._host = host
        self._search = search

    @property
    def _engine(self) -> Traces:
        return self._host.broker.traces

    # Of these, without the records of a search.
    traced = verb(Traces.journey)
    recent = verb(Traces.recent)
    status = verb(Traces.status)

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

    async def of(self, message_id: str, records: list[StoredMessage]) -> Journey:
        """The same for records, oldest first, that are at hand already."""
        steps = self._engine.journey_steps(message_id, records)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                journey: Journey = end.value
                return journey
            await asyncio.sleep(0)
