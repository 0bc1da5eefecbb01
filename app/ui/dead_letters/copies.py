"""When a dead letter was resent, and what became of the copy in its group."""

from dataclasses import dataclass
from enum import StrEnum

from app.ui.framework.language import N_
from app.ui.framework.page_request import PageRequest
from app.ui.journeys.delivery_status import WAITING, dead_letter_href
from engine.broker import DeadLetter, GroupState, Journey, StageName, StageOutcome
from engine.errors import EngineError


class CopyFate(StrEnum):
    """What became of a copy."""

    ACKNOWLEDGED = N_("acknowledged")
    FAILED_AGAIN = N_("failed again")
    WAITING = N_("waiting")
    UNKNOWN = N_("unknown")


TONES = {CopyFate.ACKNOWLEDGED: "ok", CopyFate.FAILED_AGAIN: "bad", CopyFate.WAITING: "warn"}


@dataclass(frozen=True)
class CopyOutcome:
    """The newest copy: when `job` sent it, and its fate; `href` is the new dead letter."""

    at_ms: int
    job: str
    fate: CopyFate
    href: str = ""

    @property
    def tone(self) -> str:
        return TONES.get(self.fate, "")


async def outcome_of(request: PageRequest, group: str, letter: DeadLetter) -> CopyOutcome | None:
    """The newest copy of a dead letter, from its journey; None where nothing says when it went."""
    try:
        journey = await request.services.journeys.find(letter.message.message_id)
    except EngineError:
        return None
    sent = [
        (stage.at_ms, stage.client)
        for stage in journey.stages
        if stage.outcome is StageOutcome.REPLAYED and stage.client in letter.redriven_by
    ]
    return _outcome(journey, group, *max(sent)) if sent else None


def _outcome(journey: Journey, group: str, at_ms: int, job: str) -> CopyOutcome:
    own = [stage for stage in journey.stages if stage.group == group and stage.at_ms >= at_ms]
    for stage in own:
        if stage.name is StageName.DEAD_LETTER:
            return CopyOutcome(at_ms, job, CopyFate.FAILED_AGAIN, dead_letter_href(stage))
    state = next((each.state for each in journey.groups if each.group == group), None)
    if any(stage.outcome is StageOutcome.ACKED for stage in own) or state is GroupState.DONE:
        return CopyOutcome(at_ms, job, CopyFate.ACKNOWLEDGED)
    is_waiting = state in WAITING or state is GroupState.INFLIGHT
    return CopyOutcome(at_ms, job, CopyFate.WAITING if is_waiting else CopyFate.UNKNOWN)
