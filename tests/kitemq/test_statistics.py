"""Statistics through the SDK and the command line, against a real server."""

import json

import pytest

from kitemq import Client, Message
from kitemq.cli import main
from kitemq.errors import NotFound
from tests.live import LiveServer

pytestmark = [pytest.mark.makers, pytest.mark.capabilities("traffic_figures")]


def words(server: LiveServer, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["--server", server.url, *arguments]) == 0
    return capsys.readouterr().out


@pytest.fixture
def busy(server: LiveServer) -> LiveServer:
    with Client(server.url) as client:
        client.messages.send("counted", [Message(body=body) for body in "abc"])
        [first] = client.deliveries.receive("counters", "counted")
        client.deliveries.ack("counters", [first.receipt])
    return server


def test_the_client_asks_for_statistics(busy: LiveServer) -> None:
    with Client(busy.url) as client:
        topic = client.statistics.topic("counted")
        group = client.statistics.group("counters")
        assert topic.traffic.messages_in.total >= 3
        assert group.acked.total >= 1
        assert client.statistics.broker().put_latency.stored.ever.count >= 1
        history = client.statistics.lag_history("counters", topic="counted", queue=0, points=10)
        assert len(history.points) <= 10
        with pytest.raises(NotFound):
            client.statistics.topic("no-such-topic")


def test_the_command_prints_tables_for_people(
    busy: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = words(busy, capsys, "--table", "stats")
    assert "messages in" in whole
    assert "stored us" in whole
    assert "counters" in words(busy, capsys, "--table", "stats", "topic", "counted")
    assert "acked" in words(busy, capsys, "--table", "stats", "group", "counters")
    assert "COUNT MAX" in words(busy, capsys, "--table", "stats", "lag", "counters")


def test_the_command_prints_json_for_programs(
    busy: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(words(busy, capsys, "--json", "stats", "topic", "counted"))
    assert found["traffic"]["messages_in"]["total"] >= 3
    points = words(busy, capsys, "--json", "stats", "lag", "counters", "--points", "5")
    assert 0 < len(points.splitlines()) <= 5
    assert {"time", "samples", "count_max"} <= set(json.loads(points.splitlines()[0]))
