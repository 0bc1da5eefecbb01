"""Resets of a group by a server in front of Apache RocketMQ's two brokers."""

import asyncio
import time
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pytest

from app.cluster.client import ClusterClient
from protocol.remoting.codes import RequestCode
from tests.patience import until
from tests.remoting.test_java import VERSIONS, driver_of
from tests.rocketmq.cluster import ApacheCluster
from tests.rocketmq.test_serve import LIMIT_S, Gateway, group, pytestmark, server, topic

__all__ = ["group", "pytestmark", "server", "topic"]


def send(server: Gateway, topic: str, numbers: range) -> None:
    """Five messages to each of the four queues."""
    messages = [{"body": f"m{n}", "queue": n % 4} for n in numbers]
    server.api("POST", f"/topics/{topic}/messages", {"messages": messages})


def send_halves(server: Gateway, topic: str) -> int:
    """Twenty messages, and twenty more; a time in the middle."""
    send(server, topic, range(20))
    until(lambda: server.api("GET", f"/topics/{topic}")["messages"] == 20, limit_s=LIMIT_S)
    middle_ms = time.time_ns() // 1_000_000 + 20
    until(lambda: time.time_ns() // 1_000_000 > middle_ms, limit_s=LIMIT_S)
    send(server, topic, range(20, 40))
    return middle_ms


def gotten(lines: IO[str], count: int) -> list[str]:
    """The bodies of so many messages that a Java client prints."""
    bodies = (line.split(" ")[1] for line in lines if line.startswith("GOT "))
    return list(islice(bodies, count))


def receive(server: Gateway, topic: str, group: str, count: int) -> list[str]:
    """The bodies of so many messages, all acknowledged."""
    bodies: list[str] = []
    asking = {"topic": topic, "max": 20, "wait_ms": 5000}
    end_s = time.monotonic() + LIMIT_S
    while len(bodies) < count and time.monotonic() < end_s:
        got = server.api("POST", f"/groups/{group}/receive", asking)["deliveries"]
        bodies += [each["body"] for each in got]
        receipts = {"receipts": [each["receipt"] for each in got]}
        if got:
            server.api("POST", f"/groups/{group}/ack", receipts)
    return sorted(bodies)


def until_done(server: Gateway, group: str) -> None:
    until(lambda: server.api("GET", f"/groups/{group}/lag")["count"] == 0, limit_s=LIMIT_S)


def test_a_group_is_reset_to_a_time_and_gets_the_second_half_again(
    server: Gateway, topic: str, group: str
) -> None:
    middle_ms = send_halves(server, topic)
    assert receive(server, topic, group, 40) == sorted(f"m{n}" for n in range(40))
    until_done(server, group)

    path = f"/groups/{group}/resets"
    order = {"topics": [topic], "to": "time", "time_ms": middle_ms}
    preview = server.api("POST", f"{path}/preview", order)
    assert (preview["redelivered"], preview["skipped"], preview["inflight"]) == (20, 0, None)
    assert all(each["target_stored_ms"] >= middle_ms for each in preview["queues"])
    done = server.api("POST", path, {**order, "precondition": preview["precondition"]})
    moved = {each["queue"]: (each["before"], each["after"]) for each in done["queues"]}
    assert moved == dict.fromkeys(range(4), ("10", "5"))
    assert server.api("GET", f"/groups/{group}/lag")["count"] == 20
    assert receive(server, topic, group, 20) == sorted(f"m{n}" for n in range(20, 40))
    until_done(server, group)
    status, problem = server.ask(
        "POST", f"/api/v1{path}", {**order, "precondition": preview["precondition"]}
    )
    assert status == 201, problem  # the group is where the preview showed it, again

    [last, *_] = server.api("GET", f"/audit?object_kind=group&object_name={group}")["items"]
    assert (last["action"], last["result"]) == ("group.reset", "done")
    look = server.api("POST", f"{path}/2/undo/preview")
    assert {(each["current"], each["target"]) for each in look["queues"]} == {("5", "10")}
    undone = server.api("POST", f"{path}/2/undo", {})
    assert (undone["id"], undone["undoes"]) == ("3", "2")
    until_done(server, group)
    history = [(each["id"], each["undone_by"]) for each in server.api("GET", path)["items"]]
    assert history == [("3", None), ("2", "3"), ("1", None)]


def test_a_puller_is_told_of_a_reset_before_its_commits_count_again(
    server: Gateway, topic: str, group: str
) -> None:
    send(server, topic, range(20))
    server.api("POST", "/groups", {"name": group})
    commit = {"topic": topic, "queue": 1, "offset": "5"}
    server.api("PUT", f"/groups/{group}/offsets", commit)
    reset = {"topics": [topic], "to": "offset", "offset": "2", "queues": [1], "force": True}
    [moved] = server.api("POST", f"/groups/{group}/resets", reset)["queues"]
    assert (moved["before"], moved["after"]) == ("5", "2")
    assert server.ask("PUT", f"/api/v1/groups/{group}/offsets", commit)[0] == 409
    pull = f"/topics/{topic}/messages?queue=1&offset=5&group={group}"
    answer = server.api("GET", pull)
    assert (answer["status"], answer["next_offset"]) == ("offset_reset", "2")
    server.api("PUT", f"/groups/{group}/offsets", commit)
    [queue] = [
        each
        for each in server.api("GET", f"/groups/{group}/offsets?topic={topic}")["queues"]
        if each["queue"] == 1
    ]
    assert queue["offset"] == "5"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_connected_classic_consumer_gets_the_second_half_again(
    server: Gateway, cluster: ApacheCluster, group: str, topic: str, version: str, tmp_path: Path
) -> None:
    java = driver_of(version, cluster.name_server, tmp_path)
    server.api("POST", "/groups", {"name": group})
    middle_ms = send_halves(server, topic)
    with java.begin("push", group, topic, "*", 60) as process:
        assert process.stdout is not None
        try:
            got = gotten(process.stdout, 40)
            assert sorted(got) == sorted(f"m{n}" for n in range(40))
            order = {"topics": [topic], "to": "time", "time_ms": middle_ms, "force": True}
            server.api("POST", f"/groups/{group}/resets", order)
            again = gotten(process.stdout, 20)
        finally:
            process.kill()
    assert sorted(again) == sorted(f"m{n}" for n in range(20, 40))


def test_a_broker_that_does_not_reset_by_itself_is_named_and_nothing_moves(
    server: Gateway, cluster: ApacheCluster, topic: str, group: str
) -> None:
    async def configure(value: str) -> None:
        async with ClusterClient(cluster.name_server) as client:
            body = f"useServerSideResetOffset={value}\n".encode()
            await client._link.ask("b", RequestCode.UPDATE_BROKER_CONFIG, {}, body=body)

    send(server, topic, range(20))
    server.api("POST", "/groups", {"name": group})
    order = {"topics": [topic], "to": "latest", "force": True}
    asyncio.run(configure("false"))
    try:
        status, problem = server.ask("POST", f"/api/v1/groups/{group}/resets", order)
    finally:
        asyncio.run(configure("true"))
    assert status == 409
    assert problem["detail"].startswith("broker b moves no group by itself")
    preview = server.api(
        "POST", f"/groups/{group}/resets/preview", {"topics": [topic], "to": "latest"}
    )
    assert {each["current"] for each in preview["queues"]} == {None}


def test_nothing_moves_while_a_broker_is_away(
    server: Gateway, cluster: ApacheCluster, topic: str, group: str
) -> None:
    send(server, topic, range(20))
    server.api("POST", "/groups", {"name": group})
    order = {"topics": [topic], "to": "latest"}

    def current() -> set[Any]:
        preview = server.api("POST", f"/groups/{group}/resets/preview", order)
        return {each["current"] for each in preview["queues"]}

    assert current() == {None}
    cluster.kill("b")
    try:
        status, problem = server.ask(
            "POST", f"/api/v1/groups/{group}/resets", {**order, "force": True}
        )
        assert (status, problem["code"]) == (503, "cluster_unreachable")
    finally:
        cluster.restart("b")
    until(lambda: server.ask("GET", "/readyz")[1]["warnings"] == {}, limit_s=LIMIT_S)
    assert current() == {None}


def test_what_is_in_flight_comes_again_though_the_group_skips_it(
    server: Gateway, topic: str, group: str
) -> None:
    send(server, topic, range(20))
    asking = {"topic": topic, "max": 20, "wait_ms": 5000, "invisible_ms": 10_000}
    held: set[str] = set()
    while len(held) < 20:
        got = server.api("POST", f"/groups/{group}/receive", asking)["deliveries"]
        held |= {each["body"] for each in got}
    reset = {"topics": [topic], "to": "latest", "force": True}
    server.api("POST", f"/groups/{group}/resets", reset)
    assert receive(server, topic, group, 20) == sorted(held)
