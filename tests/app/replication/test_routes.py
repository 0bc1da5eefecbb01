"""The name server of a standby: classic clients that ask it find the leader's broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.main import Application
from app.remoting.port import RemotingPort
from protocol.remoting.codes import RequestCode, ResponseCode
from tests.app.replication.conftest import Opened
from tests.app.replication.test_follower import caught_up, following, until
from tests.grpc.endpoint import listening, monitor_of
from tests.remoting.port import Client, beat_of, pulling, sending

pytestmark = pytest.mark.anyio

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


@asynccontextmanager
async def classic(app: Application) -> AsyncIterator[RemotingPort]:
    """The application's port for classic clients."""
    port = RemotingPort(app.services, [listening()], monitor_of(app))
    await port.start()
    try:
        yield port
    finally:
        await port.stop()


@asynccontextmanager
async def client_of(address: str) -> AsyncIterator[Client]:
    host, _, port = address.rpartition(":")
    client = Client(*await asyncio.open_connection(host, int(port)))
    try:
        yield client
    finally:
        client.writer.close()


def brokers(route: Any) -> list[dict[str, Any]]:
    return [{**each, "brokerAddrs": dict(each["brokerAddrs"])} for each in route["brokerDatas"]]


async def test_a_standby_names_its_leaders_broker(opened: Opened, tmp_path: Path) -> None:
    names = {"broker_name": "one", "cluster_name": "ours"}
    async with opened(**names) as leader, classic(leader.app) as leading:
        leader.send(b"x")
        async with (
            following(leader, tmp_path) as standby,
            classic(standby.app) as port,
            client_of(port.address) as client,
        ):
            await caught_up(leader, standby)
            route = await client.document(ROUTE, {"topic": "orders"})
            [broker] = brokers(route)
            assert broker["brokerAddrs"] == {"0": leading.address}
            assert (broker["brokerName"], broker["cluster"]) == ("one", "ours")
            assert [each["brokerName"] for each in route["queueDatas"]] == ["one"]
            cluster = await client.document(RequestCode.GET_BROKER_CLUSTER_INFO)
            assert cluster["clusterAddrTable"] == {"ours": ["one"]}
            unknown = await client.ask(ROUTE, {"topic": "nobody-knows-it"})
            assert unknown.code == ResponseCode.TOPIC_NOT_EXIST


async def test_the_broker_of_a_standby_refuses_everything(opened: Opened, tmp_path: Path) -> None:
    async with (
        opened() as leader,
        following(leader, tmp_path) as standby,
        classic(standby.app) as port,
        client_of(port.address) as client,
    ):
        leader.send(b"x")
        await caught_up(leader, standby)
        for code, fields, body in (
            (RequestCode.SEND_MESSAGE_V2, sending("orders"), b"y"),
            (RequestCode.PULL_MESSAGE, pulling("billing", "orders", 0), b""),
            (RequestCode.HEART_BEAT, {}, beat_of("c", "billing")),
        ):
            answer = await client.ask(code, fields, body)
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "is a standby of" in answer.remark
        assert standby.app.services.host.broker.log_end == leader.broker.log_end


async def test_a_standby_that_never_heard_its_leader_knows_no_route(
    opened: Opened, tmp_path: Path
) -> None:
    async with opened() as leader:  # without a port for classic clients
        leader.send(b"x")
        async with (
            following(leader, tmp_path) as standby,
            classic(standby.app) as port,
            client_of(port.address) as client,
        ):
            await caught_up(leader, standby)
            answer = await client.ask(ROUTE, {"topic": "orders"})
            assert answer.code == ResponseCode.TOPIC_NOT_EXIST
            assert "where its broker is" in answer.remark


@pytest.mark.parametrize(
    ("advertised", "expected"), [("", "127.0.0.1:{port}"), ("mq.example:9876", "mq.example:9876")]
)
async def test_a_broker_on_all_addresses_is_named_by_that_which_is_followed(
    opened: Opened, tmp_path: Path, advertised: str, expected: str
) -> None:
    async with opened(remoting_advertised=advertised) as leader:
        services = leader.app.services
        port = RemotingPort(services, [everywhere := listening("0.0.0.0")], monitor_of(leader.app))
        await port.start()
        try:
            async with following(leader, tmp_path) as standby:
                seen = standby.app.services.following
                await until(lambda: seen.profile)
                number = everywhere.getsockname()[1]
                assert seen.broker_address() == expected.format(port=number)
        finally:
            await port.stop()


async def test_other_names_than_the_leaders_are_warned_of(
    opened: Opened, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        opened(broker_name="one") as leader,
        following(leader, tmp_path, broker_name="two") as standby,
    ):
        await until(lambda: standby.app.services.following.profile)
    assert "are one and DefaultCluster, here they are two and DefaultCluster" in caplog.text
