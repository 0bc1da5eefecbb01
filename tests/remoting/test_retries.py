"""Sends to retry topics, by which consumers retry a message that they cannot send back."""

import pytest

from protocol.remoting.codes import RequestCode, ResponseCode
from tests.remoting.port import Client, Running, pulling, records, sending

pytestmark = pytest.mark.anyio

RETRY = "%RETRY%billing"
RETRIED = "RETRY_TOPIC\x01orders\x02ORIGIN_MESSAGE_ID\x01AB12\x02RECONSUME_TIME\x012\x02"


async def test_a_retry_keeps_what_its_consumer_says_of_it(client: Client) -> None:
    await client.beat("c1", "billing")
    properties = f"{RETRIED}MAX_RECONSUME_TIMES\x015\x02REAL_TOPIC\x01others\x02a\x01b\x02"
    await client.send(RETRY, b"x", queue=0, j=2, properties=properties)
    (again,) = records((await client.ok(11, pulling("billing", RETRY, 0))).body)
    assert again.attempt == 3
    assert (
        again.properties
        | {
            "RETRY_TOPIC": "orders",
            "ORIGIN_MESSAGE_ID": "AB12",
            "RECONSUME_TIME": "2",
            "MAX_RECONSUME_TIMES": "5",
            "a": "b",
        }
        == again.properties
    )
    assert "REAL_TOPIC" not in again.properties


async def test_a_retry_waits_for_its_delay_level(running: Running, client: Client) -> None:
    await client.beat("c1", "billing")
    await client.send(RETRY, b"x", queue=0, j=1, properties=f"{RETRIED}DELAY\x011\x02")
    pull = pulling("billing", RETRY, 0, suspendTimeoutMillis=0)
    assert (await client.ask(11, pull)).code == ResponseCode.PULL_NOT_FOUND
    running.advance(1.1)
    (again,) = records((await client.ok(11, pull)).body)
    assert (again.attempt, again.properties["RETRY_TOPIC"]) == (2, "orders")


async def test_a_retry_beyond_its_consumers_limit_is_dead(running: Running, client: Client) -> None:
    await client.beat("c1", "billing")
    for times in (1, 2):
        await client.send(RETRY, b"x", queue=0, j=times, l=1, properties=RETRIED)
    assert running.broker.lag("billing").dead == 1


async def test_other_topics_get_no_properties_of_retries(client: Client) -> None:
    await client.send("orders", b"x", queue=0, j=2, properties=RETRIED)
    await client.beat("c1", "billing")
    (message,) = records((await client.ok(11, pulling("billing", "orders", 0))).body)
    assert message.attempt == 1
    assert "RETRY_TOPIC" not in message.properties


async def test_a_retry_for_no_group_is_refused(client: Client) -> None:
    answer = await client.ask(RequestCode.SEND_MESSAGE_V2, sending("%RETRY%nobody"), b"x")
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
