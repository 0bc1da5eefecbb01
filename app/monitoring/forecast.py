"""Forecasts when a group catches up, from the recent course of its lag. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

WINDOW_MS = 300_000
SPAN_MIN_MS = 60_000
TOO_YOUNG = "less than a minute of samples since the server or the group began"

NOT_BEGUN = "the group has no offset in any queue yet"


class Outlook(StrEnum):
    """The forecast of a lag."""

    CLEAR = "clear"  # nothing is unread
    SHRINKING = "shrinking"
    NOT_SHRINKING = "not_shrinking"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Forecast:
    """`clears_at_ms` only while it shrinks, by `per_s` messages a second; `reason` if unknown."""

    outlook: Outlook
    clears_at_ms: int | None = None
    per_s: float | None = None
    reason: str = ""

    @property
    def rank(self) -> float | None:
        """For sorting: done first, then soonest, then never; None for unknown."""
        if self.outlook is Outlook.UNKNOWN:
            return None
        if self.outlook is Outlook.NOT_SHRINKING:
            return float("inf")
        return self.clears_at_ms or 0

    def of_lag(self, lag: int | None) -> "Forecast":
        """The same for a lag that was read later: nothing unread needs no forecast."""
        if lag is None:
            return Forecast(Outlook.UNKNOWN, reason=NOT_BEGUN)
        if lag == 0:
            return Forecast(Outlook.CLEAR)
        return UNKNOWN if self.outlook is Outlook.CLEAR else self


UNKNOWN = Forecast(Outlook.UNKNOWN, reason=TOO_YOUNG)


def forecast(samples: Sequence[tuple[int, int]], window_ms: int = WINDOW_MS) -> Forecast:
    """The outlook after `samples` (time in ms, lag; oldest first), at the pace of the last minute.

    Where there is no sample of a minute ago, the newest older one of the window is taken.
    """
    if not samples:
        return UNKNOWN
    last_ms, lag = samples[-1]
    if lag == 0:
        return Forecast(Outlook.CLEAR)
    earlier = [each for each in samples if SPAN_MIN_MS <= last_ms - each[0] <= window_ms]
    if not earlier:
        return UNKNOWN
    first_ms, before = earlier[-1]
    per_ms = (before - lag) / (last_ms - first_ms)
    if per_ms <= 0:
        return Forecast(Outlook.NOT_SHRINKING, per_s=per_ms * 1000)
    return Forecast(Outlook.SHRINKING, last_ms + round(lag / per_ms), per_ms * 1000)
