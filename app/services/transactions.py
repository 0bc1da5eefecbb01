"""Transactions for producers and operators: decisions, checks, callbacks of producer groups.

A producer's own decisions are data, as its messages are; an operator's are audited.
"""

import asyncio
from collections.abc import Callable

import msgspec

from app import eager
from app.addresses import HIDDEN, redacted_url
from app.capabilities import require
from app.db.rows import Actor
from app.messaging import Messaging
from app.services import bodies
from app.services.audit import Audit
from app.services.callbacks import CallbackCaller
from app.services.targets import Targets
from engine.broker import (
    Callback,
    CallbackTable,
    Decider,
    Transaction,
    TransactionCheck,
    TransactionDecision,
)
from engine.errors import EngineError, Invalid
from kitemq.model.conversion import convert
from kitemq.model.transactions import TransactionCallback

DECOMPRESSING_MAX = 16  # checks whose large body is decompressed; others are repeated later

Ask = Callable[[TransactionCheck], bool]


class LiveProducers:
    """Connections that answer checks, by producer group, in round robin."""

    def __init__(self) -> None:
        self._asks: dict[str, list[Ask]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def enter(self, group: str, ask: Ask) -> None:
        """Ask here, too, from now on; `ask` says False where it cannot take a check just now."""
        self._asks.setdefault(group, []).append(ask)

    def leave(self, group: str, ask: Ask) -> None:
        """Do not ask here any more."""
        asks = self._asks.get(group, [])
        if ask in asks:
            asks.remove(ask)
        if not asks:
            self._asks.pop(group, None)

    def count(self, group: str) -> int:
        """The number of connections that answer for a group."""
        return len(self._asks.get(group, ()))

    def groups(self) -> dict[str, int]:
        """The groups that have connections, with these."""
        return {group: len(asks) for group, asks in self._asks.items()}

    def cancel(self) -> None:
        """Drop the checks that wait for their body; they are repeated later."""
        for task in self._tasks:
            task.cancel()

    def ask(self, check: TransactionCheck) -> bool:
        """Pass a check to the next connection that takes it; False if none does."""
        if bodies.is_small([check.message]):
            return self._ask(check)
        if not self.count(check.producer_group) or len(self._tasks) >= DECOMPRESSING_MAX:
            return False
        task = asyncio.get_running_loop().create_task(self._ask_later(check))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _ask_later(self, check: TransactionCheck) -> None:
        await bodies.decompress([check.message])
        self._ask(check)

    def _ask(self, check: TransactionCheck) -> bool:
        asks = self._asks.get(check.producer_group, [])
        for _ in range(len(asks)):
            asks.append(asks.pop(0))
            if asks[-1](check):
                return True
        return False


class Transactions:
    """Between `start` and `stop` it asks for the engine: live producers first, then callbacks."""

    def __init__(
        self,
        messaging: Messaging,
        audit: Audit,
        targets: Targets,
        *,
        document: Callable[[TransactionCheck], bytes],
    ) -> None:
        """`document` is the body that callbacks are sent, `targets` what they may call."""
        self._verbs, self._capabilities = messaging.transactions, messaging.capabilities
        self._audit = audit
        self.producers = LiveProducers()
        self._caller = CallbackCaller(self._verbs, document, targets)

    def start(self) -> None:
        """Register with the engine as askers of its checks."""
        self._verbs.askers.append(self.producers.ask)
        if self._capabilities.transaction_callbacks:
            self._verbs.askers.append(self._caller.ask)

    async def stop(self) -> None:
        """Cancel the calls under way; their checks are repeated."""
        self.producers.cancel()
        await self._caller.stop()

    @property
    def callbacks(self) -> CallbackTable:
        """The callbacks of producer groups, with their secrets; Refused where none are kept."""
        require(self._capabilities, "transaction_callbacks")
        return self._verbs.callbacks

    async def decide(
        self,
        transaction_id: str,
        decision: TransactionDecision,
        group: str = "",
        by: Decider | None = None,
    ) -> Transaction:
        """A program's decision; returns when it has the topic's durability."""
        return await self._verbs.decide(
            transaction_id, decision, group=group, by=by or Decider.PRODUCER
        )

    def ask_pending(self, group: str, ask: Ask) -> None:
        """Pass the checks of a group that no producer was asked to `ask`.

        None if the engine refuses: they are repeated later.
        """

        def done(checks: list[TransactionCheck] | None, _error: EngineError | None) -> None:
            for check in checks or ():
                ask(check)

        eager.run(self._verbs.checks(group), done)

    async def decide_by_hand(
        self, actor: Actor, transaction_id: str, decision: TransactionDecision, group: str = ""
    ) -> Transaction:
        """A person's decision, audited; errors as those of the engine's `decide`."""
        before = _standing(await self._verbs.get(transaction_id, group=group))
        action = f"transaction.{decision.value}"
        async with self._audit.change(actor, action, transaction_id, before=before) as change:
            done = await self.decide(transaction_id, decision, group, Decider.OPERATOR)
            change.after = _standing(done)
        return done

    async def resume(self, actor: Actor, transaction_id: str, group: str = "") -> Transaction:
        """Let a given-up transaction be checked again, audited; Conflict for any other."""
        before = _standing(await self._verbs.get(transaction_id, group=group))
        async with self._audit.change(
            actor, "transaction.resume", transaction_id, before=before
        ) as change:
            done = await self._verbs.resume(transaction_id, group=group)
            change.after = _standing(done)
        return done

    async def set_callback(self, actor: Actor, callback: Callback) -> Callback:
        """Register a producer group's callback, audited; Invalid for a forbidden address.

        An address equal to the redacted present one keeps the present one, with its secrets.
        """
        before = self.callbacks.find(callback.group)
        if before is not None and callback.url == redacted_url(before.url):
            callback = msgspec.structs.replace(callback, url=before.url)
        elif HIDDEN in callback.url:
            raise Invalid(
                f"{HIDDEN} stands for what is hidden of another address",
                field="url",
                remedy="give the whole address, or exactly the one that is shown for this group",
            )
        self._caller.check_url(callback.url)
        async with self._audit.change(
            actor, "transaction_callback.set", callback.group, before=redacted(before)
        ) as change:
            change.after = redacted(await self._verbs.set_callback(callback))
        return callback

    def described(self, callback: Callback) -> TransactionCallback:
        """A callback without its secrets, with the number of connections asked before it."""
        url, live = redacted_url(callback.url), self.producers.count(callback.group)
        return convert(callback, TransactionCallback, url=url, live_producers=live)

    async def delete_callback(self, actor: Actor, group: str) -> None:
        """Call a group no more, audited; GroupNotFound where it has no callback."""
        before = self.callbacks.get(group)
        async with self._audit.change(
            actor, "transaction_callback.delete", group, before=redacted(before)
        ):
            await self._verbs.delete_callback(group)


def redacted(callback: Callback | None) -> Callback | None:
    """A callback as it may be seen: without what could be a secret in its address."""
    if callback is None:
        return None
    return msgspec.structs.replace(callback, url=redacted_url(callback.url))


def _standing(transaction: Transaction) -> dict[str, object]:
    """The audit trail's view of a transaction, without its message."""
    return {
        "producer_group": transaction.producer_group,
        "topic": transaction.topic,
        "state": transaction.state.value,
        "checks": transaction.checks,
    }
