"""Every evaluation of every queue: figures of the window before it, and the state. The base of all
lag tables, computed once.

Each hour is evaluated together with the one before it, so that what is published depends on
nothing but these two, and on `previous` where the one before is missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from analytics.jobs.definitions import HOUR_MS, Params
from analytics.jobs.lag_rules import AT_ONCE, CATCHING_UP, ETA_FACTOR, SEVERITY, raw_states
from analytics.jobs.lag_windows import (
    NONE,
    Floats,
    LagWindows,
    WindowFigures,
    figures_of,
    sampled,
    samples_of,
    windows_of,
)
from analytics.jobs.traces.blobs import Ints, Mask, TextCodes, begins

# By group, topic and queue what was published, and what was found, before the first hour.
Previous = Mapping[tuple[str, str, int], tuple[str, str]]


@dataclass(frozen=True)
class Evaluations:
    """Rows by target, group, topic, queue and `t` (ms), only of the target hours, in that order.

    Groups and topics are codes of `names`; `state` is what is published and `raw_state` what the
    rules say, as severities. From `known_ms` to `known_end_ms` samples bear the state out; both are
    the same where the step from `t` on has none.
    """

    names: TextCodes
    target: Ints
    group: Ints
    topic: Ints
    queue: Ints
    t: Ints
    state: Ints
    raw_state: Ints
    lag: Ints
    time_lag_ms: Ints
    produce_per_s: Floats
    consume_per_s: Floats
    eta_s: Floats
    retry_waiting: Ints
    dead: Ints
    members: Ints
    slope_per_s: Floats
    committed: Ints
    lost: Ints
    lost_step: Ints
    risk_s: Floats
    slo_ms: Ints
    completeness: Floats
    known_ms: Ints
    known_end_ms: Ints

    def __len__(self) -> int:
        return len(self.t)

    def take(self, rows: "Ints | Mask") -> "Evaluations":
        """Some of them."""
        columns = (getattr(self, each.name)[rows] for each in fields(self)[1:])
        return Evaluations(self.names, *columns)


def build(
    table: "pa.Table", params: Params, previous: Previous | None = None
) -> tuple[Evaluations, int]:
    """The evaluations by samples of the frame `lag`; and how many samples were doubled."""
    names = TextCodes()
    samples, doubled = samples_of(table, names, params)
    windows = windows_of(samples, params)
    figures = figures_of(windows, names, params)
    last = windows.last
    starts = begins(last.series)
    grew_before = np.r_[False, figures.is_growing[:-1]] if len(starts) else figures.is_growing
    grew_before[starts] = False
    raw = raw_states(windows, figures, grew_before, params)
    state = _published(raw, starts, _before(windows, starts, names, previous or {}, params))
    known_ms, known_end_ms = sampled(samples, windows, params)
    evaluations = Evaluations(
        names=names,
        target=last.target,
        group=last.group,
        topic=last.topic,
        queue=last.queue,
        t=windows.t,
        state=state,
        raw_state=raw,
        lag=last.lag,
        time_lag_ms=figures.time_lag_ms,
        produce_per_s=figures.produce_per_s,
        consume_per_s=figures.consume_per_s,
        eta_s=np.where(state == SEVERITY[CATCHING_UP], _eta_s(windows, figures), np.nan),
        retry_waiting=last.retry_waiting,
        dead=last.dead,
        members=last.members,
        slope_per_s=windows.slope_per_s,
        committed=last.committed,
        lost=figures.lost,
        lost_step=windows.lost_step,
        risk_s=figures.risk_s,
        slo_ms=figures.slo_ms,
        completeness=figures.completeness,
        known_ms=known_ms,
        known_end_ms=known_end_ms,
    )
    return evaluations.take(windows.t >= last.target * HOUR_MS), doubled


def _before(
    windows: LagWindows, starts: Ints, names: TextCodes, previous: Previous, params: Params
) -> tuple[Ints, Ints]:
    """What was published of each series before it begins, and what was found; NONE if nothing."""
    texts, last = names.listed(), windows.last.take(starts)
    states = np.full((2, len(starts)), NONE)
    if previous:
        for at in np.flatnonzero(last.target == min(params.hours)):
            place = (texts[last.group[at]], texts[last.topic[at]], int(last.queue[at]))
            known = [SEVERITY.get(state, NONE) for state in previous.get(place, ())]
            if known and NONE not in known:
                states[:, at] = known
    return states[0], states[1]


def _published(raw: Ints, starts: Ints, before: tuple[Ints, Ints]) -> Ints:
    """A change counts when it was found twice running, some at once."""
    if not len(raw):
        return raw
    earlier = np.r_[NONE, raw[:-1]]
    earlier[starts] = before[1]
    is_sure = (earlier == NONE) | (raw == earlier)
    is_sure |= np.isin(raw, [SEVERITY[state] for state in AT_ONCE])
    sure = np.maximum.accumulate(np.where(is_sure, np.arange(len(raw)), NONE))
    lengths = np.diff(starts, append=len(raw))
    return np.where(sure >= np.repeat(starts, lengths), raw[sure], np.repeat(before[0], lengths))


def _eta_s(windows: LagWindows, figures: WindowFigures) -> Floats:
    """Until the lag is gone, where it shrinks and more is consumed than produced; else NaN."""
    falls = windows.slope_per_s < -figures.trend_min
    is_faster = figures.consume_per_s > ETA_FACTOR * figures.produce_per_s
    slope = np.where(falls & is_faster, windows.slope_per_s, np.nan)
    return -windows.last.lag / slope
