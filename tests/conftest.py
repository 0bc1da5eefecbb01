"""What holds for every test: Spark comes late, browsers come last, in CI nothing is skipped.

A skipped test proves nothing. And Playwright's blocking interface leaves an event loop running in
the main thread for as long as a browser is open, where `asyncio.run` of another test would fail.
"""

import os
from collections.abc import Generator

import pytest

LATE = ("browser", "spark")
FORBIDDEN = "skipped, and in CI nothing may be skipped"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests after all others, and before them those that share one Spark session.

    Whatever asks for the browser is a browser test, marked as such or not.
    """
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
    items.sort(key=lambda item: [item.get_closest_marker(name) is not None for name in LATE])


def _forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: {FORBIDDEN}; the reason was: {report.longrepr}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where CI=true a skipped test has failed; an expected failure (xfail) stays what it is."""
    report = yield
    _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself while it is being collected."""
    report = yield
    _forbid_skip(report)
    return report
