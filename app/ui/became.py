"""What became of a message in each group, in a few words: for pages that show its record."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from app.services.journeys import Journeys
from app.ui import journey_words
from engine.errors import EngineError
from engine.message import StoredMessage


@dataclass(frozen=True)
class Verdict:
    """One group's, since `since_ms`."""

    group: str
    verdict: str
    tone: str
    deliveries: int
    since_ms: int


async def verdicts(request: Request, records: Sequence[StoredMessage]) -> list[Verdict] | None:
    """Of the message whose records these are, by group; None where they could not be found."""
    if not records:
        return None
    journeys: Journeys = request.app.state.journeys
    try:
        journey = await journeys.of(records[0].message_id, list(records))
    except EngineError:
        return None
    return [
        Verdict(branch.group, *journey_words.verdict(branch.state), branch.deliveries, branch.at_ms)
        for branch in journey.groups
    ]
