"""The contract of administration, answered by KiteMQ's own port in the place of a cluster.

`tests/rocketmq/test_administration.py` has the whole of it against Apache's brokers.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.cluster.client import ClusterClient
from app.cluster.messaging import ClusterMessaging
from tests.app import test_administration as contract
from tests.app.maker import Maker, cluster_administration
from tests.app.test_messaging import maker_of
from tests.remoting.port import opened

pytestmark = pytest.mark.anyio

# Nobody makes the topics of dead letters through this port: they are made otherwise than Apache's.
LEFT_OUT = {
    "test_the_systems_own_topics_are_listed_only_when_asked_for",
    "test_dead_letters_come_newest_first_with_their_causes",
    "test_dead_letters_are_counted_by_cause_and_by_time",
}


@pytest.fixture
async def maker(tmp_path: Path) -> AsyncIterator[Maker]:
    async with opened(tmp_path / "data") as running:
        client = ClusterClient(running.port.address)
        async with ClusterMessaging(client, clock=running.clock) as messaging:
            maker = maker_of(running, messaging)
            maker.administration = cluster_administration(messaging)
            yield maker


globals().update(
    {
        name: test
        for name, test in vars(contract).items()
        if name.startswith("test_") and name not in LEFT_OUT
    }
)
