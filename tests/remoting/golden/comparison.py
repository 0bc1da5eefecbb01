"""Compares a frame of KiteMQ with the frame that Apache sent in its place."""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from protocol.remoting.codes import Flag
from protocol.remoting.codes import RequestCode as R
from protocol.remoting.frames import Command
from tests.remoting.golden import loose_json
from tests.remoting.golden.records import records

WITH_RECORDS = frozenset(
    {
        R.PULL_MESSAGE, R.LITE_PULL_MESSAGE, R.QUERY_MESSAGE, R.VIEW_MESSAGE_BY_ID, R.POP_MESSAGE,
        R.CHECK_TRANSACTION_STATE, R.CONSUME_MESSAGE_DIRECTLY,
    }
)  # fmt: skip
WITH_PROPERTIES = frozenset({R.GET_BROKER_CONFIG, R.GET_NAMESRV_CONFIG})


@dataclass(frozen=True)
class Difference:
    """Where two frames differ; values are None where there is none."""

    code: int
    path: str
    apache: Any
    kitemq: Any


def differences(code: int, apache: Command, kitemq: Command) -> Iterator[Difference]:
    """Each difference between two frames; of answers with different codes only the code."""
    if apache.code != kitemq.code:
        yield Difference(code, "code", apache.code, kitemq.code)
        return
    for path, first, second in _walk("", _described(code, apache), _described(code, kitemq)):
        yield Difference(code, path, first, second)


def has_same_kind(first: Any, second: Any) -> bool:
    """Whether two values are both numbers, both booleans, both text, or both structures."""
    return _kind(first) == _kind(second)


def _described(code: int, command: Command) -> dict[str, Any]:
    return {
        "code": command.code,
        "flag": command.flag,
        "language": command.language,
        "version": command.version,
        "binary": command.is_binary,
        "remark": command.remark,
        "fields": {
            name: _pairs(value) if name == "properties" else value
            for name, value in command.fields.items()
        },
        "body": _body(code, command),
    }


def _body(code: int, command: Command) -> Any:
    body, is_answer = command.body, command.flag & Flag.RESPONSE
    if not body:
        return None
    if code in WITH_RECORDS and not (is_answer and code == R.CONSUME_MESSAGE_DIRECTLY):
        return list(records(body))
    if code in WITH_PROPERTIES:
        return dict(line.split("=", 1) for line in body.decode().splitlines() if "=" in line)
    try:
        return loose_json.loads(body.decode())
    except (ValueError, IndexError, struct.error):
        return body.hex()


def _pairs(text: str) -> dict[str, str]:
    return dict(part.split("\x01", 1) for part in text.split("\x02") if part)


def _walk(path: str, first: Any, second: Any) -> Iterator[tuple[str, Any, Any]]:
    """Paths of values that differ. A member that is null is as one that is missing."""
    if isinstance(first, dict) and isinstance(second, dict):
        for name in sorted(first.keys() | second.keys()):
            place = f"{path}.{name}" if path else name
            yield from _walk(place, first.get(name), second.get(name))
    elif isinstance(first, list) and isinstance(second, list):
        if len(first) != len(second):
            yield f"{path}.length", len(first), len(second)
        for one, other in zip(_sorted(first), _sorted(second), strict=False):
            yield from _walk(f"{path}[]", one, other)
    elif first != second:
        yield path, first, second


def _sorted(values: list[Any]) -> list[Any]:
    if any(isinstance(value, dict) and "magic" in value for value in values):
        # The broker's threads order what was sent at the same time.
        return sorted(values, key=lambda each: str(each["properties"].get("UNIQ_KEY")))
    return sorted(values, key=lambda value: json.dumps(value, sort_keys=True))


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value in ("true", "false"):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, str) and value.lstrip("-").isdigit()):
        return "number"
    return type(value).__name__
