"""What clients knew at the cut that a standby has taken last: a promotion goes back to there.

What was said of a message before the cut holds on the promoted standby. Where its log or journal
goes further than the cut, what came between may have happened, in part, or not.
"""

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from engine.store.journal import JournalPlace
from tests.simulation.payments import Payment
from tests.simulation.shares import Sent, Share

if TYPE_CHECKING:
    from tests.simulation.broker_world import BrokerWorld


class Knowledge(NamedTuple):
    """All that a world's clients know of messages, groups and transactions."""

    sent: dict[str, Sent]
    shares: dict[tuple[str, str], Share]
    unsure: dict[str, Sent]
    payments: dict[str, Payment]
    known: set[int]

    @classmethod
    def of(cls, world: "BrokerWorld") -> "Knowledge":
        return cls(
            *(world.sent, world.shares, world.unsure),
            *(world.payments.payments, world.reminders.known),
        )

    def give(self, world: "BrokerWorld") -> None:
        """Let the clients know this."""
        world.sent, world.shares, world.unsure = self.sent, self.shares, self.unsure
        world.payments.payments, world.reminders.known = self.payments, self.known

    def shares_of(self, message_id: str) -> dict[tuple[str, str], Share]:
        return {key: share for key, share in self.shares.items() if key[1] == message_id}


@dataclass(frozen=True)
class Confirmed:
    """`end` is that of log and journal at the cut."""

    end: tuple[int, JournalPlace]
    content: bytes  # a copy of what was known then

    @classmethod
    def at(cls, end: tuple[int, JournalPlace], world: "BrokerWorld") -> "Confirmed":
        return cls(end, pickle.dumps(Knowledge.of(world)))

    def restore(self, world: "BrokerWorld", *, is_exact: bool) -> set[str]:
        """Go back to the cut; ids of messages of which more or less may have happened since.

        With `is_exact` nothing can have happened since.
        """
        now, then = Knowledge.of(world), Knowledge(*pickle.loads(self.content))  # noqa: S301
        for message_id, sent in then.sent.items():
            later = now.sent[message_id]
            later.is_flushed = sent.is_flushed = sent.is_flushed or later.is_flushed
            sent.is_replicated = later.is_replicated
        for message_id, sent in now.sent.items():
            is_there = message_id in then.sent
            assert is_there or not sent.is_replicated, f"{sent.body!r}: replicated, yet lost"
        open_ids = set() if is_exact else _merge(then, now)
        then.give(world)
        return open_ids


def _merge(then: Knowledge, now: Knowledge) -> set[str]:
    """Make what has changed since open in `then`; ids of messages that may not be there."""
    for message_id in list(then.sent):
        shares = now.shares_of(message_id)
        if shares != then.shares_of(message_id):
            for share in shares.values():
                share.lose_power()
            sent = now.sent[message_id]
            if sent.is_recalled and not then.sent[message_id].is_recalled:
                sent.is_recalled, sent.may_be_recalled = False, True
            then.sent[message_id] = sent
            then.shares.update(shares)
    later = {each: sent for each, sent in now.sent.items() if each not in then.sent}
    then.unsure.update(now.unsure | later)
    for transaction_id, payment in now.payments.items():
        before = then.payments.get(transaction_id)
        if payment != before:
            payment.is_sure &= before is not None
            payment.has_lost_power = True
            then.payments[transaction_id] = payment
    return {*then.unsure}
