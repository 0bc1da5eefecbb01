"""A real server with real traffic, and a real Chromium and Firefox that look at it."""

import asyncio
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

from app.main import create_app
from app.settings import Settings
from engine.clock import Clock
from tests.app.ui.hands import Hands, HandsWithoutTimers
from tests.app.ui.reports import report_scene
from tests.app.ui.scenery import Scenery

ROOT = Path(__file__).parents[3]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FIREFOXES = ("firefox-esr", "firefox")
PATIENCE_MS = 30_000  # on a machine that does other things as well
CHROMIUM_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
# Colours that the relay cannot set are those of every other browser test.
FIREFOX_PREFERENCES = {"layout.css.prefers-color-scheme.content-override": 1}
START_LIMIT_S = 60.0


class Site:
    """A server on a free port of the loopback, in a thread of its own."""

    def __init__(self, data: Path, clock: Clock | None = None) -> None:
        self.data = data
        settings = Settings(
            data=data,
            port=0,
            disk_free_min_bytes=0,
            environment="staging",
            # Undecided stays undecided, a member a member, however long the tests take.
            transaction_check_interval_s=86_400,
            member_timeout_s=86_400,
            # The figures of the scene stay; runs of their own would take the machine.
            report_schedules=False,
        )
        self.app = create_app(settings, clock=clock)
        config = uvicorn.Config(self.app, port=0, log_level="warning", loop="asyncio", ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Site":
        self._thread.start()
        limit_s = time.monotonic() + START_LIMIT_S
        while not self._server.started:
            assert self._thread.is_alive(), "the server died while starting"
            assert time.monotonic() < limit_s, "the server did not start in time"
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.base = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(START_LIMIT_S)

    def _run(self) -> None:
        async def main() -> None:
            await self._server.serve()
            # Connections that were closed last need a turn of the loop to let go of their sockets.
            await asyncio.sleep(0.01)

        asyncio.run(main())


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The server of the browser tests; they share it, so each makes what it changes."""
    with Site(tmp_path_factory.mktemp("site") / "data") as site:
        scenery = Scenery(site.base)
        scenery.build()
        scenery.close()
        report_scene.build(site.data / "kitemq.db", site.app.console.now_ms())
        yield site


@pytest.fixture
def scenery(site: Site) -> Iterator[Scenery]:
    """A client of the shared server."""
    scenery = Scenery(site.base)
    yield scenery
    scenery.close()


def find_browser() -> str | None:
    """The machine's Chromium, if it has one."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    """What drives every browser: a thread has one."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    executable = find_browser()
    if executable is None:
        pytest.skip("Chromium is missing: on Debian, apt-get install chromium")
    browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_ARGUMENTS)
    yield browser
    browser.close()


OpenPage = Callable[..., Page]


@pytest.fixture
def base(site: Site) -> str:
    """The address of the server whose pages `open_page` opens."""
    return site.base


@pytest.fixture
def open_page(chromium: Browser, base: str) -> Iterator[OpenPage]:
    """Open a path in a new browser context; script errors fail the test.

    `javascript`, `theme` and `width` describe the browser; `refresh_s` is what its user chose.
    """
    contexts = []
    failures: list[str] = []

    def open_(
        path: str,
        *,
        javascript: bool = True,
        theme: str = "light",
        width: int = 1280,
        refresh_s: int = 0,
    ) -> Page:
        context = chromium.new_context(
            base_url=base,
            java_script_enabled=javascript,
            color_scheme="dark" if theme == "dark" else "light",
            viewport={"width": width, "height": 900},
        )
        contexts.append(context)
        context.add_cookies([{"name": "kitemq_refresh", "value": str(refresh_s), "url": base}])
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.goto(path)
        # htmx takes the page up in a timer of its own, which a slow machine runs after "load".
        if javascript:
            expect(page.locator("[data-live]:not([data-htmx-powered])")).to_have_count(0)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not failures, failures


# -- the day's jobs, in Chromium and in Firefox ---------------------------------------------------

Take = Callable[..., Hands]


def launch_firefox(playwright: Playwright, folder: Path, **preferences: object) -> Browser:
    """The machine's Firefox behind the relay (firefox.py), which Playwright takes for it."""
    executable = next(filter(None, map(shutil.which, FIREFOXES)), None)
    if executable is None:
        pytest.skip("Firefox is missing: on Debian, apt-get install firefox-esr")
    script = folder / "firefox"
    script.write_text(
        f'#!/bin/sh\ncd "{ROOT}" || exit 1\n'
        f'exec "{sys.executable}" -m tests.app.ui.firefox "{executable}" "$@"\n'
    )
    script.chmod(0o755)
    return playwright.firefox.launch(
        channel="moz-firefox",
        executable_path=script,
        firefox_user_prefs={**FIREFOX_PREFERENCES, **preferences},  # type: ignore[dict-item]
        env={"HOME": str(folder)},
    )


@pytest.fixture(scope="session")
def firefox(playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = launch_firefox(playwright, tmp_path_factory.mktemp("firefox"))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def firefox_without_script(
    playwright: Playwright, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    """Firefox knows no pages without JavaScript beside others with it."""
    folder = tmp_path_factory.mktemp("firefox")
    browser = launch_firefox(playwright, folder, **{"javascript.enabled": False})
    yield browser
    browser.close()


@pytest.fixture(params=("chromium", "firefox"))
def browser_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def take(request: pytest.FixtureRequest, browser_name: str) -> Iterator[Take]:
    """Hands on a page of the test's browser, which begins at the overview of `base`.

    An error of a script fails the test.
    """
    contexts = []
    failures: list[str] = []

    def take_(base: str = "", *, javascript: bool = True, width: int = 1280) -> Hands:
        if not base:
            site: Site = request.getfixturevalue("site")
            base = site.base
        is_plain_firefox = browser_name == "firefox" and not javascript
        name = "firefox_without_script" if is_plain_firefox else browser_name
        browser: Browser = request.getfixturevalue(name)
        context = browser.new_context(
            base_url=base,
            java_script_enabled=javascript or is_plain_firefox,
            viewport={"width": width, "height": 900},
        )
        contexts.append(context)
        context.add_cookies([{"name": "kitemq_refresh", "value": "0", "url": base}])
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.goto("/")
        hands = (HandsWithoutTimers if is_plain_firefox else Hands)(page)
        hands.see(page.get_by_role("main"))
        return hands

    yield take_
    for context in contexts:
        context.close()
    assert not failures, failures
