"""The brokers of a cluster: their page, REST, and the warnings about them.

KiteMQ's own port stands for the broker that is there. `tests/rocketmq/test_serve.py` has Apache's.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from app.cluster.routes import BrokerQueues, ClusterBroker
from app.cluster.runtime import BrokerRuntime, broker_runtime
from tests.app.cluster.front import Front, front_of
from tests.remoting.port import Running

pytestmark = pytest.mark.anyio


@pytest.fixture
async def front(running: Running, tmp_path: Path) -> AsyncIterator[Front]:
    await running.http.post("/api/v1/topics", json={"name": "orders", "write_queues": 4})
    messages = {"messages": [{"body": "x"}] * 3}
    await running.http.post("/api/v1/topics/orders/messages", json=messages)
    async with front_of(running, tmp_path / "front") as front:
        yield front


def own(front: Front) -> str:
    return front.messaging.catalog.numbers.brokers[0]


def look_again(front: Front) -> None:
    """Let the next request look at the brokers."""
    front.administration._until_s = 0.0


async def test_a_broker_has_its_figures(front: Front) -> None:
    [broker] = (await front.get("/brokers"))["items"]
    assert (broker["name"], broker["place"], broker["reachable"]) == (own(front), 0, True)
    assert (broker["topics"], broker["queues"], broker["stored_today"]) == (1, 4, 3)
    assert 0 <= broker["disk_ratio"] <= 1
    [member] = broker["members"]
    assert (member["id"], member["role"], member["reachable"]) == (0, "master", True)
    assert member["version"].startswith("KiteMQ")
    page = await front.page("/brokers")
    assert own(front) in page
    assert "no queue numbers" not in page
    assert 'href="/brokers"' in await front.page("/topics")


async def test_a_broker_without_queue_numbers_is_a_warning_with_its_topics(front: Front) -> None:
    name = own(front)
    front.number("b")
    look_again(front)
    [numbered, strange] = (await front.get("/brokers"))["items"]
    assert (numbered["name"], numbered["reachable"], numbered["members"]) == ("b", False, [])
    assert (numbered["topics"], numbered["stored_today"], numbered["disk_ratio"]) == (None,) * 3
    assert (strange["place"], strange["unnumbered_topics"]) == (None, ["orders"])
    assert f"-v 'b;{name}'" in strange["remedy"]
    page = await front.page("/brokers")
    assert f"Queues on <strong>{name}</strong> have no numbers" in page
    assert strange["remedy"] in page
    assert '<abbr title="at least: some brokers are away">≥</abbr> 3' in page
    warnings = (await front.http.get("/readyz")).json()["warnings"]
    assert warnings["broker b"] == "it does not answer"
    assert "orders" in warnings[f"broker {name}"]


async def test_lists_are_there_though_a_topic_has_queues_without_numbers(front: Front) -> None:
    routes = front.messaging.catalog.client._link.routes
    route = await routes.route("orders")
    both = msgspec.structs.replace(
        route, queue_datas=[*route.queue_datas, BrokerQueues("c", 4, 4, 6)]
    )
    routes._routes["orders"] = both, float("inf")
    page = await front.page("/topics")
    assert "unknown: broker 'c' joined the cluster after its queues were numbered" in page
    metrics = await front.http.get("/metrics")
    assert metrics.status_code == 200
    assert 'topic="orders"' not in metrics.text


async def test_a_broker_that_goes_away_says_since_when(
    running: Running, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    [broker] = (await front.get("/brokers"))["items"]
    assert broker["members"][0]["away_since_ms"] is None
    running.clock.advance(5)
    gone_ms = running.clock.now_ms()
    link = front.messaging.catalog.client._link
    address = broker["members"][0]["address"]
    registered = await link.routes.brokers()

    async def brokers() -> dict[str, ClusterBroker]:  # the name server still has it
        return registered

    monkeypatch.setattr(link.routes, "brokers", brokers)
    await running.port.stop()
    link.pool._connections[address].close()
    look_again(front)
    [broker] = (await front.get("/brokers"))["items"]
    assert (broker["reachable"], broker["stored_today"]) == (False, None)
    assert broker["members"][0]["away_since_ms"] == gone_ms
    running.clock.advance(60)
    look_again(front)
    [broker] = (await front.get("/brokers"))["items"]
    assert broker["members"][0]["away_since_ms"] == gone_ms


def test_the_figures_of_an_apache_broker_are_read() -> None:
    table = {
        "brokerVersionDesc": "V5_5_0",
        "msgPutTotalYesterdayMorning": "10",
        "msgPutTotalTodayMorning": "30",
        "msgPutTotalTodayNow": "37",
        "putTps": "1.5 2.5 3.5",
        "getTransferredTps": "4.0",
        "commitLogDiskRatio": "0.53",
        "commitLogMinOffset": "100",
        "commitLogMaxOffset": "350",
        "bootTimestamp": "1700000000000",
        "runtime": "[ 1 days, 2 hours, 3 minutes, 4 seconds ]",
    }
    runtime = broker_runtime(table)
    assert (runtime.version, runtime.stored_today, runtime.stored_yesterday) == ("5.5.0", 7, 20)
    assert (runtime.in_per_s, runtime.out_per_s) == (2.5, 4.0)
    assert (runtime.disk_ratio, runtime.log_bytes, runtime.log_end) == (0.53, 250, 350)
    assert runtime.read_today is None
    assert runtime.now_ms == 1_700_000_000_000 + 93_784_000
    odd = broker_runtime({"commitLogDiskRatio": "-1", "commitLogMinOffset": "-1", "putTps": "x"})
    assert (odd.disk_ratio, odd.log_bytes, odd.in_per_s, odd.version) == (None, None, None, "")
    assert (odd.now_ms, broker_runtime({"bootTimestamp": "1"}).now_ms) == (None, None)


@pytest.mark.parametrize(
    ("apart_ms", "outcome"), [(0, "ok"), (4_000, "warning"), (None, "unknown")]
)
async def test_the_clocks_of_brokers_are_compared_with_that_of_the_server(
    front: Front, monkeypatch: pytest.MonkeyPatch, apart_ms: int | None, outcome: str
) -> None:
    told_ms = None if apart_ms is None else front.app.console.now_ms() + apart_ms
    read = front.messaging.catalog.client.runtime

    async def runtime(broker: str, member: int, *, timeout_s: float) -> BrokerRuntime:
        figures = await read(broker, member, timeout_s=timeout_s)
        return msgspec.structs.replace(figures, now_ms=told_ms)

    monkeypatch.setattr(front.messaging.catalog.client, "runtime", runtime)
    checks = {each["code"]: each for each in (await front.get("/self-checks"))["items"]}
    assert checks["broker_clocks"]["outcome"] == outcome, checks
