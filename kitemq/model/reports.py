"""Reports: their schedules and runs, and the figures that Spark computed."""

from enum import StrEnum
from typing import Annotated, Any, TypedDict

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kitemq.model.values import Int64, Milliseconds

Hour = Annotated[str, Meta(description="A UTC hour, as 2026-11-21T03; empty for no end.")]
JobName = Annotated[str, Meta(description="traces or lag.")]


class RunState(StrEnum):
    """The state of a run; all but RUNNING are final."""

    RUNNING = "running"
    OK = "ok"
    SKIPPED = "skipped"  # nothing was new
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LOST = "lost"  # the server that ran it is gone


class ReportEngine(StrEnum):
    """What computed a run's figures."""

    SPARK = "spark"
    PYTHON = "python"  # one process, as there were few rows
    NONE = ""  # nothing was computed, or not yet


class Trigger(StrEnum):
    """Why a run began."""

    SCHEDULE = "schedule"
    MANUAL = "manual"
    BACKFILL = "backfill"  # by hand, over hours of the past
    RETRY = "retry"


class ReportSchedule(msgspec.Struct, frozen=True):
    """The schedule of a report. `next_ms` is null while it is disabled."""

    job: JobName
    cron: Annotated[str, Meta(description="minute hour day month weekday, in UTC.")]
    enabled: bool
    limit_s: Annotated[int, Meta(description="A run that takes longer is ended.")]
    next_ms: int | None
    changed_ms: Milliseconds
    changed_by: str


class ReportSchedules(msgspec.Struct, frozen=True):
    """The schedules by job. `running` is false where the setting report_schedules is off."""

    items: list[ReportSchedule]
    running: bool


class ScheduleChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Changes of a schedule; absent fields stay."""

    cron: str | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    limit_s: Annotated[int, Meta(description="30 to 86,400.")] | UnsetType = UNSET


class NewReportRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run to begin now: of the due hours, or of given hours, which are then computed anew."""

    job: JobName
    first: Hour = ""
    last: Annotated[str, Meta(description="Included; at most 1,000 hours.")] = ""


class RunProgress(msgspec.Struct, frozen=True):
    """The progress of a run; `tasks` are Spark's, 0 if it does not report them."""

    stage: str
    percent: int
    tasks_done: int
    tasks: int


class ReportRun(msgspec.Struct, frozen=True):
    """One attempt to run a report. What is null is not known, or not yet."""

    id: Int64
    job: str
    cause: Trigger
    state: RunState
    attempt: int
    actor: str
    began_ms: Milliseconds
    ended_ms: int | None
    seconds: float | None
    hours: Annotated[list[str], Meta(description="Those that it computed anew.")]
    rows_in: int | None
    rows_out: int | None
    input_at_ms: Annotated[
        int | None, Meta(description="Everything that was stored before is in its figures.")
    ]
    inputs: Annotated[dict[str, Any], Meta(description="By frame: hours, rows, late_rows.")]
    counters: Annotated[
        dict[str, int], Meta(description="What was left out or put right: late, duplicates, …")
    ]
    engine: Annotated[
        ReportEngine, Meta(description="spark, or python where the rows were few; empty for none.")
    ]
    spark: str
    java: str
    master: str
    peak_kib: int | None
    error_class: str
    error: str
    progress: RunProgress | None


class ReportRunInFull(ReportRun, frozen=True):
    """A run with the end of its logs."""

    log_tail: str


class ReportRuns(msgspec.Struct, frozen=True):
    """Runs, the newest first."""

    items: list[ReportRun]
    next_cursor: str | None


class ReportJob(msgspec.Struct, frozen=True):
    """A report at a glance; its figures have everything that was stored before `fresh_ms`."""

    job: str
    schedule: ReportSchedule
    fresh_ms: int | None
    hours: Annotated[int, Meta(description="That there are figures of.")]
    first: str
    last: str
    last_run: ReportRun | None
    last_ok: ReportRun | None


class ReportsNow(msgspec.Struct, frozen=True):
    """All reports at a glance. `missing` says what has to be installed; empty if nothing."""

    missing: str
    remedy: str
    jobs: list[ReportJob]
    running: ReportRun | None


class FigureCriteria(TypedDict, total=False):
    """The choice of figures: hours from `first` to `last`, and columns with these values."""

    first: str
    last: str
    topic: str
    group: str
    metric: str
    kind: str
    client: str
    queue: str
    state: str
    outcome: str
    reason: str
    value: str


class ReportColumn(msgspec.Struct, frozen=True):
    """A column: kind is STRING, INT, BIGINT, DOUBLE or JSON."""

    name: str
    kind: str


class ReportTable(msgspec.Struct, frozen=True):
    """A table of figures."""

    name: str
    job: str
    key: list[str]
    columns: list[ReportColumn]
    dimensions: Annotated[list[str], Meta(description="To choose by, and to put together by.")]
    sums: Annotated[list[str], Meta(description="What may be added up.")]


class ReportTables(msgspec.Struct, frozen=True):
    """All tables of figures."""

    items: list[ReportTable]


class Coarse(msgspec.Struct, frozen=True):
    """Figures of hours before `before` are by periods of `hours` hours, named by the first one."""

    hours: int
    before: str


class Basis(msgspec.Struct, frozen=True):
    """What an answer was made of.

    Everything stored before `fresh_ms` is in (null: there are no figures yet). Of the hours asked
    for, `hours_done` have figures, from `done_first` to `done_last`. Those before what `coarse`
    says are by days or by four weeks, which belong to a range if their first hour does.
    """

    job: str
    fresh_ms: int | None
    first: str
    last: str
    hours_done: int
    done_first: str
    done_last: str
    coarse: list[Coarse]


class ChangeVerdict(StrEnum):
    """Whether a change is for the worse; most counts are neither."""

    WORSE = "worse"
    BETTER = "better"
    NONE = ""


class FigureChange(msgspec.Struct, frozen=True):
    """How much a figure changed from one range to another; less than 10 % has no verdict."""

    ratio: Annotated[float | None, Meta(description="0.25 is 25 % more; null from 0.")]
    verdict: Annotated[ChangeVerdict, Meta(description="worse, better, or empty.")]


class ResultRows(msgspec.Struct, frozen=True):
    """Figures in the order of their key. Offsets are texts.

    A row that is of more than one hour has besides its columns `hours`: so many from `hour` on.
    """

    rows: list[dict[str, Any]]
    next_cursor: str | None
    basis: Basis


class ResultTotals(msgspec.Struct, frozen=True):
    """Sums, in the order of what they are by; `cut` where these are the first 5,000.

    In a comparison each row has besides its columns `before`, the sums of the other range or null,
    and `change`, a FigureChange by sum; `basis_before` says what the other range's were made of.
    """

    by: list[str]
    rows: list[dict[str, Any]]
    cut: bool
    basis: Basis
    basis_before: Basis | None = None


class ReportLatency(msgspec.Struct, frozen=True):
    """Latencies in ms; percentiles are at most 2.5 % off. `by` has the values asked for."""

    by: dict[str, str]
    n: int
    messages: int
    mean: float
    least: int
    most: int
    skewed: Annotated[int, Meta(description="Of n: negative by clock skew, taken as 0.")]
    p50: float
    p95: float
    p99: float
    within: Annotated[float | None, Meta(description="The share that within_ms asks for.")]
    buckets: Annotated[
        dict[str, int] | None, Meta(description="Bucket b is from 1.05^b up to 1.05^(b+1) ms.")
    ]
    before: Annotated[
        dict[str, float] | None, Meta(description="The same of the range to compare with.")
    ] = None
    change: Annotated[
        dict[str, FigureChange] | None, Meta(description="By figure, in a comparison.")
    ] = None


class ReportLatencies(msgspec.Struct, frozen=True):
    """Latencies, in the order of what they are put together by."""

    items: list[ReportLatency]
    basis: Basis
    basis_before: Basis | None = None
