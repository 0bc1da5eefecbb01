"""A group's lag over time as a chart and a table; missing samples are gaps in both. Pure.

The time to clear is estimated here, from the last minute, or the one step, before each point.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.monitoring.forecast import WINDOW_MS, Forecast, Outlook, forecast
from app.monitoring.lag_reader import FRESH_MIN_MS
from app.ui.framework import charts, formats
from app.ui.framework.chart_axes import EvenSteps
from app.ui.framework.charts import Canvas, Chart, Series, Words
from app.ui.framework.language import N_, _, translated
from engine.broker import LagHistoryPage, LagPoint


@dataclass(frozen=True)
class Shape:
    """A measure of the chart: its name in queries, its label, and its kind of axis."""

    name: str
    label: str
    axis: str


SHAPES = (
    Shape("count", N_("Unread"), charts.COUNTS),
    Shape("age", N_("Oldest unread"), charts.LENGTHS),
    Shape("clear", N_("Catch-up time"), charts.LENGTHS),
)


@dataclass(frozen=True)
class ChartPoint:
    """The time from `at_ms` to `until_ms`; without a sample all figures are None."""

    at_ms: int
    until_ms: int
    count: int | None = None
    age_ms: int | None = None
    inflight: int | None = None
    clear_ms: int | None = None
    outlook: Outlook = Outlook.UNKNOWN

    @property
    def is_known(self) -> bool:
        return self.count is not None


@dataclass(frozen=True)
class LagChart:
    """The content of the chart and its table; `rows` are newest first, each gap is one row.

    `values` are those of all queues together, one for each step.
    """

    shape: Shape
    step_ms: int
    known: int
    missing: int
    damaged: int
    values: list[int | None]
    plot: Chart
    rows: list[ChartPoint]


def chart(
    page: LagHistoryPage,
    shape: Shape,
    canvas: Canvas,
    queues: Mapping[str, LagHistoryPage] | None = None,
) -> LagChart:
    """The chart of a page of lag history, on the canvas; with `queues`, a line for each of them."""
    points = list(_judged(page))
    values = [VALUES[shape.name](point) for point in points]
    known = sum(point.is_known for point in points)
    series = [Series("all", translated(shape.label), values)]
    if queues:
        series = [
            Series(name, name, [VALUES[shape.name](point) for point in _judged(each)])
            for name, each in queues.items()
        ]
    title = _("%(label)s over time", label=translated(shape.label))
    say = charts.say_count if shape.axis == charts.COUNTS else _say_length
    words = Words("lag", title, "", say=say)
    return LagChart(
        shape=shape,
        step_ms=page.step_ms,
        known=known,
        missing=len(points) - known,
        damaged=page.damaged,
        values=values,
        plot=charts.lines(canvas, series, words, shape.axis),
        rows=list(_rows(points)),
    )


def steps_of(page: LagHistoryPage, now_ms: int) -> EvenSteps:
    """The time axis of a page of lag history, which is the same until the page is read anew."""
    begin_ms = page.from_ms // page.step_ms * page.step_ms
    next_ms = (now_ms // FRESH_MIN_MS + 1) * FRESH_MIN_MS
    return EvenSteps(begin_ms, min(page.to_ms, next_ms), page.step_ms)


def _say_length(value: float) -> str:
    return formats.duration(round(value))


def _judged(page: LagHistoryPage) -> Iterator[ChartPoint]:
    """Each point with the forecast at its time."""
    recent: list[tuple[int, int]] = []
    reach_ms = max(WINDOW_MS, page.step_ms)
    for point in page.points:
        until_ms = point.at_ms + page.step_ms
        if point.count_max is None:
            yield ChartPoint(point.at_ms, until_ms)
            continue
        recent = [each for each in recent if point.at_ms - each[0] <= reach_ms]
        recent.append((point.at_ms, point.count_max))
        yield _chart_point(point, until_ms, forecast(recent, reach_ms))


def _chart_point(point: LagPoint, until_ms: int, forecast: Forecast) -> ChartPoint:
    clears_at_ms = point.at_ms if forecast.outlook is Outlook.CLEAR else forecast.clears_at_ms
    return ChartPoint(
        at_ms=point.at_ms,
        until_ms=until_ms,
        count=point.count_max,
        age_ms=point.oldest_age_max_ms if point.count_max else 0,
        inflight=point.inflight_max,
        clear_ms=None if clears_at_ms is None else clears_at_ms - point.at_ms,
        outlook=forecast.outlook,
    )


def _rows(points: Sequence[ChartPoint]) -> Iterator[ChartPoint]:
    """The rows of the table, newest first, with adjacent gaps merged."""
    gap: ChartPoint | None = None
    for point in reversed(points):
        if point.is_known:
            if gap is not None:
                yield gap
            gap = None
            yield point
        else:
            gap = ChartPoint(point.at_ms, gap.until_ms if gap else point.until_ms)
    if gap is not None:
        yield gap


VALUES: dict[str, Callable[[ChartPoint], int | None]] = {
    "count": lambda point: point.count,
    "age": lambda point: point.age_ms,
    "clear": lambda point: point.clear_ms,
}
