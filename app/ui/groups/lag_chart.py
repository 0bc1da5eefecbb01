"""A group's lag over time as a chart and a table; missing samples are gaps in both. Pure.

The time to clear is estimated here, from the last minute, or the one step, before each point.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.monitoring.forecast import WINDOW_MS, Forecast, Outlook, forecast
from app.ui.framework.language import N_
from engine.broker import LagHistoryPage, LagPoint

STILL_WIDTH, STILL_HEIGHT = 720, 160
MARGIN = 4


@dataclass(frozen=True)
class Shape:
    """A measure of the chart: its name in queries, its label, and its unit."""

    name: str
    label: str
    unit: str


SHAPES = (
    Shape("count", N_("Unread"), "count"),
    Shape("age", N_("Oldest unread"), "ms"),
    Shape("clear", N_("Catch-up time"), "ms"),
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

    `values` belong to `times_s`; `lines` are the same as SVG points for browsers without scripts.
    """

    shape: Shape
    from_ms: int
    to_ms: int
    step_ms: int
    known: int
    missing: int
    damaged: int
    times_s: list[float]
    values: list[int | None]
    lines: list[str]
    rows: list[ChartPoint]


def chart(page: LagHistoryPage, shape: Shape) -> LagChart:
    """The chart of a page of lag history."""
    points = list(_judged(page))
    values = [VALUES[shape.name](point) for point in points]
    known = sum(point.is_known for point in points)
    return LagChart(
        shape=shape,
        from_ms=page.from_ms,
        to_ms=page.to_ms,
        step_ms=page.step_ms,
        known=known,
        missing=len(points) - known,
        damaged=page.damaged,
        times_s=[point.at_ms / 1000 for point in points],
        values=values,
        lines=list(segments(values)),
        rows=list(_rows(points)),
    )


def segments(values: Sequence[int | None]) -> Iterator[str]:
    """Runs of known values as points of `<polyline>`; a single value is repeated, as a dot."""
    top = max((value for value in values if value is not None), default=0) or 1
    step = STILL_WIDTH / max(1, len(values) - 1)
    room = STILL_HEIGHT - 2 * MARGIN
    run: list[str] = []
    for index, value in enumerate([*values, None]):
        if value is not None:
            run.append(f"{index * step:.1f},{STILL_HEIGHT - MARGIN - room * value / top:.1f}")
        elif run:
            yield " ".join(run if len(run) > 1 else run * 2)
            run = []


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
