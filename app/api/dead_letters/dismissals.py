"""Dismissals of dead letters, each with a comment, and their undoing."""

import msgspec

from app.api.framework.operation import Call, Operations
from app.api.framework.paging import PAGE_DEFAULT, Limit
from app.security.access import Action
from app.services.dismissals import DeadChoice
from engine.errors import Invalid
from kitemq.model.conversion import convert
from kitemq.model.dead_letters import (
    Dismiss,
    Dismissal,
    DismissalList,
    DismissAnswer,
    Restore,
    RestoreAnswer,
)

operations = Operations("dead letters")


class DismissalQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The number of dismissals to list."""

    limit: Limit = PAGE_DEFAULT


@operations.post(
    "/groups/{group}/dead-letters/dismiss",
    capability="dismissals",
    needs=Action.ADMINISTER,
    errors=(409,),
    example_body='{"reason": "rejected", "note": "test orders"}',
)
async def dismiss_dead_letters(call: Call[None, Dismiss]) -> DismissAnswer:
    """Dismiss dead letters: some, all, or those that meet conditions.

    Nothing is deleted: they are marked with the note, no longer count as open, and replay jobs
    skip them unless they name them. One that is dismissed already keeps its first note.
    """
    group, body = call.path("group"), call.body
    service = call.services.dismissals
    runs = await service.chosen(group, convert(body, DeadChoice))
    impact = await service.impact(group, runs)
    if body.dry_run:
        return DismissAnswer("", impact.count, impact.already)
    done = await service.dismiss(call.actor, group, runs, body.note, body.expected)
    return DismissAnswer(done.id if done.count else "", done.count, impact.already)


@operations.post(
    "/groups/{group}/dead-letters/restore",
    capability="dismissals",
    needs=Action.ADMINISTER,
    errors=(409,),
    example_body='{"offsets": ["17", "18"]}',
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
        runs = await service.chosen(group, convert(body, DeadChoice))
    return RestoreAnswer(await service.restore(call.actor, group, runs))


@operations.get(
    "/groups/{group}/dead-letters/dismissals", capability="dismissals", needs=Action.READ
)
async def list_dismissals(call: Call[DismissalQuery, None]) -> DismissalList:
    """List dismissals with their notes, newest first."""
    service = call.services.dismissals
    dismissals = await service.listed(call.path("group"))
    return DismissalList(
        [convert(each, Dismissal) for each in dismissals[: call.query.limit]],
        len(dismissals),
        sum(each.count for each in dismissals),
    )
