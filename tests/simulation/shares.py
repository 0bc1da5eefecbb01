"""What must hold between one message and one consumer group: the reference for the broker world.

A share is open until it is done or dead. Every delivery is checked against it: not while another
delivery of it is current, not before its wait is over, with the attempt that comes next, never
after it was done. Where a crash left open whether a verb took effect, both are allowed once.
"""

from dataclasses import dataclass, field

from engine.broker import Delivery, Receipt
from engine.message import Message


@dataclass
class Sent:
    """A message as its producer knows it."""

    message_id: str
    topic: str
    body: bytes
    tag: str
    lane: str
    number: int
    due_ms: int = 0
    is_timed: bool = False  # it waits for an exact time, so it can be recalled or moved
    is_flushed: bool = False
    is_replicated: bool = False  # its producer was told so
    is_sure: bool = True  # False: its send was cut off by the crash
    is_recalled: bool = False  # it must never be delivered
    may_be_recalled: bool = False
    may_be_purged: bool = False

    @classmethod
    def of(cls, message: Message, due_ms: int) -> "Sent":
        return cls(
            message.message_id,
            message.topic,
            message.body,
            message.tag,
            message.message_group,
            int(message.message_id[1:]),
            due_ms,
            is_timed=bool(message.deliver_at_ms),
        )


@dataclass
class Held:
    """A delivery that is current as far as its client knows."""

    receipt: Receipt
    attempt: int
    deadline_ms: int
    client: str


@dataclass
class Share:
    """One message, one group."""

    sent: Sent
    retry_max: int
    attempts: tuple[int, int] = (1, 1)  # the next one, at least and at most
    held: Held | None = None
    not_before_ms: int = 0
    is_done: bool = False
    is_dead: bool = False
    may_be_done: bool = False
    may_be_dead: bool = False
    has_lost_power: bool = False
    is_turned: bool = False  # a reset, a replay or a purge: how often it comes is open
    awaits: bool = False  # ... but it must come once more
    was_done: bool = False  # before that, which a power loss may bring back
    delivered: list[int] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.is_done or self.is_dead

    def may_be_over(self, now_ms: int) -> bool:
        """Whether it was done, or given up, or may have been."""
        held = self.held
        is_exhausted = held is not None and held.attempt > self.retry_max
        if held is not None and is_exhausted and now_ms >= held.deadline_ms:
            return True
        return self.is_over or self.may_be_done or self.may_be_dead or self.is_turned

    def deliver(self, delivery: Delivery, client: str, now_ms: int) -> None:
        """Check a delivery and take note of it."""
        what = f"{self.sent.body!r} attempt {delivery.attempt} after {self.delivered}"
        assert delivery.message.body == self.sent.body, what
        if not self.has_lost_power and not self.is_turned:
            self._check(delivery, now_ms, what)
        assert delivery.attempt <= self.retry_max + 1, f"{what}: more than allowed"
        self.delivered.append(delivery.attempt)
        self.awaits = False
        self.attempts = (delivery.attempt, delivery.attempt)
        self.may_be_done = self.may_be_dead = False
        self.is_done = self.is_dead = False
        deadline_ms = delivery.invisible_until_ms
        self.held = Held(delivery.receipt, delivery.attempt, deadline_ms, client)

    def _check(self, delivery: Delivery, now_ms: int, what: str) -> None:
        assert not self.is_done, f"{what}: it was acknowledged"
        assert not self.is_dead, f"{what}: it is a dead letter"
        assert now_ms >= self.not_before_ms, f"{what}: {self.not_before_ms - now_ms} ms early"
        assert now_ms >= self.sent.due_ms, f"{what}: {self.sent.due_ms - now_ms} ms early"
        low, high = self.attempts
        if self.held is not None:
            assert now_ms >= self.held.deadline_ms, f"{what}: somebody has it"
            low, high = self.held.attempt + 1, high + 1
        assert low <= delivery.attempt <= high, f"{what}: {low} to {high} would be right"

    def done(self) -> None:
        self.held, self.is_done = None, True

    def failed(self, not_before_ms: int, *, is_rejected: bool) -> None:
        """A failure that was taken note of: one attempt more, or the dead letters."""
        assert self.held is not None
        attempt, self.held = self.held.attempt, None
        self.not_before_ms = not_before_ms
        self.attempts = (attempt + 1, attempt + 1)
        self.is_dead = is_rejected or attempt == self.retry_max + 1

    def put_back(self) -> None:
        assert self.held is not None
        attempt, self.held = self.held.attempt, None
        self.attempts = (attempt, attempt)
        self.not_before_ms = 0

    def unsure(self, *, done: bool = False, dead: bool = False) -> None:
        """A verb on the delivery was cut off: it may come back at any time, or be over."""
        if self.held is not None:
            self.attempts = (self.held.attempt, self.held.attempt + 1)
            self.may_be_dead = dead or self.held.attempt == self.retry_max + 1
        self.held = None
        self.not_before_ms = 0
        self.may_be_done = self.may_be_done or done

    def maybe_handed_out(self, now_ms: int) -> None:
        """A receive was cut off: this one may have been in it."""
        if self.is_over or (self.held is not None and now_ms < self.held.deadline_ms):
            return
        if self.held is not None:
            self.attempts = (self.held.attempt + 1, self.held.attempt + 1)
            self.held = None
        low, high = self.attempts
        self.attempts = (low, high + 1)
        self.may_be_dead = self.may_be_dead or high > self.retry_max

    def turn(self, *, comes: bool) -> None:
        """It was turned back, and `comes` again; or it may be skipped from now on."""
        self.is_turned, self.awaits, self.held = True, comes, None
        self.was_done = self.was_done or self.is_done or self.may_be_done
        self.may_be_done = self.may_be_done or not comes

    def lose_power(self) -> None:
        """Progress is only in the page cache: anything may be as it was earlier."""
        self.has_lost_power = True
        self.awaits = False
        self.may_be_done = self.may_be_done or self.is_done or self.was_done
        self.is_done = False
        # A failure that was taken back, say by a release, counts again if that was lost.
        self.may_be_dead, self.is_dead = self.may_be_dead or bool(self.delivered), False
        self.held = None
