"""What a page shows as runnable runs as it stands, against a real server."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.server import Server
from tests.docs.pages import ROOT, Example, examples

pytestmark = pytest.mark.slow

SHOWN_URL = "http://127.0.0.1:8080"
LIMIT_S = 270  # Spark takes a while to start on a busy machine


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("examples") / "data") as running:
        yield running


@pytest.fixture
def shell_path(tmp_path: Path) -> str:
    """PATH with our own curl in front, as a fresh machine may have none."""
    curl = tmp_path / "curl"
    script = Path(__file__).with_name("curl.py")
    curl.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    curl.chmod(0o755)
    return f"{tmp_path}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def run(example: Example, url: str, path: str, folder: Path) -> str:
    """The example's output; fails with all it said where it did not end well."""
    assert example.language in {"python", "sh"}, f"{example.name}: cannot be run"
    text = example.text.replace(SHOWN_URL, url).replace(
        SHOWN_URL.replace("http", "ws", 1), url.replace("http", "ws", 1)
    )
    command = {
        "python": [sys.executable, "-W", "error", "-c", text],
        "sh": ["bash", "-euo", "pipefail", "-c", text],
    }[example.language]
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "KITEMQ_SERVER": url}
    ended = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, f"{example.name}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_a_runnable_example_runs_as_it_stands(
    example: Example, server: Server, shell_path: str, tmp_path: Path
) -> None:
    run(example, server.url, shell_path, tmp_path)


def test_the_readme_shows_both_a_shell_and_a_python_example_that_run() -> None:
    shown = [example.language for example in examples() if example.page == "README.md"]
    assert shown == ["sh", "python"]


def test_the_readmes_first_example_ends_with_an_acknowledged_message(
    server: Server, shell_path: str, tmp_path: Path
) -> None:
    first = examples()[0]
    output = run(first, server.url, shell_path, tmp_path)
    end = json.loads(output[output.rindex('{"results"') :])
    assert [result["result"] for result in end["results"]] == ["done"]


def test_the_readmes_python_example_receives_what_it_sent(
    server: Server, shell_path: str, tmp_path: Path
) -> None:
    output = run(examples()[1], server.url, shell_path, tmp_path)
    assert "12.50 EUR" in output
