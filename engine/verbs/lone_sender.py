"""Sends plain messages of one sender one at a time, by a way that is prepared once.

A program that waits for each answer before it sends again sends messages that differ in body, born
time and the number of their id alone. What else a send looks up and checks is the same each time,
and took most of its time. Whatever is not as it was is left to the broker's other verbs.
"""

from collections.abc import Callable

from engine.clock import Clock
from engine.container import Container
from engine.errors import EngineError
from engine.events import Appended
from engine.message import BODY_BYTES_MAX, Durability
from engine.message_columns import BODY_LENGTH_BYTES, LonePlace, MessageColumns
from engine.store.encode_columns import LoneMessage


class LoneSender:
    """`send` for messages like one that came as columns; `durability` is what they get."""

    def __init__(
        self,
        parts: Container,
        clock: Clock,
        check_running: Callable[[], None],
        columns: MessageColumns,
        durability: Durability,
    ) -> None:
        self._clock, self._check_running = clock, check_running
        self._store, self._router, self._statistics = parts.store, parts.router, parts.statistics
        self._catalog, self._events = parts.catalog, parts.events
        self._version = parts.catalog.version
        self._topic = parts.catalog.get(columns.topic)
        self._queue = columns.queue
        self._shape = parts.store.record_shape(columns)
        self.durability = durability
        self._is_held = durability is not Durability.STORED
        self.id_prefix = "" if columns.id_prefix else parts.store.id_prefix

    @property
    def is_current(self) -> bool:
        """Whether no topic was changed since: else this sender never sends again."""
        return self._catalog.version == self._version

    def send(
        self, data: bytes, bodies_at: int, born_ms: int, id_number: int, born_host: bytes = b""
    ) -> LonePlace | None:
        """Store the message whose body is the last in `data`, or do nothing and give None.

        `id_number` is SHARED where the message that this was prepared with had no id: then ids are
        made here. `born_host` is packed; by default that message's.
        None: send it as any other, which says what is wrong with it, or prepare a new sender.
        """
        body_bytes = len(data) - bodies_at - BODY_LENGTH_BYTES
        if (
            self._catalog.version != self._version
            or self._store.crowding
            or not 0 < body_bytes <= BODY_BYTES_MAX
            or born_ms < 0
            or (born_host and len(born_host) != len(self._shape.born_host))
        ):
            return None
        began_s = self._clock.monotonic_s()
        queue = self._queue if self._queue >= 0 else self._router.next_queue(self._topic)
        message = LoneMessage(data, bodies_at, born_ms, id_number, born_host)
        try:
            self._check_running()
            place = self._store.append_lone(self._shape, message, queue, is_held=self._is_held)
        except EngineError:
            return None
        if self._events.has_subscribers:
            size_bytes = place.end - place.position
            self._events.emit(
                Appended(place.stored_ms, self._topic.name, queue, place.offset, 1, size_bytes)
            )
        waits_for = place.end if self._is_held else 0
        self._statistics.sent(1, (body_bytes,).__getitem__, began_s, waits_for)
        return place
