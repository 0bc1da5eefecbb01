"""What the reports' tables hand out and take in, without SQLAlchemy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.report_tables import ResultTable

Row = dict[str, Any]
# JSON columns whose histograms are kept packed (engine.histogram.pack).
PACKED = frozenset({"buckets"})


@dataclass(frozen=True, kw_only=True)
class ScheduleRow:
    """When a job runs by itself; `next_ms` is the first time that is not yet done."""

    job: str
    cron: str
    is_enabled: bool
    limit_s: int
    next_ms: int
    changed_ms: int
    changed_by: str


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """One attempt. Texts that do not apply are "", numbers None.

    `hours` are those that it computed anew; `input_at_ms`: everything stored before that is in.
    `inputs_json` is by frame {hours, rows, late_rows}; `counters_json` what the job passed over or
    put right.
    """

    id: int = 0
    job: str
    cause: str
    state: str
    attempt: int
    actor: str
    began_ms: int
    ended_ms: int | None = None
    owner: str = ""
    lease_ms: int = 0
    hours: tuple[str, ...] = ()
    rows_in: int | None = None
    rows_out: int | None = None
    input_at_ms: int | None = None
    inputs_json: str = "{}"
    counters_json: str = "{}"
    spark: str = ""
    java: str = ""
    master: str = ""
    peak_kib: int | None = None
    error_class: str = ""
    error: str = ""
    log_tail: str = ""


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """Which runs are wanted; what is empty or None does not matter."""

    job: str = ""
    state: str = ""
    before_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Which hours of a job there are results of."""

    hours: int
    first: str
    last: str


@dataclass(frozen=True, kw_only=True)
class ResultFilter:
    """Which figures are wanted: of hours `first` to `last`, both in; "" does not matter.

    `equal` are further columns, each with the value that it has to have.
    """

    first: str = ""
    last: str = ""
    equal: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Loaded:
    """What a run brought: `tables` are the names and rows; every other table of the job stays."""

    run: RunRow
    fingerprints: dict[str, str]
    tables: Sequence[tuple[ResultTable, Iterable[Row]]]


class NotWhole(ValueError):
    """Some hours were computed of a period whose figures are kept as one: they are not taken."""


class Moved(Exception):
    """Since the page before, its hours were put together: what follows it is in no place now."""


class NotOurs(Exception):
    """The run was taken over by another server: its figures are not taken."""
