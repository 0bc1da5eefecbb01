"""Who may do what over the port for classic clients, by access key and signature."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.frames import Command
from protocol.remoting.signature import sign
from tests.grpc.test_endpoint import PASSWORD, key_for
from tests.remoting.port import Client, Running, beat_of, pulling, sending
from tests.remoting.test_pop import mode, popping

pytestmark = pytest.mark.anyio

RECEIPT = "0 1 1 0 0 kitemq 0 0"
ACK = {
    "consumerGroup": "billing",
    "topic": "orders",
    "queueId": 0,
    "offset": 0,
    "extraInfo": RECEIPT,
}


def batch(group: str, topic: str) -> bytes:
    entry = {"c": group, "t": topic, "r": "0", "so": 0, "q": 0, "pt": 1, "it": 1, "b": "AQ=="}
    return json.dumps({"acks": [entry]}).encode()


def query(group: str) -> bytes:
    return json.dumps({"topic": "orders", "consumerGroup": group, "clientId": "c1"}).encode()


@pytest.mark.parametrize(("version", "is_in"), [(399, False), (409, True), (513, True)])
def test_clients_sign_the_kind_of_a_query_since_4_9_4(version: int, is_in: bool) -> None:
    fields = {"AccessKey": "boss", "key": "k1", "_UNIQUE_KEY_QUERY": "false"}
    both = [
        sign(Command(int(RequestCode.QUERY_MESSAGE), 1, version=version, fields=each), "secret")
        for each in (fields, fields | {"_UNIQUE_KEY_QUERY": "true"})
    ]
    assert (both[0] != both[1]) == is_in


async def signed(running: Running, role: str, *patterns: str) -> Client:
    made = await key_for(running, role, *patterns)  # type: ignore[arg-type]
    client = await running.connect()
    client.keys = made["access_key"], made["secret_key"]
    return client


async def test_without_a_good_signature_nothing_is_done(open_port: Callable[..., Any]) -> None:
    async with open_port(admin_password=PASSWORD) as running:
        good = await signed(running, "admin")
        stranger, forger = await running.connect(), await running.connect()
        assert good.keys is not None
        forger.keys = good.keys[0], "wrong"
        for client in (stranger, forger):
            answer = await client.ask(RequestCode.SEND_MESSAGE_V2, sending("orders"), b"x")
            assert answer.code == ResponseCode.NO_PERMISSION
        await good.send("orders", b"x")
        assert running.broker.topic_stats("orders").messages == 1


async def test_a_signature_covers_fields_and_body(open_port: Callable[..., Any]) -> None:
    async with open_port(admin_password=PASSWORD) as running:
        client = await signed(running, "admin")
        from protocol.remoting.frames import Command
        from protocol.remoting.signature import ACCESS_KEY, SIGNATURE, sign

        assert client.keys is not None
        fields = {name: str(value) for name, value in sending("orders").items()}
        fields[ACCESS_KEY] = client.keys[0]
        mark = sign(Command(310, fields=dict(fields), body=b"x"), client.keys[1])
        client.keys = None
        answer = await client.ask(310, fields | {SIGNATURE: mark}, b"x")
        assert answer.code == ResponseCode.SUCCESS
        changed = fields | {SIGNATURE: mark}
        assert (await client.ask(310, changed, b"y")).code == ResponseCode.NO_PERMISSION
        changed |= {"b": "others"}
        assert (await client.ask(310, changed, b"x")).code == ResponseCode.NO_PERMISSION


async def test_a_token_reaches_as_far_as_its_patterns(open_port: Callable[..., Any]) -> None:
    async with open_port(admin_password=PASSWORD) as running:
        admin = await signed(running, "admin")
        await admin.send("orders", b"x", queue=0)
        await admin.send("others", b"x", queue=0)
        consumer = await signed(
            running, "operator", "consume:topic:orders", "consume:group:billing"
        )
        refused = ResponseCode.NO_PERMISSION
        asked = [
            (RequestCode.SEND_MESSAGE_V2, sending("orders"), b"x"),
            (RequestCode.PULL_MESSAGE, pulling("billing", "others", 0), b""),
            (RequestCode.PULL_MESSAGE, pulling("shipping", "orders", 0), b""),
            (RequestCode.HEART_BEAT, {}, beat_of("c1", "shipping")),
            (RequestCode.POP_MESSAGE, popping("billing", "others"), b""),
            (RequestCode.POP_MESSAGE, popping("shipping", "orders"), b""),
            (RequestCode.NOTIFICATION, popping("shipping", "orders"), b""),
            (RequestCode.POLLING_INFO, popping("shipping", "orders"), b""),
            (RequestCode.ACK_MESSAGE, ACK | {"topic": "others"}, b""),
            (RequestCode.ACK_MESSAGE, ACK | {"consumerGroup": "shipping"}, b""),
            (RequestCode.CHANGE_MESSAGE_INVISIBLETIME, ACK | {"topic": "others"}, b""),
            (RequestCode.BATCH_ACK_MESSAGE, {}, batch("billing", "others")),
            (RequestCode.BATCH_ACK_MESSAGE, {}, batch("shipping", "orders")),
            (RequestCode.QUERY_ASSIGNMENT, {}, query("shipping")),
            (RequestCode.SET_MESSAGE_REQUEST_MODE, {}, mode("POP", group="billing")),
            (RequestCode.RECALL_MESSAGE, {"topic": "orders", "recallHandle": "x"}, b""),
            (RequestCode.SEND_REPLY_MESSAGE_V2, sending("DefaultCluster_REPLY_TOPIC"), b"x"),
            (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}, b""),
            (RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "billing"}, b""),
            (RequestCode.VIEW_MESSAGE_BY_ID, {"offset": 0}, b""),
        ]
        for code, fields, body in asked:
            answer = await consumer.ask(code, fields, body)
            assert answer.code == refused, (code, answer)
            assert "right" in answer.remark
        await consumer.ok(RequestCode.HEART_BEAT, {}, beat_of("c1", "billing"))
        await consumer.ok(RequestCode.PULL_MESSAGE, pulling("billing", "orders", 0))
        await consumer.ok(RequestCode.QUERY_ASSIGNMENT, {}, query("billing"))
        await consumer.ok(RequestCode.POP_MESSAGE, popping("billing", "orders"))
        await consumer.send("%RETRY%billing", b"x")  # the right to consume covers retries


async def test_a_client_name_of_another_user_is_refused(open_port: Callable[..., Any]) -> None:
    async with open_port(admin_password=PASSWORD) as running:
        admin = await signed(running, "admin")
        await admin.ok(RequestCode.HEART_BEAT, {}, beat_of("c1", "billing"))
        second = await signed(running, "operator", "*:*:*")
        answer = await second.ask(RequestCode.HEART_BEAT, {}, beat_of("c1", "billing"))
        assert answer.code == ResponseCode.NO_PERMISSION


async def test_a_read_only_server_takes_nothing(open_port: Callable[..., Any]) -> None:
    async with open_port(read_only=True) as running:
        client = await running.connect()
        answer = await client.ask(RequestCode.SEND_MESSAGE_V2, sending("orders"), b"x")
        assert answer.code == ResponseCode.NO_PERMISSION
        assert "read-only" in answer.remark
