"""Filters as brokers take them, and what they leave to us: brokers compare the hashes of tags."""

from typing import NamedTuple

from app.capabilities import require
from engine.broker import Filter, parse_filter
from engine.message import StoredMessage
from kitemq.model.server import Capabilities

SQL_PREFIX = "SQL92:"


class MessageFilter(NamedTuple):
    """A filter: the expression for the broker, and the same for a message that it let through."""

    expression: str
    is_sql: bool
    own: Filter

    def fits(self, message: StoredMessage) -> bool:
        """Whether the message is wanted; an SQL92 expression the broker has judged."""
        return self.is_sql or self.own.matches(message)


def message_filter(text: str, capabilities: Capabilities) -> MessageFilter:
    """The filter of a text; Invalid (`filter`), Refused where the brokers know no SQL92."""
    own = parse_filter(text)
    stripped = text.lstrip()
    is_sql = stripped[: len(SQL_PREFIX)].upper() == SQL_PREFIX
    if is_sql:
        require(capabilities, "sql_filters", field="filter")
        return MessageFilter(stripped[len(SQL_PREFIX) :].strip(), True, own)
    return MessageFilter("*" if own.is_all else text, False, own)
