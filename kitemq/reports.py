"""Reports over REST: a part of `kitemq.Client`."""

import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from kitemq.rest import Json, RestConnection

PAGE = 200
POLL_S = 0.5


class Reporting(RestConnection):
    """What a client can do with reports."""

    def reports(self) -> Json:
        """All reports at a glance: freshness, schedules, last runs, what runs now."""
        return self._call("GET", "/reports")

    def report_schedules(self) -> list[Json]:
        """When each report runs by itself."""
        found: list[Json] = self._call("GET", "/reports/schedules")["items"]
        return found

    def change_report_schedule(self, job: str, **changes: Any) -> Json:
        """Change a schedule: cron, enabled, limit_s; what is left out stays."""
        return self._call("PATCH", f"/reports/schedules/{quote(job, safe='')}", json=changes)

    def run_report(self, job: str, *, first: str = "", last: str = "") -> Json:
        """Run "traces" or "lag" now: what is due, or the hours `first` to `last` anew.

        Hours are UTC, as "2026-11-21T03", both ends in. Refused while another run is under way.
        """
        document = {"job": job, "first": first, "last": last}
        return self._call("POST", "/reports/runs", json=document)

    def report_runs(self, *, job: str = "", state: str = "", limit: int = 0) -> Iterator[Json]:
        """Runs, the newest first, page by page; at most `limit`, 0 means all that are kept."""
        cursor: str | None = ""
        left = limit
        while cursor is not None:
            size = min(PAGE, left) if limit else PAGE
            params = {"job": job, "state": state, "cursor": cursor, "limit": size}
            page = self._call("GET", "/reports/runs", params=params)
            yield from page["items"]
            left -= len(page["items"])
            cursor = page["next_cursor"] if not limit or left > 0 else None

    def report_run(self, run_id: int) -> Json:
        """One run with the end of its logs; NotFound."""
        return self._call("GET", f"/reports/runs/{run_id}")

    def cancel_report(self, run_id: int) -> Json:
        """End a run; Refused where it is over."""
        return self._call("POST", f"/reports/runs/{run_id}/cancel")

    def await_report(self, run_id: int, *, timeout_s: float = 600.0) -> Json:
        """The run once it is over, or as it stands after `timeout_s`; waits."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            run = self.report_run(run_id)
            if run["state"] != "running" or time.monotonic() >= deadline_s:
                return run
            time.sleep(POLL_S)
