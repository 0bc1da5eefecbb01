"""The broker on a port of its own, and clients that send to the port two below it."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.listeners import REMOTING_BROKER, CannotListen, close, open_listeners
from app.remoting_settings import broker_at
from app.services.exposure import plain_ports
from app.settings import Settings, SettingsError, load
from engine.host import host_text
from protocol.remoting.codes import RequestCode
from tests.remoting.server_process import Server, served
from tests.remoting.test_java import VERSIONS, driver_of

PORTS = re.compile(r"their broker is on (\S+) and (\S+)")
OFF = {"port": 0, "grpc_listen": "off", "remoting_listen": "0"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", None), ("10911", ("10.0.0.1", 10911)), ("[::1]:10911", ("[::1]", 10911))],
)
def test_where_the_broker_listens(text: str, expected: tuple[str, int] | None) -> None:
    assert broker_at(Settings(remoting_broker_listen=text), "10.0.0.1") == expected


@pytest.mark.parametrize("wrong", ["here", "h:99999", "2"])
def test_a_broker_port_that_cannot_be_is_refused(wrong: str) -> None:
    with pytest.raises(SettingsError, match="remoting_broker_listen"):
        load({"remoting_broker_listen": wrong}, environ={})


def test_a_broker_port_needs_a_name_server() -> None:
    with pytest.raises(SettingsError, match="remoting_listen"):
        load({"remoting_broker_listen": "10911", "remoting_listen": "off"}, environ={})


def test_a_broker_that_a_network_reaches_without_tls_is_said() -> None:
    settings = Settings(remoting_broker_listen="10.1.2.3:10911")
    assert plain_ports(settings) == ("RocketMQ's TCP protocol on 10.1.2.3",)


def test_a_port_two_below_that_is_in_use_is_named() -> None:
    listeners = open_listeners(Settings(remoting_broker_listen="0", **OFF))
    try:
        broker, below = (each.getsockname()[1] for each in listeners[REMOTING_BROKER])
        assert below == broker - 2
        taken = Settings(remoting_broker_listen=str(below + 2), **OFF)
        listeners[REMOTING_BROKER][0].close()
        with pytest.raises(CannotListen, match=f"{below} is in use.*--remoting-broker-listen"):
            open_listeners(taken)
    finally:
        close(listeners)


@pytest.mark.anyio
async def test_routes_name_the_brokers_port_whichever_is_called(
    open_port: Callable[..., Any],
) -> None:
    settings = Settings(remoting_broker_listen="0", **OFF)
    opened = open_listeners(settings)
    (name_server,), pair = opened["--remoting-listen"], opened[REMOTING_BROKER]
    listeners = [name_server, *pair]
    addresses = [host_text(*each.getsockname()) for each in listeners]
    async with open_port(listeners=listeners) as running:
        for number, address in enumerate(addresses):
            client = await running.connect(address)
            await client.send("orders", str(number).encode())
            route = await client.document(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
            assert route["brokerDatas"][0]["brokerAddrs"] == {"0": addresses[1]}
            config = (await client.ok(RequestCode.GET_BROKER_CONFIG)).body.decode()
            assert f"namesrvAddr={addresses[0]}\n" in config
            config = (await client.ok(RequestCode.GET_NAMESRV_CONFIG)).body.decode()
            assert f"listenPort={addresses[0].rpartition(':')[2]}\n" in config
        assert running.broker.topic_stats("orders").messages == 3
    close(opened)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    options = ("--remoting-broker-listen", "0")
    with served(tmp_path_factory.mktemp("server"), options) as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_a_java_client_with_the_vip_channel_sends_two_ports_below(
    version: str, server: Server, tmp_path: Path
) -> None:
    broker, below = PORTS.search(server.start).groups()  # type: ignore[union-attr]
    vip = "-Dcom.rocketmq.sendMessageWithVIPChannel=true"
    java = driver_of(version, server.address, tmp_path, vip)
    topic = f"vip-{version.replace('.', '-')}"
    java.lines("send", topic, 3)
    got = java.said("GOT", "push", topic, topic, "*", 4)
    assert sorted(line[0] for line in got) == ["large:100000", "m0", "m1", "m2"]
    logs = "".join(each.read_text() for each in tmp_path.rglob("*.log"))
    assert re.search(rf"connect\w* .*{below}", logs)
    assert re.search(rf"connect\w* .*{broker}", logs)
