"""Reading single messages: by their place, id or key."""

from engine.errors import MessageNotFound
from engine.message import StoredMessage
from engine.search.scan import FOREVER_MS
from engine.search.search import oldest_first
from engine.store.encode import position_of_id
from engine.verbs.verbs import Verbs


class ReadVerbs(Verbs):
    """Reads records that are kept; nothing is delivered."""

    def message(self, topic: str, queue: int, offset: int) -> StoredMessage:
        """One message by its place; MessageNotFound where there is none, or no longer."""
        self._catalog.get(topic)
        entries = self._store.entries(topic, queue, offset, 1) if offset >= 0 else []
        messages = self._store.read_entries(entries[:1], (topic, queue))
        if not messages or messages[0] is None or messages[0].offset != offset:
            raise MessageNotFound(
                f"queue {queue} of {topic!r} has no message at offset {offset}",
                field="offset",
                remedy="the queue's statistics say which offsets there are",
            )
        return messages[0]

    def message_by_offset_id(self, offset_id: str) -> StoredMessage:
        """The very record that an offset id names; MessageNotFound."""
        position = position_of_id(offset_id)
        message = None if position is None else self._find_at(position)
        if message is None or message.offset_id != offset_id.upper():
            raise MessageNotFound(f"no message has the offset id {offset_id!r}", field="id")
        return message

    def message_at(self, position: int) -> StoredMessage:
        """The record at a position of the log, while it is kept; MessageNotFound."""
        message = self._find_at(position) if position >= 0 else None
        if message is None:
            raise MessageNotFound(f"no message lies at position {position}", field="position")
        return message

    def messages_by_id(self, message_id: str) -> list[StoredMessage]:
        """Every record of a message, oldest first: as sent, retried, dead; at most 64.

        Takes a message id or an offset id; empty when nothing is found.
        """
        return oldest_first(self.search.finish(self.search.id_lookup(message_id)))

    def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = 32,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
    ) -> list[StoredMessage]:
        """The newest messages of a topic that carry `key`, newest first, at most 64.

        Those stored from `begin_ms` to before `end_ms` (ms since 1970 UTC).
        """
        return self.search.finish(
            self.search.key_lookup(
                topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms
            )
        )

    def _find_at(self, position: int) -> StoredMessage | None:
        try:
            message = self._store.read_at(position)
        except MessageNotFound:
            return None
        if not self._catalog.is_current(message.topic, position):
            return None
        is_kept = message.offset >= self._store.bounds(message.topic, message.queue)[0]
        return message if is_kept else None
