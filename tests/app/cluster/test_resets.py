"""Resets before a cluster: nothing moves while a broker is away, and what did not move is named.

KiteMQ's own port stands in the place of the broker "kitemq"; `tests/rocketmq/test_serve_resets.py`
resets a group of Apache's.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from app.administration import ResetOrder
from app.cluster.routes import ClusterQueue
from app.cluster.topics import BrokerTopic
from engine.broker import ResetTarget, ResetTo, TopicConfig
from tests.app.cluster.front import HTML, Front, front_of
from tests.remoting.port import Running

pytestmark = pytest.mark.anyio
RESETS = "/api/v1/groups/billing/resets"
ORIGIN = {"origin": "http://127.0.0.1:8080"}
EARLIEST = {"topics": ["orders"], "to": "earliest", "force": True}


@pytest.fixture
async def front(running: Running, tmp_path: Path) -> AsyncIterator[Front]:
    """Two messages in each of the two queues of `orders`; `billing` is past them all."""
    running.broker.create_topic(TopicConfig("orders", read_queues=2, write_queues=2))
    messages = [{"body": "x", "queue": queue} for queue in (0, 0, 1, 1)]
    await running.http.post("/api/v1/topics/orders/messages", json={"messages": messages})
    await running.http.post("/api/v1/groups", json={"name": "billing"})
    for queue in (0, 1):
        running.broker.commit_offset("billing", "orders", queue, 2)
    async with front_of(running, tmp_path / "front") as front:
        yield front


def offsets(running: Running) -> list[int | None]:
    return [running.broker.committed_offset("billing", "orders", queue) for queue in (0, 1)]


async def resets_in_trail(front: Front) -> list[Any]:
    entries = (await front.get("/audit?object_kind=group&object_name=billing"))["items"]
    return [each for each in entries if each["action"] == "group.reset"]


async def test_nothing_moves_while_a_broker_is_away(running: Running, front: Front) -> None:
    front.number(*front.messaging.catalog.numbers.brokers, "b")
    front.administration._census.topic_tables._tables["b"] = {"orders": BrokerTopic(1, 1)}
    answer = await front.http.post(RESETS, json=EARLIEST)
    assert (answer.status_code, answer.json()["detail"]) == (503, "broker b is away")
    assert offsets(running) == [2, 2]


async def test_a_queue_whose_broker_goes_away_meanwhile_is_named_and_the_trail_has_the_others(
    running: Running, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = front.messaging.catalog.client.groups
    reset = groups.reset

    async def half(name: str, queue: ClusterQueue, offset: int) -> None:
        """The broker of the second queue is gone between the look and the move."""
        broker = "gone" if queue.queue == 1 else queue.broker
        await reset(name, ClusterQueue(queue.topic, broker, queue.queue), offset)

    monkeypatch.setattr(groups, "reset", half)
    answer = await front.http.post(RESETS, json=EARLIEST)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (409, "reset_incomplete")
    assert problem["detail"].startswith("1 of 2 queues moved; not, or not confirmed: orders 1 (")
    assert offsets(running) == [0, 2]
    [entry] = await resets_in_trail(front)
    assert entry["result"] == "reset_incomplete"
    assert json.loads(entry["before_json"])["queues"] == [["orders", 0, 2], ["orders", 1, 2]]
    assert json.loads(entry["after_json"])["queues"] == [["orders", 0, 0]]


async def test_the_page_previews_and_applies_and_says_that_it_cannot_be_undone(
    running: Running, front: Front
) -> None:
    review = await front.page("/groups/billing/offsets?to=earliest&step=all")
    assert "The reset cannot be undone" in review
    assert "Apply to 2 queues" in review
    token = review.partition('name="precondition" value="')[2].partition('"')[0]
    form = {"to": "earliest", "topic": "orders", "precondition": token}
    answer = await front.http.post("/groups/billing/offsets", data=form, headers=HTML | ORIGIN)
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"] == "/groups/billing?done=changed"
    assert offsets(running) == [0, 0]
    assert "2" in await front.page("/groups/billing?done=changed")


async def test_many_groups_are_reset_together(running: Running, front: Front) -> None:
    query = {"action": "reset", "group": "billing", "at": "2020-01-01T00:00:00Z"}
    path = f"/bulk/groups?{urlencode(query)}&format=json"
    twin = (await front.http.get(path, headers=HTML)).json()
    form = {**dict(twin["carried"]), "selection": twin["selection"]}
    answer = await front.http.post("/bulk/groups", data=form, headers=HTML | ORIGIN)
    assert answer.status_code == 200, answer.text
    assert offsets(running) == [0, 0]


async def test_no_offset_of_a_retry_topic_moves_unless_it_is_named(front: Front) -> None:
    order = {**EARLIEST, "topics": ["%RETRY%other"]}
    answer = await front.http.post(RESETS, json=order)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "topics")


async def test_a_reset_of_the_past_is_not_there(front: Front) -> None:
    answer = await front.http.post(f"{RESETS}/1/undo", json={})
    assert (answer.status_code, answer.json()["code"]) == (409, "not_supported")


async def test_a_plan_gives_each_queue_an_offset_of_its_own(running: Running, front: Front) -> None:
    goals = [("orders", 0, 1), ("orders", 1, None), ("orders", 7, 1)]
    order = ResetOrder(["orders"], ResetTarget(ResetTo.OFFSET), goals=goals)
    preview = await front.administration.resets.preview("billing", order)
    moves = [(each.current, each.target, each.moves, each.note) for each in preview.queues]
    assert moves[:2] == [(2, 1, True, ""), (2, 2, False, "no_place")]
    assert moves[2] == (None, None, False, "queue_gone")
    assert (preview.to, preview.redelivered, preview.skipped) == ("plan", 1, 0)
    await front.administration.resets.apply(
        "billing", order, precondition=preview.precondition, force=False
    )
    assert offsets(running) == [1, 2]
