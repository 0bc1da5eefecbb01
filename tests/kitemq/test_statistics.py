"""Statistics through the SDK and the command line, against a real server."""

import json

import pytest

from app.cluster import traffic_sampler
from kitemq import Client, Message
from kitemq.cli import main
from kitemq.errors import Busy, NotFound
from tests.live import LiveServer
from tests.patience import until

pytestmark = [pytest.mark.makers, pytest.mark.capabilities("traffic_figures")]


def words(server: LiveServer, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["--server", server.url, *arguments]) == 0
    return capsys.readouterr().out


@pytest.fixture
def busy(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> LiveServer:
    """Its traffic is known; before a cluster that takes two samples."""
    monkeypatch.setattr(traffic_sampler, "INTERVAL_S", 0.1)
    with Client(server.url) as client:
        client.messages.send("counted", [Message(body=body) for body in "abc"])
        [first] = client.deliveries.receive("counters", "counted")
        client.deliveries.ack("counters", [first.receipt])
        until(lambda: is_sampled(client))
        client.messages.send("counted", [Message(body=body) for body in "def"])
        until(lambda: client.statistics.topic("counted").traffic.messages_in.total >= 3)
    return server


def is_sampled(client: Client) -> bool:
    try:
        return client.statistics.topic("counted").topic == "counted"
    except Busy:
        return False


def test_the_client_asks_for_statistics(busy: LiveServer) -> None:
    with Client(busy.url) as client:
        can = client.server.info().capabilities
        topic = client.statistics.topic("counted")
        group = client.statistics.group("counters")
        assert topic.traffic.messages_in.total >= 3
        assert bool(group.acked and group.acked.total) is can.delivery_figures
        latency = client.statistics.broker().put_latency
        assert bool(latency and latency.stored.ever.count) is can.delivery_figures
        history = client.statistics.lag_history("counters", topic="counted", queue=0, points=10)
        assert len(history.points) <= 10
        with pytest.raises(NotFound):
            client.statistics.topic("no-such-topic")


def test_the_command_prints_tables_for_people(
    busy: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = words(busy, capsys, "--table", "stats")
    assert "messages in" in whole
    with Client(busy.url) as client:
        has_times = client.server.info().capabilities.delivery_figures
    assert ("stored us" in whole) is has_times
    assert "messages out" in words(busy, capsys, "--table", "stats", "topic", "counted")
    group = words(busy, capsys, "--table", "stats", "group", "counters")
    assert "messages out" in group
    assert ("acked" in group.partition("TOPIC")[0]) is has_times
    assert "COUNT MAX" in words(busy, capsys, "--table", "stats", "lag", "counters")


def test_the_command_prints_json_for_programs(
    busy: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(words(busy, capsys, "--json", "stats", "topic", "counted"))
    assert found["traffic"]["messages_in"]["total"] >= 3
    points = words(busy, capsys, "--json", "stats", "lag", "counters", "--points", "5")
    assert 0 < len(points.splitlines()) <= 5
    assert {"time", "samples", "count_max"} <= set(json.loads(points.splitlines()[0]))
