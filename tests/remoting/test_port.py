"""The port for classic clients: frames, routes, members and figures, without any client library."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from app.remoting.operations import OFFERED, REFUSED
from protocol.remoting.codes import Flag, RequestCode, ResponseCode
from protocol.remoting.frames import Command, encode
from tests.remoting.port import Client, Running, sending

pytestmark = pytest.mark.anyio


# -- frames and codes --------------------------------------------------------------------------


async def test_nonsense_closes_the_connection_and_no_other(running: Running) -> None:
    first, second = await running.connect(), await running.connect()
    await second.send("orders", b"x")
    first.writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert await first.is_closed()
    await second.send("orders", b"y")
    assert running.broker.topic_stats("orders").messages == 2
    assert running.app.services.connection_limits.refusals.counts["malformed"] == 1


async def test_what_came_before_nonsense_is_kept(running: Running, client: Client) -> None:
    client.begin(RequestCode.SEND_MESSAGE_V2, sending("orders"), b"x")
    client.writer.write(b"\xff" * 16)
    assert await client.is_closed()
    assert running.broker.topic_stats("orders").messages == 1


async def test_an_unknown_code_is_answered_with_the_reason(client: Client) -> None:
    answer = await client.ask(31337)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == "request code 31337: no such request is known"


async def test_a_code_that_is_not_offered_says_so(client: Client) -> None:
    for code in sorted(set(RequestCode) - set(OFFERED)):
        answer = await client.ask(code)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert code.name in answer.remark


def test_no_code_is_both_offered_and_refused() -> None:
    assert not OFFERED.keys() & REFUSED.keys()


async def test_a_request_without_fields_or_body_is_answered(client: Client) -> None:
    for code in sorted(OFFERED):
        answer = await client.ask(code)
        assert answer.code != ResponseCode.SYSTEM_ERROR, code


async def test_a_one_way_request_is_never_answered(running: Running, client: Client) -> None:
    one_way = client.begin(RequestCode.SEND_MESSAGE_V2, sending("orders"), b"x", flag=Flag.ONE_WAY)
    await client.send("orders", b"y")
    assert one_way not in client._answers
    assert running.broker.topic_stats("orders").messages == 2


async def test_an_answer_is_written_as_its_request_was(client: Client) -> None:
    answer = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "x"}, is_binary=True)
    assert answer.is_binary
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_silent_connection_is_closed(open_port: Callable[..., Any]) -> None:
    async with open_port(remoting_idle_s=0.01) as running:
        client = await running.connect()
        await client.send("orders", b"x")
        (connection,) = running.port.backend.connections
        connection.check(asyncio.get_running_loop().time() + 1)
        assert await client.is_closed()


async def test_a_frame_that_never_ends_is_given_up(running: Running, client: Client) -> None:
    await client.send("orders", b"x")
    client.writer.write(b"\x00\x00\x10\x00\x00")
    (connection,) = running.port.backend.connections
    while not connection._reader.pending_bytes:
        await asyncio.sleep(0.01)
    now_s = asyncio.get_running_loop().time()
    connection.check(now_s)
    connection.check(now_s + running.app.services.settings.body_timeout_s)
    assert await client.is_closed()


# -- routes ------------------------------------------------------------------------------------


async def test_a_topic_that_does_not_exist_has_no_route(client: Client) -> None:
    answer = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


async def test_the_template_topic_has_the_queues_of_a_new_topic(client: Client) -> None:
    route = await client.document(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"})
    assert route["queueDatas"][0]["writeQueueNums"] == 4


async def test_without_automatic_topics_there_is_no_template(open_port: Callable[..., Any]) -> None:
    async with open_port(auto_create_topics=False) as running:
        client = await running.connect()
        answer = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"})
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        answer = await client.ask(RequestCode.SEND_MESSAGE_V2, sending("orders"), b"x")
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_route_names_the_address_that_was_called(running: Running, client: Client) -> None:
    await client.send("orders", b"x")
    route = await client.document(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": running.port.address}
    assert route["brokerDatas"][0]["brokerName"] == route["queueDatas"][0]["brokerName"] == "kitemq"


async def test_a_route_names_the_advertised_address(open_port: Callable[..., Any]) -> None:
    async with open_port(remoting_advertised="mq.example.org:9876") as running:
        client = await running.connect()
        cluster = await client.document(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert cluster["brokerAddrTable"]["kitemq"]["brokerAddrs"] == {"0": "mq.example.org:9876"}
        assert cluster["clusterAddrTable"] == {"DefaultCluster": ["kitemq"]}


# -- members -----------------------------------------------------------------------------------


async def test_members_are_told_when_one_comes_and_one_is_lost(running: Running) -> None:
    first, second = await running.connect(), await running.connect()
    await first.beat("c1", "billing")
    await first.until_told(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
    await second.beat("c2", "billing")
    told = await first.until_told(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
    assert told.fields == {"consumerGroup": "billing"}
    listed = RequestCode.GET_CONSUMER_LIST_BY_GROUP
    members = await first.document(listed, {"consumerGroup": "billing"})
    assert members == {"consumerIdList": ["c1", "c2"]}
    first.told.clear()
    second.writer.close()
    await first.until_told(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
    members = await first.document(listed, {"consumerGroup": "billing"})
    assert members == {"consumerIdList": ["c1"]}


async def test_a_client_that_unregisters_is_no_member(running: Running, client: Client) -> None:
    await client.beat("c1", "billing", "shipping")
    await client.ok(RequestCode.UNREGISTER_CLIENT, {"clientID": "c1", "consumerGroup": "billing"})
    assert running.broker.members.of("billing") == []
    assert [each.client for each in running.broker.members.of("shipping")] == ["c1"]


async def test_a_heartbeat_without_a_group_leaves_it(running: Running, client: Client) -> None:
    await client.beat("c1", "billing", "shipping")
    await client.beat("c1", "billing")
    assert running.broker.members.of("shipping") == []


async def test_a_member_is_shown_with_language_and_version(
    running: Running, client: Client
) -> None:
    await client.beat("c1", "billing")
    (member,) = running.broker.members.of("billing")
    assert (member.language, member.version, member.topics) == ("JAVA", "5.5.0", {"orders": "*"})
    assert member.is_pulling


async def test_a_group_that_broadcasts_is_made_so(running: Running, client: Client) -> None:
    await client.beat("c1", "news", model="BROADCASTING")
    assert running.broker.is_broadcast("news")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"clientID":""}', b'{"clientID":"a\\u0000"}'])
async def test_a_heartbeat_that_cannot_be_read_is_refused(client: Client, body: bytes) -> None:
    answer = await client.ask(RequestCode.HEART_BEAT, {}, body)
    assert answer.code == ResponseCode.INVALID_PARAMETER


async def test_a_queue_is_locked_for_one_client_until_its_connection_ends(running: Running) -> None:
    first, second = await running.connect(), await running.connect()
    await first.send("orders", b"x")
    await first.beat("c1", "billing")
    await second.beat("c2", "billing")
    queue = {"topic": "orders", "brokerName": "kitemq", "queueId": 1}

    def body(client: str) -> bytes:
        return json.dumps(
            {"consumerGroup": "billing", "clientId": client, "mqSet": [queue]}
        ).encode()

    lock = RequestCode.LOCK_BATCH_MQ
    assert await first.document(lock, {}, body("c1")) == {"lockOKMQSet": [queue]}
    assert await second.document(lock, {}, body("c2")) == {"lockOKMQSet": []}
    second.told.clear()
    first.writer.close()
    await second.until_told(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
    assert await second.document(lock, {}, body("c2")) == {"lockOKMQSet": [queue]}
    await second.ok(RequestCode.UNLOCK_BATCH_MQ, {}, body("c2"))
    assert running.broker.locks.of("billing") == []


# -- the console and metrics ---------------------------------------------------------------------


async def test_the_console_lists_a_client_asks_it_and_sends_it_away(
    running: Running, client: Client
) -> None:
    await client.beat("c1", "billing", producers=("sender",))
    connections = running.app.services.connections
    (listed,) = connections.all()
    assert (listed.client, listed.endpoint, listed.language, listed.version) == (
        "c1",
        "TCP",
        "JAVA",
        "5.5.0",
    )
    (facts,) = connections.find("c1")
    assert (facts.kind, dict(facts.groups)) == (
        "consumer and producer",
        {"billing": {"orders": "*"}},
    )
    asked = asyncio.create_task(connections.endpoint_of("c1").stack("c1", 5.0))
    question = await client.until_told(RequestCode.GET_CONSUMER_RUNNING_INFO)
    body = b'{"mqTable":{{"queueId":0}:{}},"jstack":"main\\n  at x"}'
    client.writer.write(encode(Command(0, question.opaque, Flag.RESPONSE, body=body)))
    assert await asked == "main\n  at x"
    assert connections.disconnect("c1") == 1
    assert await client.is_closed()


async def test_the_metrics_count_requests(running: Running, client: Client) -> None:
    await client.send("orders", b"x")
    await client.ask(31337)
    text = (await running.http.get("/metrics")).text
    assert 'kitemq_remoting_requests_total{request="310",answer="0"} 1' in text
    assert 'kitemq_remoting_requests_total{request="-1",answer="3"} 1' in text
