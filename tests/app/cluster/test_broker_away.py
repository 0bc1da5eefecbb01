"""A server before a cluster of which one broker is away: lists show what the other one has.

KiteMQ's own port stands in the place of the broker that is there; the other one, "b", has queue
numbers and was seen once, with the topics of `AWAY`. `tests/rocketmq/test_serve.py` kills a real
one.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.cluster.numbering import QueueNumbers
from app.cluster.topics import BrokerTopic
from app.main import Application, create_app
from app.settings import Settings
from tests.remoting.port import Running

pytestmark = pytest.mark.anyio
HTML = {"accept": "text/html"}
REASON = "broker b is away"
AWAY = ("orders", "%DLQ%billing")


@dataclass
class Front:
    """A server before a cluster, and a client of it."""

    app: Application
    http: httpx.AsyncClient

    async def get(self, path: str) -> Any:
        answer = await self.http.get(f"/api/v1{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def page(self, path: str) -> str:
        """The text of a page that is there."""
        answer = await self.http.get(path, headers=HTML)
        assert answer.status_code == 200, answer.text
        return unescape(answer.text)


@asynccontextmanager
async def front_of(running: Running, data: Path) -> AsyncIterator[Front]:
    """A server before the cluster that is `running`."""
    app = create_app(Settings(data=data, rocketmq=running.port.address), clock=running.clock)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as http:
            yield Front(app, http)


@pytest.fixture
async def front(running: Running, tmp_path: Path) -> AsyncIterator[Front]:
    broker = running.broker
    for name in ("orders", "stock"):
        await running.http.post("/api/v1/topics", json={"name": name})
        messages = {"messages": [{"body": "x"}] * 3}
        await running.http.post(f"/api/v1/topics/{name}/messages", json=messages)
    await running.http.post("/api/v1/groups", json={"name": "billing", "retry_max": 0})
    receive = {"topic": "orders", "max": 1}
    [one] = (await running.http.post("/api/v1/groups/billing/receive", json=receive)).json()[
        "deliveries"
    ]
    await running.http.post(
        "/api/v1/groups/billing/nack", json={"nacks": [{"receipt": one["receipt"]}]}
    )
    assert broker.topic_stats("%DLQ%billing").messages == 1
    async with front_of(running, tmp_path / "front") as front:
        services = front.app.services
        catalog = services.messaging.catalog  # type: ignore[attr-defined]
        catalog.numbers = QueueNumbers((*catalog.numbers.brokers, "b"))
        tables = services.administration._census.topic_tables  # type: ignore[attr-defined]
        tables._tables["b"] = {name: BrokerTopic(1, 1) for name in AWAY}
        await services.sampler.refresh()
        yield front


def row_of(page: str, id: str) -> str:
    """The row of a list."""
    return page.partition(f'<tr id="{id}">')[2].partition("</tr>")[0]


async def test_the_list_of_topics_has_figures_of_those_whose_brokers_are_there(
    front: Front,
) -> None:
    page = await front.page("/topics?sort=name")
    assert f"Some figures are unknown: {REASON}." in page
    orders, stock = row_of(page, "topic-orders"), row_of(page, "topic-stock")
    assert f"unknown: {REASON}" in orders
    assert '<td class="num">3</td>' in stock
    assert '<td class="num">3</td>' not in orders
    names = [each["name"] for each in (await front.get("/topics"))["items"]]
    assert names == ["orders", "stock"]
    rows = (await front.http.get("/topics?format=csv")).text.splitlines()
    reasons = {row.split(",")[0]: REASON in row for row in rows[1:]}
    assert reasons["orders"]


async def test_the_list_of_groups_says_of_which_it_knows_no_status(front: Front) -> None:
    page = await front.page("/groups")
    assert f"Some figures are unknown: {REASON}." in page
    row = row_of(page, "group-billing")
    assert "/groups/billing" in row
    assert f"unknown: {REASON}" in row
    assert "Idle" not in page  # nothing is known of it
    assert "+1 unknown" in page
    [group] = (await front.get("/groups"))["items"]
    assert (group["status"], group["status_reason"], group["unknown"]) == (None, None, REASON)
    assert group["members"] == 0
    assert (await front.get("/groups?status=idle"))["items"] == []
    assert (await front.get("/groups/billing"))["unknown"] == REASON


async def test_dead_letters_of_a_broker_that_is_away_are_not_counted_as_none(
    front: Front,
) -> None:
    page = await front.page("/dlq")
    assert f"unknown: {REASON}" in row_of(page, "dlq-billing")
    footnote = page.partition('<p class="footnote muted">')[2].partition("</p>")[0]
    assert f'<abbr title="at least: {REASON}">≥</abbr>' in footnote


async def test_the_overview_has_no_sum_of_which_a_part_is_missing(front: Front) -> None:
    totals = front.app.services.sampler.snapshot.totals
    assert (totals.topics, totals.groups) == (2, 1)
    assert (totals.messages, totals.lag, totals.dead, totals.idle) == (None, None, None, None)
    assert f"unknown: {REASON}" in await front.page("/")


async def test_metrics_leave_out_what_is_unknown(front: Front) -> None:
    text = (await front.http.get("/metrics")).text
    assert 'topic="stock"} 3' in text
    assert 'topic="orders"' not in text
    assert "kitemq_groups 1" in text


@pytest.mark.parametrize("path", ["/clients", "/search?q=order", "/palette", "/alerts"])
async def test_other_pages_are_there(front: Front, path: str) -> None:
    await front.page(path)
