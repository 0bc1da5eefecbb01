"""A cluster of Apache's, which modules share, and a server of a test's own before it.

It takes longer to start than most of its tests run. So it goes on until a test comes of a
module that is not of the group `rocketmq`, which one worker runs, module after module. Topics
and groups have names of their own in each test; what stops a broker starts it again. A module that
needs another cluster or server has fixtures with these names, and belongs to no group.
"""

import asyncio
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from app.cluster.client import ClusterClient
from app.cluster.errors import ClusterError
from tests.live import LiveServer
from tests.rocketmq.cluster import ApacheCluster, missing_cluster

REGISTERED_S = 90.0
GROUP = "rocketmq"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class RunningCluster:
    """The cluster of this process, while there is one."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._cluster: ApacheCluster | None = None

    def ensure(self, folder: Path) -> ApacheCluster:
        """The one that runs, or a new one in this folder."""
        if self._cluster is None:
            self._cluster = self._stack.enter_context(ApacheCluster(folder, "a", "b"))
        return self._cluster

    def end(self) -> None:
        """Nothing happens where none runs."""
        self._cluster = None
        self._stack.close()


RUNNING = RunningCluster()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ApacheCluster:
    """Two masters that are registered; skips where Apache is not installed."""
    if reason := missing_cluster():
        pytest.skip(reason)
    cluster = RUNNING.ensure(tmp_path_factory.mktemp("cluster"))
    asyncio.run(_registered(cluster))
    return cluster


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


async def _registered(cluster: ApacheCluster) -> None:
    async with ClusterClient(cluster.name_server) as client, asyncio.timeout(REGISTERED_S):
        while True:
            try:
                if len(await client.masters()) == 2:
                    return
            except ClusterError:
                pass
            await asyncio.sleep(0.2)


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
