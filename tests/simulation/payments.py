"""What a life does with transactions: begun, decided, decided twice or never, asked about.

Part of the broker world. A message that was not committed reaches nobody; one that was reaches
everybody once, however often and from wherever its commit came.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.broker import TransactionDecision, TransactionState
from engine.errors import Conflict, MessageNotFound
from engine.message import Message
from tests.simulation.disk import ROOM_UNLIMITED
from tests.simulation.shares import Sent

if TYPE_CHECKING:
    from tests.simulation.broker_world import BrokerWorld

TOPIC = "payments"
GROUP = "tellers"
STATES = {
    TransactionDecision.COMMIT: {TransactionState.COMMITTED},
    TransactionDecision.ROLLBACK: {TransactionState.ROLLED_BACK},
    TransactionDecision.UNKNOWN: {TransactionState.PENDING, TransactionState.GIVEN_UP},
}


@dataclass
class Payment:
    """A transaction as its producer knows it."""

    sent: Sent
    decided: TransactionDecision = TransactionDecision.UNKNOWN
    is_sure: bool = True  # False: its send was cut off, it may not be there
    may_be: TransactionDecision = TransactionDecision.UNKNOWN  # this was cut off
    has_lost_power: bool = False


class Payments:
    """Its verbs are chosen by chance like the world's own."""

    def __init__(self, world: "BrokerWorld") -> None:
        self.world = world
        self.payments: dict[str, Payment] = {}

    def actions(self) -> tuple[tuple[Callable[[], None], int], ...]:
        return ((self.begin, 6), (self.decide, 8), (self.answer_checks, 4))

    def begin(self) -> None:
        world = self.world
        world.number += 1
        message = Message(
            TOPIC,
            f"{world.number}:{'p' * world.chance.choice((0, 50, 300))}".encode(),
            tag=world.chance.choice(("", "a")),
            message_id=f"M{world.number}",
            transaction_group=GROUP,
            check_immunity_s=world.chance.choice((0, 0, 20)),
        )
        payment = Payment(Sent.of(message, 0))

        def cut_off() -> None:
            payment.is_sure = False
            self.payments[payment.sent.message_id] = payment

        world.doing = cut_off
        world.broker.send([message])
        self.payments[payment.sent.message_id] = payment

    def decide(self) -> None:
        """A producer decides one of its last transactions, sometimes one that it had decided."""
        if self.payments:
            payment = self.world.chance.choice(list(self.payments.values())[-8:])
            decision = self.world.chance.choice(
                (
                    TransactionDecision.COMMIT,
                    TransactionDecision.COMMIT,
                    TransactionDecision.ROLLBACK,
                    TransactionDecision.UNKNOWN,
                )
            )
            self.tell(payment, decision)

    def answer_checks(self) -> None:
        for check in self.world.broker.transactions.checks(GROUP, 5):
            payment = self.payments[check.transaction_id]
            is_over = (
                payment.decided is not TransactionDecision.UNKNOWN and not payment.has_lost_power
            )
            assert not is_over, f"{payment} was decided, and is asked about"
            assert check.message.body == payment.sent.body, check
            payment.is_sure = True
            self.tell(payment, self.world.chance.choice(tuple(TransactionDecision)))

    def tell(self, payment: Payment, decision: TransactionDecision) -> None:
        if (
            decision is not TransactionDecision.UNKNOWN
            and payment.decided is TransactionDecision.UNKNOWN
        ):
            self.world.doing = lambda: self.cut_off(payment, decision)
        try:
            state = self.world.broker.transactions.decide(
                payment.sent.message_id, decision, group=GROUP
            ).state
        except Conflict:
            self.refused(payment, decision)
        except MessageNotFound:
            # On a full disk the key index may have to wait for room.
            is_full = self.world.disk.room_bytes < ROOM_UNLIMITED
            is_excused = is_full or payment.has_lost_power or not payment.is_sure
            assert is_excused, f"{payment} is not found"
        else:
            self.took(payment, decision, state)

    def cut_off(self, payment: Payment, decision: TransactionDecision) -> None:
        payment.may_be = decision
        if decision is TransactionDecision.COMMIT:
            self.world.unsure[payment.sent.message_id] = payment.sent

    def refused(self, payment: Payment, decision: TransactionDecision) -> None:
        """Right only where the opposite was decided, or may have been."""
        opposites = {
            TransactionDecision.COMMIT: TransactionDecision.ROLLBACK,
            TransactionDecision.ROLLBACK: TransactionDecision.COMMIT,
        }
        opposite = opposites[decision]
        fits = opposite in (payment.decided, payment.may_be) or payment.has_lost_power
        assert fits, f"{decision} of {payment} is refused"
        self.settle(payment, opposite)

    def took(
        self, payment: Payment, decision: TransactionDecision, state: TransactionState
    ) -> None:
        payment.is_sure = True
        if decision is not TransactionDecision.UNKNOWN:
            assert {state} == STATES[decision], f"{decision} of {payment} led to {state}"
            fits = (
                payment.decided in (TransactionDecision.UNKNOWN, decision) or payment.has_lost_power
            )
            assert fits, f"{decision} of {payment} was taken"
            self.settle(payment, decision)
        else:
            self.check_state(payment, state)

    def check_state(self, payment: Payment, state: TransactionState) -> None:
        allowed = STATES[payment.decided] | STATES[payment.may_be]
        assert state in allowed or payment.has_lost_power, f"{payment} is {state}"

    def settle(self, payment: Payment, decision: TransactionDecision) -> None:
        if (
            decision is TransactionDecision.COMMIT
            and payment.sent.message_id not in self.world.sent
        ):
            is_certain = payment.may_be is not decision and not payment.has_lost_power
            if is_certain:
                self.world.enter(payment.sent)
            else:
                self.world.unsure.setdefault(payment.sent.message_id, payment.sent)
        payment.decided = decision

    def lose_power(self) -> None:
        """What was not flushed may be gone: a half message, or what was decided."""
        for payment in self.payments.values():
            payment.has_lost_power = True

    def count(self) -> None:
        """Every transaction is where its last decision put it; only commits reached the topic."""
        bodies = self.world.bodies(TOPIC, 2)
        for payment in self.payments.values():
            count = bodies.count(payment.sent.body)
            assert count <= 1, f"{payment} lies {count} times in its topic"
            if payment.has_lost_power:
                continue
            may_be_committed = TransactionDecision.COMMIT in (payment.decided, payment.may_be)
            assert not count or may_be_committed, f"{payment} was delivered"
            if payment.decided is TransactionDecision.COMMIT:
                assert count == 1, f"{payment} was not delivered"
            if payment.is_sure:
                known = self.world.broker.transactions.get(payment.sent.message_id, group=GROUP)
                self.check_state(payment, known.state)
