"""`kitemq topics purge` and `kitemq retention`."""

import json

import pytest

from kitemq import Client, Message
from kitemq.cli import main
from tests.live import LiveServer

pytestmark = [pytest.mark.makers, pytest.mark.capabilities("purges")]

OK, FAILED, REFUSED = range(3)


@pytest.fixture
def run(server: LiveServer, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    with Client(server.url) as client:
        client.topics.create("orders", read_queues=1, write_queues=1)
        client.messages.send("orders", [Message(body=str(number)) for number in range(5)])

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["--server", server.url, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_topic_is_purged_up_to_an_offset_only_when_confirmed(run, server: LiveServer) -> None:  # type: ignore[no-untyped-def]
    code, _, err = run("topics", "purge", "orders", "--before-offset", "0=3")
    assert (code, "--yes" in err, "purge 3 messages" in err) == (REFUSED, True, True)
    code, out, _ = run("topics", "purge", "orders", "--before-offset", "0=3", "--yes")
    assert (code, json.loads(out)["count"]) == (OK, 3)
    with Client(server.url) as client:
        assert client.topics.get("orders").queues[0].min_offset == "3"


def test_a_dry_run_asks_nothing_and_takes_nothing(run) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = run("topics", "purge", "orders", "--all", "--dry-run")
    assert (code, json.loads(out)["count"]) == (OK, 5)
    code, out, err = run("--table", "topics", "purge", "orders", "--all", "--dry-run")
    assert (code, "FROM OFFSET" in out, "would go" in err) == (OK, True, True)


def test_a_purge_by_time_takes_a_date(run) -> None:  # type: ignore[no-untyped-def]
    _, out, _ = run("topics", "purge", "orders", "--before", "2001-01-01T00:00Z", "--yes")
    assert json.loads(out)["count"] == 0
    _, out, _ = run("topics", "purge", "orders", "--before", "2999-01-01T00:00Z", "--yes")
    assert json.loads(out)["count"] == 5


def test_what_is_no_place_in_a_queue_is_refused(run) -> None:  # type: ignore[no-untyped-def]
    code, _, err = run("topics", "purge", "orders", "--before-offset", "0:3", "--yes")
    assert (code, "QUEUE=OFFSET" in err) == (REFUSED, True)


def test_retention_is_shown_and_a_topics_own_is_set_in_words(run) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = run("retention")
    assert (code, json.loads(out)["retention_ms"]) == (OK, 72 * 3_600_000)
    code, out, _ = run("topics", "change", "orders", "--retention", "1.5h")
    assert (code, json.loads(out)["retention_ms"]) == (OK, 5_400_000)
