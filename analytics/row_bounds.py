"""What of a topic is wanted: by the options of a query, and by what Spark pushes down."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from analytics.errors import Refused

CLOCK_SLACK_MS = 600_000  # a clock that was set back by less hides nothing from a search by time


@dataclass(frozen=True)
class RowBounds:
    """Bounds; None and "" set none. `to_ms` and `past_offset` are past the end."""

    queues: frozenset[int] | None = None
    least_offset: int = 0
    past_offset: int = 1 << 62
    from_ms: int | None = None
    to_ms: int | None = None
    tag: str | None = None
    key: str = ""

    @property
    def columns(self) -> list[str]:
        """The columns that say whether a row is wanted, once it was read."""
        is_timed = self.from_ms is not None or self.to_ms is not None
        return [
            name
            for name, is_asked in (
                ("keys", bool(self.key)),
                ("tag", self.tag is not None),
                ("stored_at", is_timed),
            )
            if is_asked
        ]

    def has_queue(self, queue: int) -> bool:
        return self.queues is None or queue in self.queues


def bounds_of(options: Mapping[str, str]) -> RowBounds:
    """What the options say; Refused names the one that is wrong."""
    queues = options.get("queues") or ""
    numbers = [part.strip() for part in queues.split(",")] if queues else []
    if not all(number.isdecimal() for number in numbers):
        raise Refused(f"{queues!r} names no queues", "give numbers as 0,1", field="queues")
    return RowBounds(
        queues=frozenset(map(int, numbers)) if numbers else None,
        from_ms=_time(options, "from"),
        to_ms=_time(options, "to"),
        tag=options.get("tag"),
        key=options.get("key") or "",
    )


def _time(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name) or ""
    if not text:
        return None
    if text.isdecimal():
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Refused(
            f"{text!r} is no time", "give 2026-11-21T03:00:00 (UTC), or ms since 1970", field=name
        ) from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def narrowed(bounds: RowBounds, filter_: Filter) -> RowBounds:
    """What is still wanted with one filter more; one that is no help changes nothing."""
    column = getattr(filter_, "attribute", ("",))
    value = getattr(filter_, "value", None)
    if len(column) != 1 or value is None:
        return bounds
    narrow = NARROW.get(column[0])
    changes = narrow(filter_, value) if narrow is not None else {}
    return _both(bounds, changes)


def _both(bounds: RowBounds, changes: dict[str, Any]) -> RowBounds:
    """The narrower of what is known and what is new, bound by bound."""
    joined: dict[str, Any] = {}
    for name, value in changes.items():
        before = getattr(bounds, name)
        if before is None or name == "tag":
            joined[name] = value
        elif name == "queues":
            joined[name] = before & value
        else:
            joined[name] = max(before, value) if name in LOWER else min(before, value)
    return replace(bounds, **joined)


LOWER = frozenset({"least_offset", "from_ms"})


def _queues(filter_: Filter, value: Any) -> dict[str, Any]:
    if isinstance(filter_, EqualTo):
        return {"queues": frozenset({value})}
    return {"queues": frozenset(value)} if isinstance(filter_, In) else {}


def _tag(filter_: Filter, value: Any) -> dict[str, Any]:
    return {"tag": value} if isinstance(filter_, EqualTo) else {}


def _offsets(filter_: Filter, value: Any) -> dict[str, Any]:
    if isinstance(filter_, EqualTo):
        return {"least_offset": value, "past_offset": value + 1}
    if isinstance(filter_, GreaterThan | GreaterThanOrEqual):
        return {"least_offset": value + isinstance(filter_, GreaterThan)}
    if isinstance(filter_, LessThan | LessThanOrEqual):
        return {"past_offset": value + isinstance(filter_, LessThanOrEqual)}
    return {}


def _times(filter_: Filter, value: Any) -> dict[str, Any]:
    # Without a zone the moment is unknown: then nothing is left out.
    if not isinstance(value, datetime) or value.tzinfo is None:
        return {}
    at_ms = int(value.timestamp() * 1000)
    if isinstance(filter_, EqualTo):
        return {"from_ms": at_ms, "to_ms": at_ms + 1}
    if isinstance(filter_, GreaterThan | GreaterThanOrEqual):
        return {"from_ms": at_ms}
    if isinstance(filter_, LessThan | LessThanOrEqual):
        return {"to_ms": at_ms + 1}
    return {}


NARROW = {"queue": _queues, "tag": _tag, "offset": _offsets, "stored_at": _times}
