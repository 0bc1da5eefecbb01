"""Moving consumer groups to another place, as a person decides: looked at, audited, taken back."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from app.db.rows import Actor
from app.host import EngineHost
from app.messaging import VerbSet, verb
from app.services.audit import Audit
from engine.broker import OffsetResets, Reset, ResetPlan, ResetPreview, ResetTarget


class ResetOrder(msgspec.Struct, frozen=True):
    """The queues and target of a reset; without `queues`, all that can be read.

    With `goals` each topic's queue goes to an offset of its own, or stays if that is None.
    """

    topics: Sequence[str]
    target: ResetTarget
    queues: Sequence[int] = ()
    goals: Sequence[tuple[str, int, int | None]] = ()


class Resets(VerbSet[OffsetResets]):
    """The engine's resets with the work spread over turns of the loop, and an entry in the trail.

    Each raises what `engine.delivery.resets` says, and Busy where the trail cannot be written.
    """

    def __init__(self, host: EngineHost, audit: Audit) -> None:
        self._host = host
        self._audit = audit

    @property
    def _engine(self) -> OffsetResets:
        return self._host.broker.resets

    get = verb(OffsetResets.get)
    history = verb(OffsetResets.history)

    async def preview(self, group: str, order: ResetOrder) -> ResetPreview:
        """Preview a reset; changes nothing."""
        return (await self._plan(group, order)).preview()

    async def preview_undo(self, group: str, number: int) -> ResetPreview:
        """Preview undoing a reset; changes nothing."""
        return self._engine.plan_undo(group, number).preview()

    async def apply(
        self, actor: Actor, group: str, order: ResetOrder, *, precondition: str, force: bool
    ) -> Reset:
        """Move the group, if the offsets are still those of the precondition or by force."""
        plan = await self._plan(group, order)
        return await self._carry_out(
            actor, "group.reset", plan, precondition=precondition, force=force
        )

    async def undo(
        self, actor: Actor, group: str, number: int, *, precondition: str, force: bool
    ) -> Reset:
        """Move the group back to where a reset found it.

        Without a precondition: if it still is where that reset put it.
        """
        plan = self._engine.plan_undo(group, number)
        return await self._carry_out(
            actor, "group.undo_reset", plan, precondition=precondition, force=force
        )

    async def _plan(self, group: str, order: ResetOrder) -> ResetPlan:
        resets = self._engine
        if order.goals:
            goals = {(topic, queue): offset for topic, queue, offset in order.goals}
            return resets.plan_offsets(group, goals)
        plan = resets.plan(group, order.topics, order.target, queues=order.queues)
        has_more = plan.step()
        while has_more:
            await asyncio.sleep(0)
            has_more = plan.step()
        return plan

    async def _carry_out(
        self, actor: Actor, action: str, plan: ResetPlan, *, precondition: str, force: bool
    ) -> Reset:
        preview = plan.preview()
        before: dict[str, Any] = {"to": preview.to, "force": force}
        before["queues"] = [(each.topic, each.queue, each.current) for each in preview.queues]
        async with self._audit.change(actor, action, plan.group, before=before) as change:
            reset = self._engine.apply(plan, precondition=precondition, force=force)
            change.after = {
                "reset": reset.number,
                "undoes": reset.undoes,
                "queues": [(each.topic, each.queue, each.after) for each in reset.queues],
            }
        return reset
