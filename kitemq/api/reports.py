# Made from kitemq/async_api/reports.py by `python -m tools.synchronous`: change that file.
"""Reports by Spark: runs, schedules and figures."""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Unpack

from kitemq.api.connection import Api
from kitemq.model.reports import (
    FigureCriteria,
    NewReportRun,
    ReportLatencies,
    ReportRun,
    ReportRunInFull,
    ReportRuns,
    ReportSchedule,
    ReportSchedules,
    ReportsNow,
    ReportTable,
    ReportTables,
    ResultRows,
    ResultTotals,
    RunState,
    ScheduleChanges,
)
from kitemq.rest import PAGE, Json, segment

POLL_S = 0.5


class ReportsApi(Api):
    """`client.reports`: runs of reports, when they run by themselves, and their figures.

    `criteria` choose figures: `first` and `last` hour, both included, and equal values of columns.
    """

    def overview(self) -> ReportsNow:
        """All reports at a glance: freshness, schedules, last runs, what runs now."""
        return self._rest.fetch(ReportsNow, "GET", "/reports")

    def list(self, *, job: str = "", state: str = "", limit: int = 0) -> Iterator[ReportRun]:
        """Runs, the newest first, page by page; at most `limit`, 0 means all that are kept."""
        return self._rest.pages(ReportRuns, "/reports/runs", count_max=limit, job=job, state=state)

    def get(self, run_id: int | str) -> ReportRunInFull:
        """One run with the end of its logs; NotFound."""
        return self._rest.fetch(ReportRunInFull, "GET", f"/reports/runs/{run_id}")

    def run(self, job: str, *, first: str = "", last: str = "") -> ReportRun:
        """Run "traces" or "lag" now: the due hours, or the hours `first` to `last` anew.

        Hours are UTC, as "2026-11-21T03", both ends inclusive. Refused while another run is under
        way.
        """
        body = NewReportRun(job, first, last)
        return self._rest.fetch(ReportRun, "POST", "/reports/runs", body=body)

    def cancel(self, run_id: int | str) -> ReportRun:
        """End a run; Refused where it is over."""
        return self._rest.fetch(ReportRun, "POST", f"/reports/runs/{run_id}/cancel")

    def wait(self, run_id: int | str, *, timeout_s: float = 600.0) -> ReportRunInFull:
        """The run once it is over, or as it stands after `timeout_s`."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            run = self.get(run_id)
            if run.state is not RunState.RUNNING or time.monotonic() >= deadline_s:
                return run
            time.sleep(POLL_S)

    def schedules(self) -> Sequence[ReportSchedule]:
        """The schedule of each report."""
        return (self._rest.fetch(ReportSchedules, "GET", "/reports/schedules")).items

    def change_schedule(self, job: str, **changes: Any) -> ReportSchedule:
        """Change the given fields: those of `kitemq.model.reports.ScheduleChanges`."""
        path = f"/reports/schedules/{segment(job)}"
        return self._rest.fetch(ReportSchedule, "PATCH", path, body=ScheduleChanges(**changes))

    # -- figures --------------------------------------------------------------------------------

    def tables(self) -> Sequence[ReportTable]:
        """The tables of figures with their columns; docs/reports.md says what each means."""
        return (self._rest.fetch(ReportTables, "GET", "/reports/tables")).items

    def rows(self, table: str, **criteria: Unpack[FigureCriteria]) -> Iterator[Json]:
        """The rows of a table of figures, each by its columns, page by page."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.rows_page(table, cursor=cursor, **criteria)
            yield from page.rows
            cursor = page.next_cursor

    def rows_page(
        self, table: str, *, limit: int = PAGE, cursor: str = "", **criteria: Unpack[FigureCriteria]
    ) -> ResultRows:
        """One page of at most `limit` rows (1,000), with what they were made of."""
        params: Json = {**criteria, "limit": limit, "cursor": cursor}
        return self._rest.fetch(ResultRows, "GET", _table(table), params=params)

    def totals(
        self,
        table: str,
        by: Sequence[str],
        *,
        against: str = "",
        **criteria: Unpack[FigureCriteria],
    ) -> ResultTotals:
        """The sums of a table by some of its columns, or by "day"; at most 5,000 rows.

        `against` compares the hours from `first` to `last` with others: "before", "week" (a week
        earlier), or the first hour of a range as long.
        """
        params: Json = {**criteria, "by": ",".join(by), "against": against}
        return self._rest.fetch(ResultTotals, "GET", _table(table, "totals"), params=params)

    def latency(
        self,
        *,
        by: Sequence[str] = (),
        against: str = "",
        within_ms: float | None = None,
        buckets: bool = False,
        **criteria: Unpack[FigureCriteria],
    ) -> ReportLatencies:
        """Latencies with their percentiles, put together by columns, or all in one row.

        `within_ms` asks for the share that does not exceed it, `buckets` for histograms too;
        `against` compares, as that of `totals` does.
        """
        params: Json = {**criteria, "by": ",".join(by), "against": against}
        params["buckets"] = "true" if buckets else "false"
        if within_ms is not None:
            params["within_ms"] = within_ms
        return self._rest.fetch(ReportLatencies, "GET", "/reports/latency", params=params)

    def csv(self, table: str, **criteria: Unpack[FigureCriteria]) -> bytes:
        """A table of figures as CSV, at most 100,000 rows."""
        return self._rest.content("GET", _table(table, "csv"), params={**criteria})

    def parquet(self, table: str, **criteria: Unpack[FigureCriteria]) -> bytes:
        """A table of figures as Parquet, at most 100,000 rows; Refused without pyarrow there."""
        return self._rest.content("GET", _table(table, "parquet"), params={**criteria})


def _table(table: str, kind: str = "") -> str:
    return f"/reports/tables/{segment(table)}" + (f"/{kind}" if kind else "")
