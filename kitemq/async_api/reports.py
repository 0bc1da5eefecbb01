"""Reports by Spark: runs and schedules."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from kitemq.async_api.connection import AsyncApi
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
from kitemq.rest import segment

POLL_S = 0.5


class AsyncReportsApi(AsyncApi):
    """`client.reports`: runs of reports, and when they run by themselves."""

    async def overview(self) -> ReportsNow:
        """All reports at a glance: freshness, schedules, last runs, what runs now."""
        return await self._rest.fetch(ReportsNow, "GET", "/reports")

    def list(self, *, job: str = "", state: str = "", limit: int = 0) -> AsyncIterator[ReportRun]:
        """Runs, the newest first, page by page; at most `limit`, 0 means all that are kept."""
        return self._rest.pages(ReportRuns, "/reports/runs", count_max=limit, job=job, state=state)

    async def get(self, run_id: int | str) -> ReportRunInFull:
        """One run with the end of its logs; NotFound."""
        return await self._rest.fetch(ReportRunInFull, "GET", f"/reports/runs/{run_id}")

    async def run(self, job: str, *, first: str = "", last: str = "") -> ReportRun:
        """Run "traces" or "lag" now: the due hours, or the hours `first` to `last` anew.

        Hours are UTC, as "2026-11-21T03", both ends inclusive. Refused while another run is under
        way.
        """
        body = NewReportRun(job, first, last)
        return await self._rest.fetch(ReportRun, "POST", "/reports/runs", body=body)

    async def cancel(self, run_id: int | str) -> ReportRun:
        """End a run; Refused where it is over."""
        return await self._rest.fetch(ReportRun, "POST", f"/reports/runs/{run_id}/cancel")

    async def wait(self, run_id: int | str, *, timeout_s: float = 600.0) -> ReportRunInFull:
        """The run once it is over, or as it stands after `timeout_s`."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            run = await self.get(run_id)
            if run.state is not RunState.RUNNING or time.monotonic() >= deadline_s:
                return run
            await asyncio.sleep(POLL_S)

    async def schedules(self) -> Sequence[ReportSchedule]:
        """The schedule of each report."""
        return (await self._rest.fetch(ReportSchedules, "GET", "/reports/schedules")).items

    async def change_schedule(self, job: str, **changes: Any) -> ReportSchedule:
        """Change the given fields: those of `kitemq.model.reports.ScheduleChanges`."""
        path = f"/reports/schedules/{segment(job)}"
        return await self._rest.fetch(
            ReportSchedule, "PATCH", path, body=ScheduleChanges(**changes)
        )
