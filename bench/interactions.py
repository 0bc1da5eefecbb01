"""How soon a page of 200 rows answers a person: from the input to Chromium's next frame.

Every script that holds the page's thread for 50 ms or more counts as well, so also the arrival of
rows. Without Chromium or Playwright there are no figures.
"""

import importlib
import shutil
from collections.abc import Sequence
from typing import Any

from bench.figures import Figure, times_of

NAME = "interaction, 200 rows"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PAGES = ("/topics?type=all&size=200", "/groups?size=200")
FRAME_MS = 16  # the shortest time that Chromium tells
SETTLE_MS = 400  # until the rows for what was typed are there
OBSERVE = f"""() => {{
  window.took = [];
  const keep = (list) => {{
    const inputs = list.getEntries().filter((one) => one.interactionId !== 0);
    window.took.push(...inputs.map((one) => one.duration));
  }};
  new PerformanceObserver(keep).observe({{ type: "event", durationThreshold: {FRAME_MS} }});
  new PerformanceObserver(keep).observe({{ type: "longtask" }});
}}"""


def measure(url: str, times: int) -> list[Figure]:
    """The times of ticks, of all ticks at once, of the palette and of typing in the filter."""
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    try:
        api = importlib.import_module("playwright.sync_api")
    except ImportError:
        return []
    if executable is None:
        return []
    took_s: list[float] = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        for path in PAGES:
            page = browser.new_page(base_url=url, viewport={"width": 1440, "height": 900})
            page.goto(path)
            page.wait_for_load_state("networkidle")
            page.evaluate(OBSERVE)
            for turn in range(times):
                _use(page, turn)
            took_s += [took_ms / 1000 for took_ms in _took_ms(page, times)]
            page.close()
        browser.close()
    return [Figure(NAME, **times_of(took_s))]


def _use(page: Any, turn: int) -> None:
    page.locator("[data-tick]").nth(turn).click()
    page.locator("[data-tick-all]").click()
    page.locator("[data-tick-all]").click()
    page.keyboard.press("Control+k")
    page.keyboard.press("Escape")
    page.locator("input[name=q]").last.focus()
    page.keyboard.type("or")
    page.wait_for_timeout(SETTLE_MS)
    page.keyboard.press("Backspace")
    page.keyboard.press("Backspace")
    page.wait_for_timeout(SETTLE_MS)


def _took_ms(page: Any, times: int) -> Sequence[float]:
    """At least one time each turn: what is faster than a frame is not told and counts as one."""
    told: list[float] = page.evaluate("window.took")
    return [*told, *[float(FRAME_MS)] * max(0, times - len(told))]
