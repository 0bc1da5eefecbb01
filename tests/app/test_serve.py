"""The server as a process: it starts, says where, refuses what is unsafe, and stops cleanly."""

import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.serve import EXIT_FAILED, EXIT_REFUSED, main, settle_memory
from kitemq.cli import main as kitemq_main

ROOT = Path(__file__).parents[2]
LIMIT_S = 30
GUARD_S = 100  # no server outlives its test
READY = re.compile(r"ready on (https?://\S+)")


@contextmanager
def serving(data: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server process and its URL; killed at the end if it still runs."""
    command = [sys.executable, "-m", "app.serve", "--data", str(data), "--port", "0", *options]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KITEMQ_")}
    with subprocess.Popen(
        command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True
    ) as process:
        guard = threading.Timer(GUARD_S, process.kill)
        guard.start()
        try:
            yield process, url_of(process)
        finally:
            guard.cancel()
            process.kill()


def url_of(process: subprocess.Popen[str], hear: Callable[[str], object] = len) -> str:
    """The URL once it is ready; `hear` is given each line until then."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        hear(line)
        if found := READY.search(line):
            return found[1]
    raise AssertionError(f"the server never got ready:\n{said}")


def ask(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers)
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        return json.load(answer)


def test_a_server_serves_and_stops_when_told_and_keeps_what_it_was_given(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as (process, url):
        assert ask(f"{url}/readyz")["status"] == "ready"
        ask(f"{url}/api/v1/topics/orders/messages", {"body": "x"})
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    with serving(tmp_path / "data") as (_, url):
        got = ask(f"{url}/api/v1/groups/billing/receive", {"topic": "orders"})
        assert [delivery["body"] for delivery in got["deliveries"]] == ["x"]


def test_stopping_does_not_wait_for_long_polls(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as (process, url):
        answers: list[Any] = []
        wanted = {"topic": "orders", "wait_ms": 30_000}
        ask(f"{url}/api/v1/topics", {"name": "orders"})
        polling = threading.Thread(
            target=lambda: answers.append(ask(f"{url}/api/v1/groups/g/receive", wanted))
        )
        polling.start()
        wait_until_polled(url)
        began_s = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
        assert time.monotonic() - began_s < 5
        polling.join(LIMIT_S)
        assert answers == [{"deliveries": []}]


def wait_until_polled(url: str) -> None:
    """Until a second request is under way beside the one that asks."""
    until_s = time.monotonic() + LIMIT_S
    while time.monotonic() < until_s:
        with urllib.request.urlopen(f"{url}/metrics", timeout=LIMIT_S) as answer:
            if b"\nkitemq_requests_under_way 2\n" in answer.read():
                return
    raise AssertionError("the long poll never arrived")


def test_what_the_start_made_is_passed_over_without_a_look_at_it() -> None:
    looks, before = gc.get_stats()[2]["collections"], gc.get_threshold()
    try:
        settle_memory()
        assert gc.get_freeze_count() > 0
        assert gc.get_stats()[2]["collections"] == looks
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def test_a_directory_in_use_is_said_without_a_stack(tmp_path: Path) -> None:
    with serving(tmp_path / "data"):
        command = [sys.executable, "-m", "app.serve", "--data", str(tmp_path / "data")]
        ended = subprocess.run(
            [*command, "--port", "0"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    assert ended.returncode == EXIT_FAILED
    assert "another process uses" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_an_open_network_without_users_is_refused_with_what_to_do(
    tmp_path: Path, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--host", host, "--port", "0", "--data", str(tmp_path)]) == EXIT_REFUSED
    said = capsys.readouterr().err
    assert host in said
    assert "127.0.0.1" in said
    assert "users add" in said
    assert list(tmp_path.iterdir()) == []


def test_a_provider_counts_as_users_since_everybody_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    issuer = ["--oidc-issuer", "https://idp.example", "--oidc-client-id", "kitemq"]
    where = ["--host", "192.0.2.1", "--port", "0", "--data", str(tmp_path)]
    # Nobody has that address: it is tried, and not refused beforehand.
    assert main([*where, *issuer, "--oidc-roles", "staff=viewer"]) == EXIT_FAILED
    assert "cannot listen on 192.0.2.1" in capsys.readouterr().err


def test_a_port_in_use_is_said_before_anything_is_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["--port", port, "--data", str(tmp_path)]) == EXIT_FAILED
    assert "in use" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_setting_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--default-queues", "many"]) == EXIT_REFUSED
    said = capsys.readouterr().err
    assert "'default_queues'" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", [main, lambda words: kitemq_main(["serve", *words])])
def test_every_setting_is_an_option_of_serve(
    command: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["--default-queues", "many"], ["--default-queues=many"]):
        assert command(words) == EXIT_REFUSED
        assert "'default_queues' from the command line is 'many'" in capsys.readouterr().err


@pytest.mark.parametrize("command", [main, lambda words: kitemq_main(["serve", *words])])
def test_an_unknown_option_of_serve_names_the_closest_setting(
    command: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["--flush-interval", "5"]) == EXIT_REFUSED
    assert "did you mean 'flush_interval_s'" in capsys.readouterr().err


def test_an_unknown_option_of_another_command_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        kitemq_main(["topics", "list", "--flush-interval", "5"])
    assert "--flush-interval" in capsys.readouterr().err
