"""The console with 10,000 topics and 2,500 groups: bounded pages, bounded steps, whole files.

Times are printed and never asserted here: `python -m bench --only console` judges them.
"""

import asyncio
import csv
import io
import json
import re
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from playwright.sync_api import Browser, expect
from starlette.routing import Route

from app import pause
from bench.console import LISTS, WHOLE
from bench.large_scene import LARGE, SILENT_GROUP, build, join, topic_name
from bench.server import DELAY_PATH
from bench.watched import Probe
from kitemq.cli import main
from tests.app.ui.conftest import Site
from tests.patience import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROWS_MAX = 200
STEP_MAX = 4  # names that are asked about before others may run
ASKED = ("topic_stats", "lag", "held", "message")
PAGES = [path for path in LISTS if not path.startswith("/api/")]
AT_MOST = ("/topics?size=100000", "/groups?size=100000", "/clients?size=100000", "/dlq?size=9999")


def say(text: str) -> None:
    """What `pytest -s` shows of times."""
    sys.stdout.write(f"{text}\n")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server over the whole scene, whose figures have been read once."""
    data = tmp_path_factory.mktemp("large") / "data"
    began_s = time.perf_counter()
    build(data)
    built_s = time.perf_counter()
    site = Site(data)
    site.app.router.routes.insert(0, Route(DELAY_PATH, Probe().answer))
    with site:
        say(f"built in {built_s - began_s:.1f} s, ready {time.perf_counter() - built_s:.1f} s")
        join(site.base)
        with httpx.Client(base_url=site.base) as client:
            wait_for_figures(client)
        yield site


@pytest.fixture
def browser(large: Site) -> Iterator[httpx.Client]:
    headers = {"Accept": "text/html"}
    with httpx.Client(base_url=large.base, headers=headers, timeout=60) as client:
        yield client


def wait_for_figures(client: httpx.Client) -> None:
    def figures() -> bool:
        return bool(client.get("/groups?format=json").json()["as_of_ms"])

    until(figures, "the figures were not read in time", 60)


def rows_of(html: str) -> int:
    """Rows of the longest table of a page."""
    bodies = re.findall("<tbody>.*?</tbody>", html, re.DOTALL)
    return max((len(re.findall("<tr[ >]", body)) for body in bodies), default=0)


@pytest.mark.parametrize("path", [*PAGES, *AT_MOST])
def test_a_page_has_at_most_two_hundred_rows(browser: httpx.Client, path: str) -> None:
    browser.get(DELAY_PATH)
    began_s = time.perf_counter()
    answer = browser.get(path)
    took_ms = (time.perf_counter() - began_s) * 1000
    delay_ms = float(browser.get(DELAY_PATH).text)
    say(f"{path}: {took_ms:.0f} ms, the loop was held up for at most {delay_ms:.1f} ms")
    assert answer.status_code == 200
    assert rows_of(answer.text) <= ROWS_MAX


def spied(large: Site, counts: dict[str, int]) -> Any:
    """Count what the broker is asked between two pauses; the longest stretch is `worst`."""
    broker = large.app.services.host.broker

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any, **named: Any) -> Any:
            counts["now"] += 1
            counts["all"] += 1
            counts["worst"] = max(counts["worst"], counts["now"])
            return real(*values, **named)

        return call

    async def rest(_: pause.Pause) -> None:
        counts["now"] = 0
        await asyncio.sleep(0)

    spies = {name: counted(getattr(broker, name)) for name in ASKED}
    return patch.multiple(broker, **spies), patch.object(pause.Pause, "when_due", rest)


@pytest.mark.parametrize("path", [*PAGES, *WHOLE])
def test_every_few_names_others_may_run(large: Site, browser: httpx.Client, path: str) -> None:
    counts = {"now": 0, "all": 0, "worst": 0}
    broker, pauses = spied(large, counts)
    with broker, pauses:
        assert browser.get(path).status_code == 200
    say(f"{path}: asked {counts['all']} times, at most {counts['worst']} between two pauses")
    assert counts["worst"] <= STEP_MAX


def test_the_walk_over_all_figures_goes_in_steps(large: Site, browser: httpx.Client) -> None:
    counts = {"now": 0, "all": 0, "worst": 0}
    broker, pauses = spied(large, counts)
    before_ms = browser.get("/groups?format=json").json()["as_of_ms"]

    def has_walked() -> bool:
        browser.get("/jobs?format=json")  # who looks makes it walk
        return counts["all"] >= LARGE.topics + LARGE.groups

    with broker, pauses:
        until(has_walked, "no walk came", 60)
    assert counts["worst"] <= STEP_MAX
    assert before_ms


def test_while_a_name_is_typed_the_search_by_key_is_offered(browser: httpx.Client) -> None:
    offer = "Search for messages with key"
    assert offer in browser.get("/palette?q=orders-stream").text
    assert offer not in browser.get("/palette?q=no-such-name-or-key").text


def test_facets_count_what_the_api_counts(browser: httpx.Client) -> None:
    twin = browser.get("/topics?format=json").json()
    counts = {facet["value"]: facet["count"] for facet in twin["facets"]}
    api = browser.get("/api/v1/topics?limit=1").json()
    assert counts[""] == twin["cut"]["total"] == api["total"] == LARGE.topics
    assert counts[""] == sum(counts[kind] for kind in ("NORMAL", "FIFO", "DELAY", "TRANSACTION"))
    assert counts["DLQ"] == browser.get("/dlq?format=json").json()["groups"]


@pytest.mark.parametrize("sort", ["lag", "-lag"])
def test_an_unknown_lag_is_last_either_way_and_told_in_the_total(
    browser: httpx.Client, sort: str
) -> None:
    first = browser.get(f"/groups?sort={sort}&size=200&format=json").json()
    assert all(row["unread"] is not None for row in first["cut"]["rows"])
    last = browser.get(f"/groups?sort={sort}&size=200&page=999&format=json").json()
    silent = last["cut"]["rows"][-1]
    assert (silent["name"], silent["unread"], first["unknown"]) == (SILENT_GROUP, None, 1)
    assert "+1 unknown" in browser.get("/groups").text


@pytest.mark.parametrize(("path", "rows"), [("/topics", LARGE.topics), ("/groups", LARGE.groups)])
def test_a_file_holds_every_match_whatever_its_format(
    browser: httpx.Client, path: str, rows: int
) -> None:
    table = browser.get(f"{path}?format=csv&page=3&size=25")
    assert (table.headers["x-result-rows"], table.headers["x-result-truncated"]) == (
        str(rows),
        "no",
    )
    lines = list(csv.reader(io.StringIO(table.text)))
    assert len(lines) == rows + 1
    objects = browser.get(f"{path}?format=ndjson").text.splitlines()
    assert len(objects) == rows
    book = zipfile.ZipFile(io.BytesIO(browser.get(f"{path}?format=xlsx").content))
    assert "xl/workbook.xml" in book.namelist()
    assert book.read("xl/worksheets/sheet1.xml").count(b"<row>") == rows + 1


def test_an_unchanged_list_is_not_sent_again(browser: httpx.Client) -> None:
    headers = {
        "HX-Request": "true",
        "HX-Request-Type": "partial",
        "HX-Target": "section#topic-list",
    }
    path = "/topics?q=orders-stream-0000"
    part = browser.get(path, headers=headers)
    again = browser.get(path, headers={**headers, "HX-PTag": part.headers["HX-PTag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_all_groups_are_looked_at_and_changed_at_once(browser: httpx.Client) -> None:
    query = "action=pause&scope=all&q=mail-reader"
    began_s = time.perf_counter()
    answer = browser.get(f"/bulk/groups?{query}")
    twin = browser.get(f"/bulk/groups?{query}&format=json").json()
    looked_s = time.perf_counter()
    assert rows_of(answer.text) <= ROWS_MAX
    assert twin["total"] == twin["matching"] > ROWS_MAX
    assert f"of {twin['total']} groups are listed" in answer.text
    form = {"action": "pause", "selection": twin["selection"]}
    done = browser.post("/bulk/groups?format=json", data=form).json()
    say(f"looked {looked_s - began_s:.1f} s, changed {time.perf_counter() - looked_s:.1f} s")
    assert done["counts"] == {"done": twin["counts"]["would"]}


def test_the_command_line_lists_every_topic_once(
    large: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    began_s = time.perf_counter()
    assert main(["topics", "list", "--server", large.base, "--json"]) == 0
    names = [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()]
    say(f"kitemq topics list: {time.perf_counter() - began_s:.1f} s")
    assert names == [topic_name(number) for number in sorted(range(LARGE.topics), key=topic_name)]


def test_typing_a_filter_finds_one_topic_of_ten_thousand(large: Site, chromium: Browser) -> None:
    context = chromium.new_context(base_url=large.base)
    try:
        page = context.new_page()
        page.goto("/topics")
        rows = page.locator("#topic-list tbody tr")
        expect(rows).to_have_count(50)
        expect(page.locator("[data-live]:not([data-htmx-powered])")).to_have_count(0)
        page.get_by_label("Filter by name").fill("orders-stream-00064")
        expect(rows).to_have_count(1)
        expect(page).to_have_url(re.compile("q=orders-stream-00064"))
    finally:
        context.close()
