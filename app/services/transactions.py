"""Transactions for producers and operators: deciding, being asked, callbacks of producer groups.

A producer's own decisions are data, as its messages are; what a person decides is audited.
"""

from collections.abc import Callable

from app.host import EngineHost
from app.services.audit import Actor, Audit
from app.services.callbacks import CallbackCaller
from engine.broker import Callback, Check, Decider, Decision, Transaction

KIND = "transaction"
CALLBACK_KIND = "transaction_callback"

Ask = Callable[[Check], bool]


class LiveProducers:
    """Connections that answer checks, by producer group; they are asked in turn."""

    def __init__(self) -> None:
        self._asks: dict[str, list[Ask]] = {}

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
        """How many connections of a group can be asked."""
        return len(self._asks.get(group, ()))

    def groups(self) -> dict[str, int]:
        """Every group that can be asked, with its connections."""
        return {group: len(asks) for group, asks in self._asks.items()}

    def ask(self, check: Check) -> bool:
        """Ask the next one in turn who takes it; False where nobody does."""
        asks = self._asks.get(check.producer_group, [])
        for _ in range(len(asks)):
            asks.append(asks.pop(0))
            if asks[-1](check):
                return True
        return False


class Transactions:
    """Between `start` and `stop` it asks for the engine: live producers first, then callbacks."""

    def __init__(
        self, host: EngineHost, audit: Audit, *, document: Callable[[Check], bytes]
    ) -> None:
        """`document` is the body that callbacks are sent."""
        self._host = host
        self._audit = audit
        self.producers = LiveProducers()
        self._caller = CallbackCaller(host, document)

    def start(self) -> None:
        """Be asked by the engine."""
        self._host.broker.transactions.askers.extend((self.producers.ask, self._caller.ask))

    async def stop(self) -> None:
        """Give up the calls under way: what they ask for is asked again."""
        await self._caller.stop()

    async def decide(
        self, transaction_id: str, decision: Decision, group: str = "", by: Decider | None = None
    ) -> Transaction:
        """A program's decision; returns when what was promised to the topic is kept."""
        done = self._host.broker.transactions.decide(
            transaction_id, decision, group=group, by=by or Decider.PRODUCER
        )
        if done.flush_position:
            await self._host.flushed(done.flush_position)
        return done

    async def decide_by_hand(
        self, actor: Actor, transaction_id: str, decision: Decision, group: str = ""
    ) -> Transaction:
        """A person's decision, audited; errors as those of the engine's `decide`."""
        before = _standing(self._host.broker.transactions.get(transaction_id, group=group))
        action = f"transaction.{decision.value}"
        async with self._audit.change(actor, action, KIND, transaction_id, before=before) as change:
            done = await self.decide(transaction_id, decision, group, Decider.OPERATOR)
            change.after = _standing(done)
        return done

    async def resume(self, actor: Actor, transaction_id: str, group: str = "") -> Transaction:
        """Let a given-up transaction be checked again, audited; Conflict for any other."""
        before = _standing(self._host.broker.transactions.get(transaction_id, group=group))
        async with self._audit.change(
            actor, "transaction.resume", KIND, transaction_id, before=before
        ) as change:
            done = self._host.broker.transactions.resume(transaction_id, group=group)
            change.after = _standing(done)
        return done

    async def set_callback(self, actor: Actor, callback: Callback) -> Callback:
        """Register where a producer group is asked, audited; Invalid where that cannot be."""
        callbacks = self._host.broker.transactions.callbacks
        self._caller.check_url(callback.url)
        before = callbacks.find(callback.group)
        async with self._audit.change(
            actor, "transaction_callback.set", CALLBACK_KIND, callback.group, before=before
        ) as change:
            change.after = callbacks.set(callback)
        return callback

    async def delete_callback(self, actor: Actor, group: str) -> None:
        """Call a group no more, audited; GroupNotFound where it has no callback."""
        callbacks = self._host.broker.transactions.callbacks
        before = callbacks.get(group)
        async with self._audit.change(
            actor, "transaction_callback.delete", CALLBACK_KIND, group, before=before
        ):
            callbacks.delete(group)


def _standing(transaction: Transaction) -> dict[str, object]:
    """What the trail keeps of a transaction: not its message."""
    return {
        "producer_group": transaction.producer_group,
        "topic": transaction.topic,
        "state": transaction.state.value,
        "checks": transaction.checks,
    }
