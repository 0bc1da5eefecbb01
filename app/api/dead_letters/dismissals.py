"""Dead letters that people let rest, with a note, and what they take up again."""

from typing import Annotated

import msgspec
from msgspec import Meta

from app.api.framework.operation import API, Call, operation
from app.api.messages.messages import Filter
from app.api.replays.shapes import OffsetText, OriginTopic, PageLimit, Reason, Time, offset_of
from app.api.topics.topics import actor_of
from app.security.access import Action, Kind, Needs
from app.services.dismissals import DeadChoice
from engine.broker import DismissalSummary
from engine.errors import Invalid

TAG = "dead letters"
GROUP = Needs(Action.ADMINISTER, Kind.GROUP, "group")
PATH = f"{API}/groups/{{group}}/dead-letters"

Offsets = Annotated[list[OffsetText], Meta(max_length=10_000)]


class Dismiss(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters are to rest, and why. Without any choice, all of them."""

    note: Annotated[str, Meta(max_length=500, description="Why nothing is to be done; one line.")]
    offsets: Offsets = []
    from_ms: Time = 0
    to_ms: Time = 0
    filter: Filter = "*"
    reason: Reason = ""
    topic: OriginTopic = ""
    expected: (
        Annotated[int, Meta(ge=0, description="Refuse (409) where not so many would be dismissed.")]
        | None
    ) = None
    dry_run: Annotated[bool, Meta(description="Count, and change nothing.")] = False


class Restore(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters are to be looked at again: `offsets`, a dismissal, or `all`."""

    offsets: Offsets = []
    dismissal: Annotated[str, Meta(max_length=60, description="The id of a dismissal.")] = ""
    all: Annotated[bool, Meta(description="All that were dismissed.")] = False


class DismissAnswer(msgspec.Struct):
    """`count` rest from now on (would, in a dry run), `already` did."""

    id: Annotated[str, Meta(description="Of the dismissal; empty where nothing changed.")]
    count: int
    already: int


class RestoreAnswer(msgspec.Struct):
    """How many are looked at again."""

    count: int


class Dismissal(msgspec.Struct):
    """What was dismissed together, as far as it still is."""

    id: str
    note: str
    by: str
    at_ms: int
    count: int


class DismissalQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How many are listed."""

    limit: PageLimit = 50


class DismissalList(msgspec.Struct):
    """The newest dismissals of a group; of all of them, `total`, `dismissed` letters rest."""

    items: list[Dismissal]
    total: int
    dismissed: int


def dismissal_out(one: DismissalSummary) -> Dismissal:
    """A dismissal as the API shows it."""
    return Dismissal(one.id, one.note, one.by, one.at_ms, one.count)


def _offsets(texts: list[str | int]) -> list[int]:
    return [offset_of(text, f"offsets[{index}]") for index, text in enumerate(texts)]


@operation(
    "POST",
    f"{PATH}/dismiss",
    tag=TAG,
    needs=GROUP,
    body=Dismiss,
    answer=DismissAnswer,
    errors=(404, 409),
    example="curl -X POST $URL/api/v1/groups/billing/dead-letters/dismiss "
    """-H 'Content-Type: application/json' -d '{"reason": "rejected", "note": "test orders"}'""",
)
async def dismiss_dead_letters(call: Call[None, Dismiss]) -> DismissAnswer:
    """Let dead letters rest: some, all, or those that meet conditions.

    Nothing is deleted: they are marked with the note, ask for nobody's attention, and replay jobs
    leave them out unless they name them. One that is dismissed already keeps its first note.
    """
    group, body = call.path("group"), call.body
    service = call.services.dismissals
    choice = DeadChoice(
        offsets=_offsets(body.offsets),
        from_ms=body.from_ms,
        to_ms=body.to_ms,
        filter=body.filter,
        reason=body.reason,
        topic=body.topic,
    )
    runs = await service.chosen(group, choice)
    impact = await service.impact(group, runs)
    if body.dry_run:
        return DismissAnswer("", impact.count, impact.already)
    done = await service.dismiss(actor_of(call), group, runs, body.note, body.expected)
    return DismissAnswer(done.id if done.count else "", done.count, impact.already)


@operation(
    "POST",
    f"{PATH}/restore",
    tag=TAG,
    needs=GROUP,
    body=Restore,
    answer=RestoreAnswer,
    errors=(404, 409),
    example="curl -X POST $URL/api/v1/groups/billing/dead-letters/restore "
    """-H 'Content-Type: application/json' -d '{"offsets": ["17", "18"]}'""",
)
async def restore_dead_letters(call: Call[None, Restore]) -> RestoreAnswer:
    """Take the marks of dismissed dead letters off again: of some, of one dismissal, or of all."""
    group, body = call.path("group"), call.body
    service = call.services.dismissals
    if sum((bool(body.offsets), bool(body.dismissal), body.all)) != 1:
        raise Invalid(
            "say what is to be restored, in one way",
            field="offsets",
            remedy="give offsets, or a dismissal, or all",
        )
    if body.dismissal:
        __, runs = await service.of_dismissal(group, body.dismissal)
    else:
        runs = await service.chosen(group, DeadChoice(offsets=_offsets(body.offsets)))
    return RestoreAnswer(await service.restore(actor_of(call), group, runs))


@operation(
    "GET",
    f"{PATH}/dismissals",
    tag=TAG,
    needs=Needs(Action.READ, Kind.GROUP, "group"),
    query=DismissalQuery,
    answer=DismissalList,
    errors=(404,),
    example="curl $URL/api/v1/groups/billing/dead-letters/dismissals",
)
async def list_dismissals(call: Call[DismissalQuery, None]) -> DismissalList:
    """List what was dismissed together, with its note, the newest first."""
    service = call.services.dismissals
    found = await service.listed(call.path("group"))
    items = [dismissal_out(one) for one in found[: call.query.limit]]
    return DismissalList(items, len(found), sum(one.count for one in found))


OPERATIONS = (dismiss_dead_letters, restore_dead_letters, list_dismissals)
