"""The cells of a report's figures and tables; an unknown value is None and has a reason. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.services.reports import comparison
from app.services.reports.comparison import Better
from app.ui.framework.language import _


class ValueKind(StrEnum):
    """The format of a value."""

    COUNT = "count"
    LENGTH = "length"  # ms
    SIZE = "size"  # bytes
    SHARE = "share"  # 0 to 1
    TIMES = "times"  # a ratio, as "2.5 times"
    CHANGE = "change"  # relative to the previous range; the tone says whether it is worse
    MOMENT = "moment"  # ms since 1970
    TEXT = "text"
    NAME = "name"
    STATE = "state"


@dataclass(frozen=True)
class ReportCell:
    """A value; `why` is the reason if it is unknown, or an explanation."""

    value: Any
    kind: ValueKind = ValueKind.TEXT
    href: str = ""
    why: str = ""
    tone: str = ""


def count(value: float | None, why: str = "") -> ReportCell:
    return ReportCell(None if value is None else round(value), ValueKind.COUNT, why=why)


def length(value_ms: float | None, why: str = "") -> ReportCell:
    value_ms = None if value_ms is None else round(value_ms, 3)
    return ReportCell(value_ms, ValueKind.LENGTH, why=why)


def size(value_bytes: int | None, why: str = "") -> ReportCell:
    return ReportCell(value_bytes, ValueKind.SIZE, why=why)


def times(ratio: float | None, why: str = "", tone: str = "") -> ReportCell:
    return ReportCell(ratio, ValueKind.TIMES, why=why, tone=tone)


def share(part: float | None, whole: float | None, why: str = "") -> ReportCell:
    """The share of `part` in `whole`; unknown if `whole` is 0."""
    if part is None or not whole:
        return ReportCell(None, ValueKind.SHARE, why=why or _("not defined (division by zero)"))
    return ReportCell(part / whole, ValueKind.SHARE)


def change_of(
    now: ReportCell, before: ReportCell | None, better: Better = Better.NEITHER
) -> ReportCell:
    """The change relative to `before`, which is unknown if a value is, or `before` is 0."""
    why = _("not comparable: a value is unknown or zero")
    old, new = before and before.value, now.value
    if not isinstance(new, int | float) or not isinstance(old, int | float):
        return ReportCell(None, ValueKind.CHANGE, why=why)
    change = comparison.change_of(new, old, better)
    return ReportCell(change.ratio, ValueKind.CHANGE, why=why, tone=change.verdict.value)
