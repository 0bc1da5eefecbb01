"""Finds messages by id, by key, or by a scan over time, without their queue and offset.

An id or a key is looked up in the index. The index holds hashes and whole seconds, so every hit is
read and compared. Nothing here runs for longer than a few milliseconds at a time: the caller
carries a `Lookup` or a `MessageScan` on step by step. A message of a deleted topic is not found.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from engine.errors import MessageNotFound
from engine.message import StoredMessage
from engine.search.lookup import FOUND_MAX, Lookup, Place
from engine.search.scan import ANYWHERE, FOREVER_MS, Done, Match, MessageScan, ScanQuery
from engine.store.encode import position_of_id
from engine.store.pool import Pool
from engine.store.store import Store
from engine.topic.catalog import Catalog
from engine.topic.names import is_system_topic

PROBES_MAX = 500  # hash slots that are looked into in one step: two small reads each
PROBED_TOPICS_MAX = 1_000  # for more, index files are read whole, by a thread
PLACES_MAX = 2_000
TEXT_MAX = 512  # of a text that is looked for as id or key; longer ones are no id and no key


class LogSearch:
    """`parse` turns the text of a filter into one; raises Invalid."""

    def __init__(
        self, store: Store, catalog: Catalog, pool: Pool, parse: Callable[[str], Match]
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._pool = pool
        self._parse = parse

    # -- by id and by key ------------------------------------------------------------------------

    def id_lookup(self, message_id: str) -> Lookup:
        """Every record of a message, by its id or offset id: as sent, retried, dead; at most 64.

        Where the id says where the message lies, its own topic and the engine's are asked first.
        """
        first = self.record_of_id(message_id)
        if first is not None and message_id.upper() == first.offset_id:
            message_id = first.message_id
        home = position_of_id(message_id)

        def is_it(message: StoredMessage) -> bool:
            return message.message_id == message_id and self._is_current(message)

        places = self._places_in_all(message_id, near=None if first is None else first.origin_topic)
        return Lookup(chain([] if home is None else [home], places), is_it)

    def record_of_id(self, text: str) -> StoredMessage | None:
        """The record that an id made here, or an offset id, says it lies at."""
        place = position_of_id(text)
        message = None if place is None else self._at(place)
        if message is None or text.upper() not in (message.offset_id, message.message_id.upper()):
            return None
        return message if self._is_current(message) else None

    def key_lookup(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = FOUND_MAX,
        total_max: int = 0,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
        before: int = ANYWHERE,
    ) -> Lookup:
        """Messages of a topic that carry `key`, the newest first; counted up to `total_max`.

        Stored from `begin_ms` to before `end_ms`, and below the position `before`: the last one
        found of a page begins the next. Raises TopicNotFound.
        """
        self._catalog.get(topic)

        def is_it(message: StoredMessage) -> bool:
            return (
                message.topic == topic
                and key in message.keys
                and begin_ms <= message.stored_ms < end_ms
                and self._is_current(message)
            )

        places = self._store.places_of_key(topic, key, begin_ms=begin_ms, end_ms=end_ms)
        earlier = (place for place in places if place is None or place < before)
        return Lookup(earlier, is_it, count_max, total_max)

    def purged(self, message_id: str) -> StoredMessage | None:
        """The record of an id made here that the log still has, while no queue leads to it.

        A purge took it, or an age of its topic's own. None where it can be read, or never was.
        """
        position = position_of_id(message_id)
        message = None if position is None else self._at(position)
        names = () if message is None else (message.offset_id, message.message_id.upper())
        if message is None or message_id.upper() not in names:
            return None
        if not self._catalog.is_current(message.topic, message.position):
            return None
        is_kept = message.offset >= self._store.bounds(message.topic, message.queue)[0]
        return None if is_kept else message

    def any_lookup(
        self,
        text: str,
        *,
        count_max: int = FOUND_MAX,
        total_max: int = 0,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
    ) -> Lookup:
        """Messages in any topic whose id, offset id or one of whose keys is `text`.

        Stored from `begin_ms` to before `end_ms`; counted up to `total_max`.
        """
        home = position_of_id(text)

        def is_it(message: StoredMessage) -> bool:
            is_id = message.message_id == text or message.offset_id == text.upper()
            is_named = is_id or text in message.keys
            is_in_time = begin_ms <= message.stored_ms < end_ms
            return is_named and is_in_time and self._is_current(message)

        # One place more than is to be counted says that there are more.
        places = self._places_in_all(text, count_max=max(count_max, total_max) + 1)
        return Lookup(chain([] if home is None else [home], places), is_it, count_max, total_max)

    def read(self, lookup: Lookup, done: Done) -> None:
        """Do what a lookup has to have done off the owner's thread, and hand it the result.

        `done` is called on the owner's thread, once.
        """
        if lookup.work is not None:

            def placed(positions: list[int] | None, error: Exception | None) -> None:
                lookup.place(positions or ())
                done(error)

            self._pool.submit(lookup.work, placed)
            return

        def read(messages: list[StoredMessage | None] | None, error: Exception | None) -> None:
            if messages is not None:
                lookup.take(messages)
            done(error)

        self._pool.submit(self._store.reader_at(lookup.unread), read)

    def finish(self, lookup: Lookup) -> list[StoredMessage]:
        """Carry a lookup on to its end here and now: for tests, tools and few topics."""
        while not lookup.is_over:
            while lookup.step():
                pass
            if lookup.work is not None:
                lookup.place(lookup.work())
                continue
            lookup.take([self._at(place) for place in lookup.unread])
        return lookup.messages

    # -- by everything else ----------------------------------------------------------------------

    def scan(self, query: ScanQuery, *, count_max: int = 32, cursor: str = "") -> MessageScan:
        """Look through a topic. Raises TopicNotFound, Invalid (filter, cursor)."""
        config = self._catalog.get(query.topic)
        queues = max(config.read_queues, config.write_queues)
        match = self._parse(query.filter)
        return MessageScan(
            self._store, self._pool, query, match, queues, count_max=count_max, cursor=cursor
        )

    # -- inside ----------------------------------------------------------------------------------

    def _at(self, position: int) -> StoredMessage | None:
        try:
            return self._store.read_at(position)
        except MessageNotFound:
            return None

    def _places_in_all(
        self, text: str, near: str | None = None, count_max: int = FOUND_MAX
    ) -> Iterator[Place]:
        """Where records with this id or key may lie in any topic, the likeliest topics first."""
        if not text or len(text) > TEXT_MAX:
            return
        names = self._catalog.names()
        if len(names) > PROBED_TOPICS_MAX:
            # Of so many topics some have other keys with the same hash.
            yield from self._store.finders_of_id(names, text, max(count_max, PLACES_MAX))
            return
        likely = [name for name in names if name == near or is_system_topic(name)]
        known = set(likely)
        others = (name for name in names if name not in known)
        ordered = [*likely, *others]
        start = 0
        while start < len(ordered):
            count = max(1, PROBES_MAX // max(1, self._store.index_file_count))
            yield from self._store.positions_of_id(ordered[start : start + count], text, count_max)
            yield None
            start += count

    def _is_current(self, message: StoredMessage) -> bool:
        """Whether its topic was not deleted, and neither retention nor a purge took it."""
        if not self._catalog.is_current(message.topic, message.position):
            return False
        return message.offset >= self._store.bounds(message.topic, message.queue)[0]


def oldest_first(messages: Sequence[StoredMessage]) -> list[StoredMessage]:
    """In the order in which they were stored."""
    return sorted(messages, key=lambda message: message.position)
