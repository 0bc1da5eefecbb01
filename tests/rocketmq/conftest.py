"""A cluster of Apache's, which modules share, and a server of a test's own before it.

It takes longer to start than most of its tests run. So it goes on until a test comes of a
module that is not of the group `rocketmq`, which one worker runs, module after module. One that
does not show its two masters is ended and another one started, once for each module. Topics
and groups have names of their own in each test; what stops a broker starts it again. A module that
needs another cluster or server has fixtures with these names, and belongs to no group.
"""

import asyncio
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from tests.live import LiveServer
from tests.rocketmq.cluster import ApacheCluster, missing_cluster, two_masters

GROUP = "rocketmq"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class RunningCluster:
    """The cluster of this process, while there is one."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._cluster: ApacheCluster | None = None

    def ensure(self, folders: pytest.TempPathFactory) -> ApacheCluster:
        """The one that runs, or a new one where none does or its brokers are not registered."""
        try:
            return self._registered(folders)
        except (AssertionError, TimeoutError) as error:
            state = self._cluster.state() if self._cluster else ""
            print("Another cluster is started:", error, state)  # noqa: T201 - failures show it
            self.end()
        return self._registered(folders)

    def end(self) -> None:
        """Nothing happens where none runs."""
        self._cluster = None
        self._stack.close()

    def _registered(self, folders: pytest.TempPathFactory) -> ApacheCluster:
        if self._cluster is None:
            made = ApacheCluster(folders.mktemp("cluster"), "a", "b")
            self._cluster = self._stack.enter_context(made)
        asyncio.run(two_masters(self._cluster))
        return self._cluster


RUNNING = RunningCluster()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ApacheCluster:
    """Two masters that are registered; skips where Apache is not installed."""
    if reason := missing_cluster():
        pytest.skip(reason)
    return RUNNING.ensure(tmp_path_factory)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None]:
    """End the cluster after the last test in a row of its group."""
    yield
    groups = nextitem.iter_markers("xdist_group") if nextitem else ()
    if not any(each.args == (GROUP,) for each in groups):
        RUNNING.end()


def pytest_sessionfinish() -> None:
    """End it where the tests were interrupted."""
    RUNNING.end()


@pytest.fixture
def server(cluster: ApacheCluster, tmp_path: Path) -> Iterator[LiveServer]:
    """With topics and groups of its own."""
    live = LiveServer(tmp_path / "data", rocketmq=cluster.name_server)
    live.suffix = f"-{uuid4().hex[:8]}"
    live.start()
    try:
        yield live
    finally:
        live.close()
