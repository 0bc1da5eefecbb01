"""One message's journey in the console: what it shows, and what it says when there is nothing."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from tests.app.ui.accessibility import serious_faults
from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.journeys import journey_scene
from tests.app.ui.journeys.journey_scene import AUDITOR, ERROR, IDLE, PAYER, TOPIC
from tests.app.ui.scenery import Scenery

HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server of these tests' own: they add dead letters, which others count."""
    with Site(tmp_path_factory.mktemp("journeys") / "data") as site:
        with closing(Scenery(site.base)) as scenery:
            journey_scene.prepare(scenery)
        yield site


@pytest.fixture(scope="module")
def failing(site: Site) -> str:
    """A message that failed twice, died, was sent again and is done; the others' attempts too."""
    with closing(Scenery(site.base)) as scenery:
        return journey_scene.tell(scenery)


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers=HTML, timeout=30) as client:
        yield client


def twin(browser: httpx.Client, path: str) -> Any:
    answer = browser.get(f"{path}{'&' if '?' in path else '?'}format=json")
    assert answer.status_code == 200
    return answer.json()


def test_the_twin_tells_each_stage_in_order_with_its_bar(
    browser: httpx.Client, failing: str
) -> None:
    page = twin(browser, f"/trace/{failing}")
    stages = page["stages"]
    assert [each["at_ms"] for each in stages] == sorted(each["at_ms"] for each in stages)
    payer = [each["name"] for each in stages if each["group"] in ("", PAYER)]
    assert payer == [
        *("produce", "store", "wait", "delivery", "retry_wait", "wait", "delivery"),
        *("dead_letter", "replay", "wait", "delivery"),
    ]
    failed = [each for each in stages if each["tone"] == "bad"]
    assert [each["label"] for each in failed] == ["Attempt 1", "Attempt 2", "Dead letter"]
    assert all(each["note"].startswith("✕") for each in failed)
    for each in stages:
        assert each["bar"]["width"] >= 0
        assert 0 <= each["bar"]["x"] <= 100
    verdicts = {each["group"]: each["verdict"] for each in page["groups"]}
    assert verdicts == {PAYER: "done", AUDITOR: "done", IDLE: "not consumed yet"}
    assert page["is_over"] is False


def test_sentences_say_who_failed_when_and_why(browser: httpx.Client, failing: str) -> None:
    page = twin(browser, f"/trace/{failing}")
    (payer,) = (each for each in page["groups"] if each["group"] == PAYER)
    texts = [line["text"] for line in payer["story"]]
    assert re.fullmatch(
        rf"Attempt 1 failed after [\d.]+ m?s on client payer-1: {ERROR}", texts[1]
    ), texts
    assert re.fullmatch(r"Waited [\d.]+ s before attempt 2", texts[2]), texts
    assert texts[-1].startswith("Attempt 1 succeeded after")
    assert f"attempts exhausted: {ERROR}" in payer["story"][-3]["text"]
    assert "resent" in page["summary"]


def test_a_record_leads_to_its_message_its_dead_letter_and_its_job(
    browser: httpx.Client, failing: str
) -> None:
    page = twin(browser, f"/trace/{failing}")
    assert page["message_href"] == f"/messages/{TOPIC}/0/0"
    links = [line["href"] for line in page["story"] if line["href"]]
    links += [each["dead_href"] for each in page["groups"] if each["dead_href"]]
    assert len(links) >= 2
    for href in links:
        assert browser.get(href).status_code == 200, href


def test_the_export_for_opentelemetry_has_a_span_for_each_stage(
    browser: httpx.Client, failing: str
) -> None:
    answer = browser.get(f"/trace/{failing}", params={"format": "otel"})
    assert answer.headers["content-disposition"].startswith("attachment")
    (resource,) = answer.json()["resourceSpans"]
    root, *spans = resource["scopeSpans"][0]["spans"]
    assert len(spans) == len(twin(browser, f"/trace/{failing}")["stages"])
    assert len({span["spanId"] for span in [root, *spans]}) == len(spans) + 1
    for span in spans:
        assert (span["traceId"], span["parentSpanId"]) == (root["traceId"], root["spanId"])
        assert int(root["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    failed = [span for span in spans if span["status"]["code"] == 2]
    assert [span["name"] for span in failed] == ["delivery", "delivery", "dead_letter"]
    assert len(root["traceId"]) == 32


def test_one_group_can_be_looked_at_alone(browser: httpx.Client, failing: str) -> None:
    page = twin(browser, f"/trace/{failing}?group={AUDITOR}")
    assert {each["group"] for each in page["stages"]} == {"", AUDITOR}
    assert len(page["groups"]) == 3


@pytest.mark.parametrize(
    "requested", ["nobody-has-this", "7F000001000000000000000000FFFFFF", "a/b c"]
)
def test_nothing_found_says_what_was_checked(browser: httpx.Client, requested: str) -> None:
    page = twin(browser, f"/trace/{requested}")
    assert (page["stages"], page["groups"], page["is_over"]) == ([], [], True)
    checked = {each["code"]: each["detail"] for each in page["reasons"]}
    assert set(checked) == {
        *("retention", "kind_of_id", "not_indexed", "tracing_off", "dropped"),
    }
    assert re.search(r"the log has the positions 0 to \d+", checked["retention"])
    assert re.fullmatch(r"the log is indexed up to position (\d+) of \1", checked["not_indexed"])
    assert "traced at 1" in checked["tracing_off"]
    assert checked["dropped"] == "0 events were dropped since the start"


def test_an_id_that_is_too_long_is_refused_and_markup_stays_text(browser: httpx.Client) -> None:
    assert browser.get(f"/trace/{'x' * 300}").status_code == 422
    answer = browser.get("/trace/<script>alert(1)</script>")
    assert answer.status_code == 200
    assert "<script>alert" not in answer.text


def test_a_topic_that_is_not_traced_says_so(browser: httpx.Client, scenery: Scenery) -> None:
    scenery.post("/topics", {"name": "untraced", "trace_sample": 0})
    (sent,) = scenery.send("untraced", [{"body": "x"}])
    scenery.ack("silent", scenery.receive("silent", "untraced", 1))
    page = browser.get(f"/trace/{sent['message_id']}").text
    assert "Deliveries may be missing here." in page
    assert "untraced is traced at 0" in page


def test_a_group_whose_filter_leaves_the_tag_out_is_named_so(
    browser: httpx.Client, scenery: Scenery
) -> None:
    scenery.post("/topics", {"name": "tagged"})
    (sent,) = scenery.send("tagged", [{"body": "x", "tag": "blue"}])
    query = {"topic": "tagged", "filter": "red || green", "max": 1, "client": "c"}
    scenery.post("/groups/choosy/receive", query)
    (group,) = twin(browser, f"/trace/{sent['message_id']}")["groups"]
    assert (group["group"], group["verdict"]) == ("choosy", "filtered out")


def test_a_request_and_its_reply_lead_to_each_other(
    browser: httpx.Client, scenery: Scenery, site: Site
) -> None:
    scenery.post("/topics", {"name": "questions"})
    question = {"message": {"body": "?"}, "timeout_ms": 1, "correlation_id": "ask-1"}
    ended = httpx.post(f"{site.base}/api/v1/topics/questions/request", json=question, timeout=30)
    assert ended.status_code >= 400  # nobody replied in time
    reply = scenery.post("/replies", {"correlation_id": "ask-1", "body": "!"})
    (request,) = scenery.receive("answerers", "questions", 1)
    request_page = twin(browser, f"/trace/{request['message_id']}")
    ties = {line["href"] for line in request_page["story"]}
    assert f"/trace/{reply['message_id']}" in ties
    reply_page = twin(browser, f"/trace/{reply['message_id']}")
    assert f"/trace/{request['message_id']}" in {line["href"] for line in reply_page["story"]}
    assert [each["outcome"] for each in reply_page["stages"] if each["name"] == "reply"] == [
        "too late"
    ]


def test_search_leads_on_by_id_and_by_key_and_lists_what_shares_a_key(
    browser: httpx.Client, scenery: Scenery
) -> None:
    scenery.post("/topics", {"name": "keyed"})
    sent = scenery.send("keyed", [{"body": str(n), "keys": ["one", f"n-{n}"]} for n in range(3)])
    ids = [each["message_id"] for each in sent]
    by_id = browser.get("/trace", params={"q": ids[0]})
    assert (by_id.status_code, by_id.headers["location"]) == (302, f"/trace/{ids[0]}")
    by_key = browser.get("/trace", params={"q": "n-1"})
    assert by_key.headers["location"] == f"/trace/{ids[1]}"
    in_topic = browser.get("/trace", params={"topic": "keyed", "key": "n-2"})
    assert in_topic.headers["location"] == f"/trace/{ids[2]}"
    many = browser.get("/trace", params={"topic": "keyed", "key": "one"})
    assert many.status_code == 200
    assert all(f'href="/trace/{each}"' in many.text for each in ids)
    unknown = browser.get("/trace", params={"q": "nothing-has-this"})
    assert unknown.headers["location"] == "/trace/nothing-has-this"


def test_a_wrong_search_is_told_at_its_field_with_the_values_kept(browser: httpx.Client) -> None:
    wrong = browser.get("/trace", params={"topic": "no-such-topic", "key": "k-1"})
    assert wrong.status_code == 422
    assert re.search(r'id="field-topic"[^>]*aria-invalid="true"', wrong.text)
    assert 'value="k-1"' in wrong.text
    half = browser.get("/trace", params={"topic": TOPIC})
    assert re.search(r'id="field-key"[^>]*aria-invalid="true"', half.text)
    none = browser.get("/trace", params={"topic": TOPIC, "key": "no-such-key"})
    assert "No messages with this key" in none.text


def test_the_search_page_names_what_failed_lately_and_what_is_traced(
    browser: httpx.Client, failing: str
) -> None:
    page = twin(browser, "/trace")
    assert failing in {each["message_id"] for each in page["failed"]}
    assert page["status"]["recorded"] > 0
    assert page["status"]["dropped"] == 0


def test_the_messages_own_page_says_what_became_of_it(browser: httpx.Client, failing: str) -> None:
    page = browser.get(f"/messages/{TOPIC}/0/0").text
    assert f'href="/trace/{failing}"' in page
    rows = twin(browser, f"/messages/{TOPIC}/0/0")["verdicts"]
    assert {(each["group"], each["verdict"], each["deliveries"]) for each in rows} == {
        (PAYER, "done", 3),
        (AUDITOR, "done", 1),
        (IDLE, "not consumed yet", 0),
    }


@pytest.mark.browser
def test_the_waterfall_has_a_bar_for_each_attempt_and_the_table_the_same_figures(
    open_page: OpenPage, failing: str
) -> None:
    page = open_page(f"/trace/{failing}")
    picture = page.get_by_role("img", name=re.compile("^Waterfall of 14 stages in order of time"))
    expect(picture).to_be_visible()
    lanes = picture.locator("[data-stage]")
    expect(lanes).to_have_count(14)
    failed = picture.locator(".tone-lane-bad")
    expect(failed.locator(".lane-label b")).to_have_text(["Attempt 1", "Attempt 2", "Dead letter"])
    expect(failed.locator(".note")).to_have_text(
        [re.compile(r"^✕ failed \d"), re.compile(r"^✕ given up \d"), re.compile("^✕ dead letter$")]
    )
    colours = failed.locator(".stage-bar").evaluate_all(
        "bars => bars.map((bar) => getComputedStyle(bar).fill)"
    )
    assert set(colours) == {"rgb(180, 35, 24)"}
    expect(picture.locator(".tone-lane-replay .lane-label b")).to_have_text("Replay")
    page.get_by_text("As a table").click()
    expect(page.locator("table.stages tbody tr")).to_have_count(14)
    stages = json.loads(
        page.evaluate("fetch(location.pathname + '?format=json').then((one) => one.text())")
    )["stages"]
    for stage in stages:
        row = page.locator(f"#stage-{stage['number']}")
        expect(row.get_by_role("rowheader")).to_have_text(stage["label"])
        note = picture.locator(f"[data-stage='{stage['number']}'] .note").text_content()
        took = row.locator("td.num").nth(1).inner_text()
        if not stage["is_open"] and stage["took"]:
            assert took == stage["took"]
            assert took in (note or "")
    starts = lanes.locator(".stage-bar").evaluate_all(
        "bars => bars.map((bar) => bar.getBoundingClientRect()).map((box) => box.left)"
    )
    moments = 8.0  # a moment is drawn around its place, a bar from it on
    assert all(after >= before - moments for before, after in pairwise(starts))


@pytest.mark.browser
def test_an_unknown_id_shows_the_reasons_with_their_values(open_page: OpenPage) -> None:
    page = open_page("/trace")
    page.get_by_label("Message id, offset id or key").fill("nobody-has-this")
    page.get_by_role("button", name="Show journey").click()
    expect(page).to_have_url(re.compile(r"/trace/nobody-has-this$"))
    expect(page.get_by_role("heading", name="No record of this id")).to_be_visible()
    for code, values in (
        ("tracing_off", re.compile("traced at 1")),
        ("retention", re.compile(r"positions 0 to \d+")),
        ("not_indexed", re.compile(r"up to position \d+ of \d+")),
        ("kind_of_id", re.compile("not made by the broker")),
    ):
        expect(page.locator(f"#reason-{code}")).to_have_text(values)


@pytest.mark.browser
def test_without_script_a_journey_is_found_and_read(open_page: OpenPage, failing: str) -> None:
    page = open_page("/trace", javascript=False)
    page.get_by_label("Message id, offset id or key").fill(failing)
    page.get_by_role("button", name="Show journey").click()
    expect(page.get_by_role("heading", name=re.compile("Journey of"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("Waterfall"))).to_be_visible()
    page.get_by_text("As a table").click()
    expect(page.locator("#stage-1")).to_be_visible()


@pytest.mark.browser
def test_a_journey_goes_on_by_itself_until_it_is_over(
    open_page: OpenPage, scenery: Scenery
) -> None:
    scenery.post("/topics", {"name": "growing"})
    (sent,) = scenery.send("growing", [{"body": "x"}])
    deliveries = scenery.receive("slow", "growing", 1)
    page = open_page(f"/trace/{sent['message_id']}", refresh_s=2)
    expect(page.locator("#journey .journey-block .badge")).to_have_text(["in flight"])
    page.get_by_text("As a table").click()
    scenery.ack("slow", deliveries)
    expect(page.locator("#journey .journey-block .badge")).to_have_text(["done"])
    expect(page.locator("#stage-1")).to_be_visible()
    expect(page.locator("#journey[data-live][hx-get]")).to_have_count(0)


@pytest.mark.browser
def test_errors_in_a_journey_are_text_and_fit_a_telephone(
    open_page: OpenPage, failing: str
) -> None:
    page = open_page(f"/trace/{failing}", width=390)
    expect(page.locator(".story-bad").get_by_text(ERROR).first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    bar = page.locator(".tone-lane-bad .stage-bar").first.bounding_box()
    assert bar is not None
    assert bar["width"] > 1
    assert bar["height"] > 10


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_of_a_journey_has_a_serious_accessibility_fault(
    open_page: OpenPage, failing: str, theme: str
) -> None:
    page = open_page(f"/trace/{failing}", theme=theme)
    page.get_by_text("As a table").click()
    for path in ("", "/trace", "/trace/nobody-has-this", f"/messages/{TOPIC}/0/0"):
        if path:
            page.goto(path)
        assert serious_faults(page) == [], path
