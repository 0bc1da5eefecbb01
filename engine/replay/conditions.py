"""Conditions on a dead letter: what it died of, where it came from, when. Pure."""

import re
from collections.abc import Callable

import msgspec

from engine.delivery.filter import ALL_TEXT, parse_filter
from engine.errors import Invalid
from engine.message import FAILED_CLIENT, FAILED_ERROR, FAILED_REASON, StoredMessage
from engine.topic.names import DEAD_LETTER_PREFIX

TEXT_MAX = 1024
# The name before a colon, a bracket or the end: "KeyError: 'a'", "java.net.ConnectException".
CLASS = re.compile(r"(?:[A-Za-z_$][\w$]*\.)*([A-Z][\w$]*)(?=[:(]|$)")


def origin_of(stored: StoredMessage) -> str:
    """The topic its producer named; empty for a dead letter that does not say."""
    origin = stored.origin_topic
    return "" if origin.startswith(DEAD_LETTER_PREFIX) else origin


def error_line_of(error: str) -> str:
    """The line of an error that names it: the first, of a Python traceback the last."""
    lines = [line.strip() for line in error.strip().splitlines()] or [""]
    return lines[-1] if lines[0].startswith("Traceback (most") else lines[0]


def error_class_of(error: str) -> str:
    """The class that an error begins with, without its module; empty where it names none."""
    named = CLASS.match(error_line_of(error))
    return named[1] if named else ""


class DeadLetterConditions(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on dead letters; what is empty, 0 or None holds for any.

    `error` is the main line of the error, or its beginning before a `*`. `failures` counts
    deliveries. Times are when they died, the first inclusive, the second exclusive, in ms.
    """

    reason: str = ""
    topic: str = ""
    filter: str = ALL_TEXT
    error_class: str = ""
    error: str = ""
    client: str = ""
    failures: int | None = None
    from_ms: int = 0
    to_ms: int = 0

    def matcher(self) -> Callable[[StoredMessage], bool]:
        """Tells whether a record meets all of them; raises Invalid for the filter."""
        filter = parse_filter(self.filter)

        def meets(stored: StoredMessage) -> bool:
            properties = stored.properties
            if self.from_ms > stored.stored_ms or 0 < self.to_ms <= stored.stored_ms:
                return False
            if self.failures is not None and stored.attempt - 1 != self.failures:
                return False
            for value, name in ((self.reason, FAILED_REASON), (self.client, FAILED_CLIENT)):
                if value and properties.get(name, "") != value:
                    return False
            error = properties.get(FAILED_ERROR, "")
            if self.error_class and error_class_of(error) != self.error_class:
                return False
            if self.error and not fits_error(self.error, error_line_of(error)):
                return False
            return self.topic in ("", origin_of(stored)) and filter.matches(stored)

        return meets


def fits_error(wanted: str, line: str) -> bool:
    """Whether a line is the one that is named, or begins with what stands before a `*`."""
    return line.startswith(wanted[:-1]) if wanted.endswith("*") else line == wanted


def check_texts(**texts: str) -> None:
    """Invalid for a condition of more than 1,024 characters."""
    for name, text in texts.items():
        if len(text) > TEXT_MAX:
            raise Invalid(
                f"{name} has {len(text):,} characters, {TEXT_MAX:,} is the most",
                field=name,
                remedy="give its beginning, with a * behind it" if name == "error" else "",
            )
