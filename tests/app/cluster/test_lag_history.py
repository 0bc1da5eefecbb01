"""The history of lag before a cluster: sampled by the server, shown, and computed into reports.

KiteMQ's own port stands in the place of the cluster.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from app.cluster import lag_sampler
from app.cluster.lag_sampler import ClusterLagSampler
from engine.errors import Busy
from tests.app.conftest import LIMIT_S, App, started
from tests.remoting.port import opened

pytestmark = pytest.mark.anyio

STEP_S = 10
HISTORY = "/groups/billing/lag/history"


@pytest.fixture
async def store() -> AsyncIterator[AsyncExitStack]:
    """Holds the cluster; closing it takes that away."""
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def server(store: AsyncExitStack, tmp_path: Path) -> AsyncIterator[App]:
    """Before a cluster where the group `billing` has read one of three messages."""
    running = await store.enter_async_context(opened(tmp_path / "cluster"))
    async with started(
        tmp_path / "data", rocketmq=running.port.address, lag_sample_s=0.02
    ) as server:
        await server.post("/topics", {"name": "orders", "read_queues": 1, "write_queues": 1}, 201)
        await server.post("/groups", {"name": "billing"}, 201)
        await server.send("orders", "1", "2", "3")
        where = {"topic": "orders", "queue": 0, "offset": "1"}
        answer = await server.http.put("/api/v1/groups/billing/offsets", json=where)
        assert answer.is_success
        yield server


async def sampled(server: App, count: int) -> list[Any]:
    """The points of the last hour, once so many of them have samples."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            points: list[Any] = (await server.get(f"{HISTORY}?points=360"))["points"]
            there = [each for each in points if each["samples"]]
            if len(there) >= count:
                return there
            server.clock.advance(STEP_S)
            await asyncio.sleep(0.05)


async def test_the_lag_of_a_group_is_kept_over_time(server: App) -> None:
    point = (await sampled(server, 3))[-1]
    assert (point["count_max"], point["committed"], point["max_offset"]) == (2, "1", "3")
    page = (await server.http.get("/groups/billing", headers={"accept": "text/html"})).text
    assert "keeps no lag over time" not in page
    assert "polyline" in page or "<path" in page


async def test_what_a_cluster_does_not_tell_is_unknown_and_not_nothing(server: App) -> None:
    point = (await sampled(server, 1))[-1]
    assert (point["inflight_max"], point["retry_waiting_max"]) == (None, None)


async def test_while_the_cluster_is_away_there_is_a_gap(server: App, store: AsyncExitStack) -> None:
    before = await sampled(server, 2)
    await store.aclose()
    for _ in range(10):
        server.clock.advance(STEP_S)
        await asyncio.sleep(0.05)
    points = (await server.get(f"{HISTORY}?points=360"))["points"]
    there = [each for each in points if each["samples"]]
    assert len(there) <= len(before) + 1  # one may have been under way
    assert {each["count_max"] for each in there} == {2}
    assert points[-1]["count_max"] is None


async def test_an_alert_on_lag_fires_and_is_not_resolved_by_a_cluster_that_is_away(
    server: App, store: AsyncExitStack
) -> None:
    rule = {"name": "behind", "kind": "lag", "group_pattern": "billing", "threshold": 1, "for_s": 0}
    await server.post("/alerts/rules", rule, 201)
    alerts = server.app.services.alerts

    async def until_it_says(value: int | None) -> None:
        async with asyncio.timeout(LIMIT_S):
            while True:
                server.clock.advance(STEP_S)
                await alerts.evaluate()
                states = (await server.get("/alerts"))["items"]
                [state] = [each for each in states if each["name"] == "behind"]
                told = {each["subject"]: each["value"] for each in state["subjects"]}
                if (state["state"], told) == ("firing", {"billing": value}):
                    return
                assert value is not None or state["state"] == "firing"
                await asyncio.sleep(0.05)

    await until_it_says(2)
    await store.aclose()
    await until_it_says(None)
    assert alerts.failure == ""  # other rules are evaluated all the same


async def test_a_round_without_all_brokers_is_not_kept(
    server: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = server.app.services
    sampler = ClusterLagSampler(services.administration, services.host.lags, server.clock)
    await server.post("/groups", {"name": "zeta"}, 201)
    lag = services.administration.lag

    async def of_brokers_that_are_there(group: str) -> Any:
        if group == "zeta":
            raise Busy("broker b does not answer", remedy="start it")
        return await lag(group)

    for each in services.host._samplers:  # type: ignore[attr-defined]
        await each.stop()
    kept = services.host.lags.lag_keeping().samples
    monkeypatch.setattr(services.administration, "lag", of_brokers_that_are_there)
    server.clock.advance(STEP_S)
    with pytest.raises(Busy):
        await sampler.sample()
    assert services.host.lags.lag_keeping().samples == kept


async def test_of_very_many_groups_the_first_are_sampled(
    server: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = server.app.services
    sampler = ClusterLagSampler(services.administration, services.host.lags, server.clock)
    monkeypatch.setattr(lag_sampler, "GROUPS_MAX", 0)
    assert await sampler.sample() == 0


async def test_the_report_of_lag_is_computed(server: App) -> None:
    await sampled(server, 30)
    run = await server.post("/reports/runs", {"job": "lag"}, 201)
    async with asyncio.timeout(LIMIT_S * 4):
        while run["state"] == "running":
            await asyncio.sleep(0.1)
            run = await server.get(f"/reports/runs/{run['id']}")
    assert run["state"] == "ok", run
    [row] = (await server.get("/reports/tables/lag_now"))["rows"]
    assert (row["group"], row["topic"], row["lag"], row["members"]) == (
        "billing",
        "orders",
        2,
        None,
    )
    assert row["retry_waiting"] is None
    page = (await server.http.get("/reports", headers={"accept": "text/html"})).text
    assert 'href="/reports/lag"' in page
