"""Moving consumer groups to another place, as a person decides: looked at, audited, taken back."""

from collections.abc import Sequence
from typing import Any

from app.administration import Administration, ResetIncomplete, ResetOrder
from app.db.rows import Actor
from app.services.audit import Audit
from engine.broker import OffsetMove, Reset


class Resets:
    """Resets with an entry in the audit trail; each raises Busy where that cannot be written.

    Otherwise they raise what `app.administration.ResetVerbs` says.
    """

    def __init__(self, administration: Administration, audit: Audit) -> None:
        self._verbs = administration.resets
        self._audit = audit
        self.get, self.history = self._verbs.get, self._verbs.history
        self.preview = self._verbs.preview

    async def apply(
        self, actor: Actor, group: str, order: ResetOrder | int, *, precondition: str, force: bool
    ) -> Reset:
        """Move the group, if the offsets are still those of the precondition or by force.

        To undo a reset, give its number; without a precondition the group must be where it put it.
        """
        preview = await self._verbs.preview(group, order)
        before: dict[str, Any] = {"to": preview.to, "force": force}
        before["queues"] = [(each.topic, each.queue, each.current) for each in preview.queues]
        action = "group.undo_reset" if isinstance(order, int) else "group.reset"
        async with self._audit.change(actor, action, group, before=before) as change:
            try:
                reset = await self._verbs.apply(
                    group, order, precondition=precondition, force=force
                )
            except ResetIncomplete as error:
                change.after = {"queues": _after(error.moved)}
                raise
            change.after = {
                "reset": reset.number,
                "undoes": reset.undoes,
                "queues": _after(reset.queues),
            }
        return reset


def _after(moves: Sequence[OffsetMove]) -> list[tuple[str, int, int | None]]:
    return [(each.topic, each.queue, each.after) for each in moves]
