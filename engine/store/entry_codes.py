"""The third field of a consume-queue entry: the tag's hash, or for some topics a time.

Asked where an entry is made from a record, and where the two are compared.
"""

from collections.abc import Callable, Mapping

from engine.message import Message, StoredMessage
from engine.store.hashing import tag_hash

TagCode = Callable[[Message | StoredMessage, int], int]  # of a message and when it is stored
CodeCheck = Callable[[StoredMessage, int], bool]


class EntryCodes:
    """For one set of topics that have codes of their own; all others have the hash of the tag."""

    def __init__(self, by_topic: Mapping[str, TagCode], checks: Mapping[str, CodeCheck]) -> None:
        """`checks` say for a topic whose codes depend on a setting what else they may be."""
        self._by_topic = by_topic
        self._checks = checks

    def code_of(self, message: StoredMessage) -> int:
        """The third field of a record's entry."""
        code_of = self._by_topic.get(message.topic)
        if code_of is None:
            return tag_hash(message.tag)
        return code_of(message, message.stored_ms)

    def fits(self, message: StoredMessage, code: int) -> bool:
        """Whether an entry of this record may have that third field.

        The hash of the tag is right for every topic: Apache RocketMQ writes nothing else for some.
        """
        if code == tag_hash(message.tag):
            return True
        if message.topic not in self._by_topic:
            return False
        check = self._checks.get(message.topic)
        return code == self.code_of(message) or (check is not None and check(message, code))
