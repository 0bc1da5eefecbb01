"""Reports of messages and traced deliveries before a cluster: computed, shown, and what is absent.

KiteMQ's own port stands in the place of the cluster.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from app.capabilities import LACKS
from engine.message import Message
from engine.topic.names import CLIENT_TRACE_TOPIC
from tests.app.conftest import LIMIT_S, App, started
from tests.grpc.test_endpoint import PASSWORD
from tests.remoting.port import Running, opened
from tests.remoting.test_rights import signed

pytestmark = pytest.mark.anyio

HTML = {"accept": "text/html"}
GROUP = "billing"
TAKES_MS = 40


@pytest.fixture
async def store() -> AsyncIterator[AsyncExitStack]:
    """Holds the cluster; closing it takes that away."""
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def behind(store: AsyncExitStack, tmp_path: Path) -> Running:
    return await store.enter_async_context(opened(tmp_path / "cluster"))


@pytest.fixture
async def server(behind: Running, tmp_path: Path) -> AsyncIterator[App]:
    async with started(tmp_path / "data", rocketmq=behind.port.address) as server:
        await server.post("/topics", {"name": "orders", "read_queues": 2, "write_queues": 2}, 201)
        yield server


def consumed(behind: Running, message_id: str, *, is_good: bool = True) -> None:
    """A client traces that it got a message now, and had it for TAKES_MS."""
    now_ms, call = behind.clock.now_ms(), f"c-{message_id}"
    code, ended_ms = str(0 if is_good else 4), str(now_ms + TAKES_MS)
    before = ("SubBefore", str(now_ms), "r", GROUP, call, message_id, "0", "k")
    after = ("SubAfter", call, message_id, str(TAKES_MS), str(is_good).lower(), "k", code, ended_ms)
    text = "".join("\x01".join(each) + "\x02" for each in (before, (*after, GROUP)))
    behind.broker.send([Message(CLIENT_TRACE_TOPIC, text.encode())])


async def computed(server: App, state: str = "ok") -> dict[str, Any]:
    """A run of the report, once it is over."""
    run = await server.post("/reports/runs", {"job": "traces"}, 201)
    async with asyncio.timeout(LIMIT_S * 4):
        while run["state"] == "running":
            await asyncio.sleep(0.1)
            run = await server.get(f"/reports/runs/{run['id']}")
    assert run["state"] == state, run
    return dict(run)


async def rows(server: App, table: str, query: str = "") -> list[dict[str, Any]]:
    return list((await server.get(f"/reports/tables/{table}?{query}"))["rows"])


async def page(server: App, path: str) -> str:
    answer = await server.http.get(path, headers=HTML)
    return unescape(answer.text)


async def test_messages_are_counted_and_of_deliveries_those_that_clients_traced(
    server: App, behind: Running
) -> None:
    born_ms = behind.clock.now_ms()
    sent = [Message("orders", b"x", tag="paid", born_ms=born_ms) for _ in range(5)]
    behind.broker.send(sent)
    behind.clock.advance(2)
    consumed(behind, sent[0].message_id)
    consumed(behind, sent[1].message_id, is_good=False)
    run = await computed(server)
    assert run["rows_in"] == 5 + 4
    throughput = {each["kind"]: each for each in await rows(server, "throughput")}
    counts = {kind: each["messages"] for kind, each in throughput.items()}
    assert counts == {"message": 5, "delivered": 2, "acked": 1, "failed": 1}
    assert {each["topic"] for each in throughput.values()} == {"orders"}
    [outcome] = await rows(server, "outcomes")
    assert [outcome[name] for name in ("attempts", "acked", "failed")] == [2, 1, 1]
    assert [outcome[name] for name in ("dead", "dead_rate", "success_rate")] == [None] * 3
    measured = {each["metric"]: each for each in await rows(server, "latency")}
    assert {metric: each["n"] for metric, each in measured.items()} == {
        "broker": 5, "wait": 2, "process": 1, "end_to_end": 1,
    }  # fmt: skip
    assert (measured["process"]["total"], measured["process"]["client"]) == (TAKES_MS, "127.0.0.1")
    assert measured["wait"]["total"] == 2 * 2000
    assert measured["end_to_end"]["total"] == 2000 + TAKES_MS
    [slow] = await rows(server, "slowest")
    assert (slow["message_id"], slow["topic"]) == (sent[0].message_id, "orders")
    [tag] = await rows(server, "hot_keys", "kind=tag")
    assert (tag["value"], tag["messages"]) == ("paid", 5)
    assert (await computed(server, "skipped"))["error"] == (
        "nothing was recorded since the figures were made"
    )


async def test_pages_say_whose_deliveries_they_have_and_lead_to_none_that_is_absent(
    server: App, behind: Running
) -> None:
    sent = await server.send("orders", *"abc")
    consumed(behind, sent[0]["message_id"])
    await computed(server)
    overview = await page(server, "/reports")
    assert 'href="/reports/latency"' in overview
    for name in ("delay_reports", "transaction_reports"):
        assert LACKS[name].detail in overview
    traced = "Deliveries and their outcomes are those of clients that trace"
    for name in ("latency", "throughput", "failures", "consumers", "slowest"):
        assert traced in await page(server, f"/reports/{name}?range=6h")
    failures = await page(server, "/reports/failures?range=6h")
    assert 'value="failed"' in failures
    assert 'value="refused"' not in failures
    assert "not traced by clients" in failures
    for name in ("keys", "queues"):
        assert traced not in await page(server, f"/reports/{name}?range=6h")
    for path in ("/reports/delayed", "/reports/transactions"):
        assert f'href="{path}' not in overview
        assert (await server.http.get(path, headers=HTML)).status_code == 409


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/tables/transactions", "table"),
        ("/tables/transactions/csv", "table"),
        ("/latency?metric=decision", "metric"),
        ("/latency?metric=lateness_level", "metric"),
    ],
)
async def test_figures_that_brokers_do_not_tell_are_refused(
    server: App, path: str, field: str
) -> None:
    problem = await server.get(f"/reports{path}", 409)
    assert problem["code"] == "not_supported"
    assert problem["errors"][0]["field"] == field


async def test_a_cluster_that_is_away_fails_the_run_and_leaves_the_figures(
    server: App, store: AsyncExitStack
) -> None:
    await server.send("orders", "a")
    await computed(server)
    await store.aclose()
    run = await computed(server, "failed")
    assert "no name server answers" in run["error"]
    assert len(await rows(server, "throughput", "kind=message")) == 1


async def test_a_lag_report_needs_no_messages(server: App, store: AsyncExitStack) -> None:
    await store.aclose()
    run = await server.post("/reports/runs", {"job": "lag"}, 201)
    async with asyncio.timeout(LIMIT_S * 4):
        while run["state"] == "running":
            await asyncio.sleep(0.1)
            run = await server.get(f"/reports/runs/{run['id']}")
    assert run["state"] in ("ok", "skipped"), run


async def test_a_cluster_that_asks_for_keys_is_read_with_the_servers(tmp_path: Path) -> None:
    async with opened(tmp_path / "cluster", admin_password=PASSWORD) as behind:
        client = await signed(behind, "admin")
        assert client.keys is not None
        access, secret = client.keys
        behind.broker.send([Message("locked", b"x")])
        keys = {"rocketmq_access_key": access, "rocketmq_secret_key": secret}
        async with started(tmp_path / "data", rocketmq=behind.port.address, **keys) as server:
            run = await computed(server)
            assert secret not in str(run)
            assert len(await rows(server, "throughput", "topic=locked")) == 1
