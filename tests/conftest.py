"""What holds for every test: Spark comes late, browsers come last, in CI nothing is skipped.

A skipped test proves nothing. And Playwright's blocking interface leaves an event loop running in
the main thread for as long as a browser is open, where `asyncio.run` of another test would fail.

Where workers share the tests (pytest-xdist, `make test`), a module's stay together, since they
share what was made ready for them; so do those of modules with one `xdist_group`.
"""

import os
from collections import Counter
from collections.abc import Generator, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analytics.session import SessionOptions, session
from tests import makers, shared_work
from tests.app.ui import page_context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATE = ("spark", "browser")
# What tries one claim on many inputs, orders or lives: not in `make quick`.
WIDE = (
    "tests/app/api/framework/test_schemathesis.py",
    "tests/app/security/test_unread_bodies.py",
    "tests/app/ui/test_hostile_pages.py",
    "tests/app/ui/test_rights.py",
    "tests/clients/",
    "tests/engine/*/test_restart.py",
    "tests/engine/delivery/test_policy.py",
    "tests/engine/replay/test_dismissals.py",
    "tests/engine/retention/test_retention*.py",
    "tests/engine/store/test_many_queues.py",
    "tests/examples/",
    "tests/fuzz/",
    "tests/remoting/test_java.py",
    "tests/rocketmq/",
    "tests/simulation/",
)
# What takes minutes comes before the rest of its kind, so that no worker ends alone with it.
LONG = (
    "tests/analytics/test_cluster.py",
    "tests/rocketmq/",
    "tests/bench/test_quick.py",
    "tests/clients/test_consuming.py",
    "tests/app/ui/test_",
    "tests/remoting/test_java.py",
    "tests/remoting/test_mqadmin.py",
)
# Each of their tests makes ready what it needs, and is given to whichever worker is free.
SINGLE = ("tests/attack/", "tests/rocketmq/test_master.py")
FORBIDDEN = "skipped, and in CI nothing may be skipped"

page_context.install()
shared_work.install()


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the session keeps its shim, its log and its temporary files."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark(spark_folder: Path) -> "Iterator[SparkSession]":
    """`local[2]`, one shuffle partition, of all tests: it takes seconds to start.

    Its Java machine ends with the tests, and a process has one at a time.
    """
    options = SessionOptions(
        folder=spark_folder,
        app_name="tests",
        shuffle_partitions=1,
        is_adaptive=False,
        log=spark_folder / "spark.log",
        conf={"spark.default.parallelism": "1"},
    )
    with session(options) as made:
        yield made


@pytest.fixture(scope="session")
def maker_name(request: pytest.FixtureRequest) -> str:
    """What stands behind the servers of a test: `makers` says more."""
    return str(getattr(request, "param", makers.EMBEDDED))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What is marked `makers` runs before each maker of the verbs."""
    makers.parametrize(metafunc)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """How many tests ran before each maker, and what was left out."""
    for line in makers.summary(config):
        terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Browser tests after all others, and before them those that share one Spark session.

    Of each of these kinds what is LONG comes first.
    Whatever asks for the browser is a browser test, marked as such or not. What lies in WIDE is
    marked `wide`.
    """
    makers.leave_out(config, items)
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        if any(fnmatch(item.nodeid, f"{wide}*") for wide in WIDE):
            item.add_marker("wide")
    items.sort(key=_turn)
    repeated = [name for name, count in Counter(item.nodeid for item in items).items() if count > 1]
    if repeated:
        raise pytest.UsageError(f"{repeated[0]}: of tests with one name workers run only the first")
    numbers: dict[tuple[str, int], int] = {}
    for item in items:
        number = numbers.setdefault(_together(item), len(numbers))
        item.add_marker(pytest.mark.xdist_group(number))
    yield
    items.sort(key=_turn)  # pytest has put those together that share a parameter


def _turn(item: pytest.Item) -> tuple[int, bool]:
    """The smaller, the earlier a test runs."""
    return _lateness(item), not item.nodeid.startswith(LONG)


def _together(item: pytest.Item) -> tuple[str, int]:
    """What is equal for tests that one worker runs in a row: the name of that and its lateness."""
    if item.nodeid.startswith(SINGLE):
        return item.nodeid, 0
    marker = item.get_closest_marker("xdist_group")
    return marker.args[0] if marker else item.nodeid.partition("::")[0], _lateness(item)


def _lateness(item: pytest.Item) -> int:
    """0 for what comes first, then the place of its marker in LATE, the last of which counts."""
    return max(
        (place for place, name in enumerate(LATE, 1) if item.get_closest_marker(name)), default=0
    )


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
