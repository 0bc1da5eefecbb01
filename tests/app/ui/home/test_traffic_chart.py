"""The overview's chart of traffic: its range, gaps before the server started, links."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.ui.framework.typed_time import moment_text
from tests.app.ui.conftest import Site

WINDOW_MS = 900_000


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    headers = {"accept": "text/html"}
    with httpx.Client(base_url=site.base, headers=headers, timeout=60) as client:
        yield client


def cursor_of(browser: httpx.Client, query: str = "") -> dict[str, Any]:
    cursor: dict[str, Any] = browser.get(f"/?format=json{query}").json()["chart"]["cursor"]
    return cursor


def test_nothing_is_drawn_for_the_time_before_the_server_started(
    site: Site, browser: httpx.Client
) -> None:
    cursor = cursor_of(browser)
    assert cursor["to_ms"] - cursor["from_ms"] == WINDOW_MS
    started_ms = site.app.console.started_ms
    before = (started_ms - cursor["from_ms"]) // cursor["step_ms"]
    for texts in cursor["texts"]:
        assert len(texts) == WINDOW_MS // cursor["step_ms"]
        *earlier, last = texts  # one step is there from the first moment on
        assert not any(earlier[: max(0, before)])
        assert last


def test_a_part_of_the_quarter_of_an_hour_is_shown(browser: httpx.Client) -> None:
    end_ms = cursor_of(browser)["to_ms"]
    query = f"&from={moment_text(end_ms - 100_000)}&to={moment_text(end_ms - 40_000)}"
    part = cursor_of(browser, query)
    assert (part["from_ms"], part["to_ms"]) == (end_ms - 100_000, end_ms - 40_000)
    whole = '<a href="/" aria-current="true">15 min</a>'
    assert whole in browser.get("/").text
    assert whole not in browser.get(f"/?{query}").text


@pytest.mark.parametrize("query", ["&from=x&to=y", "&from=2020-01-01T00:00&to=2020-01-01T01:00"])
def test_a_range_without_anything_known_falls_back(browser: httpx.Client, query: str) -> None:
    cursor = cursor_of(browser, query)
    assert cursor["to_ms"] - cursor["from_ms"] == WINDOW_MS
