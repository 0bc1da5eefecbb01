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
from app.services.tail import Tail
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


async def test_a_topic_has_the_queues_of_the_broker_that_is_there(front: Front) -> None:
    topic = await front.get("/topics/orders")
    assert (topic["messages"], topic["unknown"]) == (None, REASON)
    assert {each["queue"] % 2 for each in topic["queues"]} == {0}
    assert sum(int(each["max_offset"]) for each in topic["queues"]) == 3
    assert ((await front.get("/topics/stock"))["messages"], topic["unknown"]) == (3, REASON)
    page = await front.page("/topics/orders")
    assert f"Some figures are unknown: {REASON}." in page
    assert f'title="at least: {REASON}">≥</abbr> 3' in page
    assert row_of(page, "queue-1").count(f"unknown: {REASON}") == 7
    assert REASON not in row_of(page, "queue-0")


async def test_a_group_has_the_lag_of_the_broker_that_is_there_and_no_sum(front: Front) -> None:
    lag = await front.get("/groups/billing/lag")
    assert (lag["count"], lag["dead"], lag["oldest_age_ms"]) == (None, None, None)
    assert lag["unknown"] == REASON
    assert {each["queue"] % 2 for each in lag["queues"]} == {0}
    page = await front.page("/groups/billing")
    assert f"The status is unknown: {REASON}." in page
    assert f"Queues are missing: {REASON}." in page
    assert not re.search(r"<dd>\s*0\s*</dd>", page.partition("In flight")[0])
    assert "caught up" not in page


@pytest.mark.parametrize(
    "path",
    [
        *(f"/topics/orders/{tab}" for tab in ("messages", "groups", "produce", "config", "docs")),
        *(f"/groups/billing/{tab}" for tab in ("clients", "subscriptions", "retries", "config")),
    ],
)
async def test_the_tabs_of_a_topic_and_a_group_are_there(front: Front, path: str) -> None:
    await front.page(path)


async def test_the_messages_of_a_queue_that_is_away_are_not_those_of_others(front: Front) -> None:
    assert 'href="/messages/orders/' in await front.page("/topics/orders/messages")
    page = await front.page("/topics/orders/messages?by=offset&queue=1")
    assert 'href="/messages/orders/' not in page
    assert REASON in page


async def test_a_dead_letter_that_was_listed_is_shown(front: Front, running: Running) -> None:
    running.clock.advance(5)
    path = "/groups/billing/dead-letters"
    await front.get(f"{path}/0", 503)
    both = front.messaging.catalog.numbers.brokers
    look_at(front, both[0])
    [listed] = (await front.get(path))["items"]
    look_at(front, *both)
    await front.get(path, 503)
    letter = await front.get(f"{path}/0")
    assert letter == listed
    page = await front.page("/dlq/billing/0")
    assert f"Some figures are unknown: {REASON}." in page
    await front.get(f"{path}/1", 503)


def look_at(front: Front, *brokers: str) -> None:
    """Number the queues of these brokers alone, and forget what was known of others."""
    front.number(*brokers)
    front.administration._census.topic_tables.forget()
    front.administration._census.offset_tables.forget()
    front.administration._stats._values.clear()


async def test_a_tail_follows_the_queues_that_are_there(front: Front) -> None:
    now_ms = front.app.console.now_ms()
    tail = await Tail.begin(front.messaging, ["orders"], lookback=10, now_ms=now_ms)
    batch = await tail.read()
    assert [message.body for message in batch.messages] == [b"x"] * 3
    assert batch.unknown == REASON
    assert f"0-1-t{now_ms}" in batch.mark  # begins at this time once it is there
    again = await Tail.begin(front.messaging, ["orders"], mark=batch.mark, now_ms=now_ms + 1)
    batch = await again.read()
    assert (batch.messages, batch.unknown, batch.mark) == ([], REASON, tail.mark)
    page = await front.page("/tail?topic=orders")
    assert f"Queues are missing: {REASON}." in page
    assert "hidden" not in page.partition("data-tail-away")[2].partition(">")[0]


async def test_self_checks_name_the_broker_and_what_is_not_to_be_told(front: Front) -> None:
    checks = {each["code"]: each for each in (await front.get("/self-checks"))["items"]}
    outcomes = {code: each["outcome"] for code, each in checks.items()}
    assert outcomes.pop("event_loop") in ("ok", "warning")
    assert {code for code, outcome in outcomes.items() if outcome == "ok"} == {
        "name_servers", "disk", "data_directory", "database", "clock", "lag_history",
        "connections", "exposure",
    }  # fmt: skip
    assert "broker b: it does not answer" in checks["brokers"]["detail"]
    assert outcomes["brokers"] == "warning"
    for code in ("recovery", "traces"):
        assert outcomes[code] == "unknown"
        assert checks[code]["detail"].startswith("the engine behind this server")


@pytest.mark.parametrize("path", ["/clients", "/search?q=order", "/palette", "/alerts"])
async def test_other_pages_are_there(front: Front, path: str) -> None:
    await front.page(path)
