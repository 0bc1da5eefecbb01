"""The layout of a waterfall chart: times as percent of its width. Pure.

The axis is linear if the bars are then visible. If the shortest delivery would be a hairline beside
a long wait, each interval between two events is as wide as the logarithm of its length; the page
then says that the chart is not to scale.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

EDGE = 1.0  # percent of margin on both sides, so that marks at the ends are not cut
TICK_GAP = 15.0  # percent, the minimum between two ticks
TICKS_MAX = 6
SHARE_MIN = 0.02  # share of the axis; a shorter delivery is invisible on a linear scale
TEXT_SHARE = 34.0  # percent that a bar's text may need on a narrow screen
# Distances of ticks in ms: 1, 2 and 5 of each decimal or clock unit.
TICK_STEPS_MS = tuple(
    unit * number
    for unit, numbers in (
        (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1000, (1, 2, 5, 10, 15, 30)),
        (60_000, (1, 2, 5, 10, 15, 30)),
        (3_600_000, (1, 2, 6, 12)),
        (86_400_000, (1, 2, 7, 14, 30, 90, 365)),
    )
    for number in numbers
)


class Side(StrEnum):
    """The side of a bar that its text is on."""

    AFTER = "after"
    BEFORE = "before"
    INSIDE = "inside"


@dataclass(frozen=True)
class StageSpan:
    """A stage's time in ms since 1970 UTC; a moment has equal ends."""

    begin_ms: int
    end_ms: int
    is_handout: bool = False


@dataclass(frozen=True)
class StageBar:
    """A bar in percent of the chart's width; `width` is 0 for a moment."""

    x: float
    width: float
    side: Side


@dataclass(frozen=True)
class AxisTick:
    """A tick, `after_ms` after the beginning; every second one is optional."""

    x: float
    after_ms: int
    is_optional: bool


@dataclass(frozen=True)
class Waterfall:
    """All bars, in the order of the spans."""

    begin_ms: int
    end_ms: int
    is_compressed: bool
    bars: list[StageBar]
    ticks: list[AxisTick]


def lay_out(spans: Sequence[StageSpan], *, to_scale: bool = False) -> Waterfall:
    """Lay out the bars of at least one span; `to_scale` forces a linear axis."""
    begin_ms = min(span.begin_ms for span in spans)
    end_ms = max(span.end_ms for span in spans)
    is_compressed = not to_scale and needs_compression(spans)
    place = _compressed(spans) if is_compressed else _linear(begin_ms, end_ms)
    events = sorted({ms for span in spans for ms in (span.begin_ms, span.end_ms)})
    marks = events if is_compressed else _even(begin_ms, end_ms)
    return Waterfall(
        begin_ms=begin_ms,
        end_ms=end_ms,
        is_compressed=is_compressed,
        bars=[_bar(span, place) for span in spans],
        ticks=_ticks(marks, begin_ms, place),
    )


def needs_compression(spans: Sequence[StageSpan]) -> bool:
    """Whether the shortest delivery would be invisible on a linear axis."""
    total_ms = max(span.end_ms for span in spans) - min(span.begin_ms for span in spans)
    lengths = [span.end_ms - span.begin_ms for span in spans if span.is_handout]
    return bool(lengths) and min(lengths) < total_ms * SHARE_MIN


def _linear(begin_ms: int, end_ms: int) -> Callable[[int], float]:
    length = max(1, end_ms - begin_ms)
    return lambda ms: EDGE + (100 - 2 * EDGE) * (ms - begin_ms) / length


def _compressed(spans: Sequence[StageSpan]) -> Callable[[int], float]:
    """Positions where each interval between events is as wide as the logarithm of its length."""
    events = sorted({ms for span in spans for ms in (span.begin_ms, span.end_ms)})
    lengths = [span.end_ms - span.begin_ms for span in spans if span.is_handout]
    unit_ms = max(1, min((length for length in lengths if length > 0), default=1))
    widths = [math.log1p((after - before) / unit_ms) for before, after in pairwise(events)]
    total = sum(widths) or 1.0
    places = [EDGE]
    for width in widths:
        places.append(places[-1] + (100 - 2 * EDGE) * width / total)

    def place(ms: int) -> float:
        return places[bisect_right(events, ms) - 1]

    return place


def _bar(span: StageSpan, place: Callable[[int], float]) -> StageBar:
    begin, end = place(span.begin_ms), place(span.end_ms)
    side = Side.INSIDE
    if end <= 100 - TEXT_SHARE:
        side = Side.AFTER
    elif begin >= TEXT_SHARE:
        side = Side.BEFORE
    return StageBar(x=round(begin, 3), width=round(end - begin, 3), side=side)


def _ticks(marks: Sequence[int], begin_ms: int, place: Callable[[int], float]) -> list[AxisTick]:
    """The marks that are far enough apart, from the left."""
    ticks: list[AxisTick] = []
    for mark in marks:
        x = place(mark)
        if not ticks or x - ticks[-1].x >= TICK_GAP:
            ticks.append(AxisTick(round(x, 3), mark - begin_ms, len(ticks) % 2 == 1))
    return ticks


def _even(begin_ms: int, end_ms: int) -> list[int]:
    length = max(1, end_ms - begin_ms)
    fitting = (step for step in TICK_STEPS_MS if length / step <= TICKS_MAX)
    step = next(fitting, max(TICK_STEPS_MS[-1], math.ceil(length / TICKS_MAX)))
    return list(range(begin_ms, end_ms + 1, step))
