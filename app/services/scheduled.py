"""Recalling, delivering and rescheduling messages that wait for their time, all audited."""

from collections.abc import Awaitable, Callable

from app.capabilities import require
from app.db.rows import Actor
from app.messaging import Messaging
from app.services.audit import Audit
from engine.broker import TimerAnswer
from engine.errors import MessageNotFound


class ScheduledMessages:
    """Changes waiting messages on behalf of an actor, who is named in the trail."""

    def __init__(self, messaging: Messaging, audit: Audit) -> None:
        self._messaging = messaging
        self._audit = audit

    async def recall(self, actor: Actor, message_id: str) -> TimerAnswer:
        """See to it that a message is never delivered; MessageNotFound where none waited."""
        return await self._change(
            actor,
            "message.recall",
            message_id,
            lambda: self._messaging.recall(message_id),
            capability="timer_recalls",
        )

    async def deliver_now(self, actor: Actor, message_id: str) -> TimerAnswer:
        """Deliver a waiting message at once; MessageNotFound where none waited."""
        return await self._change(
            actor, "message.deliver", message_id, lambda: self._messaging.deliver_now(message_id)
        )

    async def reschedule(self, actor: Actor, message_id: str, deliver_at_ms: int) -> TimerAnswer:
        """Let a message wait for another time; MessageNotFound, Invalid for over a year ahead."""
        return await self._change(
            actor,
            "message.reschedule",
            message_id,
            lambda: self._messaging.reschedule(message_id, deliver_at_ms),
            deliver_at_ms=deliver_at_ms,
        )

    async def _change(
        self,
        actor: Actor,
        action: str,
        message_id: str,
        verb: Callable[[], Awaitable[TimerAnswer]],
        capability: str = "timer_changes",
        **details: int,
    ) -> TimerAnswer:
        async with self._audit.change(actor, action, message_id) as change:
            require(self._messaging.capabilities, capability, field="message_id")
            answer = await verb()
            if answer is TimerAnswer.NOT_FOUND:
                raise MessageNotFound(
                    f"no message with the id {message_id[:100]!r} has waited for a time",
                    field="message_id",
                    remedy="list what waits; retries cannot be changed",
                )
            change.after = {"result": answer.value, **details}
        return answer
