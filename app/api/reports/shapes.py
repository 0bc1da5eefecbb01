"""What the API of reports takes and gives."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.api.topics.topics import PAGE_DEFAULT, Cursor, Limit
from app.db.report_rows import RunState, Trigger
from app.services.reports.results import Basis
from kitemq.model.values import Milliseconds

Hour = Annotated[str, Meta(description="A UTC hour, as 2026-11-21T03; empty for no end.")]
JobName = Annotated[str, Meta(description="traces or lag.")]
By = Annotated[
    str, Meta(max_length=200, description="Columns to put together by, separated by commas.")
]


class ReportSchedule(msgspec.Struct):
    """When a report runs by itself. `next_ms` is null while it is disabled."""

    job: JobName
    cron: Annotated[str, Meta(description="minute hour day month weekday, in UTC.")]
    enabled: bool
    limit_s: Annotated[int, Meta(description="A run that takes longer is ended.")]
    next_ms: int | None
    changed_ms: Milliseconds
    changed_by: str


class ReportSchedules(msgspec.Struct):
    """The schedules by job. `running` is false where the setting report_schedules is off."""

    items: list[ReportSchedule]
    running: bool


class SchedulePatch(msgspec.Struct, forbid_unknown_fields=True):
    """What is to be changed of a schedule; what is left out stays."""

    cron: str | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    limit_s: Annotated[int, Meta(description="30 to 86,400.")] | UnsetType = UNSET


class NewRun(msgspec.Struct, forbid_unknown_fields=True):
    """A run to begin now: of what is due, or of hours, which are then computed anew."""

    job: JobName
    first: Hour = ""
    last: Annotated[str, Meta(description="Included; at most 1,000 hours.")] = ""


class RunProgress(msgspec.Struct):
    """How far a run is; `tasks` are Spark's, 0 where it does not tell."""

    stage: str
    percent: int
    tasks_done: int
    tasks: int


class ReportRun(msgspec.Struct):
    """One attempt to run a report. What is null is not known, or not yet."""

    id: str
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
    spark: str
    java: str
    master: str
    peak_kib: int | None
    error_class: str
    error: str
    progress: RunProgress | None


class ReportRunInFull(ReportRun):
    """A run with the end of its logs."""

    log_tail: str


class ReportRuns(msgspec.Struct):
    """Runs, the newest first."""

    items: list[ReportRun]
    next_cursor: str | None


class RunQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which runs."""

    job: str = ""
    state: Annotated[
        str, Meta(description="running, ok, skipped, failed, timed_out, cancelled or lost.")
    ] = ""
    cursor: Cursor = ""
    limit: Limit = PAGE_DEFAULT


class ReportJob(msgspec.Struct):
    """A report at a glance; its figures have everything that was stored before `fresh_ms`."""

    job: str
    schedule: ReportSchedule
    fresh_ms: int | None
    hours: Annotated[int, Meta(description="That there are figures of.")]
    first: str
    last: str
    last_run: ReportRun | None
    last_ok: ReportRun | None


class ReportsNow(msgspec.Struct):
    """All reports at a glance. `missing` says what has to be installed; empty if nothing."""

    missing: str
    remedy: str
    jobs: list[ReportJob]
    running: ReportRun | None


class ResultColumn(msgspec.Struct):
    """A column: kind is STRING, INT, BIGINT, DOUBLE or JSON."""

    name: str
    kind: str


class ResultTableOut(msgspec.Struct):
    """A table of figures."""

    name: str
    job: str
    key: list[str]
    columns: list[ResultColumn]
    dimensions: Annotated[list[str], Meta(description="To choose by, and to put together by.")]
    sums: Annotated[list[str], Meta(description="What may be added up.")]


class ResultTables(msgspec.Struct):
    """All tables of figures."""

    items: list[ResultTableOut]


class FilterQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which figures; what is empty does not matter."""

    first: Hour = ""
    last: Annotated[str, Meta(description="Included.")] = ""
    topic: str = ""
    group: str = ""
    metric: str = ""
    kind: str = ""
    client: str = ""
    queue: str = ""
    state: str = ""
    outcome: str = ""
    reason: str = ""
    value: str = ""


class RowsQuery(FilterQuery, forbid_unknown_fields=True):
    """Which figures, and which page of them."""

    cursor: Cursor = ""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


class TotalsQuery(FilterQuery, forbid_unknown_fields=True):
    """Which figures, and by what they are added up."""

    by: By = ""


class LatencyQuery(FilterQuery, forbid_unknown_fields=True):
    """Which latencies, and by what they are put together: none for one of all."""

    by: By = ""
    within_ms: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Asks for the share that does not exceed it."),
    ] = None
    buckets: Annotated[bool, Meta(description="Histograms too.")] = False


class ResultRows(msgspec.Struct):
    """Figures in the order of their key. Offsets are texts.

    A row that is of more than one hour has besides its columns `hours`: so many from `hour` on.
    """

    rows: list[dict[str, Any]]
    next_cursor: str | None
    basis: Basis


class ResultTotals(msgspec.Struct):
    """Sums, in the order of what they are by; `cut` where these are the first 5,000."""

    by: list[str]
    rows: list[dict[str, Any]]
    cut: bool
    basis: Basis


class LatencyOut(msgspec.Struct):
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


class LatenciesOut(msgspec.Struct):
    """Latencies, in the order of what they are put together by."""

    items: list[LatencyOut]
    basis: Basis
