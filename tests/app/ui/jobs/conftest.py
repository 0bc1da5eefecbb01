"""The browsers of the day's jobs: each job is done in Chromium and in Firefox."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright

from tests.app.ui.conftest import PATIENCE_MS, Site
from tests.app.ui.jobs.hands import Hands, HandsWithoutTimers

ROOT = Path(__file__).parents[4]
FIREFOXES = ("firefox-esr", "firefox")
BROWSERS = ("chromium", "firefox")
# Colours that the relay cannot set are those of every other browser test.
PREFERENCES = {"layout.css.prefers-color-scheme.content-override": 1}

Take = Callable[..., Hands]


def launch_firefox(playwright: Playwright, folder: Path, **preferences: object) -> Browser:
    """The machine's Firefox behind the relay (firefox.py), which Playwright takes for it."""
    executable = next(filter(None, map(shutil.which, FIREFOXES)), None)
    if executable is None:
        pytest.skip("Firefox is missing: on Debian, apt-get install firefox-esr")
    script = folder / "firefox"
    script.write_text(
        f'#!/bin/sh\ncd "{ROOT}" || exit 1\n'
        f'exec "{sys.executable}" -m tests.app.ui.jobs.firefox "{executable}" "$@"\n'
    )
    script.chmod(0o755)
    return playwright.firefox.launch(
        channel="moz-firefox",
        executable_path=script,
        firefox_user_prefs={**PREFERENCES, **preferences},  # type: ignore[dict-item]
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


@pytest.fixture(params=BROWSERS)
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
