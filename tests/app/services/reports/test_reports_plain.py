"""Reports of few rows, which one process computes without Java."""

from pathlib import Path

import pytest

from tests.app.services.reports.test_reports_spark import CARRIERS, ask, begin, by_tag, ended, send
from tests.live import LiveServer

pytestmark = [pytest.mark.gives_way, pytest.mark.timeout(600)]


@pytest.mark.parametrize("job", ["traces", "lag"])
def test_a_report_of_few_rows_runs_where_there_is_no_java(tmp_path: Path, job: str) -> None:
    server = LiveServer(tmp_path / "data", report_java_home=str(tmp_path / "none"))
    server.start()
    try:
        send(server.url, CARRIERS)
        run = ended(server.url, begin(server.url, job))
        if job == "traces":
            assert (run["state"], run["error"], run["engine"]) == ("ok", "", "python")
            assert (run["spark"], run["java"], run["master"]) == ("", "", "")
            assert by_tag(server.url) == CARRIERS
            assert run["seconds"] > 0
            assert run["rows_in"] == sum(each["rows"] for each in run["inputs"].values())
            run = ended(server.url, begin(server.url, job))
        # Nothing was sampled yet, or nothing is new.
        assert (run["state"], run["engine"]) == ("skipped", "")
        assert ask(server.url, "GET", "/reports")["jobs"]
    finally:
        server.stop()
