"""Little lines and bars drawn by the server as SVG points; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 96
HEIGHT = 22
MARGIN = 2


@dataclass(frozen=True)
class Sparkline:
    """A sparkline's points for `<polyline>` and the filled shape below it; "" when empty."""

    points: str
    area: str
    width: int
    height: int


def line(values: Sequence[float], width: int = WIDTH, height: int = HEIGHT) -> Sparkline:
    """Scale `values` into the box, 0 at its foot; fewer than two values draw nothing."""
    if len(values) < 2 or not any(values):
        return Sparkline("", "", width, height)
    top = max(values)
    step = width / (len(values) - 1)
    room = height - 2 * MARGIN
    spots = [
        f"{index * step:.1f},{height - MARGIN - room * value / top:.1f}"
        for index, value in enumerate(values)
    ]
    points = " ".join(spots)
    return Sparkline(points, f"0,{height} {points} {width},{height}", width, height)


@dataclass(frozen=True)
class Bar:
    """A bar of `count`; empty bars have no height."""

    count: int
    x: float
    y: float
    width: float
    height: float


def bars(counts: Sequence[int], room: float, height: int, gap: float) -> list[Bar]:
    """Bars that are `room` apart, with a `gap` between them; the highest almost fills `height`."""
    top = max(counts) or 1
    drawn = []
    for number, count in enumerate(counts):
        # A bar that is not empty stays visible.
        size = max(2.0, (height - 4) * count / top) if count else 0.0
        x, y = round(number * room + gap / 2, 1), round(height - size, 1)
        drawn.append(Bar(count, x, y, round(room - gap, 1), round(size, 1)))
    return drawn
