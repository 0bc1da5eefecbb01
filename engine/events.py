"""Events about messages, for traces, statistics and the console.

Events are emitted on the owner's thread after the fact is durable in the page cache. A listener
must return in microseconds and must not call back into the verb that emitted.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec


class EngineEvent(msgspec.Struct, frozen=True, gc=False):
    """Something that happened at `at_ms` (ms since 1970 UTC)."""

    at_ms: int


class Appended(EngineEvent, frozen=True, gc=False):
    """`count` messages of one topic were accepted in one write of the log."""

    topic: str
    queue: int
    first_offset: int
    count: int
    size_bytes: int


class SendRefused(EngineEvent, frozen=True, gc=False):
    """A send was turned down; nothing of it was stored.

    `message_ids` are those that the producer (`client`, "ip:port") had chosen, at most 64 of them.
    """

    topic: str
    code: str
    message_ids: tuple[str, ...] = ()
    client: str = ""


class MessagesDelivered(EngineEvent, frozen=True, gc=False):
    """Messages of one queue were delivered to a client of a group.

    By column, each as long as `offsets`: `born_ms` and `stored_ms` of the messages, and `attempts`,
    which is empty where each is the first.
    """

    group: str
    topic: str
    queue: int
    offsets: tuple[int, ...]
    client: str
    attempts: tuple[int, ...] = ()
    born_ms: tuple[int, ...] = ()
    stored_ms: tuple[int, ...] = ()
    size_bytes: int = 0  # of their records together


class Acked(EngineEvent, frozen=True, gc=False):
    """A group is done with these messages."""

    group: str
    topic: str
    queue: int
    offsets: tuple[int, ...]


class Retried(EngineEvent, frozen=True, gc=False):
    """A delivery failed or ran out of time; the message comes back as `attempt`."""

    group: str
    topic: str
    queue: int
    offset: int
    attempt: int
    delay_ms: int
    client: str
    error: str
    is_expired: bool = False  # nobody said that it failed: its time ran out


class DeadLettered(EngineEvent, frozen=True, gc=False):
    """A message used up its attempts, or was rejected, and lies in `%DLQ%group`."""

    group: str
    topic: str
    queue: int
    offset: int
    reason: str
    client: str


class Released(EngineEvent, frozen=True, gc=False):
    """A delayed message became due and went to its real topic."""

    topic: str
    queue: int
    late_ms: int


class CorruptRecord(EngineEvent, frozen=True, gc=False):
    """A record in the log failed its check and was stepped over."""

    position: int
    detail: str


class Returned(EngineEvent, frozen=True, gc=False):
    """A client gave messages back unused; no attempt is counted."""

    group: str
    topic: str
    queue: int
    offsets: tuple[int, ...]


class MessagesPulled(EngineEvent, frozen=True, gc=False):
    """Messages from `offset` to `next_offset` - 1 were read by a group that keeps its own place.

    Those that its filter left out are among them.
    """

    group: str
    topic: str
    queue: int
    offset: int
    next_offset: int
    count: int = 0  # messages that were handed over, and the size of their records
    size_bytes: int = 0


class Recalled(EngineEvent, frozen=True, gc=False):
    """A waiting message, whose record lies at this place, is never going to be delivered."""

    topic: str
    queue: int
    offset: int


class Rescheduled(EngineEvent, frozen=True, gc=False):
    """A waiting message, whose record lay at this place, waits until `due_ms` now."""

    topic: str
    queue: int
    offset: int
    due_ms: int


class MemberJoined(EngineEvent, frozen=True, gc=False):
    """A consumer became a member of its group, by a heartbeat, a receive or a subscription."""

    group: str
    client: str


class MemberLeft(EngineEvent, frozen=True, gc=False):
    """A consumer is no member any more: it said goodbye, or gave no sign of life."""

    group: str
    client: str
    is_expired: bool


class SubscriptionsDiffer(EngineEvent, frozen=True, gc=False):
    """Members of a group began to disagree on topics or filters; `clients` are all of them."""

    group: str
    clients: tuple[str, ...]


class TransactionEvent(EngineEvent, frozen=True, gc=False):
    """What happened to a transaction; its half message lies at `half_offset` of the half topic.

    `topic` and `queue` are what its message is bound for. `half_offset` is -1 where only the copy
    that was given up is left.
    """

    producer_group: str
    topic: str
    queue: int
    half_offset: int
    message_id: str


class TransactionCommitted(TransactionEvent, frozen=True, gc=False):
    """The message went to its topic, as `offset` of its queue. `by`: producer, check, operator."""

    offset: int
    by: str


class TransactionRolledBack(TransactionEvent, frozen=True, gc=False):
    """The message will never be delivered."""

    by: str


class Checked(TransactionEvent, frozen=True, gc=False):
    """Check `number` of an undecided transaction began; `is_asked`: somebody was there to ask."""

    number: int
    is_asked: bool


class CheckGivenUp(TransactionEvent, frozen=True, gc=False):
    """No answer to `checks` checks: the message lies in TRANS_CHECK_MAX_TIME_TOPIC now."""

    checks: int


class CheckResumed(TransactionEvent, frozen=True, gc=False):
    """A transaction that had been given up is checked again."""


class OffsetsReset(EngineEvent, frozen=True, gc=False):
    """A group was moved to another place in `queue_count` queues of these topics.

    `to` says in words where to; `undoes` is the number of the reset that was taken back, or 0.
    """

    group: str
    topics: tuple[str, ...]
    queue_count: int
    number: int
    to: str
    undoes: int


class Replayed(EngineEvent, frozen=True, gc=False):
    """A replay job decided about a message; those that its conditions leave out cause no event.

    `topic`, `queue` and `offset` are the place it was read from, `to_topic` is where its copy went
    (empty unless `outcome` is "sent", and for a copy that a crash had kept from being noted).
    """

    job: str
    topic: str
    queue: int
    offset: int
    outcome: str
    message_id: str
    to_topic: str


class Expired(EngineEvent, frozen=True, gc=False):
    """Messages went for their age, for room, or by a purge (`cause`).

    Either `count` messages of `topic` can no longer be read; or, with no topic named, the log's
    oldest `size_bytes` were let go of.
    """

    cause: str
    topic: str
    count: int
    size_bytes: int


class Overtaken(EngineEvent, frozen=True, gc=False):
    """Retention or a purge took `count` messages that a group had not finished."""

    group: str
    topic: str
    queue: int
    count: int


class Requested(EngineEvent, frozen=True, gc=False):
    """A message was sent to which `client` waits for a reply."""

    topic: str
    message_id: str
    correlation_id: str
    client: str
    timeout_ms: int


class Replied(EngineEvent, frozen=True, gc=False):
    """The reply to a request was stored at this place; `is_late`: nobody waited for it.

    `client` is the address that replied.
    """

    topic: str
    queue: int
    offset: int
    message_id: str
    correlation_id: str
    client: str
    is_late: bool


class RequestExpired(EngineEvent, frozen=True, gc=False):
    """No reply to a request came in time; one that comes later is kept as a late one."""

    topic: str
    message_id: str
    correlation_id: str
    client: str


Listener = Callable[[Any], None]
Kinds = Iterable[type[EngineEvent]]


class EventBus:
    """Hands each event to the listeners of its type, in the order they subscribed."""

    def __init__(self) -> None:
        self._listeners: tuple[tuple[Listener, frozenset[type[EngineEvent]]], ...] = ()
        self._by_type: dict[type[EngineEvent], tuple[Listener, ...]] = {}
        self.has_subscribers = False  # hot paths skip building events while there are none

    def subscribe(self, listener: Listener, kinds: Kinds = ()) -> None:
        """Call `listener` for each event of these types; without any, for each event."""
        self._set((*self._listeners, (listener, frozenset(kinds))))

    def unsubscribe(self, listener: Listener) -> None:
        """Tell `listener` nothing from now on."""
        self._set(tuple(each for each in self._listeners if each[0] != listener))

    def _set(self, listeners: tuple[tuple[Listener, frozenset[type[EngineEvent]]], ...]) -> None:
        self._listeners, self._by_type = listeners, {}
        self.has_subscribers = bool(listeners)

    def emit(self, event: EngineEvent) -> None:
        kind = event.__class__
        listeners = self._by_type.get(kind)
        if listeners is None:
            listeners = self._by_type[kind] = tuple(
                listener for listener, kinds in self._listeners if not kinds or kind in kinds
            )
        for listener in listeners:
            listener(event)
