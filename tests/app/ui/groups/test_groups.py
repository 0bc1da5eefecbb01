"""Groups as their operators see them: what is unknown, lag in time, members.

By HTTP, as a browser without script and as programs do; `test_groups_browser.py` has the script.
"""

import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.app.ui.conftest import Site
from tests.app.ui.groups.group_steps import HTML, audited, consumer
from tests.app.ui.scenery import Scenery
from tests.app.ui.screenshots import HurriedClock

PATIENCE_S = 30.0


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers=HTML, timeout=30) as client:
        yield client


# -- unknown ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sort", ["lag", "-lag"])
def test_a_group_that_has_not_begun_is_unknown_and_last_either_way(
    browser: httpx.Client, scenery: Scenery, sort: str
) -> None:
    if browser.get("/groups/not-begun").status_code == 404:
        scenery.post("/groups", {"name": "not-begun"})
    limit_s = time.monotonic() + PATIENCE_S
    names: list[str] = []
    found: list[dict[str, Any]] = []
    others = ("analytics", "billing", "warehouse")
    # Lists are sorted by what the last walk found, and the first walk takes its time.
    while not names or names.index("not-begun") < max(map(names.index, others)):
        assert time.monotonic() < limit_s, names
        found = browser.get(f"/groups?sort={sort}&size=200&format=json").json()["cut"]["rows"]
        names = [row["name"] for row in found]
    row = found[names.index("not-begun")]
    assert (row["unread"], row["forecast"]["outlook"]) == (None, "unknown")
    html = browser.get("/groups?q=not-begun").text
    cells = re.findall(r'<td class="num">(.*?)</td>', html, re.DOTALL)
    assert "unknown" in cells[0]
    assert "no offset in any queue" in cells[0]


def test_a_group_without_samples_says_why_and_draws_nothing(
    browser: httpx.Client, scenery: Scenery
) -> None:
    scenery.post("/groups", {"name": "no-samples"})
    page = browser.get("/groups/no-samples")
    assert "No samples in this time" in page.text
    assert "nothing to sample" in page.text
    assert "plot-lag" not in page.text
    found = browser.get("/groups/no-samples?format=json").json()
    assert found["chart"]["known"] == 0
    assert set(found["chart"]["values"]) == {None}


# -- lag in time, with a clock that can be hurried -------------------------------------------------


class Hurried:
    """A server of its own whose minutes pass when the test says so."""

    def __init__(self, site: Site, clock: HurriedClock) -> None:
        self.clock = clock
        self.scenery = Scenery(site.base)
        self.browser = httpx.Client(base_url=site.base, headers=HTML, timeout=30)

    def pass_time(self, seconds: int) -> None:
        self.clock.hurry(seconds)
        self.browser.get("/groups")  # the walk that looks at all groups

    def forecast(self, group: str) -> Any:
        return self.browser.get(f"/groups/{group}?format=json").json()["forecast"]


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hurried]:
    clock = HurriedClock()
    with Site(tmp_path_factory.mktemp("hurried") / "data", clock) as site:
        hurried = Hurried(site, clock)
        yield hurried
        hurried.scenery.close()
        hurried.browser.close()


def test_a_group_page_tells_lag_its_age_and_when_it_clears(hurried: Hurried) -> None:
    consume = consumer(hurried.scenery, "shrinks", "catching-up", 200)
    consume(10)
    assert hurried.forecast("catching-up")["outlook"] == "unknown"
    for _ in range(5):
        hurried.pass_time(31)
        consume(10)
    hurried.pass_time(31)
    page = hurried.browser.get("/groups/catching-up?format=json").json()
    lag = hurried.browser.get("/api/v1/groups/catching-up/lag").json()
    assert page["figures"]["lag"] == lag["count"] == 140
    age_ms = hurried.clock.now_ms() - page["figures"]["oldest_ms"]
    assert abs(age_ms - lag["oldest_age_ms"]) < 10_000
    assert page["forecast"]["outlook"] == "shrinking"
    assert page["forecast"]["clears_at_ms"] > hurried.clock.now_ms()
    assert re.search(r"in about \d+ min", hurried.browser.get("/groups/catching-up").text)
    assert re.search(r"in about \d+ min", hurried.browser.get("/groups").text)


def test_a_group_that_does_not_consume_is_not_shrinking(hurried: Hurried) -> None:
    consumer(hurried.scenery, "stays", "stuck")(5)
    for _ in range(4):
        hurried.pass_time(31)
    assert hurried.forecast("stuck")["outlook"] == "not_shrinking"
    assert "not catching up" in hurried.browser.get("/groups/stuck").text


def status_of(hurried: Hurried, group: str) -> tuple[str, str]:
    """What the API says, once list and head say the same."""
    item = hurried.scenery.get(f"/groups/{group}")
    page = hurried.browser.get(f"/groups/{group}?format=json").json()["head"]["status"]
    (row,) = [
        row
        for row in hurried.browser.get(f"/groups?q={group}&format=json").json()["cut"]["rows"]
        if row["name"] == group
    ]
    assert page["name"] == row["status"]["name"] == item["status"]
    return item["status"], item["status_reason"]


def test_a_group_is_told_by_its_status_from_idle_to_caught_up(hurried: Hurried) -> None:
    scenery = hurried.scenery
    scenery.post("/groups", {"name": "lifelong"})
    assert status_of(hurried, "lifelong") == ("idle", "not_begun")
    consume = consumer(scenery, "life", "lifelong", 400)
    consume(10)
    assert status_of(hurried, "lifelong")[0] == "active"
    for _ in range(13):
        hurried.pass_time(31)
    assert status_of(hurried, "lifelong") == ("falling_behind", "stalled")
    assert "nothing consumed" in hurried.browser.get("/groups/lifelong").text
    scenery.post("/groups/lifelong/pause", None)
    assert status_of(hurried, "lifelong") == ("paused", "paused")
    assert 'href="/groups/lifelong/resume">Resume' in hurried.browser.get("/groups/lifelong").text
    scenery.post("/groups/lifelong/resume", None)
    hurried.browser.post("/groups/lifelong/leave", data={"client": "lifelong-1"})
    assert status_of(hurried, "lifelong") == ("no_consumers", "no_consumers")
    for _ in range(4):
        hurried.pass_time(31)
        consume(30)
    assert status_of(hurried, "lifelong") == ("catching_up", "shrinking")
    assert re.search(r"caught up in about \d+ min", hurried.browser.get("/groups/lifelong").text)
    consume(200)
    consume(100)
    for _ in range(3):
        hurried.pass_time(31)
    assert status_of(hurried, "lifelong") == ("idle", "waiting")


def test_groups_are_filtered_and_sorted_by_status(hurried: Hurried) -> None:
    consumer(hurried.scenery, "severe", "severe-behind")(1)
    hurried.scenery.post("/groups", {"name": "severe-idle"})
    hurried.scenery.post("/groups", {"name": "severe-paused", "consume_enabled": False})
    for _ in range(11):
        hurried.pass_time(31)

    def names(query: str) -> list[str]:
        page = hurried.browser.get(f"/groups?q=severe&{query}&format=json").json()
        return [row["name"] for row in page["cut"]["rows"]]

    assert names("sort=status") == ["severe-behind", "severe-paused", "severe-idle"]
    assert names("status=paused") == ["severe-paused"]
    assert names("status=active") == []
    listed = hurried.scenery.get("/groups?q=severe&status=idle")
    assert [item["name"] for item in listed["items"]] == ["severe-idle"]
    assert listed["total"] == 1
    query = "action=resume&scope=all&q=severe&status=paused"
    bulk = hurried.browser.get(f"/bulk/groups?{query}&format=json").json()
    assert [row["name"] for row in bulk["rows"]] == ["severe-paused"]


def test_the_chart_has_gaps_where_nothing_was_sampled(hurried: Hurried) -> None:
    consume = consumer(hurried.scenery, "charted", "charting")
    consume(10)
    address = "/groups/charting?range=15m&format=json"
    limit_s = time.monotonic() + PATIENCE_S
    chart: dict[str, Any] = {"known": 0}
    while chart["known"] < 3:
        assert time.monotonic() < limit_s, "no samples were taken"
        hurried.pass_time(10)
        consume(1)  # traffic wakes the server's duties
        time.sleep(0.05)
        chart = hurried.browser.get(address).json()["chart"]
    assert chart["missing"] > 0
    assert chart["values"].count(None) == chart["missing"]
    assert 0 not in chart["values"]
    html = hurried.browser.get("/groups/charting?range=15m").text
    assert "They are gaps, not zeros." in html
    assert 'class="gap-row"' in html
    gone = hurried.browser.get(f"{address}&topic=elsewhere").json()["chart"]
    assert gone["known"] == 0
    one = hurried.browser.get(f"{address}&topic=charted&queue=1").json()["chart"]
    assert 0 < one["known"] <= chart["known"] + 1


@pytest.mark.parametrize("query", ["range=9y&show=all", "queue=x", "topic=orders&queue=-1"])
def test_a_history_that_makes_no_sense_falls_back(browser: httpx.Client, query: str) -> None:
    found = browser.get(f"/groups/warehouse?{query}&format=json")
    assert found.status_code == 200
    assert found.json()["view"]["whose"]["queue"] is None


def test_what_the_lag_counts_is_said(browser: httpx.Client) -> None:
    assert (
        "counts only messages that match the group's filter" in browser.get("/groups/billing").text
    )


# -- members ---------------------------------------------------------------------------------------


def beat(scenery: Scenery, group: str, client: str, topics: dict[str, str]) -> None:
    content = {"client": client, "topics": topics, "language": "JAVA", "version": "5.3"}
    scenery.post(f"/groups/{group}/members/heartbeat", content)


def test_members_that_differ_are_told_on_the_list_and_marked_in_the_matrix(
    browser: httpx.Client, scenery: Scenery
) -> None:
    beat(scenery, "differing", "one", {"orders": "paid", "shipments": "*"})
    beat(scenery, "differing", "two", {"orders": "shipped", "shipments": "*"})
    row = browser.get("/groups?q=differing&format=json").json()["cut"]["rows"][0]
    assert (row["members"], row["is_differing"]) == (2, True)
    assert ">differ<" in browser.get("/groups?q=differing").text
    page = browser.get("/groups/differing/subscriptions")
    assert page.text.count('class="odd"') == 2
    assert "members take each other's messages" in " ".join(page.text.replace("&#39;", "'").split())
    found = browser.get("/groups/differing/subscriptions?format=json").json()
    assert [(c["topic"], c["is_differing"]) for c in found["columns"]] == [
        ("orders", True),
        ("shipments", False),
    ]
    beat(scenery, "differing", "two", {"orders": "paid", "shipments": "*"})
    agreeing = browser.get("/groups/differing/subscriptions").text
    assert 'class="odd"' not in agreeing
    assert "all agree" in agreeing


def test_the_odd_one_out_is_marked_and_the_majority_is_not(
    browser: httpx.Client, scenery: Scenery
) -> None:
    for client, wanted in (("a", "*"), ("b", "*"), ("c", "red"), ("silent", "")):
        beat(scenery, "majority", client, {"orders": wanted} if wanted else {})
    rows = browser.get("/groups/majority/subscriptions?format=json").json()["cut"]["rows"]
    odd = {row["client"]: row["cells"][0]["is_odd"] for row in rows}
    assert odd == {"a": False, "b": False, "c": True, "silent": False}


def test_clients_are_listed_and_their_words_are_text(
    browser: httpx.Client, scenery: Scenery
) -> None:
    beat(scenery, "listing", "<b>bold</b>", {"orders": "*"})
    page = browser.get("/groups/listing/clients")
    assert "<b>bold</b>" not in page.text
    assert "&lt;b&gt;bold" in page.text
    (row,) = browser.get("/groups/listing/clients?format=json").json()["cut"]["rows"]
    assert (row["client"], row["language"], row["version"]) == ("<b>bold</b>", "JAVA", "5.3")
    assert row["is_pulling"]
    assert row["address"].startswith("127.0.0.1")


def test_a_member_is_taken_out_after_its_impact_was_shown(
    browser: httpx.Client, scenery: Scenery
) -> None:
    beat(scenery, "leaving", "w 1", {"orders": "*"})
    asked = browser.get("/groups/leaving/leave", params={"client": "w 1"})
    assert "in flight stay with it" in asked.text
    assert browser.get("/groups/leaving?format=json").json()["head"]["members"] == 1
    done = browser.post("/groups/leaving/leave", data={"client": "w 1"})
    assert done.headers["location"] == "/groups/leaving/clients?done=left"
    assert "No clients connected" in browser.get("/groups/leaving/clients").text
    assert audited(browser, "leaving") == ["leave"]
    assert browser.post("/groups/leaving/leave", data={"client": "w 1"}).status_code == 404
    assert browser.get("/groups/leaving/leave?client=nobody").status_code == 404


# -- all tabs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "element"),
    [
        ("/groups/warehouse/clients", "section#group-clients"),
        ("/groups/warehouse/subscriptions", "div#group-subscriptions"),
        ("/groups/warehouse/retries", "div#group-retries"),
        ("/groups/warehouse/config", "form#group-config"),
        ("/groups/warehouse/delete", "div#dialog-body"),
        ("/groups/warehouse/pause", "div#dialog-body"),
    ],
)
def test_a_tab_is_refreshed_by_its_own_block(
    browser: httpx.Client, path: str, element: str
) -> None:
    asking = {"hx-request": "true", "hx-request-type": "partial", "hx-target": element}
    part = browser.get(path, headers=asking)
    assert part.status_code == 200
    assert "<!doctype" not in part.text
    assert part.text.strip()


def test_every_page_of_a_group_that_is_not_there_says_which(browser: httpx.Client) -> None:
    tabs = ("", "/clients", "/subscriptions", "/retries", "/config", "/history", "/offsets")
    for tab in (*tabs, "/delete", "/pause", "/resume", "/leave"):
        answer = browser.get(f"/groups/nobody-here{tab}")
        assert answer.status_code == 404, tab
        assert "nobody-here" in answer.text


def test_the_twin_has_offsets_as_text(browser: httpx.Client) -> None:
    found = browser.get("/groups/warehouse?format=json").json()["cut"]["rows"]
    assert {type(row[name]) for row in found for name in ("committed", "max_offset")} == {str}
