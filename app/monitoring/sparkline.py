"""Little lines drawn by the server as SVG points; pure."""

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
