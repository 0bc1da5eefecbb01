"""Dead letters that people let rest, with a note, and what they take up again; all audited."""

import asyncio
from collections.abc import Sequence

import msgspec

from app.host import EngineHost
from app.services.audit import Actor, Audit
from engine.broker import Dismissed
from engine.errors import Conflict, NotFound, Refused

KIND = "dead_letters"
EXAMINED_MAX = 500_000  # looked at for one choice by conditions
PAGE = 200


class DeadChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters of a group: `offsets`, or all that meet the conditions.

    Times in ms by when they died, from one on and before one, 0 for any.
    """

    offsets: Sequence[int] = ()
    from_ms: int = 0
    to_ms: int = 0
    filter: str = "*"
    reason: str = ""
    topic: str = ""

    @property
    def is_all(self) -> bool:
        """Whether no condition leaves any out."""
        return self == DeadChoice()


class Impact(msgspec.Struct, frozen=True):
    """What dismissing would do: `count` would rest from now on, `already` do so."""

    count: int
    already: int


class Dismissals:
    """Orders of a person or a program, who is named in the trail and on the note."""

    def __init__(self, host: EngineHost, audit: Audit) -> None:
        self._host = host
        self._audit = audit

    async def chosen(self, group: str, choice: DeadChoice) -> list[range]:
        """The offsets that are meant, in stretches; reads in steps that let others in between.

        Raises GroupNotFound, NotFound for an offset that is no dead letter, Invalid for the
        filter, Refused where conditions would have to look at more than 500,000.
        """
        first, end = self._host.broker.dead_letters.bounds(group)
        if choice.offsets:
            _check_kept(group, choice.offsets, first, end)
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
        found: list[range] = []
        after: int | None = None
        while True:
            page = self._host.broker.dead_letters.page(
                group,
                after=after,
                count_max=PAGE,
                reason=choice.reason,
                topic=choice.topic,
                filter=choice.filter,
            )
            for item in page.items:
                died_ms, offset = item.message.stored_ms, item.message.offset
                if choice.from_ms <= died_ms and not 0 < choice.to_ms <= died_ms:
                    join(found, offset)
            after = page.next
            if after is None:
                return found
            await asyncio.sleep(0)

    def impact(self, group: str, runs: Sequence[range]) -> Impact:
        """What dismissing these would do, without doing it."""
        dead_letters = self._host.broker.dead_letters
        total = sum(map(len, runs))
        already = sum(
            span.end - span.first
            for run in runs
            for span in dead_letters.dismissed_within(group, run.start, run.stop)
        )
        return Impact(total - already, already)

    async def dismiss(
        self, actor: Actor, group: str, runs: Sequence[range], note: str, expected: int | None
    ) -> Dismissed:
        """Let them rest; raises what the engine's `dismiss` does.

        Conflict where not `expected` would be changed: the one who ordered it saw something else.
        """
        async with self._audit.change(actor, "dead_letters.dismiss", KIND, group) as change:
            count = self.impact(group, runs).count
            if expected is not None and count != expected:
                raise Conflict(
                    f"{count:,} dead letters would be dismissed, {expected:,} were expected",
                    field="expected",
                    remedy="look at them again",
                )
            change.after = done = self._host.broker.dead_letters.dismiss(
                group, runs, note=note, by=actor.name
            )
        return done

    async def restore(self, actor: Actor, group: str, runs: Sequence[range]) -> int:
        """Have them looked at again; how many were dismissed. Raises GroupNotFound, DiskFull."""
        before = _Restoring(self.impact(group, runs).already)
        async with self._audit.change(
            actor, "dead_letters.restore", KIND, group, before=before
        ) as change:
            count = self._host.broker.dead_letters.restore(group, runs)
            change.after = _Restoring(self.impact(group, runs).already)
        return count

    def of_dismissal(self, group: str, dismissal_id: str) -> list[range]:
        """What still rests of one dismissal; NotFound where nothing does."""
        dead_letters = self._host.broker.dead_letters
        spans = dead_letters.dismissed_within(group, *dead_letters.bounds(group))
        runs = [range(span.first, span.end) for span in spans if span.note.id == dismissal_id]
        if not runs:
            raise NotFound(
                f"nothing of {group!r} rests by a dismissal {dismissal_id[:60]!r}",
                field="dismissal",
                remedy="list the dismissals; it may be restored already",
                code="dismissal_not_found",
            )
        return runs


class _Restoring(msgspec.Struct, frozen=True):
    """As the audit keeps it: how many of those that are meant rest."""

    dismissed: int


def join(stretches: list[range], offset: int) -> None:
    """Add the next older offset to stretches that begin with the newest.

    Neighbours become one: what is done to hundreds of thousands at once takes a step for each.
    """
    if stretches and stretches[-1].start == offset + 1:
        stretches[-1] = range(offset, stretches[-1].stop)
    else:
        stretches.append(range(offset, offset + 1))


def _check_kept(group: str, offsets: Sequence[int], first: int, end: int) -> None:
    for offset in offsets:
        if not first <= offset < end:
            raise NotFound(
                f"the group {group!r} has no dead letter at offset {offset}",
                field="offsets",
                remedy="list them; retention may have taken it",
                code="dead_letter_not_found",
            )
