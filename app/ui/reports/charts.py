"""The charts that only reports have: heat maps, histograms, and bands of states. Pure.

A step without figures is a hatched column in a heat map; unknown times of a band are empty.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.ui.framework.chart_axes import HEIGHT, Tick, linear, time_ticks, value_ticks
from app.ui.framework.charts import Box, Canvas, Chart, Words, exact_count, step_place
from app.ui.reports.axes import HourSpan

HEAT_ROW = 15  # pixels
HEAT_LEVELS = 6
BAND_ROW = 24
DASH = "\N{EN DASH}"


@dataclass(frozen=True)
class Heat:
    """Counts by step and row, rows in ascending order; None for a step without figures."""

    rows: Sequence[str]
    edges: Sequence[str]  # the lower edge of each row
    columns: Sequence[Sequence[int] | None]


def heat_chart(canvas: Canvas, cells: Heat, words: Words) -> Chart:
    """A heat map of value sizes over time; colours follow the logarithm of the counts."""
    span = canvas.span
    most = max((max(column, default=0) for column in cells.columns if column), default=0)
    height = HEAT_ROW * len(cells.rows)
    boxes: list[Box] = []
    for index, column in enumerate(cells.columns):
        x, width = step_place(span, index)
        if column is None:
            boxes.append(Box(x, 0, width, height, "heat-gap"))
            continue
        for row, count in enumerate(column):
            if count:
                y = height - HEAT_ROW * (row + 1)
                title = f"{cells.rows[row]}: {exact_count(count)}"
                boxes.append(Box(x, y, width, HEAT_ROW, f"heat-{_level(count, most)}", title))
    ticks = [
        Tick(height - HEAT_ROW * row - HEAT_ROW / 2, text, row % 2 == 1)
        for row, text in enumerate(cells.edges)
    ]
    legend = [(f"heat-{level}", _level_word(level, most)) for level in range(1, HEAT_LEVELS + 1)]
    return Chart(
        "heat",
        words,
        times=time_ticks(span, canvas.zone),
        values=ticks,
        height=height,
        boxes=boxes,
        legend=[(look, text) for look, text in legend if text],
        cursor=canvas.cursor(),
    )


@dataclass(frozen=True)
class Histogram:
    """Counts by row; `before` are those of the range to compare with, scaled to `counts`.

    `marks` are percentiles: names and places among the rows (1.5: the middle of the second).
    """

    rows: Sequence[str]
    edges: Sequence[str]
    counts: Sequence[int]
    before: Sequence[float] | None = None
    marks: Sequence[tuple[str, float]] = ()


def histogram_chart(bars: Histogram, words: Words) -> Chart:
    """A chart of the frequency of each size."""
    scale = linear(max([*bars.counts, *(bars.before or ()), 1]))
    width = 100 / max(1, len(bars.rows))
    total = sum(bars.counts) or 1
    boxes, hovers = [], []
    for row, count in enumerate(bars.counts):
        x = row * width
        if count:
            top = scale.place(count)
            boxes.append(Box(x + width * 0.06, top, width * 0.88, HEIGHT - top, "bar-0"))
        if bars.before and bars.before[row]:
            top = scale.place(bars.before[row])
            boxes.append(Box(x + width * 0.06, top, width * 0.88, HEIGHT - top, "bar-before"))
        title = f"{bars.rows[row]}: {exact_count(count)} ({100 * count / total:.1f} %)"
        hovers.append(Box(x, 0, width, HEIGHT, "", title))
    places = [Tick((row + 0.5) * width, text, row % 2 == 1) for row, text in enumerate(bars.edges)]
    marks = [Box(place * width, 0, 0, HEIGHT, "mark", name) for name, place in bars.marks]
    return Chart(
        "histogram",
        words,
        times=places,
        values=value_ticks(scale, words.say),
        boxes=[*boxes, *marks],
        hovers=hovers,
    )


@dataclass(frozen=True)
class Band:
    """A time interval in one state, in a row of the chart."""

    row: int
    begin_ms: int
    end_ms: int
    look: str
    title: str


def band_chart(canvas: Canvas, rows: Sequence[str], bars: Sequence[Band], words: Words) -> Chart:
    """A chart of states over time, one row per subject; unknown times are empty."""
    span = canvas.span
    boxes = []
    for band in bars:
        begin, end = max(band.begin_ms, span.from_ms), min(band.end_ms, span.to_ms)
        if begin < end:
            x = span.place(begin)
            width = round(max(span.place(end) - x, 0.12), 3)
            y, height = band.row * BAND_ROW + 3, BAND_ROW - 6
            title = f"{rows[band.row]}: {band.title}"
            boxes.append(Box(round(x, 3), y, width, height, band.look, title))
    ticks = [Tick((row + 0.5) * BAND_ROW, text) for row, text in enumerate(rows)]
    return Chart(
        "bands",
        words,
        times=time_ticks(span, canvas.zone),
        values=ticks,
        height=BAND_ROW * len(rows),
        boxes=boxes,
        cursor=canvas.cursor(),
    )


def fold(span: HourSpan, values: Mapping[int, float]) -> list[float | None]:
    """Sum values by step; a step without values is None."""
    sums: list[float | None] = [None] * span.steps
    for at_ms, value in values.items():
        index = span.index(at_ms)
        if index is not None:
            sums[index] = (sums[index] or 0) + value
    return sums


def _level(count: int, most: int) -> int:
    share = math.log1p(count) / math.log1p(most)
    return min(HEAT_LEVELS, 1 + int(share * HEAT_LEVELS * 0.9999))


def _level_word(level: int, most: int) -> str:
    """The upper bound of a colour level; "" if no count falls into it."""
    high = math.floor(math.expm1(level * math.log1p(most) / HEAT_LEVELS) + 1e-9)
    low = math.floor(math.expm1((level - 1) * math.log1p(most) / HEAT_LEVELS) + 1e-9)
    return f"≤ {high:,}" if high > low else ""
