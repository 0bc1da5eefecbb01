"""Samples of lag, and the windows that evaluations look at: what is in each, and its figures."""

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analytics.jobs.definitions import HOUR_MS, Params
from analytics.jobs.lag_rules import TREND_SHARE
from analytics.jobs.traces.blobs import (
    Ints,
    Mask,
    TextCodes,
    begins,
    keys,
    matches,
    numbers,
    repeated,
)
from engine.report_hours import LOOKBACK_HOURS

Floats = npt.NDArray[np.float64]
NONE = -1  # of a number that is not known; none of those that are is negative
GRACE_SAMPLES = 2
TREND_MIN = 1e-9


@dataclass(frozen=True)
class LagSamples:
    """Samples in the order of series and time; `series` numbers the queues of each wanted hour."""

    series: Ints
    target: Ints
    group: Ints
    topic: Ints
    queue: Ints
    at_ms: Ints
    min_offset: Ints
    max_offset: Ints
    committed: Ints
    lag: Ints
    oldest_ms: Ints
    retry_waiting: Ints
    dead: Ints
    members: Ints
    active_ms: Ints
    expired: Ints
    resets: Ints

    def take(self, rows: Ints) -> "LagSamples":
        """Some of them, by their indices."""
        return LagSamples(*(getattr(self, each.name)[rows] for each in fields(self)))


NUMBERS = tuple(each.name for each in fields(LagSamples))[4:]  # queue and all behind it


def samples_of(table: "pa.Table", names: TextCodes, params: Params) -> tuple[LagSamples, int]:
    """The samples, once for each wanted hour that reads them: their own, and the one after it.

    So an hour's result does not depend on which others are computed along with it. Also how many
    were there more than once, beyond the first.
    """
    values = {name: numbers(table[name], NONE) for name in NUMBERS}
    group, topic = names.codes(table["group"]), names.codes(table["topic"])
    (place,) = keys([group, topic, values["queue"], values["at_ms"]])
    single = np.unique(place, return_index=True)[1]
    hour = values["at_ms"][single] // HOUR_MS
    parts = [
        (single[is_read], hour[is_read] + later)
        for later in range(LOOKBACK_HOURS["lag"] + 1)
        if (is_read := np.isin(hour + later, params.hours)).any()
    ]
    rows = np.concatenate([part for part, _ in parts] or [np.zeros(0, dtype=np.int64)])
    target = np.concatenate([part for _, part in parts] or [np.zeros(0, dtype=np.int64)])
    (series,) = keys([target, group[rows], topic[rows], values["queue"][rows]])
    order = np.lexsort((values["at_ms"][rows], series))
    number = np.cumsum(np.diff(series[order], prepend=series[order][:1]) != 0)
    taken = rows[order]
    columns = {name: column[taken] for name, column in values.items()}
    samples = LagSamples(number, target[order], group[taken], topic[taken], **columns)
    return samples, len(place) - len(single)


@dataclass(frozen=True)
class SampleChanges:
    """What changed from one sample of a series to the next; `expired` is NONE if not known."""

    is_reset: Mask
    is_rewind: Mask
    is_clear: Mask
    expired: Ints


def changes_of(samples: LagSamples, params: Params) -> SampleChanges:
    """Of each sample, since the one before."""
    is_first = np.diff(samples.series, prepend=NONE) != 0

    def change(column: Ints) -> tuple[Ints, Mask]:
        """And whether it is known."""
        before = np.r_[column[:1], column[:-1]]
        return np.where(is_first, 0, column - before), ~is_first & (column >= 0) & (before >= 0)

    fell = change(samples.committed)[0] < 0
    resets, is_counted = change(samples.resets)
    # A topic that was made anew begins at 0 too, and so does a group that a person resets.
    by_hand = (is_counted & (resets > 0)) | (change(samples.max_offset)[0] < 0)
    expired, is_known = change(samples.expired)
    grace_ms = int(1000 * (params.grace_s or GRACE_SAMPLES * params.sample_s))
    is_new = (samples.oldest_ms >= 0) & (samples.at_ms - samples.oldest_ms <= grace_ms)
    return SampleChanges(
        is_reset=fell & by_hand,
        is_rewind=fell & ~by_hand,
        is_clear=(samples.lag == 0) | is_new,
        expired=np.where(is_known, np.maximum(expired, 0), NONE),
    )


@dataclass(frozen=True)
class LagWindows:
    """A row for each evaluation at `t` whose window has samples, in the order of series and time.

    `n` samples, the `first` and the `last` of them over `span_s`. `expired` of the window and
    `lost_step` of the last step are NONE, `slope_per_s` of the lag is NaN, if they are not known.
    """

    t: Ints
    n: Ints
    first: LagSamples
    last: LagSamples
    span_s: Floats
    was_reset: Mask
    was_rewound: Mask
    was_clear: Mask
    expired: Ints
    lost_step: Ints
    slope_per_s: Floats


def windows_of(samples: LagSamples, params: Params) -> LagWindows:
    """The windows of the wanted hours and of those before them."""
    changes = changes_of(samples, params)
    step_ms, window_ms = params.step_s * 1000, params.window_s * 1000
    first_step = -(-samples.at_ms // step_ms)
    # With steps longer than the window some samples belong to no evaluation.
    count = np.maximum(0, (samples.at_ms + window_ms - 1) // step_ms - first_step + 1)
    rows, later = repeated(count)
    t = (first_step[rows] + later) * step_ms
    begin = (samples.target[rows] - LOOKBACK_HOURS["lag"]) * HOUR_MS
    end = (samples.target[rows] + 1) * HOUR_MS
    is_read = (t >= begin) & (t < end) & (t <= params.at_ms)
    rows, t = rows[is_read], t[is_read]
    (cell,) = keys([samples.series[rows], t // step_ms])
    order = np.argsort(cell, kind="stable")
    rows, t, starts = rows[order], t[order], begins(cell[order])
    first, last = rows[starts], rows[np.r_[starts[1:], len(rows)] - 1] if len(rows) else rows
    expired = changes.expired[rows]
    in_step = np.where(samples.at_ms[rows] > t - step_ms, expired, NONE)
    return LagWindows(
        t=t[starts],
        n=np.diff(starts, append=len(rows)),
        first=samples.take(first),
        last=samples.take(last),
        span_s=(samples.at_ms[last] - samples.at_ms[first]) / 1000,
        was_reset=np.logical_or.reduceat(changes.is_reset[rows], starts),
        was_rewound=np.logical_or.reduceat(changes.is_rewind[rows], starts),
        was_clear=np.logical_or.reduceat(changes.is_clear[rows], starts),
        expired=sums_of_known(expired, starts),
        # Windows may overlap: what is added up over them is only that of the last step.
        lost_step=sums_of_known(in_step, starts),
        slope_per_s=_slopes((samples.at_ms[rows] - t) / 1000, samples.lag[rows], starts),
    )


def sums_of_known(values: Ints, starts: Ints) -> Ints:
    """The sum of each stretch, without what is not known; NONE where nothing is."""
    sums = np.add.reduceat(np.maximum(values, 0), starts)
    sums[np.maximum.reduceat(values, starts) < 0] = NONE
    return sums


def _slopes(x: Floats, y: Ints, starts: Ints) -> Floats:
    """The slope of each stretch by regression; NaN for fewer than two values."""
    n = np.diff(starts, append=len(x))
    x = x - np.repeat(np.add.reduceat(x, starts) / n, n)
    spread = np.add.reduceat(x * x, starts)
    shared = np.add.reduceat(x * (y - np.repeat(np.add.reduceat(y, starts) / n, n)), starts)
    return divided(shared, np.where(n < 2, 0, spread))


def divided(part: "Ints | Floats", whole: "Ints | Floats") -> Floats:
    """NaN where `whole` is 0."""
    nothing = np.full(len(part), np.nan)
    quotients: Floats = np.divide(part, whole, out=nothing, where=whole != 0)
    return quotients


@dataclass(frozen=True)
class WindowFigures:
    """Of each window; rates, `risk_s` are NaN and `slo_ms` NONE if they are not known."""

    produce_per_s: Floats
    consume_per_s: Floats
    risk_s: Floats
    time_lag_ms: Ints
    lost: Ints
    completeness: Floats
    slo_ms: Ints
    trend_min: Floats
    is_growing: Mask


def figures_of(windows: LagWindows, names: TextCodes, params: Params) -> WindowFigures:
    """What the rules and the tables go by."""
    first, last = windows.first, windows.last

    def per_s(begin: Ints, end: Ints) -> Floats:
        return divided(end - begin, windows.span_s)

    produce_per_s = per_s(first.max_offset, last.max_offset)
    consume_per_s = per_s(first.committed, last.committed)
    overtaken = per_s(first.min_offset, last.min_offset) - consume_per_s
    room = last.committed - last.min_offset
    # NaN, of a window without a span, is taken for 0.
    trend_min = np.fmax(TREND_SHARE * produce_per_s, TREND_MIN)
    age_ms = np.where(last.oldest_ms < 0, 0, np.maximum(last.at_ms - last.oldest_ms, 0))
    limit_s = params.slo_default_s
    limits = {name: int(s * 1000) for name, s in params.slo_s.items()}
    default = NONE if limit_s is None else int(limit_s * 1000)
    by_code = np.array([limits.get(text, default) for text in names.listed()], dtype=np.int64)
    return WindowFigures(
        produce_per_s=produce_per_s,
        consume_per_s=consume_per_s,
        risk_s=divided(room, np.where(overtaken > 0, overtaken, 0)),
        time_lag_ms=np.where(last.lag > 0, age_ms, 0),
        lost=np.maximum(np.maximum(-room, 0), windows.expired),
        completeness=np.minimum(1.0, windows.n * params.sample_s / params.window_s),
        slo_ms=by_code[last.group],
        trend_min=trend_min,
        is_growing=windows.slope_per_s > trend_min,
    )


def sampled(samples: LagSamples, windows: LagWindows, params: Params) -> tuple[Ints, Ints]:
    """Of the step from each window's `t` on, begin and end of the time that samples speak for.

    A sample speaks for the time to its neighbours: twice their distance, so that one may be late.
    Of a step without samples nothing is known: its end is its begin.
    """
    step_ms, near_ms = params.step_s * 1000, int(GRACE_SAMPLES * params.sample_s * 1000)
    steps = samples.at_ms // step_ms
    places, known = keys([windows.last.series, windows.t // step_ms], [samples.series, steps])
    starts = begins(known)
    at = matches(places, known[starts], np.arange(len(starts)))
    ends = np.r_[starts[1:], len(known)]
    first = samples.at_ms[starts] - near_ms
    last = samples.at_ms[ends - 1] + near_ms if len(starts) else first
    has_any, t = at >= 0, windows.t
    begin = np.where(has_any, np.maximum(t, first[at]), t) if len(starts) else t
    end = np.minimum(np.minimum(t + step_ms, last[at]), params.at_ms) if len(starts) else t
    return begin, np.where(has_any, end, begin)
