"""The SDK's tests of a consumer before Apache: those that the embedded engine has to pass.

What needs a capability that a cluster lacks is left out, as before KiteMQ's port in its place; what
that port has not, retries and dead letters by Apache's names, is here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.kitemq import test_consumer as suite
from tests.live import LiveServer
from tests.makers import lacking
from tests.rocketmq.cluster import ApacheCluster
from tests.rocketmq.test_verbs import cluster_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.anyio,
    pytest.mark.xdist_group("rocketmq"),
    pytest.mark.timeout(600),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    yield from cluster_of(tmp_path_factory.mktemp("cluster"))


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


def _runs(test: Any) -> bool:
    """Whether nothing that it needs is lacking, and it needs a server."""
    return "server" in test.__code__.co_varnames and not lacking(getattr(test, "pytestmark", ()))


globals().update(
    {name: test for name, test in vars(suite).items() if name.startswith("test_") and _runs(test)}
)
