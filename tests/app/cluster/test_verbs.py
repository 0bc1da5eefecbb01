"""The contract of the verbs, answered by KiteMQ's own port in the place of a cluster.

`tests/rocketmq/test_verbs.py` has the whole of it against Apache's brokers.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.cluster.client import ClusterClient
from app.cluster.messaging import ClusterMessaging
from tests.app.messaging import test_contract as contract
from tests.app.messaging.maker import Maker
from tests.remoting.port import opened

pytestmark = pytest.mark.anyio

# Nobody makes or reads the topics of retries and dead letters through this port: they are named
# and made otherwise than Apache's.
LEFT_OUT = {
    "test_a_nacked_message_comes_back_then_lies_in_the_dead_letters",
    "test_a_rejected_message_is_dead_at_once",
}


@pytest.fixture
async def maker(tmp_path: Path) -> AsyncIterator[Maker]:
    async with opened(tmp_path / "data") as running:
        client = ClusterClient(running.port.address)
        async with ClusterMessaging(client, clock=running.clock) as messaging:
            maker = contract.maker_of(running, messaging)
            maker.askers = messaging.transactions.askers
            yield maker


globals().update(
    {
        name: test
        for name, test in vars(contract).items()
        if name.startswith("test_") and name not in LEFT_OUT
    }
)
