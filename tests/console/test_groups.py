"""Groups as their operators see them: lag in time, members, offsets moved and moved back.

By HTTP, as a browser without script and as programs do; `test_groups_browser.py` has the script.
"""

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.console.conftest import Site
from tests.console.scenery import Scenery
from tests.console.screenshots import HurriedClock

HTML = {"accept": "text/html"}
PATIENCE_S = 30.0


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers=HTML, timeout=30) as client:
        yield client


def offsets(browser: httpx.Client, group: str, topic: str) -> list[int | None]:
    """What the API says is committed, queue by queue."""
    found = browser.get(f"/api/v1/groups/{group}/offsets", params={"topic": topic}).json()
    return [None if q["offset"] is None else int(q["offset"]) for q in found["queues"]]


def hidden(html: str, name: str) -> str:
    """The value of a form's hidden field."""
    if name == "seen":
        found = re.search(r'<textarea name="seen"[^>]*>\n(.*?)</textarea>', html, re.DOTALL)
    else:
        found = re.search(rf'name="{name}" value="([^"]*)"', html)
    assert found, name
    return found[1]


def consumer(scenery: Scenery, topic: str, group: str, count: int = 40) -> Callable[[int], None]:
    """A topic with messages in two queues, and what lets the group consume some of them."""
    scenery.post("/topics", {"name": topic, "read_queues": 2, "write_queues": 2})
    scenery.send(topic, [{"body": f"{n}", "queue": n % 2} for n in range(count)])

    def consume(some: int) -> None:
        scenery.ack(group, scenery.receive(group, topic, some))

    return consume


def audited(browser: httpx.Client, group: str) -> list[str]:
    """The actions in the group's audit, oldest first."""
    page = browser.get(f"/groups/{group}/history?format=json").json()
    return [entry["action"] for entry in page["entries"] if entry["result"] == "done"][::-1]


# -- unknown ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sort", ["lag", "-lag"])
def test_a_group_that_has_not_begun_is_unknown_and_last_either_way(
    browser: httpx.Client, scenery: Scenery, sort: str
) -> None:
    if browser.get("/groups/not-begun").status_code == 404:
        scenery.post("/groups", {"name": "not-begun"})
    limit_s = time.monotonic() + PATIENCE_S
    names: list[str] = []
    others = ("analytics", "billing", "warehouse")
    # Lists are sorted by what the last walk found, and the first walk takes its time.
    while not names or names.index("not-begun") < max(map(names.index, others)):
        assert time.monotonic() < limit_s, names
        found = browser.get(f"/groups?sort={sort}&size=200&format=json").json()["cut"]["rows"]
        names = [row["name"] for row in found]
    row = found[names.index("not-begun")]
    assert (row["lag"], row["forecast"]["outlook"]) == (None, "unknown")
    cells = re.findall(r'<td class="num">(.*?)</td>', browser.get("/groups?q=not-begun").text)
    assert "unknown" in cells[0]
    assert "no place in any queue" in cells[0]


def test_a_group_without_samples_says_why_and_draws_nothing(
    browser: httpx.Client, scenery: Scenery
) -> None:
    scenery.post("/groups", {"name": "no-samples"})
    page = browser.get("/groups/no-samples")
    assert "No samples in this time" in page.text
    assert "nothing to sample" in page.text
    assert "data-lag-chart" not in page.text
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
    assert re.search(r"in ~\d+ min", hurried.browser.get("/groups/catching-up").text)
    assert re.search(r"in ~\d+ min", hurried.browser.get("/groups").text)


def test_a_group_that_does_not_consume_is_not_shrinking(hurried: Hurried) -> None:
    consumer(hurried.scenery, "stays", "stuck")(5)
    for _ in range(4):
        hurried.pass_time(31)
    assert hurried.forecast("stuck")["outlook"] == "not_shrinking"
    assert "not shrinking" in hurried.browser.get("/groups/stuck").text


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
    assert "counts only what the group's filter lets through" in browser.get("/groups/billing").text


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
    assert "takes what the others wanted" in page.text
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
    assert "in its hands" in asked.text
    assert browser.get("/groups/leaving?format=json").json()["head"]["members"] == 1
    done = browser.post("/groups/leaving/leave", data={"client": "w 1"})
    assert done.headers["location"] == "/groups/leaving/clients?done=left"
    assert "Nobody consumes" in browser.get("/groups/leaving/clients").text
    assert audited(browser, "leaving") == ["leave"]
    assert browser.post("/groups/leaving/leave", data={"client": "w 1"}).status_code == 404
    assert browser.get("/groups/leaving/leave?client=nobody").status_code == 404


# -- offsets ---------------------------------------------------------------------------------------


def test_a_preview_shows_every_queue_and_changes_nothing(
    browser: httpx.Client, scenery: Scenery
) -> None:
    consumer(scenery, "previewed", "previewing")(20)
    before = offsets(browser, "previewing", "previewed")
    address = "/groups/previewing/offsets?step=review&to=time&at=2020-01-01T00:00&topic=previewed"
    found = browser.get(f"{address}&format=json").json()["review"]
    assert [row["queue"] for row in found["rows"]] == [0, 1]
    assert [int(row["current_offset"]) for row in found["rows"]] == before
    assert [row["new_offset"] for row in found["rows"]] == ["0", "0"]
    assert [row["delta"] for row in found["rows"]] == [-(offset or 0) for offset in before]
    assert found["again"] == 20
    html = browser.get(address).text
    assert "the first message stored at 2020-01-01 00:00:00.000 UTC or later" in html
    assert html.count('id="move-previewed-') == 2
    assert offsets(browser, "previewing", "previewed") == before


def test_a_reset_that_the_group_overtook_is_refused_with_a_fresh_preview(
    browser: httpx.Client, scenery: Scenery
) -> None:
    consume = consumer(scenery, "overtaken", "overtaking")
    consume(10)
    review = browser.get("/groups/overtaking/offsets?step=review&to=earliest&topic=overtaken").text
    form = {name: hidden(review, name) for name in ("to", "topic", "precondition", "seen")}
    stored = scenery.receive("overtaking", "overtaken", 1)
    scenery.ack("overtaking", stored)
    before = offsets(browser, "overtaking", "overtaken")
    refused = browser.post("/groups/overtaking/offsets", data=form)
    assert refused.status_code == 409
    assert "Nothing was moved: the group went on since you looked." in refused.text
    marked = re.findall(r'id="move-overtaken-(\d)" class="moved-since"', refused.text)
    assert len(marked) == 1
    assert offsets(browser, "overtaking", "overtaken") == before
    again = {**form, **{n: hidden(refused.text, n) for n in ("precondition", "seen")}}
    done = browser.post("/groups/overtaking/offsets", data=again)
    assert (done.status_code, done.headers["location"]) == (
        303,
        "/groups/overtaking/resets/1?done=changed",
    )
    assert offsets(browser, "overtaking", "overtaken") == [0, 0]


def test_force_moves_a_group_that_goes_on(browser: httpx.Client, scenery: Scenery) -> None:
    consumer(scenery, "forced", "forcing")(10)
    form = {"to": "latest", "topic": "forced", "precondition": "0" * 32, "force": "yes"}
    assert browser.post("/groups/forcing/offsets", data=form).status_code == 303
    assert offsets(browser, "forcing", "forced") == [20, 20]


def test_a_reset_and_its_undo_restore_the_offsets_and_are_audited(
    browser: httpx.Client, scenery: Scenery
) -> None:
    consumer(scenery, "undone", "undoing")(15)
    before = offsets(browser, "undoing", "undone")
    review = browser.get("/groups/undoing/offsets?step=review&to=latest&topic=undone").text
    form = {name: hidden(review, name) for name in ("to", "topic", "precondition", "seen")}
    result = browser.post("/groups/undoing/offsets", data=form).headers["location"]
    assert offsets(browser, "undoing", "undone") == [20, 20]
    page = browser.get(result).text
    assert page.count('id="done-undone-') == 2
    asked = browser.get("/groups/undoing/resets/1/undo").text
    assert "Back to where reset 1 found the group" in asked
    assert offsets(browser, "undoing", "undone") == [20, 20]
    content = {name: hidden(asked, name) for name in ("precondition", "seen")}
    done = browser.post("/groups/undoing/resets/1/undo", data=content)
    assert done.headers["location"] == "/groups/undoing/resets/2?done=changed"
    assert offsets(browser, "undoing", "undone") == before
    assert audited(browser, "undoing") == ["reset", "undo reset"]
    history = browser.get("/groups/undoing/history").text
    assert "undone by 2" in history
    twice = browser.get("/groups/undoing/resets/1/undo")
    assert twice.status_code == 409
    assert "was undone by reset 2" in twice.text


def test_an_undo_that_the_group_overtook_is_refused(
    browser: httpx.Client, scenery: Scenery
) -> None:
    consume = consumer(scenery, "late-undo", "late")
    consume(10)
    form = {"to": "earliest", "topic": "late-undo", "force": "yes", "precondition": ""}
    browser.post("/groups/late/offsets", data=form)
    asked = browser.get("/groups/late/resets/1/undo").text
    content = {name: hidden(asked, name) for name in ("precondition", "seen")}
    consume(1)
    refused = browser.post("/groups/late/resets/1/undo", data=content)
    assert refused.status_code == 409
    assert refused.text.count('class="moved-since"') == 1


@pytest.mark.parametrize(
    ("query", "field", "text"),
    [
        ("to=time&at=soon", "at", "must be a date and time"),
        ("to=offset&offset=-1", "offset", "must be a whole number"),
        ("to=shift&by=0", "by", "not 0"),
        ("to=group", "from_group", "Name the group"),
        ("to=group&from_group=nobody-there&topic=orders", "from_group", "nobody-there"),
        ("to=earliest", "other", "at least one topic"),
        ("to=earliest&other=no-such-topic", "other", "no-such-topic"),
        ("to=earliest&topic=orders&queues=x", "queues", "whole numbers"),
        ("to=earliest&topic=orders&queues=99", "queues", "no queue 99"),
    ],
)
def test_what_is_wrong_with_a_reset_is_told_at_its_field_with_the_values_kept(
    browser: httpx.Client, query: str, field: str, text: str
) -> None:
    answer = browser.get(f"/groups/analytics/offsets?step=review&{query}")
    assert answer.status_code == 422
    assert re.search(rf'id="field-{field}"[^>]*aria-invalid="true"', answer.text)
    assert text in answer.text


def test_a_clipped_queue_says_so(browser: httpx.Client) -> None:
    address = "/groups/analytics/offsets?step=review&to=offset&offset=999999&topic=user-events"
    found = browser.get(f"{address}&format=json").json()["review"]
    assert found["clipped"] == len(found["rows"])
    assert "lies past the end" in browser.get(address).text


def test_a_broadcast_group_is_not_reset_here(browser: httpx.Client, scenery: Scenery) -> None:
    scenery.post("/groups", {"name": "screens", "mode": "broadcast"})
    assert "keeps a place of its own" in browser.get("/groups/screens/offsets").text


@pytest.mark.parametrize("number", ["7", "x", "1x", "9" * 30])
def test_a_reset_that_is_not_remembered_is_not_found(browser: httpx.Client, number: str) -> None:
    assert browser.get(f"/groups/analytics/resets/{number}").status_code == 404
    assert browser.get(f"/groups/analytics/resets/{number}/undo").status_code == 404


# -- settings --------------------------------------------------------------------------------------

SETTINGS = {
    "mode": "clustering",
    "strategy": "circle",
    "start": "earliest",
    "start_at": "",
    "rooms": "",
    "retry_max": "3",
    "dead_letters": "keep",
    "policy": "steps",
    "initial": "5s",
    "longest": "2h",
    "multiplier": "2",
    "steps": "1s, 1m",
}


def test_settings_are_changed_by_their_form_and_audited(
    browser: httpx.Client, scenery: Scenery
) -> None:
    scenery.post("/groups", {"name": "settled"})
    done = browser.post("/groups/settled/config", data=SETTINGS)
    assert done.headers["location"] == "/groups/settled/config?done=changed"
    found = browser.get("/api/v1/groups/settled").json()
    assert (found["retry_max"], found["strategy"]) == (3, "circle")
    assert found["retry_policy"] == {"kind": "steps", "delays_ms": [1000, 60_000]}
    assert audited(browser, "settled") == ["create", "change"]
    history = browser.get("/groups/settled/history").text
    assert "retry_max: 16 → 3" in history
    retries = browser.get("/groups/settled/retries?format=json").json()
    assert (retries["policy"], retries["waits"]) == ("steps", ["1s", "1m", "1m"])


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"retry_max": "x"}, "retry_max"),
        ({"start": "time", "start_at": "noon"}, "start_at"),
        ({"strategy": "machine_room"}, "rooms"),
        ({"policy": "exponential", "initial": "1h", "longest": "1s"}, "longest"),
        ({"policy": "exponential", "multiplier": "500"}, "multiplier"),
        ({"steps": "9d"}, "steps"),
    ],
)
def test_a_wrong_setting_is_told_at_its_field_and_nothing_changes(
    browser: httpx.Client, changes: dict[str, str], field: str
) -> None:
    before = browser.get("/api/v1/groups/analytics").json()
    answer = browser.post("/groups/analytics/config", data={**SETTINGS, **changes})
    assert answer.status_code == 422
    assert re.search(rf'id="field-{field}"[^>]*aria-invalid="true"', answer.text)
    assert browser.get("/api/v1/groups/analytics").json() == before


def test_a_group_and_a_topic_are_paused_and_resumed(
    browser: httpx.Client, scenery: Scenery
) -> None:
    consumer(scenery, "stopped", "stopping")(4)
    assert "36 unread messages wait" in browser.get("/groups/stopping/pause").text
    done = browser.post("/groups/stopping/pause", data={"topic": ""})
    assert done.headers["location"] == "/groups/stopping/config?done=paused"
    assert browser.get("/api/v1/groups/stopping").json()["paused"]
    assert ">paused<" in browser.get("/groups?q=stopping").text
    browser.post("/groups/stopping/resume", data={"topic": ""})
    browser.post("/groups/stopping/pause", data={"topic": "stopped"})
    found = browser.get("/api/v1/groups/stopping").json()
    assert (found["paused"], found["paused_topics"]) == (False, ["stopped"])
    assert "paused in 1 topic" in browser.get("/groups/stopping").text
    browser.post("/groups/stopping/resume", data={"topic": "stopped"})
    assert browser.get("/api/v1/groups/stopping").json()["paused_topics"] == []
    assert audited(browser, "stopping") == ["pause", "resume", "pause", "resume"]


def test_deleting_a_group_shows_what_goes_and_needs_its_name(
    browser: httpx.Client, scenery: Scenery
) -> None:
    consumer(scenery, "left-behind", "going")(4)
    text = browser.get("/groups/going/delete").text
    assert "<strong>2</strong> queues of 1 topic" in text
    assert "36 unread" in text
    refused = browser.post("/groups/going/delete", data={"confirm": "goin"})
    assert refused.status_code == 422
    assert browser.get("/groups/going").status_code == 200
    done = browser.post("/groups/going/delete", data={"confirm": "going"})
    assert done.headers["location"] == "/groups?done=deleted"
    gone = browser.get("/groups/going")
    assert gone.status_code == 404
    assert "going" in gone.text


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
