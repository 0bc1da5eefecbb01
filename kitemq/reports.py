"""Reports over REST: a part of `kitemq.Client`."""

import time
from collections.abc import Iterator
from typing import Any

from kitemq.model.reports import (
    NewReportRun,
    ReportRun,
    ReportRunInFull,
    ReportRuns,
    ReportSchedule,
    ReportSchedules,
    ReportsNow,
    RunState,
    ScheduleChanges,
)
from kitemq.rest import RestConnection, segment

PAGE = 200
POLL_S = 0.5


class Reporting(RestConnection):
    """What a client can do with reports."""

    def reports(self) -> ReportsNow:
        """All reports at a glance: freshness, schedules, last runs, what runs now."""
        return self._typed(ReportsNow, "GET", "/reports")

    def report_schedules(self) -> list[ReportSchedule]:
        """When each report runs by itself."""
        return self._typed(ReportSchedules, "GET", "/reports/schedules").items

    def change_report_schedule(self, job: str, **changes: Any) -> ReportSchedule:
        """Change what is given; the fields of `kitemq.model.reports.ScheduleChanges`."""
        path = f"/reports/schedules/{segment(job)}"
        return self._typed(ReportSchedule, "PATCH", path, body=ScheduleChanges(**changes))

    def run_report(self, job: str, *, first: str = "", last: str = "") -> ReportRun:
        """Run "traces" or "lag" now: what is due, or the hours `first` to `last` anew.

        Hours are UTC, as "2026-11-21T03", both ends in. Refused while another run is under way.
        """
        return self._typed(ReportRun, "POST", "/reports/runs", body=NewReportRun(job, first, last))

    def report_runs(self, *, job: str = "", state: str = "", limit: int = 0) -> Iterator[ReportRun]:
        """Runs, the newest first, page by page; at most `limit`, 0 means all that are kept."""
        cursor: str | None = ""
        left = limit
        while cursor is not None:
            size = min(PAGE, left) if limit else PAGE
            params = {"job": job, "state": state, "cursor": cursor, "limit": size}
            page = self._typed(ReportRuns, "GET", "/reports/runs", params=params)
            yield from page.items
            left -= len(page.items)
            cursor = page.next_cursor if not limit or left > 0 else None

    def report_run(self, run_id: int) -> ReportRunInFull:
        """One run with the end of its logs; NotFound."""
        return self._typed(ReportRunInFull, "GET", f"/reports/runs/{run_id}")

    def cancel_report(self, run_id: int) -> ReportRun:
        """End a run; Refused where it is over."""
        return self._typed(ReportRun, "POST", f"/reports/runs/{run_id}/cancel")

    def await_report(self, run_id: int, *, timeout_s: float = 600.0) -> ReportRunInFull:
        """The run once it is over, or as it stands after `timeout_s`; waits."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            run = self.report_run(run_id)
            if run.state is not RunState.RUNNING or time.monotonic() >= deadline_s:
                return run
            time.sleep(POLL_S)
