"""JSON as Apache's broker writes it: keys of objects may be numbers or objects."""

import json
import re
from typing import Any

SPACES = re.compile(r"\s*")
_DECODER = json.JSONDecoder()


def loads(text: str) -> Any:
    """The value of a document; a key that is no text becomes its compact JSON. ValueError."""
    value, at = _value(text, _skip(text, 0))
    if _skip(text, at) != len(text):
        raise ValueError(f"there is more after the document, at {at}")
    return value


def _value(text: str, at: int) -> tuple[Any, int]:
    if text[at : at + 1] == "{":
        return _object(text, at + 1)
    if text[at : at + 1] == "[":
        return _array(text, at + 1)
    return _DECODER.raw_decode(text, at)


def _object(text: str, at: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    at = _skip(text, at)
    while text[at] != "}":
        key, at = _value(text, at)
        at = _skip(text, at)
        if text[at] != ":":
            raise ValueError(f"no colon at {at}")
        value, at = _value(text, _skip(text, at + 1))
        found[key if isinstance(key, str) else json.dumps(key, sort_keys=True)] = value
        at = _next(text, at)
    return found, at + 1


def _array(text: str, at: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    at = _skip(text, at)
    while text[at] != "]":
        value, at = _value(text, at)
        found.append(value)
        at = _next(text, at)
    return found, at + 1


def _next(text: str, at: int) -> int:
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    match = SPACES.match(text, at)
    assert match is not None
    return match.end()
