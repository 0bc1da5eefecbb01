"""Rows and definitions of the reports' tables, without SQLAlchemy.

`TABLES` repeats what the jobs make (`analytics/results.py`, which the server never imports): a
result is loaded only where both agree, and a test compares them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

TRACES, LAG = "traces", "lag"
JOBS = (TRACES, LAG)
Row = dict[str, Any]
HOURS, ALL = "hours", "all"  # what a run replaces of a table
# JSON columns whose histograms are kept packed (engine.histogram.pack).
PACKED = frozenset({"buckets"})


class RunState(StrEnum):
    """The state of a run; all but RUNNING are final."""

    RUNNING = "running"
    OK = "ok"
    SKIPPED = "skipped"  # nothing was new
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LOST = "lost"  # the server that ran it is gone


class Trigger(StrEnum):
    """The cause of a run."""

    SCHEDULE = "schedule"
    MANUAL = "manual"
    BACKFILL = "backfill"  # by hand, over hours of the past
    RETRY = "retry"


@dataclass(frozen=True, kw_only=True)
class ScheduleRow:
    """The schedule of a job; `next_ms` is the next time that is due."""

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


class ReportColumn(NamedTuple):
    """A result's column; `kind` is STRING, INT, BIGINT, DOUBLE or JSON (a text that is JSON)."""

    name: str
    kind: str


@dataclass(frozen=True)
class ResultTable:
    """A table that a job makes: rows are unique by `key`, and replaced by hours or all at once."""

    name: str
    job: str
    replaces: str
    key: tuple[str, ...]
    columns: tuple[ReportColumn, ...]
    sums: tuple[str, ...] = ()  # columns that may be added up over hours, topics and groups

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Columns that rows may be chosen by and put together by."""
        texts = [column.name for column in self.columns if column.kind == "STRING"]
        others = ("advice", "message_id", *self.sums)
        whole = ["queue"] if "queue" in self.key else []
        return tuple(name for name in [*texts, *whole] if name not in others)


@dataclass(frozen=True, kw_only=True)
class ResultFilter:
    """A filter of figures: hours `first` to `last`, inclusive; "" matches all.

    `equal` has further columns with their required values.
    """

    first: str = ""
    last: str = ""
    equal: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Coarse:
    """Figures of hours before `before` are by periods of `hours` hours, named by the first one."""

    hours: int
    before: str


@dataclass(frozen=True)
class Loaded:
    """What a run brought: `tables` are the names and rows; every other table of the job stays."""

    run: RunRow
    fingerprints: dict[str, str]
    tables: Sequence[tuple[ResultTable, Iterable[Row]]]


class NotWhole(ValueError):
    """A run computed only some hours of a packed period, so its figures are refused."""


class Moved(Exception):
    """The hours of the previous page were packed meanwhile, so its cursor is invalid."""


class NotOurs(Exception):
    """Another server took over the run, so its figures are refused."""


KINDS = {"s": "STRING", "i": "INT", "b": "BIGINT", "d": "DOUBLE", "j": "JSON"}
STATE_COLUMNS = (
    "lag:b time_lag_ms:b produce_per_s:d consume_per_s:d eta_s:d retry_waiting:b dead:b "
    "members:i advice:s advice_params:j"
)


def _table(
    name: str, job: str, replaces: str, key: str, columns: str, sums: str = ""
) -> ResultTable:
    pairs = (word.split(":") for word in columns.split())
    typed = tuple(ReportColumn(column, KINDS[kind]) for column, kind in pairs)
    return ResultTable(name, job, replaces, tuple(key.split()), typed, tuple(sums.split()))


RESULTS = (
    _table(
        "latency",
        TRACES,
        HOURS,
        "hour metric topic group client",
        "hour:s metric:s topic:s group:s client:s n:b messages:b total:b least:b most:b skewed:b "
        "p50:d p95:d p99:d buckets:j",
    ),
    _table(
        "throughput",
        TRACES,
        HOURS,
        "hour kind topic group",
        "hour:s kind:s topic:s group:s messages:b counted:b bytes:b",
        "messages counted bytes",
    ),
    _table(
        "outcomes",
        TRACES,
        HOURS,
        "hour topic group",
        "hour:s topic:s group:s attempts:b retried:b acked:b failed:b expired:b returned:b dead:b "
        "unfinished:b retry_rate:d dead_rate:d success_rate:d",
        "attempts retried acked failed expired returned dead unfinished",
    ),
    _table(
        "failures",
        TRACES,
        HOURS,
        "hour kind topic group rank",
        "hour:s kind:s topic:s group:s rank:i reason:s reasons:b messages:b counted:b",
        "messages counted",
    ),
    _table(
        "slowest",
        TRACES,
        HOURS,
        "hour topic group rank",
        "hour:s topic:s group:s rank:i end_to_end_ms:b message_id:s stored_topic:s queue:i "
        "offset:b born_ms:b stored_ms:b delivered_ms:b acked_ms:b attempt:i client:s",
    ),
    _table(
        "hot_keys",
        TRACES,
        HOURS,
        "hour topic kind rank",
        "hour:s topic:s kind:s rank:i value:s values:b messages:b bytes:b",
        "messages bytes",
    ),
    _table(
        "queue_skew",
        TRACES,
        HOURS,
        "hour topic queue",
        "hour:s topic:s queue:i messages:b bytes:b queues:i share:d skew:d",
        "messages bytes",
    ),
    _table(
        "transactions",
        TRACES,
        HOURS,
        "hour topic group outcome detail",
        "hour:s topic:s group:s outcome:s detail:s messages:b",
        "messages",
    ),
    _table(
        "lag_hours",
        LAG,
        HOURS,
        "hour group topic",
        "hour:s group:s topic:s at_ms:b state:s worst_state:s worst_queue:i queues:i "
        f"{STATE_COLUMNS} lag_max:b time_lag_max_ms:b hot_queue:i idle_members:i lost:b "
        "completeness:d evaluations:i state_ms:j evaluated:j",
        "lost",
    ),
    _table(
        "lag_bands",
        LAG,
        HOURS,
        "hour group topic queue begin_ms",
        "hour:s group:s topic:s queue:i begin_ms:b end_ms:b state:s lag_max:b time_lag_max_ms:b",
    ),
    _table(
        "lag_now",
        LAG,
        ALL,
        "group topic queue",
        f"hour:s group:s topic:s queue:i at_ms:b state:s raw_state:s {STATE_COLUMNS} "
        "slope_per_s:d committed:b lost:b risk_s:d completeness:d",
    ),
)
RESULTS_BY_NAME = {table.name: table for table in RESULTS}
