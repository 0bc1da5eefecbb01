"""Statistics through the SDK and the command line, against a real server."""

import json

import pytest

from kitemq import Client
from kitemq.cli import main
from kitemq.errors import NotFound
from tests.live import LiveServer


def words(server: LiveServer, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["--server", server.url, *arguments]) == 0
    return capsys.readouterr().out


@pytest.fixture
def busy(server: LiveServer) -> LiveServer:
    with Client(server.url) as client:
        client.send("counted", [{"body": "a"}, {"body": "b"}, {"body": "c"}])
        [first] = client.receive("counters", "counted")
        client.ack("counters", [first["receipt"]])
    return server


def test_the_client_asks_for_statistics(busy: LiveServer) -> None:
    with Client(busy.url) as client:
        topic = client.topic_statistics("counted")
        group = client.group_statistics("counters")
        assert topic.traffic.messages_in.total >= 3
        assert group.acked.total >= 1
        assert client.statistics().put_latency.stored.ever.count >= 1
        history = client.lag_history("counters", topic="counted", queue=0, points=10)
        assert len(history.points) <= 10
        with pytest.raises(NotFound):
            client.topic_statistics("no-such-topic")


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
