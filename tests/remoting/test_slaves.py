"""What slaves of RocketMQ are told: where their master is, and how far what they copy is."""

from collections.abc import Callable
from typing import Any

import pytest

from protocol.remoting.codes import RequestCode, ResponseCode
from tests.remoting.port import Running

pytestmark = pytest.mark.anyio

SLAVE = {"brokerName": "kitemq", "brokerAddr": "127.0.0.1:20911", "brokerId": "1"}
HA = {"ha_listen": "127.0.0.1:19912"}
SECRET = {"ha_secret": "what both of them know"}


async def test_a_slave_is_told_where_its_master_is(open_port: Callable[..., Any]) -> None:
    async with open_port(**HA) as running:
        client = await running.connect()
        answer = await client.ok(RequestCode.REGISTER_BROKER, SLAVE, b"{}")
        assert answer.fields["haServerAddr"] == HA["ha_listen"]
        assert answer.fields["masterAddr"] == running.port.address


@pytest.mark.parametrize(
    ("wrong", "settings"),
    [
        ({"brokerName": "other"}, HA),
        ({"brokerId": "0"}, HA),
        ({}, {}),
        ({}, {**HA, **SECRET}),
    ],
)
async def test_no_other_broker_is_registered(
    open_port: Callable[..., Any], wrong: dict[str, str], settings: dict[str, str]
) -> None:
    async with open_port(**settings) as running:
        client = await running.connect()
        answer = await client.ask(RequestCode.REGISTER_BROKER, {**SLAVE, **wrong}, b"{}")
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert "haServerAddr" not in answer.fields


async def test_a_slave_reads_how_far_delay_levels_are(running: Running) -> None:
    client = await running.connect()
    before = await client.document(RequestCode.GET_ALL_DELAY_OFFSET)
    await client.send("orders", b"x", i="DELAY\x011\x02")
    assert await client.document(RequestCode.GET_ALL_DELAY_OFFSET) != before
    running.advance(1.5)
    await client.send("orders", b"y")
    later = await client.document(RequestCode.GET_ALL_DELAY_OFFSET)
    assert later["offsetTable"]["1"] == 1
