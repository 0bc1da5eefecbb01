"""A server before a cluster of which one broker is away: lists show what the other one has.

KiteMQ's own port stands in the place of the broker that is there; the other one, "b", has queue
numbers and was seen once, with the topics of `AWAY`. `tests/rocketmq/test_serve.py` kills a real
one.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.cluster.topics import BrokerTopic
from tests.app.cluster.front import Front, front_of
from tests.remoting.port import Running

pytestmark = pytest.mark.anyio
REASON = "broker b is away"
AWAY = ("orders", "%DLQ%billing")


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
        front.number(*front.messaging.catalog.numbers.brokers, "b")
        tables = front.administration._census.topic_tables
        tables._tables["b"] = {name: BrokerTopic(1, 1) for name in AWAY}
        await front.app.services.sampler.refresh()
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
    assert re.findall(r">\s*0\s*<", row) == []
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
    assert "0 open dead letters" not in page


async def test_the_overview_has_no_sum_of_which_a_part_is_missing(front: Front) -> None:
    totals = front.app.services.sampler.snapshot.totals
    assert (totals.topics, totals.groups) == (2, 1)
    assert (totals.messages, totals.lag, totals.dead, totals.idle) == (None, None, None, None)
    page = await front.page("/")
    assert f"unknown: {REASON}" in page
    assert "No group is behind" not in page
    assert 'id="matter-cluster-broker b"' in page
    assert 'href="/brokers"' in page.partition('id="matter-cluster-broker b"')[2]


async def test_metrics_leave_out_what_is_unknown(front: Front) -> None:
    text = (await front.http.get("/metrics")).text
    assert 'topic="stock"} 3' in text
    assert 'topic="orders"' not in text
    assert "kitemq_groups 1" in text


@pytest.mark.parametrize("path", ["/clients", "/search?q=order", "/palette", "/alerts"])
async def test_other_pages_are_there(front: Front, path: str) -> None:
    await front.page(path)
