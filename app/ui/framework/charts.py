"""The charts of all pages: their geometry, which a template draws, and the figures at the cursor.

Pure. An unknown value is a gap in a line, never a zero, and a single value between gaps is a dot.
The server draws the whole chart; chart.js adds the cursor, zooming and what a moment leads to.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from functools import reduce
from urllib.parse import quote, urlencode

from app.ui.framework import formats, typed_time
from app.ui.framework.chart_axes import (
    HEIGHT,
    Scale,
    Tick,
    TimeSteps,
    linear,
    linear_length,
    logarithmic,
    time_ticks,
    value_ticks,
)
from app.ui.framework.language import _
from app.ui.framework.zones import Zone

MARGIN_LINE = 1.5
BAR_MARGIN = 0.08
FILLED_MAX = 2  # lines; the areas of more hide each other
HIDDEN_MAX = 32
# Where a link has the moment that it is about: chart.js fills it in.
TIME = "from={from}&to={to}&zone={zone}"
HIDE, SEPARATOR = "hide", "~"  # the parameter of a page's query, and what separates its keys
COUNT_HIGH_MIN = 4  # below it the ticks of counts are no whole numbers
Say = Callable[[float], str]
# The kinds of value axes: counts, counts per second, ms from 0, or ms on a logarithmic scale.
COUNTS, RATES, LENGTHS, LOGARITHMS = "counts", "rates", "lengths", "logarithms"


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
    """Runs of known values, single ones and areas as points, 0 to 1000 across."""

    name: str
    label: str
    look: str
    runs: list[str]
    dots: list[str]
    areas: list[str]


@dataclass(frozen=True)
class SeriesKey:
    """A series in the legend; with `hide` as the parameter of the query it is switched."""

    id: str
    look: str
    label: str
    is_hidden: bool
    hide: str


@dataclass(frozen=True)
class Lead:
    """What a moment of a chart leads to; its address has TIME or parts of it."""

    text: str
    href: str

    def at(self, from_ms: int, to_ms: int, zone: Zone) -> str:
        """The address for a time, with its clocks in the zone."""
        first, last = (typed_time.moment_text(each, zone) for each in (from_ms, to_ms))
        times = {"{from}": first, "{to}": last, "{zone}": zone.name}
        return reduce(lambda href, name: href.replace(name, quote(times[name])), times, self.href)


@dataclass(frozen=True)
class ChartCursor:
    """The steps and, by visible series, what stands at the cursor: places in pixels, and texts."""

    from_ms: int
    to_ms: int
    step_ms: int
    looks: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    places: list[list[float | None]] = field(default_factory=list)
    texts: list[list[str]] = field(default_factory=list)
    leads: Sequence[Lead] = ()

    @property
    def steps(self) -> int:
        return -(-(self.to_ms - self.from_ms) // self.step_ms)


def messages_lead(topic: str) -> Lead:
    """Leads to the messages of a topic that were stored then."""
    href = f"/messages?{urlencode({'topic': topic})}&{TIME}"
    return Lead(_("Messages in %(topic)s then", topic=topic), href)


def say_count(value: float) -> str:
    """A count for axes; large ones are rounded: 1,234 and 25k."""
    if value >= 10_000_000:
        return f"{value / 1_000_000:,.0f}M"
    return f"{value / 1000:,.0f}k" if value >= 10_000 else exact_count(value)


def exact_count(value: float) -> str:
    """A count at the cursor: 12,345, and 0.25 below 10."""
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
    exactly: Say | None = None  # the format at the cursor, if not that of the axis

    @property
    def table_id(self) -> str:
        return self.table or f"{self.id}-over-time"

    @property
    def say_exactly(self) -> Say:
        return self.exactly or (exact_count if self.say is say_count else self.say)


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
    keys: list[SeriesKey] = field(default_factory=list)
    cursor: ChartCursor | None = None


@dataclass(frozen=True)
class Canvas:
    """What the charts of a page share: time, zone, hidden series, and what a moment leads to."""

    span: TimeSteps
    zone: tzinfo = UTC
    hidden: frozenset[str] = frozenset()
    leads: Sequence[Lead] = ()

    def cursor(self) -> ChartCursor:
        span = self.span
        return ChartCursor(span.from_ms, span.to_ms, span.step_ms, leads=self.leads)


def hidden_of(query: Mapping[str, str]) -> frozenset[str]:
    """The series that a page's query hides, at most HIDDEN_MAX."""
    return frozenset(list(filter(None, query.get(HIDE, "").split(SEPARATOR)))[:HIDDEN_MAX])


def lines(canvas: Canvas, series: Sequence[Series], words: Words, axis: str = COUNTS) -> Chart:
    """A line chart of values over time."""
    keys, visible = _keys(canvas, series, words, "line-{}")
    values = [value for one in visible.values() for value in one.values if value is not None]
    scale = _scale(min(values, default=1.0), max(values, default=1.0), axis)
    is_filled = len(visible) <= FILLED_MAX and axis != LOGARITHMS
    places = {look: _places(one.values, scale) for look, one in visible.items()}
    return Chart(
        "lines",
        words,
        times=time_ticks(canvas.span, canvas.zone),
        values=value_ticks(scale, words.say),
        lines=[
            _line(canvas.span, look, one, places[look], is_filled=is_filled)
            for look, one in visible.items()
        ],
        keys=keys,
        cursor=_cursor(canvas, visible, places, words),
    )


def bars(canvas: Canvas, series: Sequence[Series], words: Words) -> Chart:
    """A chart of stacked bars of counts over time."""
    span = canvas.span
    keys, visible = _keys(canvas, series, words, "bar-{}")
    sums = [sum(one.values[n] or 0 for one in visible.values()) for n in range(span.steps)]
    scale = _scale(0.0, max(sums, default=1) or 1, COUNTS)
    boxes: list[Box] = []
    tops: dict[str, list[float | None]] = {look: [None] * span.steps for look in visible}
    below = [0.0] * span.steps
    for look, one in visible.items():
        for index, value in enumerate(one.values):
            if value:
                top, foot = scale.place(below[index] + value), scale.place(below[index])
                x, width = step_place(span, index, BAR_MARGIN)
                boxes.append(Box(x, top, width, round(foot - top, 1), look))
                below[index] += value
            if value is not None:
                tops[look][index] = scale.place(below[index])
    return Chart(
        "bars",
        words,
        times=time_ticks(span, canvas.zone),
        values=value_ticks(scale, words.say),
        boxes=boxes,
        keys=keys,
        cursor=_cursor(canvas, visible, tops, words),
    )


def step_place(span: TimeSteps, index: int, margin: float = 0.0) -> tuple[float, float]:
    """The position and width of a step, without a margin on both sides as a part of its width."""
    x, width = span.place(span.begin_ms(index)), span.width(index)
    return round(x + width * margin, 3), round(width * (1 - 2 * margin), 3)


def _keys(
    canvas: Canvas, series: Sequence[Series], words: Words, look_of: str
) -> tuple[list[SeriesKey], dict[str, Series]]:
    """The legend, and the visible series by their looks; a series has one colour in both ranges."""
    numbers: dict[str, int] = {}
    keys: list[SeriesKey] = []
    visible: dict[str, Series] = {}
    for one in series:
        if all(value is None for value in one.values):
            continue
        number = numbers.setdefault(one.name, len(numbers))
        look = look_of.format(number) + (" before" if one.is_before else "")
        name = one.name.replace(SEPARATOR, "") + ("-before" if one.is_before else "")
        key = f"{words.id}.{name}"
        hide = SEPARATOR.join(sorted(canvas.hidden ^ {key}))
        id = f"key-{words.id}-{number}{'-before' if one.is_before else ''}"
        keys.append(SeriesKey(id, look, one.label, key in canvas.hidden, hide))
        if key not in canvas.hidden:
            visible[look] = one
    return keys, visible


def _scale(low: float, high: float, axis: str) -> Scale:
    if axis == LOGARITHMS:
        return logarithmic(low, high)
    if axis == LENGTHS:
        return linear_length(high)
    return linear(max(high, COUNT_HIGH_MIN) if axis == COUNTS else high)


def _places(values: Sequence[float | None], scale: Scale) -> list[float | None]:
    return [
        None
        if value is None
        else min(max(scale.place(value), MARGIN_LINE), scale.height - MARGIN_LINE)
        for value in values
    ]


def _line(
    span: TimeSteps,
    look: str,
    series: Series,
    places: Sequence[float | None],
    *,
    is_filled: bool,
) -> SeriesLine:
    line = SeriesLine(series.name, series.label, look, [], [], [])
    for run in _runs(span, places):
        points = " ".join(run)
        if len(run) == 1:
            line.dots.append(f"{points} {points}")
            continue
        line.runs.append(points)
        if is_filled and not series.is_before:
            first, last = (point.partition(",")[0] for point in (run[0], run[-1]))
            line.areas.append(f"{first},{HEIGHT} {points} {last},{HEIGHT}")
    return line


def _runs(span: TimeSteps, places: Sequence[float | None]) -> Iterator[list[str]]:
    """Runs of known values as points, each in the middle of its step."""
    run: list[str] = []
    for index, place in enumerate([*places, None]):
        if place is not None:
            x = 10 * (span.place(span.begin_ms(index)) + span.width(index) / 2)
            run.append(f"{x:.1f},{place:.1f}")
        elif run:
            yield run
            run = []


def _cursor(
    canvas: Canvas,
    visible: Mapping[str, Series],
    places: Mapping[str, list[float | None]],
    words: Words,
) -> ChartCursor:
    say = words.say_exactly
    return replace(
        canvas.cursor(),
        looks=list(visible),
        labels=[one.label for one in visible.values()],
        places=list(places.values()),
        texts=[
            ["" if value is None else say(value) for value in one.values]
            for one in visible.values()
        ],
    )
