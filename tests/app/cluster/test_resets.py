"""Resets before a cluster: nothing moves while a broker is away, and what did not move is named.

KiteMQ's own port stands in the place of the broker "kitemq"; `tests/rocketmq/test_serve_resets.py`
resets a group of Apache's.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from app.administration import ResetOrder
from app.cluster.administration import ClusterAdministration
from app.cluster.routes import ClusterQueue
from app.cluster.topics import BrokerTopic
from engine.broker import OffsetMove, ResetTarget, ResetTo, TopicConfig
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


async def test_the_page_previews_and_applies_and_leads_to_what_undoes_it(
    running: Running, front: Front
) -> None:
    review = await front.page("/groups/billing/offsets?to=earliest&step=all")
    assert "Nothing moves if a broker is away" in review
    assert "The reset can be undone" in review
    assert "Apply to 2 queues" in review
    token = review.partition('name="precondition" value="')[2].partition('"')[0]
    form = {"to": "earliest", "topic": "orders", "precondition": token}
    answer = await front.http.post("/groups/billing/offsets", data=form, headers=HTML | ORIGIN)
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"] == "/groups/billing/resets/1?done=changed"
    assert offsets(running) == [0, 0]
    assert "Undo" in await front.page("/groups/billing/resets/1?done=changed")
    assert "/groups/billing/resets/1" in await front.page("/groups/billing/history")


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


async def test_another_server_with_the_same_database_undoes_a_reset(
    running: Running, front: Front
) -> None:
    done = (await front.http.post(RESETS, json=EARLIEST)).json()
    assert (done["id"], offsets(running)) == ("1", [0, 0])
    other = ClusterAdministration(
        front.messaging.catalog, front.app.services.database, running.clock
    )
    preview = await other.resets.preview("billing", 1)
    assert (preview.to, [each.target for each in preview.queues]) == ("undo 1", [2, 2])
    undone = await other.resets.apply("billing", 1, precondition="", force=False)
    assert (undone.number, undone.undoes, offsets(running)) == (2, 1, [2, 2])
    [last, first] = (await front.get("/groups/billing/resets"))["items"]
    assert (last["undoes"], first["undone_by"]) == ("1", "2")


async def test_a_queue_that_a_group_had_not_read_stays_when_a_reset_is_undone(
    running: Running, front: Front
) -> None:
    """A broker cannot take an offset back."""
    await front.http.post("/api/v1/groups", json={"name": "young"})
    order = {"topics": ["orders"], "to": "latest", "force": True}
    path = "/api/v1/groups/young/resets"
    assert (await front.http.post(path, json=order)).status_code == 201
    preview = (await front.http.post(f"{path}/1/undo/preview")).json()
    assert {(each["moves"], each["note"]) for each in preview["queues"]} == {(False, "no_place")}


async def test_what_moved_of_a_reset_is_in_the_history_though_a_queue_did_not(
    running: Running, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = front.messaging.catalog.client.groups
    reset = groups.reset

    async def half(name: str, queue: ClusterQueue, offset: int) -> None:
        broker = "gone" if queue.queue == 1 else queue.broker
        await reset(name, ClusterQueue(queue.topic, broker, queue.queue), offset)

    monkeypatch.setattr(groups, "reset", half)
    assert (await front.http.post(RESETS, json=EARLIEST)).status_code == 409
    [item] = (await front.get("/groups/billing/resets"))["items"]
    assert [(each["queue"], each["after"]) for each in item["queues"]] == [(0, "0")]


async def test_the_history_goes_with_its_group(front: Front) -> None:
    await front.http.post(RESETS, json=EARLIEST)
    await front.http.delete("/api/v1/groups/billing")
    await front.http.post("/api/v1/groups", json={"name": "billing"})
    assert (await front.get("/groups/billing/resets"))["items"] == []


async def test_two_servers_that_note_a_reset_at_once_give_it_two_numbers(front: Front) -> None:
    log = front.administration.reset_log
    moves = [OffsetMove("orders", 0, 2, 0)]
    notes = [log.add("billing", 1, "earliest", moves, 0) for _ in range(4)]
    assert sorted(each.number for each in await asyncio.gather(*notes)) == [1, 2, 3, 4]
    assert [each.number for each in await log.history("billing")] == [4, 3, 2, 1]


async def test_a_reset_that_is_not_there_cannot_be_undone(front: Front) -> None:
    answer = await front.http.post(f"{RESETS}/1/undo", json={})
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


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
