"""What happened to messages, as values: traces, statistics and the console listen.

Events are emitted on the owner's thread after the fact is durable in the page cache. A listener
must return in microseconds and must not call back into the verb that emitted.
"""

from collections.abc import Callable

import msgspec


class Event(msgspec.Struct, frozen=True, gc=False):
    """Something that happened at `at_ms` (ms since 1970 UTC)."""

    at_ms: int


class Appended(Event, frozen=True, gc=False):
    """`count` messages of one topic were accepted in one write of the log."""

    topic: str
    queue: int
    first_offset: int
    count: int
    size_bytes: int


class SendRefused(Event, frozen=True, gc=False):
    """A send was turned down; nothing of it was stored."""

    topic: str
    code: str


class Delivered(Event, frozen=True, gc=False):
    """Messages of one queue were handed out to a client of a group."""

    group: str
    topic: str
    queue: int
    offsets: tuple[int, ...]
    client: str


class Acked(Event, frozen=True, gc=False):
    """A group is done with these messages."""

    group: str
    topic: str
    queue: int
    offsets: tuple[int, ...]


class Retried(Event, frozen=True, gc=False):
    """A delivery failed or ran out of time; the message comes back as `attempt`."""

    group: str
    topic: str
    queue: int
    offset: int
    attempt: int
    delay_ms: int
    client: str
    error: str


class Dead(Event, frozen=True, gc=False):
    """A message used up its attempts, or was rejected, and lies in `%DLQ%group`."""

    group: str
    topic: str
    queue: int
    offset: int
    reason: str
    client: str


class Released(Event, frozen=True, gc=False):
    """A delayed message became due and went to its real topic."""

    topic: str
    queue: int
    late_ms: int


class CorruptRecord(Event, frozen=True, gc=False):
    """A record in the log failed its check and was stepped over."""

    position: int
    detail: str


Listener = Callable[[Event], None]


class Events:
    """Hands each event to every listener, in the order they subscribed."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens; hot paths skip building events when nobody does."""
        return bool(self._listeners)

    def subscribe(self, listener: Listener) -> None:
        self._listeners += (listener,)

    def emit(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)
