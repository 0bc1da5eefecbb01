"""A cluster of Apache's, which the tests of a module share, and a server of a test's own before it.

A module that needs another cluster or server has fixtures with these names.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from app.cluster.client import ClusterClient
from app.cluster.errors import ClusterError
from tests.live import LiveServer
from tests.rocketmq.cluster import ApacheCluster, missing_cluster

REGISTERED_S = 90.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """Two masters that are registered; skips where Apache is not installed."""
    if reason := missing_cluster():
        pytest.skip(reason)
    with ApacheCluster(tmp_path_factory.mktemp("cluster"), "a", "b") as cluster:
        asyncio.run(_registered(cluster))
        yield cluster


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
