"""Little lines and bars drawn by the server as SVG; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

WIDTH = 96
HEIGHT = 22
MARGIN = 2


@dataclass(frozen=True)
class Sparkline:
    """The paths of a sparkline and of the filled shape below it; "" when empty."""

    path: str
    area: str
    width: int
    height: int


def line(values: Sequence[float | None], width: int = WIDTH, height: int = HEIGHT) -> Sparkline:
    """Scale `values` into the box, 0 at its foot; None is a gap, and a value between gaps a dot.

    Fewer than two values draw nothing, nor do zeros alone.
    """
    known = [value for value in values if value is not None]
    if len(known) < 2 or not any(known):
        return Sparkline("", "", width, height)
    top = max(known)
    step = width / (len(values) - 1)
    room = height - 2 * MARGIN
    path = area = ""
    for is_gap, run in groupby(enumerate(values), lambda spot: spot[1] is None):
        if is_gap:
            continue
        spots = [
            f"{index * step:.1f},{height - MARGIN - room * (value or 0) / top:.1f}"
            for index, value in run
        ]
        first, last = (spot.partition(",")[0] for spot in (spots[0], spots[-1]))
        path += f"M{' '.join(spots)}" + ("h0" if len(spots) == 1 else "")
        area += f"M{first},{height} {' '.join(spots)} {last},{height}z"
    return Sparkline(path, area, width, height)


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
