"""A group of classic clients and members that take single messages: a warning tells of it."""

import logging

import pytest

from tests.remoting.port import Client, Running

pytestmark = pytest.mark.anyio

RECEIVE = "/api/v1/groups/billing/receive"
MEMBERS = "/api/v1/groups/billing/members"


async def receive(running: Running, client: str) -> None:
    answer = await running.http.post(RECEIVE, json={"topics": {"orders": "*"}, "client": client})
    assert answer.status_code == 200, answer.text


async def codes(running: Running) -> list[str]:
    return [each["code"] for each in (await running.http.get(MEMBERS)).json()["warnings"]]


async def test_a_mixed_group_is_warned_about_once_in_the_log(
    running: Running, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    await client.send("orders", b"x")
    await client.beat("c1", "billing")
    assert await codes(running) == []
    for name in ("w1", "w2"):
        await receive(running, name)
    assert await codes(running) == ["members_mixed"]
    page = (await running.http.get("/groups/billing")).text
    assert "members mixed" in page
    told = [each for each in caplog.records if each.name == "kitemq.members"]
    assert len(told) == 1
    assert "'billing'" in told[0].getMessage()


async def test_groups_of_one_kind_are_not_mixed(running: Running, client: Client) -> None:
    await client.send("orders", b"x")
    for name in ("c1", "c2"):
        await client.beat(name, "billing")
    assert await codes(running) == []
    await client.ok(35, {"clientID": "c1", "consumerGroup": "billing"})
    await client.ok(35, {"clientID": "c2", "consumerGroup": "billing"})
    for name in ("w1", "w2"):
        await receive(running, name)
    assert await codes(running) == []


async def test_a_broadcast_group_is_never_mixed(running: Running, client: Client) -> None:
    await client.send("orders", b"x")
    await client.beat("c1", "billing", model="BROADCASTING")
    await receive(running, "w1")
    assert await codes(running) == []
