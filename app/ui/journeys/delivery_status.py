"""The outcome of a message in each group, in a few words, for pages that show its record."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.ui.framework.console import Console
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.journeys import words as journey_words
from app.ui.journeys.filtered import filtered_out
from engine.broker import (
    DEAD_LETTER_PREFIX,
    Branch,
    GroupState,
    Journey,
    ReasonCode,
    Stage,
    StageName,
)
from engine.errors import EngineError
from engine.message import StoredMessage

WAITING = frozenset({GroupState.WAITING, GroupState.RETRY_WAITING})


@dataclass(frozen=True)
class RelatedLink:
    """A link to a related page; `kind` is dead or job."""

    kind: str
    href: str


@dataclass(frozen=True)
class Verdict:
    """The outcome in one group since `since_ms`; `error` is its last failure, on `client`.

    `is_offline` if the message waits for a group without consumers. `deliveries` is None where the
    engine does not tell of any.
    """

    group: str
    verdict: str
    tone: str
    deliveries: int | None
    since_ms: int
    is_offline: bool
    error: str
    client: str
    links: Sequence[RelatedLink]


async def verdicts(request: PageRequest, records: Sequence[StoredMessage]) -> list[Verdict] | None:
    """The verdicts on the message of these records, by group; None if they are unavailable."""
    if not records:
        return None
    console = request.console
    journeys = request.services.journeys
    try:
        journey = await journeys.of(records[0].message_id, list(records))
    except EngineError:
        return None
    filtered = await filtered_out(console, journey)
    return [
        await _verdict(console, journey, branch, branch.group in filtered)
        for branch in journey.groups
    ]


async def _verdict(
    console: Console, journey: Journey, branch: Branch, is_filtered: bool
) -> Verdict:
    text, tone = journey_words.verdict(branch.state, is_filtered=is_filtered)
    own = [stage for stage in journey.stages if stage.group == branch.group]
    failed = [stage for stage in own if stage.outcome in journey_words.FAILED and stage.detail]
    nobody = not await console.administration.members.count(branch.group)
    return Verdict(
        group=branch.group,
        verdict=text,
        tone=tone,
        deliveries=branch.deliveries if are_told(journey) else None,
        since_ms=branch.at_ms,
        is_offline=branch.state in WAITING and nobody,
        error=journey_words.detail(failed[-1]) if failed else "",
        client=failed[-1].client if failed else "",
        links=[link for stage in own for link in _links(stage)][-3:],
    )


def are_told(journey: Journey) -> bool:
    """Whether the engine tells of deliveries."""
    return all(each.code is not ReasonCode.NOT_TOLD for each in journey.reasons_checked)


def _links(stage: Stage) -> list[RelatedLink]:
    href = dead_letter_href(stage) if stage.name is StageName.DEAD_LETTER else ""
    if href:
        return [RelatedLink("dead", href)]
    if stage.name is StageName.REPLAY and stage.client:
        return [RelatedLink("job", f"/jobs/{segment(stage.client)}")]
    return []


def dead_letter_href(stage: Stage) -> str:
    """The page of the dead letter that a stage stored; "" if it stored none."""
    group = stage.topic.removeprefix(DEAD_LETTER_PREFIX)
    number = stage.offset if stage.letter is None else stage.letter
    return "" if group == stage.topic else f"/dlq/{segment(group)}/{number}"
