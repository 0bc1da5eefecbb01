"""`Client.journey` and `kitemq trace`: a timeline for people, one document for programs."""

import json

import pytest

from kitemq import Client, Message
from kitemq.cli import main
from kitemq.commands.trace import length, lines_of
from kitemq.model.journeys import Journey
from tests.live import LiveServer

pytestmark = [pytest.mark.makers, pytest.mark.capabilities("delivery_records")]


def consumed(server: LiveServer) -> str:
    """A message that failed once and lies in the dead letters; its id."""
    with Client(server.url) as client:
        sent = client.messages.send("orders", [Message(body="x", tag="a")]).messages
        (delivery,) = client.deliveries.receive("billing", "orders", client="till-1")
        client.deliveries.nack("billing", [delivery.receipt], error="no such account")
        return sent[0].message_id


def test_the_client_gets_the_journey_and_the_status(server: LiveServer) -> None:
    message_id = consumed(server)
    with Client(server.url) as client:
        journey = client.traces.journey(message_id)
        assert [each.name for each in journey.stages] == [
            "produce",
            "store",
            "wait",
            "delivery",
            "retry_wait",
        ]
        assert client.traces.status().recorded == 2
        assert client.traces.journey("nothing").stages == []


def test_a_person_sees_a_timeline(server: LiveServer, capsys: pytest.CaptureFixture[str]) -> None:
    message_id = consumed(server)
    assert main(["--server", server.url, "trace", message_id, "--table"]) == 0
    head, *lines, last = capsys.readouterr().out.splitlines()
    assert head.startswith(f"{message_id}  orders  ")
    assert [line.split()[1] for line in lines] == ["produce", "store", "wait", "delivery", "retry"]
    assert "till-1" in lines[3]
    assert lines[3].endswith("no such account")
    assert "goes on" in lines[4]
    assert last == "billing: retry waiting, 1 delivery"


def test_a_program_gets_one_document(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    message_id = consumed(server)
    assert main(["--server", server.url, "trace", message_id, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["message_id"] == message_id
    assert main(["--server", server.url, "trace", "--status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recorded"] == 2


def test_an_unknown_id_fails_and_says_what_was_looked_at(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--server", server.url, "trace", "nobody-has-this", "--table"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "kind of id? yes" in captured.err
    assert "retention? no" in captured.err
    assert main(["--server", server.url, "trace", "nobody-has-this", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["stages"] == []


@pytest.mark.parametrize("words", [["trace"], ["trace", "X", "--status"]])
def test_an_id_or_the_status_is_asked_for(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("span_ms", "wanted"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (1500, "1.5s"),
        (61_000, "1m01s"),
        (7_500_000, "2h05m"),
        (273_600_000, "3d04h"),
    ],
)
def test_a_span_is_short(span_ms: int, wanted: str) -> None:
    assert length(span_ms) == wanted


def test_an_empty_journey_has_no_lines() -> None:
    assert lines_of(Journey("", "", [], [], [], True)) == []
