"""The queues of members before Apache's two brokers: what is shown, and what Java's clients get."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pytest

from app.administration import LISTS_NONE
from app.cluster.client import ClusterClient
from protocol.remoting.codes import RequestCode
from tests.patience import until
from tests.remoting.test_java import VERSIONS, Driver, driver_of
from tests.rocketmq.cluster import ApacheCluster
from tests.rocketmq.test_serve import LIMIT_S, Gateway, group, pytestmark, server, topic
from tests.rocketmq.test_serve_parts import page

__all__ = ["group", "pytestmark", "server", "topic"]

QUEUES = set(range(4))  # of the topic: two on each broker
EACH = 5
LISTING = {"5.5.0"}  # versions whose pull consumers report their queues


@contextmanager
def member(java: Driver, *words: object, program: str = "Drive") -> Iterator[subprocess.Popen[str]]:
    """A client that consumes until the end of the `with`."""
    with java.begin(*words, program=program) as process:
        try:
            yield process
        finally:
            process.kill()


def members(server: Gateway, group: str) -> dict[str, dict[str, Any]]:
    """What the server says of each member; nothing while it knows no such group."""
    status, answer = server.ask("GET", f"/api/v1/groups/{group}/members/queues")
    return {each["client"]: each for each in answer["items"]} if status == 200 else {}


def numbers(server: Gateway, group: str) -> dict[str, set[int]]:
    """The queues that the server shows of each member."""
    return {
        client: {each["queue"] for each in item["queues"] or ()}
        for client, item in members(server, group).items()
    }


def send(server: Gateway, topic: str) -> None:
    """To each queue some messages, which name it."""
    messages = [{"body": f"{queue}", "queue": queue} for queue in sorted(QUEUES)]
    server.api("POST", f"/topics/{topic}/messages", {"messages": messages * EACH})


def gotten(lines: IO[str] | None, count: int) -> set[int]:
    """The queues of so many messages that a client prints."""
    assert lines is not None
    bodies = [int(line.split()[1]) for line in islice(_got(lines), count)]
    assert len(bodies) == count
    return set(bodies)


def _got(lines: IO[str]) -> Iterator[str]:
    return (line for line in lines if line.startswith("GOT "))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_queues_that_are_shown_are_those_that_a_member_gets_messages_of(
    server: Gateway, cluster: ApacheCluster, group: str, topic: str, version: str, tmp_path: Path
) -> None:
    java = driver_of(version, cluster.name_server, tmp_path, "-Dlimit_s=180")
    server.api("POST", "/groups", {"name": group})
    with member(java, "member", group, topic) as first:
        until(lambda: list(numbers(server, group).values()) == [QUEUES], limit_s=LIMIT_S)
        [client] = numbers(server, group)
        with member(java, "member", group, topic) as second:

            def is_shared_out() -> bool:
                shares = list(numbers(server, group).values())
                return sorted(map(len, shares)) == [2, 2] and set.union(*shares) == QUEUES

            until(is_shared_out, limit_s=LIMIT_S)
            shown = numbers(server, group)
            send(server, topic)
            assert gotten(first.stdout, 2 * EACH) == shown.pop(client)
            [(other, share)] = shown.items()
            assert gotten(second.stdout, 2 * EACH) == share
            text = page(server, f"/groups/{group}/clients")
            assert text.count('<span class="mono" title="2 queues">') == 2

            def offsets() -> set[str | None]:
                items = members(server, group).values()
                return {each["offset"] for item in items for each in item["queues"] or ()}

            until(lambda: offsets() == {str(EACH)}, limit_s=LIMIT_S)
            first.kill()
            until(lambda: numbers(server, group) == {other: QUEUES}, limit_s=LIMIT_S)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_orderly_member_has_its_queues_locked_and_a_pulling_one_may_list_none(
    server: Gateway, cluster: ApacheCluster, group: str, topic: str, version: str, tmp_path: Path
) -> None:
    java = driver_of(version, cluster.name_server, tmp_path, "-Dlimit_s=180")
    pulling = f"{group}-pulling"
    for name in (group, pulling):
        server.api("POST", "/groups", {"name": name})
    with (
        member(java, "orderly", group, topic, 100),
        member(java, "litepull", pulling, topic, 100),
    ):

        def locked() -> dict[int, bool]:
            items = members(server, group).values()
            return {
                each["queue"]: each["is_locked"] for item in items for each in item["queues"] or ()
            }

        until(lambda: locked() == dict.fromkeys(QUEUES, True), limit_s=LIMIT_S)
        listed = QUEUES if version in LISTING else set()

        def is_as_listed() -> bool:
            return list(numbers(server, pulling).values()) == [listed]

        until(is_as_listed, limit_s=LIMIT_S)
        [item] = members(server, pulling).values()
        assert item["unknown"] == ("" if listed else LISTS_NONE)


def test_a_member_by_pop_shares_all_queues_of_each_broker(
    server: Gateway, cluster: ApacheCluster, group: str, topic: str, tmp_path: Path
) -> None:
    async def use_pop() -> None:
        mode = {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": 0}
        async with ClusterClient(cluster.name_server) as client:
            await client._link.ask_masters(
                RequestCode.SET_MESSAGE_REQUEST_MODE, {}, body=json.dumps(mode).encode()
            )

    java = driver_of(VERSIONS[-1], cluster.name_server, tmp_path)
    server.api("POST", "/groups", {"name": group})
    asyncio.run(use_pop())
    with member(java, "member", group, topic, program="Drive5") as process:
        until(lambda: list(numbers(server, group).values()) == [QUEUES], limit_s=LIMIT_S)
        [item] = members(server, group).values()
        assert {(each["is_shared"], each["cached"]) for each in item["queues"]} == {(True, None)}
        send(server, topic)
        assert gotten(process.stdout, 4 * EACH) == QUEUES


def test_a_change_of_a_group_keeps_the_settings_that_rocketmq_alone_reads(
    server: Gateway, cluster: ApacheCluster, group: str
) -> None:
    policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 7000]}}
    ours = {"groupName": group, "groupRetryPolicy": policy, "consumeTimeoutMinute": 3}

    async def asked(code: RequestCode, fields: dict[str, object], body: bytes = b"") -> list[Any]:
        async with ClusterClient(cluster.name_server) as client:
            answers = await client._link.ask_masters(code, fields, body=body)
        return [json.loads(each.body or b"{}") for each in answers.values()]

    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    asyncio.run(asked(code, {}, json.dumps(ours).encode()))
    server.api("POST", f"/groups/{group}/pause", {})
    server.api("PATCH", f"/groups/{group}", {"retry_max": 5})
    configs = asyncio.run(asked(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group}))
    assert len(configs) == 2
    for each in configs:
        assert (each["consumeEnable"], each["retryMaxTimes"]) == (False, 5)
        assert each["groupRetryPolicy"]["type"] == "CUSTOMIZED"
        assert each["groupRetryPolicy"]["customizedRetryPolicy"]["next"] == [1000, 7000]
        assert each["consumeTimeoutMinute"] == 3
