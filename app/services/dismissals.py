"""Dismissals of dead letters, each with a comment, and their undoing; all audited."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from app.administration import DeadLetterLists
from app.db.rows import Actor
from app.services.audit import Audit
from engine.broker import (
    DeadLetterConditions,
    DismissalPlan,
    DismissalSnapshot,
    DismissalSummary,
    DismissNote,
)
from engine.errors import Conflict, NotFound, Refused

EXAMINED_MAX = 500_000  # looked at for one choice by conditions
TRIES = 5  # until nobody else has changed the same meanwhile


class DeadChoice(DeadLetterConditions, frozen=True, kw_only=True):
    """A selection of a group's dead letters: `offsets`, or all that meet the conditions."""

    offsets: Sequence[int] = ()

    @property
    def is_all(self) -> bool:
        """Whether the selection has no condition."""
        return self == DeadChoice()


class Impact(msgspec.Struct, frozen=True):
    """Preview of a dismissal: `count` would be dismissed, `already` are."""

    count: int
    already: int


class Dismissals:
    """Dismisses and restores on behalf of an actor, who is named in the trail and on the note."""

    def __init__(self, letters: DeadLetterLists, audit: Audit) -> None:
        self._letters = letters
        self._audit = audit

    async def chosen(self, group: str, choice: DeadChoice) -> list[range]:
        """The offsets that are meant, in stretches; reads in steps that let others in between.

        Raises GroupNotFound, NotFound for an offset that is no dead letter, Invalid for the
        filter, Refused where conditions would have to look at more than 500,000.
        """
        first, end = await self._letters.bounds(group)
        if choice.offsets:
            _check_retained(group, choice.offsets, first, end)
            return [range(offset, offset + 1) for offset in sorted(set(choice.offsets))]
        if choice.is_all:
            return [range(first, end)]
        if end - first > EXAMINED_MAX:
            raise Refused(
                f"the group has {end - first:,} dead letters, conditions look at"
                f" {EXAMINED_MAX:,} at most",
                field="offsets",
                remedy="name their offsets, or mean all of them",
            )
        return await self._matching(group, choice)

    async def _matching(self, group: str, choice: DeadChoice) -> list[range]:
        matches: list[range] = []
        after: int | None = None
        while True:
            swept = await self._letters.sweep(group, choice, after=after)
            for offset in swept.offsets:
                join(matches, offset)
            after = swept.next
            if after is None:
                return matches
            await asyncio.sleep(0)

    async def impact(self, group: str, runs: Sequence[range]) -> Impact:
        """Preview dismissing these dead letters. Raises GroupNotFound."""
        snapshot = await self._letters.snapshot(group)
        total, already = await asyncio.to_thread(snapshot.counts, runs)
        return Impact(total - already, already)

    async def dismiss(
        self, actor: Actor, group: str, runs: Sequence[range], note: str, expected: int | None
    ) -> DismissalSummary:
        """Dismiss dead letters; raises the errors of the engine's `dismiss`.

        Conflict if the count is not `expected`: the preview is out of date.
        """
        async with self._audit.change(actor, "dead_letters.dismiss", group) as change:
            new_note = await self._letters.new_note(note, actor.name)
            draft = await self._commit(
                group,
                lambda snapshot: snapshot.plan_dismissal(runs, new_note),
                lambda count: _check_expected(count, expected, "dismissed"),
            )
            change.after = done = DismissalSummary(
                new_note.id, new_note.note, new_note.by, new_note.at_ms, draft.count
            )
        return done

    async def restore(
        self, actor: Actor, group: str, runs: Sequence[range], expected: int | None = None
    ) -> int:
        """Restore dismissed dead letters and return their number.

        Raises the errors of the engine's `restore`, Conflict if the count is not `expected`.
        """
        # As the audit keeps it: how many of those that are meant rest.
        before = {"dismissed": (await self.impact(group, runs)).already}
        async with self._audit.change(
            actor, "dead_letters.restore", group, before=before
        ) as change:
            draft = await self._commit(
                group,
                lambda snapshot: snapshot.plan_restoration(runs),
                lambda count: _check_expected(count, expected, "restored"),
            )
            change.after = {"dismissed": 0}  # all that was meant is restored, or nothing
        return draft.count

    async def _commit(
        self,
        group: str,
        plan: Callable[[DismissalSnapshot], DismissalPlan],
        check: Callable[[int], None],
    ) -> DismissalPlan:
        """Plan beside the loop and carry it out; again where others were faster."""
        for _ in range(TRIES):
            draft = await asyncio.to_thread(plan, await self._letters.snapshot(group))
            check(draft.count)
            if await self._letters.commit(draft):
                return draft
        raise Conflict(
            "others dismiss or restore dead letters of this group at this moment",
            field="group",
            remedy="try again",
        )

    async def of_dismissal(self, group: str, dismissal_id: str) -> tuple[DismissNote, list[range]]:
        """The dead letters that one dismissal still covers, and its note; NotFound without any."""
        snapshot = await self._letters.snapshot(group)
        note, runs = await asyncio.to_thread(snapshot.of, dismissal_id)
        if note is None:
            raise NotFound(
                f"nothing of {group!r} rests by a dismissal {dismissal_id[:60]!r}",
                field="dismissal",
                remedy="list the dismissals; it may be restored already",
                code="dismissal_not_found",
            )
        return note, runs

    async def listed(self, group: str) -> list[DismissalSummary]:
        """The dismissals, newest first. Raises GroupNotFound."""
        return await asyncio.to_thread((await self._letters.snapshot(group)).dismissals)


def _check_expected(count: int, expected: int | None, what: str) -> None:
    if expected is not None and count != expected:
        raise Conflict(
            f"{count:,} dead letters would be {what}, {expected:,} were expected",
            field="expected",
            remedy="look at them again",
        )


def join(stretches: list[range], offset: int) -> None:
    """Add the next older offset to runs that begin with the newest.

    Neighbours are merged, since each run of hundreds of thousands of offsets costs one step.
    """
    if stretches and stretches[-1].start == offset + 1:
        stretches[-1] = range(offset, stretches[-1].stop)
    else:
        stretches.append(range(offset, offset + 1))


def _check_retained(group: str, offsets: Sequence[int], first: int, end: int) -> None:
    for offset in offsets:
        if not first <= offset < end:
            raise NotFound(
                f"the group {group!r} has no dead letter at offset {offset}",
                field="offsets",
                remedy="list them; retention may have taken it",
                code="dead_letter_not_found",
            )
