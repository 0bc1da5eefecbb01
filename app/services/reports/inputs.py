"""Determines the due hours: those whose input changed since their figures were made.

Pure but for `load`. The manifest of the Parquet folder describes each hour's input; its form is
that of the jobs (`analytics/manifest.py`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from engine.report_hours import (
    HOUR_MS,
    INPUTS,
    LOOKBACK_HOURS,
    begin_ms,
    fingerprint,
    hour_of,
    moved,
    partition_fingerprint,
    span,
)
from engine.report_tables import LAG_JOB

MANIFEST = "manifest.json"
DAY_MS = 24 * HOUR_MS
HOURS_PER_RUN = 48


class Partition(msgspec.Struct, frozen=True):
    """One hour of a frame."""

    rows: int = 0
    last: int = -1
    late_rows: int = 0
    is_sealed: bool = False

    @property
    def fingerprint(self) -> str:
        """Changes with the rows."""
        return partition_fingerprint(self.rows, self.last)


class Inputs(msgspec.Struct, frozen=True):
    """The folder's contents; `at_ms`: everything stored before that is included.

    Of what was stored before `begin_ms` some messages and traces may be missing.
    """

    at_ms: int = 0
    frames: dict[str, dict[str, Partition]] = {}
    begin_ms: int = 0

    def fingerprints(self) -> dict[str, dict[str, str]]:
        """Input fingerprints by frame and hour, to compare with those of the last run."""
        return {
            frame: {hour: each.fingerprint for hour, each in hours.items()}
            for frame, hours in self.frames.items()
        }


@dataclass(frozen=True)
class Due:
    """Hours to compute, the oldest first; `left` more are due and come with the next run."""

    hours: tuple[str, ...]
    left: int = 0


class Periods:
    """Hours whose figures are kept as one with others: computed anew all together, or not at all.

    `coarse` are the first hour and the length of each such period, the shortest first.
    """

    def __init__(
        self, job: str, inputs: Inputs, done: Mapping[str, str], coarse: Iterable[tuple[str, int]]
    ) -> None:
        available = set(hours_with_input(job, inputs))
        first = min(available, default="")
        self._by_hour: dict[str, tuple[str, ...]] = {}
        for begin, length in coarse:
            last = moved(begin, length - 1)
            if not available or last < first:
                continue  # nobody asks for hours without input
            hours = span(begin, last)
            needed = {hour for hour in hours if hour in done}
            whole = (
                tuple(hour for hour in hours if hour in available) if needed <= available else ()
            )
            self._by_hour |= dict.fromkeys(hours, whole)

    def is_frozen(self, hour: str) -> bool:
        """Whether its figures are final: some hours of its period have no input any more."""
        return self._by_hour.get(hour) == ()

    def whole(self, hours: Iterable[str]) -> tuple[str, ...]:
        """These hours with those that they are kept as one with, without the frozen ones."""
        names: set[str] = set()
        for hour in hours:
            names.update(self._by_hour.get(hour, (hour,)))
        return tuple(sorted(names))


def load(root: Path) -> Inputs:
    """Load the manifest, empty if there is none. Raises OSError, DecodeError."""
    try:
        data = (root / MANIFEST).read_bytes()
    except FileNotFoundError:
        return Inputs()
    return msgspec.json.decode(data, type=Inputs)


def hours_with_input(job: str, inputs: Inputs) -> list[str]:
    """Hours that there can be figures of: with input, and those after them when they are over.

    All that an hour is computed from has to be there.
    """
    hours: set[str] = set()
    begin = ""
    if inputs.begin_ms and job != LAG_JOB:
        lookback_hours = max(LOOKBACK_HOURS[frame] for frame in INPUTS[job])
        begin = hour_of(inputs.begin_ms + lookback_hours * HOUR_MS)
    for frame in INPUTS[job]:
        for hour in inputs.frames.get(frame, {}):
            hours.add(hour)
            after = moved(hour, 1)
            if begin_ms(after) + HOUR_MS <= inputs.at_ms:
                hours.add(after)
    return sorted(hour for hour in hours if hour >= begin)


def due(
    job: str, inputs: Inputs, done: Mapping[str, str], input_days: int, periods: Periods
) -> Due:
    """The hours to compute, the newest first if there are too many for one run.

    Hours stay as they are when their input is about to be deleted: with the hour before them gone,
    the fingerprint changes though it has lost input, not gained any.
    """
    oldest_ms = inputs.at_ms - input_days * DAY_MS + DAY_MS if input_days else 0
    fingerprints = inputs.fingerprints()
    changed = [
        hour
        for hour in hours_with_input(job, inputs)
        if done.get(hour) != fingerprint(job, hour, fingerprints)
        and not (hour in done and begin_ms(hour) < oldest_ms)
        and not periods.is_frozen(hour)
    ]
    chosen = periods.whole(changed[-HOURS_PER_RUN:])
    return Due(chosen, len(set(changed).difference(chosen)))


def chosen(job: str, inputs: Inputs, hours: Iterable[str]) -> tuple[str, ...]:
    """Those of the hours that have input: others would lose the figures they have."""
    available = set(hours_with_input(job, inputs))
    return tuple(hour for hour in hours if hour in available)
