"""Converts property texts to numbers and booleans, and compares values.

`ValueError` means that a property should be a number and is none: then, as in RocketMQ, the
message does not match, whatever the rest of the expression says.
"""

import re

from engine.delivery.sql.tree import Value

NO_NUMBER = "the text is no number"
# Its groups are what makes it a decimal.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(\.[0-9]*)?|(\.[0-9]+))([eE][+-]?[0-9]+)?")


def number(text: str) -> int | float:
    """The number that `text` writes in ASCII digits, exact where it is an integer; ValueError."""
    if text.isdigit() and text.isascii():
        return int(text)
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(NO_NUMBER)
    return float(text) if match.lastindex else int(text)


def double(text: str) -> float:
    """The same as a 64-bit decimal, as two properties are ordered; ValueError."""
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(NO_NUMBER)
    return float(text)


def truth(text: str) -> bool:
    """True for "true" in whatever case, false for every other text, as Java has it."""
    return text.lower() == "true"


def equal(left: Value, right: Value) -> bool | None:
    """Two nulls are equal; null on the left alone is unknown, on the right alone false."""
    if left is None or right is None:
        return (True if right is None else None) if left is None else False
    if isinstance(left, str):
        return left == right if isinstance(right, str) else _equal_to_text(right, left)
    return _equal_to_text(left, right) if isinstance(right, str) else left == right


def _equal_to_text(value: int | float | bool, text: str) -> bool:
    return value == (truth(text) if isinstance(value, bool) else number(text))
