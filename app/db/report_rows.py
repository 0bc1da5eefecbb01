"""Rows and filters of the reports' tables, without SQLAlchemy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from engine.report_tables import ResultTable
from kitemq.model.reports import ReportEngine

Row = dict[str, Any]
# JSON columns whose histograms are kept packed (engine.histogram.pack).
PACKED = frozenset({"buckets"})


@dataclass(frozen=True, kw_only=True)
class ScheduleRow:
    """The schedule of a job; `next_ms` is the next time that is due."""

    job: Annotated[str, 32]
    cron: Annotated[str, 128]
    is_enabled: bool
    limit_s: int
    next_ms: int
    changed_ms: int
    changed_by: Annotated[str, 255]


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """One attempt. Texts that do not apply are "", numbers None.

    `hours` are those that it computed anew; `input_at_ms`: everything stored before that is in.
    `inputs_json` is by frame {hours, rows, late_rows}; `counters_json` what the job passed over or
    put right.
    """

    id: int = 0
    job: Annotated[str, 32]
    cause: Annotated[str, 16]
    state: Annotated[str, 16]
    attempt: int
    actor: Annotated[str, 255]
    began_ms: int
    ended_ms: int | None = None
    owner: Annotated[str, 512] = ""
    lease_ms: int = 0
    hours: tuple[str, ...] = ()
    rows_in: int | None = None
    rows_out: int | None = None
    input_at_ms: int | None = None
    inputs_json: str = "{}"
    counters_json: str = "{}"
    spark: Annotated[str, 64] = ""
    java: Annotated[str, 64] = ""
    master: Annotated[str, 255] = ""
    peak_kib: int | None = None
    error_class: Annotated[str, 128] = ""
    error: str = ""
    log_tail: str = ""

    @property
    def engine(self) -> ReportEngine:
        """What computed it."""
        if self.spark:
            return ReportEngine.SPARK
        return ReportEngine.NONE if self.rows_in is None else ReportEngine.PYTHON


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """A filter of runs; empty and None fields match all."""

    job: str = ""
    state: str = ""
    before_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """The hours of a job that have results."""

    hours: int
    first: str
    last: str


@dataclass(frozen=True, kw_only=True)
class ResultFilter:
    """A filter of figures: hours `first` to `last`, inclusive; "" matches all.

    `equal` has further columns with their required values.
    """

    first: str = ""
    last: str = ""
    equal: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Loaded:
    """The results of a run: rows by table; other tables of the job stay unchanged."""

    run: RunRow
    fingerprints: dict[str, str]
    tables: Sequence[tuple[ResultTable, Iterable[Row]]]


class NotWhole(ValueError):
    """A run computed only some hours of a packed period, so its figures are refused."""


class Moved(Exception):
    """The hours of the previous page were packed meanwhile, so its cursor is invalid."""


class NotOurs(Exception):
    """Another server took over the run, so its figures are refused."""
