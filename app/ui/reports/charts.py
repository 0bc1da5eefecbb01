"""The geometry of the reports' charts, which a template draws: lines, bars, heat, bands. Pure.

An unknown value is a gap in a line and a hatched column in a heat map, never a zero. Every step has
a tooltip with its figures.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from app.ui.framework import formats
from app.ui.reports.axes import (
    HEIGHT,
    HourSpan,
    Scale,
    Tick,
    linear,
    linear_length,
    logarithmic,
    time_ticks,
    value_ticks,
)

HEAT_ROW = 15  # pixels
HEAT_LEVELS = 6
BAND_ROW = 24
MARGIN_LINE = 1.5
BAR_MARGIN = 0.08
DASH = "\N{EN DASH}"
Say = Callable[[float], str]
# The kinds of value axes: counts, ms from 0, or ms on a logarithmic scale.
COUNTS, LENGTHS, LOGARITHMS = "counts", "lengths", "logarithms"


@dataclass(frozen=True)
class Series:
    """A line, or one colour of stacked bars; unknown `values` are None."""

    name: str
    label: str
    values: Sequence[float | None]
    is_before: bool = False  # of the range to compare with


@dataclass(frozen=True)
class Box:
    """A rectangle: percent of the width, pixels from the top; `look` is its colour's class."""

    x: float
    y: float
    width: float
    height: float
    look: str = ""
    title: str = ""


@dataclass(frozen=True)
class SeriesLine:
    """Runs of known values as points of polylines, 0 to 1000 across."""

    name: str
    label: str
    look: str
    runs: list[str]


def say_count(value: float) -> str:
    """A count for axes and tooltips; large ones are rounded: 1,234 and 25k."""
    if value >= 10_000_000:
        return f"{value / 1_000_000:,.0f}M"
    if value >= 10_000:
        return f"{value / 1000:,.0f}k"
    return formats.count(round(value)) if value >= 10 or value == int(value) else f"{value:.2g}"


@dataclass(frozen=True)
class Words:
    """The texts of a chart, and the format of its values; `says` is its description."""

    id: str
    title: str
    says: str
    note: str = ""
    table: str = ""  # the id of the table with the same figures, if not that of the chart
    say: Say = say_count

    @property
    def table_id(self) -> str:
        return self.table or f"{self.id}-over-time"


@dataclass(frozen=True)
class Chart:
    """A chart. `kind` is lines, bars, heat, histogram or bands."""

    kind: str
    words: Words
    times: list[Tick]
    values: list[Tick]
    height: int = HEIGHT
    lines: list[SeriesLine] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    hovers: list[Box] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)


def lines(
    span: HourSpan, series: Sequence[Series], words: Words, zone: tzinfo, axis: str = COUNTS
) -> Chart:
    """A line chart of values over time."""
    values = [value for each in series for value in each.values if value is not None]
    high = max(values, default=1.0)
    scale = _scale(min(values, default=1.0), high, axis)
    polylines = [
        SeriesLine(one.name, one.label, f"line-{number}{' before' if one.is_before else ''}", runs)
        for number, one in _numbered(series)
        if (runs := list(_runs(span, one.values, scale)))
    ]
    return Chart(
        "lines",
        words,
        times=time_ticks(span, zone),
        values=value_ticks(scale, words.say),
        lines=polylines,
        hovers=list(_hovers(span, series, words.say, zone)),
        legend=[(line.look, line.label) for line in polylines],
    )


def bars(span: HourSpan, series: Sequence[Series], words: Words, zone: tzinfo) -> Chart:
    """A chart of stacked bars of counts over time."""
    sums = [sum(each.values[n] or 0 for each in series) for n in range(span.steps)]
    scale = linear(max(sums, default=1) or 1)
    boxes = []
    for index in range(span.steps):
        below = 0.0
        for number, one in _numbered(series):
            value = one.values[index]
            if value:
                top, foot = scale.place(below + value), scale.place(below)
                x, width = _step(span, index, BAR_MARGIN)
                boxes.append(Box(x, top, width, round(foot - top, 1), f"bar-{number}"))
                below += value
    return Chart(
        "bars",
        words,
        times=time_ticks(span, zone),
        values=value_ticks(scale, words.say),
        boxes=boxes,
        hovers=list(_hovers(span, series, words.say, zone)),
        legend=[(f"bar-{number}", one.label) for number, one in _numbered(series)],
    )


@dataclass(frozen=True)
class Heat:
    """Counts by step and row, rows in ascending order; None for a step without figures."""

    rows: Sequence[str]
    edges: Sequence[str]  # the lower edge of each row
    columns: Sequence[Sequence[int] | None]


def heat(span: HourSpan, cells: Heat, words: Words, zone: tzinfo) -> Chart:
    """A heat map of value sizes over time; colours follow the logarithm of the counts."""
    most = max((max(column, default=0) for column in cells.columns if column), default=0)
    height = HEAT_ROW * len(cells.rows)
    boxes: list[Box] = []
    for index, column in enumerate(cells.columns):
        x, width = _step(span, index)
        if column is None:
            boxes.append(Box(x, 0, width, height, "heat-gap"))
            continue
        for row, count in enumerate(column):
            if count:
                y = height - HEAT_ROW * (row + 1)
                title = f"{stretch(span, index, zone)}  {cells.rows[row]}: {words.say(count)}"
                look = f"heat-{_level(count, most)}"
                boxes.append(Box(x, y, width, HEAT_ROW, look, title))
    ticks = [
        Tick(height - HEAT_ROW * row - HEAT_ROW / 2, text, row % 2 == 1)
        for row, text in enumerate(cells.edges)
    ]
    legend = [(f"heat-{level}", _level_word(level, most)) for level in range(1, HEAT_LEVELS + 1)]
    return Chart(
        "heat",
        words,
        times=time_ticks(span, zone),
        values=ticks,
        height=height,
        boxes=boxes,
        legend=[(look, text) for look, text in legend if text],
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


def histogram(bars: Histogram, words: Words) -> Chart:
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
        title = f"{bars.rows[row]}: {words.say(count)} ({100 * count / total:.1f} %)"
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


def bands(
    span: HourSpan, rows: Sequence[str], bars: Sequence[Band], words: Words, zone: tzinfo
) -> Chart:
    """A chart of states over time, one row per subject; unknown times are empty."""
    boxes = []
    for band in bars:
        begin, end = max(band.begin_ms, span.from_ms), min(band.end_ms, span.to_ms)
        if begin < end:
            x = span.place(begin)
            width = round(max(span.place(end) - x, 0.12), 3)
            y, height = band.row * BAND_ROW + 3, BAND_ROW - 6
            boxes.append(Box(round(x, 3), y, width, height, band.look, band.title))
    ticks = [Tick((row + 0.5) * BAND_ROW, text) for row, text in enumerate(rows)]
    return Chart(
        "bands",
        words,
        times=time_ticks(span, zone),
        values=ticks,
        height=BAND_ROW * len(rows),
        boxes=boxes,
    )


def fold(span: HourSpan, values: Mapping[int, float]) -> list[float | None]:
    """Sum values by step; a step without values is None."""
    sums: list[float | None] = [None] * span.steps
    for at_ms, value in values.items():
        index = span.index(at_ms)
        if index is not None:
            sums[index] = (sums[index] or 0) + value
    return sums


def _scale(low: float, high: float, axis: str) -> Scale:
    if axis == LOGARITHMS:
        return logarithmic(low, high)
    return linear_length(high) if axis == LENGTHS else linear(high)


def _numbered(series: Sequence[Series]) -> Iterator[tuple[int, Series]]:
    """The series with their colour numbers, equal for the same series of both ranges."""
    numbers: dict[str, int] = {}
    for one in series:
        yield numbers.setdefault(one.name, len(numbers)), one


def _runs(span: HourSpan, values: Sequence[float | None], scale: Scale) -> Iterator[str]:
    """Runs of known values; a single value between gaps is repeated, as a dot."""
    run: list[str] = []
    for index, value in enumerate([*values, None]):
        if value is not None:
            x = 10 * (span.place(span.begin_ms(index)) + span.width(index) / 2)
            y = min(max(scale.place(value), MARGIN_LINE), scale.height - MARGIN_LINE)
            run.append(f"{x:.1f},{y:.1f}")
        elif run:
            yield " ".join(run if len(run) > 1 else run * 2)
            run = []


def _hovers(span: HourSpan, series: Sequence[Series], say: Say, zone: tzinfo) -> Iterator[Box]:
    for index in range(span.steps):
        parts = [
            f"{one.label}: {say(value)}"
            for one in series
            if (value := one.values[index]) is not None
        ]
        x, width = _step(span, index)
        title = "\n".join([stretch(span, index, zone), *parts])
        yield Box(x, 0, width, HEIGHT, "" if parts else "gap", title)


def stretch(span: HourSpan, index: int, zone: tzinfo) -> str:
    """A step in words: "11-21 04:00", a dash, "05:00"."""
    begin, end = _local(span.begin_ms(index), zone), _local(span.end_ms(index), zone)
    return f"{begin[5:]} {DASH} {end[11:] if begin[:10] == end[:10] else end[5:]}"


def _local(at_ms: int, zone: tzinfo) -> str:
    return datetime.fromtimestamp(at_ms / 1000, zone).strftime("%Y-%m-%d %H:%M")


def _step(span: HourSpan, index: int, margin: float = 0.0) -> tuple[float, float]:
    """The position and width of a step, without a margin on both sides as a part of its width."""
    x, width = span.place(span.begin_ms(index)), span.width(index)
    return round(x + width * margin, 3), round(width * (1 - 2 * margin), 3)


def _level(count: int, most: int) -> int:
    share = math.log1p(count) / math.log1p(most)
    return min(HEAT_LEVELS, 1 + int(share * HEAT_LEVELS * 0.9999))


def _level_word(level: int, most: int) -> str:
    """The upper bound of a colour level; "" if no count falls into it."""
    high = math.floor(math.expm1(level * math.log1p(most) / HEAT_LEVELS) + 1e-9)
    low = math.floor(math.expm1((level - 1) * math.log1p(most) / HEAT_LEVELS) + 1e-9)
    return f"≤ {high:,}" if high > low else ""
