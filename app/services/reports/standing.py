"""The state of the reports at a glance, and the checks of requests for them."""

from dataclasses import dataclass

from app.db.report_rows import Coverage, RunRow, ScheduleRow
from app.services.reports.contract import Progress
from engine import report_hours
from engine.errors import Invalid
from engine.report_tables import JOBS
from kitemq.model.reports import RunState

# What callers are told when the database fails.
UNREADABLE, UNAVAILABLE = "the reports cannot be read or written: {error}", "reports_unavailable"
GOOD = (RunState.OK, RunState.SKIPPED)
HOURS_MAX = 1_000  # of one run by hand
NOT_INSTALLED = "reports need Spark, which is not installed"
INSTALL = "pip install 'kitemq-server[analytics]', or make run without ANALYTICS=0; then restart"


@dataclass(frozen=True)
class JobStanding:
    """A job at a glance: its schedule, its last runs, which hours it has figures of.

    `last` is the newest run that is over, `last_ok` the newest whose figures were taken; figures
    have everything that was stored before `fresh_ms`.
    """

    schedule: ScheduleRow
    last: RunRow | None
    last_ok: RunRow | None
    fresh_ms: int | None
    coverage: Coverage


@dataclass(frozen=True)
class Standing:
    """Everything at a glance; `missing` says what has to be installed, "" if nothing."""

    missing: str
    remedy: str
    jobs: tuple[JobStanding, ...]
    running: RunRow | None
    progress: Progress | None


@dataclass
class Figures:
    """Of one job since the start, for metrics and alerts."""

    runs: dict[str, int]
    failures: int = 0  # one after the other, up to now
    fresh_ms: int | None = None
    last_s: float | None = None
    last_error: str = ""

    def take(self, run: RunRow) -> None:
        """Count a run that has ended; a cancelled one is no failure."""
        self.runs[run.state] = self.runs.get(run.state, 0) + 1
        if run.ended_ms is not None:
            self.last_s = (run.ended_ms - run.began_ms) / 1000
        if run.state in GOOD:
            self.failures, self.last_error = 0, ""
            self.fresh_ms = run.input_at_ms or self.fresh_ms
        elif run.state != RunState.CANCELLED:
            self.failures += 1
            self.last_error = run.error


def check_job(job: str, *, is_needed: bool = True) -> None:
    """Raise Invalid for an unknown report."""
    if job in JOBS or (not job and not is_needed):
        return
    raise Invalid(f"{job[:40]!r} is no report", field="job", remedy="one of " + ", ".join(JOBS))


def checked_hours(first: str, last: str, now_ms: int) -> list[str] | None:
    """The requested hours; None if none is named."""
    if not first and not last:
        return None
    for field, hour in (("first", first), ("last", last)):
        try:
            begin_ms = report_hours.begin_ms(hour)
        except ValueError:
            begin_ms = -1
        if not 0 <= begin_ms <= now_ms:
            raise Invalid(
                f"{hour[:40]!r} is no hour that has begun",
                field=field,
                remedy="name both, as 2026-11-21T03, in UTC",
            )
    count = (report_hours.begin_ms(last) - report_hours.begin_ms(first)) // report_hours.HOUR_MS + 1
    if not 1 <= count <= HOURS_MAX:
        raise Invalid(
            f"{first} to {last} are {count:,} hours",
            field="last",
            remedy=f"1 to {HOURS_MAX:,} hours, the first not after the last",
        )
    return report_hours.span(first, last)
