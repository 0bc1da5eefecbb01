"""The guide "Getting started": its examples run as they stand; steps are ticked when seen."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from app.ui.home import start
from bench.server import Server
from tests.app.conftest import App, started
from tests.app.ui.conftest import PATIENCE_MS

ROOT = Path(__file__).parents[4]
LIMIT_S = 60
SHELL = {
    "curl": ["bash", "-euo", "pipefail", "-c"],
    "Python": [sys.executable, "-W", "error", "-c"],
}
HTML = {"accept": "text/html"}
STEP = re.compile(r'<li id="step-(\w+)"( class="is-done")?>(.*?)</li>', re.DOTALL)
CODE = re.compile(r"<summary>(\w+)</summary>.*?<code>(.*?)</code>", re.DOTALL)


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Server]:
    """A server without topics, in a process of its own."""
    with Server(tmp_path / "data") as server:
        yield server


def steps(base: str) -> dict[str, tuple[bool, dict[str, str]]]:
    """Whether each step is ticked, and its examples by language, as the page shows them."""
    page = httpx.get(f"{base}/help/start", headers=HTML, timeout=LIMIT_S).text
    return {
        name: (bool(tick), {language: unescape(code) for language, code in CODE.findall(rest)})
        for name, tick, rest in STEP.findall(page)
    }


def ticks(base: str) -> list[bool]:
    return [is_done for is_done, __ in steps(base).values()]


def run(base: str, step: str, language: str, folder: Path) -> None:
    """Run the example that the page shows for this server."""
    codes = steps(base)[step][1]
    folder.mkdir(exist_ok=True)
    curl = folder / "curl"
    script = ROOT / "tests" / "docs" / "curl.py"
    curl.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    curl.chmod(0o755)
    path = f"{folder}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        [*SHELL[language], codes[language]],
        env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, f"{step} in {language}\n{ended.stdout}\n{ended.stderr}"


@pytest.mark.slow
@pytest.mark.parametrize("language", ["curl", "Python"])
def test_each_example_runs_as_it_stands_and_ticks_its_step(
    empty: Server, language: str, tmp_path: Path
) -> None:
    assert ticks(empty.url) == [False] * 5
    for number, step in enumerate(start.TEXTS, 1):
        run(empty.url, step, language if step != "resend" else "curl", tmp_path / "bin")
        limit_s = time.monotonic() + LIMIT_S
        while ticks(empty.url) != [True] * number + [False] * (5 - number):
            assert time.monotonic() < limit_s, (step, ticks(empty.url))
            time.sleep(0.05)


@pytest.mark.browser
def test_a_click_sends_the_first_message_and_the_guide_can_be_closed_and_opened_again(
    empty: Server, chromium: Browser
) -> None:
    context = chromium.new_context(base_url=empty.url)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto("/")
    page.locator("#step-send summary", has_text="Python").click()
    expect(page.locator("#step-send pre").nth(1)).to_contain_text(empty.url)
    page.get_by_role("button", name="Send one now").click()
    expect(page.locator("#step-send")).to_contain_text("done")
    expect(page.locator("#step-consume")).not_to_contain_text("done")
    page.get_by_role("button", name="Close", exact=True).click()
    expect(page.locator("#start-title")).to_have_count(0)
    page.goto("/help")
    page.get_by_role("main").get_by_role("link", name="Getting started").click()
    page.get_by_role("button", name="Show on the overview").click()
    expect(page.locator("#start-title")).to_be_visible()
    context.close()


@pytest.mark.anyio
async def test_the_examples_name_the_address_that_the_page_was_called_by(tmp_path: Path) -> None:
    async with started(tmp_path / "data", port=7000, allowed_hosts=("broker.example.org",)) as app:
        shown = await codes(app, "broker.example.org:7000")
    assert "http://broker.example.org:7000/api" in shown["curl"]
    assert '"broker.example.org:7001"' in shown["Java"]
    assert '"broker.example.org:7001"' in shown["Go"]


@pytest.mark.anyio
async def test_without_grpc_there_are_no_examples_that_need_it(tmp_path: Path) -> None:
    async with started(tmp_path / "data", grpc_listen="off") as app:
        shown = await codes(app, "127.0.0.1:8080")
        html = (await app.http.get("/help/start", headers=HTML)).text
    assert list(shown) == ["curl", "Python", "JavaScript"]
    assert "Examples in Java and Go need a gRPC port" in html


@pytest.mark.anyio
async def test_a_server_with_topics_of_its_own_shows_no_guide_on_the_overview(
    tmp_path: Path,
) -> None:
    async with started(tmp_path / "data") as app:
        assert "start-title" in (await app.http.get("/", headers=HTML)).text
        await app.http.post("/api/v1/topics", json={"name": "orders"})
        assert "start-title" not in (await app.http.get("/", headers=HTML)).text


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="Node is missing")
def test_the_example_in_javascript_runs_as_it_stands(empty: Server) -> None:
    code = start.EXAMPLES["send"]["JavaScript"].replace(start.SHOWN_ORIGIN, empty.url)
    subprocess.run(["node", "--input-type=module", "-e", code], timeout=LIMIT_S, check=True)
    assert ticks(empty.url)[0]


async def codes(app: App, host: str) -> dict[str, str]:
    answer = await app.http.get("/help/start?format=json", headers={"host": host})
    steps = answer.json()["guide"]["steps"]
    return dict(steps[0]["codes"])
