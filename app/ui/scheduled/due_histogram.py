"""A histogram of due times: bars of equal width over a future time span."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.monitoring import sparkline
from app.monitoring.sparkline import Bar
from app.ui.framework.language import N_, translated

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
FOREVER_MS = 1 << 52
# Name, words, width of a bar, number of bars.
SPANS = (
    ("hour", N_("next hour"), MINUTE_MS, 60),
    ("day", N_("next day"), 30 * MINUTE_MS, 48),
    ("week", N_("next 7 days"), 4 * HOUR_MS, 42),
    ("month", N_("next 30 days"), DAY_MS, 30),
    ("year", N_("next year"), 8 * DAY_MS, 46),
)
SHARE_MIN = 0.9
WIDTH = 960
HEIGHT = 120
GAP = 2

Counts = Callable[[Sequence[int]], Awaitable[list[int]]]


@dataclass(frozen=True, kw_only=True)
class DueBar(Bar):
    """Messages due from `begin_ms` to before `end_ms`."""

    begin_ms: int
    end_ms: int


@dataclass(frozen=True)
class SpanChoice:
    """A time span to choose from."""

    name: str
    label: str
    is_on: bool


@dataclass(frozen=True)
class DueHistogram:
    """All waiting messages: in bars, `overdue` before them and `later` after them."""

    spans: list[SpanChoice]
    label: str
    begin_ms: int
    end_ms: int
    bars: list[DueBar]
    top: int
    overdue: int
    later: int
    total: int
    width: int = WIDTH
    height: int = HEIGHT


async def histogram(counts: Counts, now_ms: int, span_name: str) -> DueHistogram:
    """The histogram over `span_name`, or over the shortest span with 90 % of all messages.

    `counts` gives the number of messages due before each of some times. Bars begin at multiples of
    their width, so that they do not move with the clock; the first has already begun.
    """
    [total] = await counts([FOREVER_MS])
    is_span = span_name in {span[0] for span in SPANS}
    name = span_name if is_span else await _fitting(counts, total, now_ms)
    __, label, step_ms, bars = next(span for span in SPANS if span[0] == name)
    begin_ms = now_ms // step_ms * step_ms
    edges = [begin_ms + step_ms * number for number in range(bars + 1)]
    before = await counts(edges)
    amounts = [after - first for first, after in pairwise(before)]
    return DueHistogram(
        spans=[SpanChoice(span[0], translated(span[1]), span[0] == name) for span in SPANS],
        label=translated(label),
        begin_ms=begin_ms,
        end_ms=edges[-1],
        bars=_bars(edges, amounts),
        top=max(amounts),
        overdue=before[0],
        later=max(0, total - before[-1]),
        total=total,
    )


async def _fitting(counts: Counts, total: int, now_ms: int) -> str:
    ends = [now_ms + step_ms * bars for __, __, step_ms, bars in SPANS]
    for (name, *__), count in zip(SPANS, await counts(ends), strict=True):
        if count >= SHARE_MIN * total:
            return name
    return SPANS[-1][0]


def _bars(edges: Sequence[int], amounts: Sequence[int]) -> list[DueBar]:
    bars = sparkline.bars(amounts, WIDTH / len(amounts), HEIGHT, GAP)
    return [
        DueBar(**vars(bar), begin_ms=begin_ms, end_ms=end_ms)
        for bar, (begin_ms, end_ms) in zip(bars, pairwise(edges), strict=True)
    ]
