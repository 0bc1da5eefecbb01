"""What a life does to messages that wait for an exact time: recalled, hurried, moved.

Part of the broker world. A recalled message reaches nobody; the others everybody, and not before
the time that was last asked for.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.broker import TimerAnswer
from engine.errors import Busy
from tests.simulation.shares import Sent

if TYPE_CHECKING:
    from tests.simulation.broker_world import BrokerWorld


class Reminders:
    """Its verbs are chosen by chance like the world's own."""

    def __init__(self, world: "BrokerWorld") -> None:
        self.world = world
        self.known: set[int] = set()  # messages that the broker has said it has

    def actions(self) -> tuple[tuple[Callable[[], None], int], ...]:
        return ((self.change, 10),)

    def change(self) -> None:
        """Ask for one of the three; Busy is right only for a message not readable yet."""
        sent = self.some()
        if sent is None:
            return
        try:
            self.world.chance.choice((self.recall, self.hurry, self.move, self.move))(sent)
        except Busy:
            shares = [share for share in self.world.shares.values() if share.sent is sent]
            was_read = any(share.delivered and not share.has_lost_power for share in shares)
            assert not was_read, f"{sent.body!r}: it was readable"
            self.world.doing()

    def recall(self, sent: Sent) -> None:
        self.world.doing = lambda: self.maybe_recalled(sent)
        answer = self.world.broker.recall(sent.message_id)
        self.check(sent, answer, TimerAnswer.RECALLED)
        sent.is_recalled = sent.is_recalled or answer is TimerAnswer.RECALLED

    def hurry(self, sent: Sent) -> None:
        self.world.doing = lambda: self.due_at(sent, 0)
        answer = self.world.broker.deliver_now(sent.message_id)
        self.check(sent, answer, TimerAnswer.DELIVERED)
        if answer is TimerAnswer.DELIVERED:
            self.due_at(sent, 0)

    def move(self, sent: Sent) -> None:
        now_ms = self.world.clock.now_ms()
        to_ms = now_ms + self.world.chance.choice((-5, 900, 20_000, 200_000))
        self.world.doing = lambda: self.due_at(sent, 0)
        answer = self.world.broker.reschedule(sent.message_id, to_ms)
        is_now = to_ms <= now_ms
        self.check(sent, answer, TimerAnswer.DELIVERED if is_now else TimerAnswer.RESCHEDULED)
        if answer in (TimerAnswer.DELIVERED, TimerAnswer.RESCHEDULED):
            self.due_at(sent, to_ms)

    def some(self) -> Sent | None:
        """A message that waits or waited, mostly one that nobody has got; its send was answered."""
        seen = {share.sent.number for share in self.world.shares.values() if share.delivered}
        timed = [sent for sent in self.world.sent.values() if sent.is_timed and sent.is_sure]
        fresh = [sent for sent in timed if sent.number not in seen]
        some = fresh if fresh and self.world.chance.random() < 0.8 else timed
        return self.world.chance.choice(some) if some else None

    def check(self, sent: Sent, answer: TimerAnswer, wanted: TimerAnswer) -> None:
        """The answer fits what the message's shares have seen."""
        what = f"{sent.body!r}: {answer}"
        shares = [share for share in self.world.shares.values() if share.sent is sent]
        if any(share.has_lost_power for share in shares):
            return
        allowed = {wanted, TimerAnswer.ALREADY_DELIVERED}
        if sent.is_recalled:
            allowed = {TimerAnswer.RECALLED}
        elif any(share.delivered for share in shares):
            allowed = {TimerAnswer.ALREADY_DELIVERED}
        elif sent.may_be_recalled:
            allowed.add(TimerAnswer.RECALLED)
        # Not before it can be read: a flush that was promised, or a full disk, may hold that up.
        if sent.number not in self.known:
            allowed.add(TimerAnswer.NOT_FOUND)
        if answer is not TimerAnswer.NOT_FOUND:
            self.known.add(sent.number)
        assert answer in allowed, f"{what}, one of {sorted(allowed)} would be right"

    def maybe_recalled(self, sent: Sent) -> None:
        sent.may_be_recalled = True

    def due_at(self, sent: Sent, due_ms: int) -> None:
        sent.due_ms = due_ms
