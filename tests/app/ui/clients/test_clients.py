"""Clients, their figures and the columns of messages, as a browser without script sees them."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from app.monitoring import trends
from app.ui.bodies import columns
from app.ui.bodies.columns import Columns
from app.ui.framework.forms import Form
from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.scenery import Scenery

HTML = {"accept": "text/html"}


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    headers = HTML | {"origin": site.base}
    with httpx.Client(base_url=site.base, headers=headers, timeout=30) as client:
        yield client


def twin(browser: httpx.Client, path: str, **query: str) -> Any:
    answer = browser.get(path, params=query | {"format": "json"})
    assert answer.status_code == 200, answer.text
    return answer.json()


def beat(browser: httpx.Client, group: str, client: str) -> None:
    member = {"client": client, "topics": {"orders": "*"}, "version": "9", "language": "GO"}
    answer = browser.post(f"/api/v1/groups/{group}/members/heartbeat", json=member)
    assert answer.status_code == 200, answer.text


def test_a_client_that_makes_requests_has_a_page_that_says_what_it_cannot_be_asked(
    browser: httpx.Client,
) -> None:
    beat(browser, "asked", "host/1@2 & <b>")
    name = "host%2F1%402%20%26%20%3Cb%3E"
    page = twin(browser, f"/clients/{name}")
    client = page["client"]
    assert (client["name"], page["language"], page["version"]) == ("host/1@2 & <b>", "GO", "9")
    assert [row["group"] for row in client["memberships"]] == ["asked"]
    html = browser.get(f"/clients/{name}").text
    assert "<b>" not in html
    assert "Not supported by this client: it has no open connection" in html
    assert browser.get("/clients/nobody-of-that-name").status_code == 404
    assert f'href="/clients/{name}"' in browser.get("/clients?q=host/1@2").text
    stack = browser.post("/client/stack", data={"client": "host/1@2 & <b>"})
    assert "Request failed" in stack.text


def test_disconnecting_says_what_it_means_and_what_it_did(browser: httpx.Client) -> None:
    browser.post("/api/v1/topics", json={"name": "sent-away"})
    for number in range(3):
        browser.post("/api/v1/topics/sent-away/messages", json={"body": str(number)})
    request = {"topic": "sent-away", "max": 2, "invisible_ms": 600_000, "client": "leaver"}
    received = browser.post("/api/v1/groups/sent-away/receive", json=request).json()
    held = len(received["deliveries"])
    assert held
    question = browser.get("/client/disconnect", params={"client": "leaver"}).text
    assert f"{held} messages in flight are redelivered within a second" in question
    done = browser.post("/client/disconnect?format=json", data={"client": "leaver"}).json()["done"]
    assert (done["connections"], done["groups"], done["returned"]) == (0, ["sent-away"], held)
    assert browser.get("/clients/leaver").status_code == 404
    trail = twin(browser, "/audit", name="leaver")
    assert trail["rows"][0]["action"] == "client.disconnect"
    passages = twin(browser, "/groups/sent-away/history")["passages"]
    assert [each["kind"] for each in passages] == ["left", "joined"]


def test_the_list_exports_consumers_and_what_they_do(browser: httpx.Client) -> None:
    beat(browser, "exported", "export-1")
    lines = browser.get("/clients?format=csv&q=export-1").text.splitlines()
    head, row = lines[0].split(","), lines[1].split(",")
    line = dict(zip(head, row, strict=False))
    assert (line["client"], line["kind"], line["language"]) == ("export-1", "consumer", "GO")
    assert (line["handed_per_s"], line["failed"], line["processing_p99_ms"]) == ("0.000", "0", "")
    assert "requests do not say who sends" in lines[1]


def test_a_groups_day_of_lag_is_a_line_with_its_words_or_unknown(
    browser: httpx.Client, scenery: Scenery
) -> None:
    rows = {row["name"]: row for row in twin(browser, "/groups", size="200")["cut"]["rows"]}
    assert {row["trend"]["is_read"] for row in rows.values()} <= {True, False}
    known = trends.trend([None, 3, 9, None, 4])
    assert (known.points, known.low, known.high, known.first, known.last) == (3, 3, 9, 3, 4)
    assert known.line is not None
    # What was not sampled is a gap, not 0: one line of two points, and one point alone.
    assert [len(run.split()) for run in known.line.path.split("M")[1:]] == [2, 1]
    assert trends.trend([None, None]).line is None


def test_verify_offers_only_what_clients_offer(browser: httpx.Client) -> None:
    beat(browser, "billing", "billing-beat")
    page = browser.get("/messages/%25DLQ%25billing/0/0/verify").text
    assert "No client of the group" in page
    assert "not supported by this client" in page
    form = {"group": "billing", "client": "billing-beat"}
    refused = browser.post("/messages/%25DLQ%25billing/0/0/verify", data=form)
    assert (refused.status_code, "Request failed" in refused.text) == (409, True)
    nobody = browser.post("/messages/%25DLQ%25billing/0/0/verify", data={"group": "billing"})
    assert (nobody.status_code, "select a client" in nobody.text) == (422, True)


# -- columns of messages --------------------------------------------------------------------------


def test_values_of_bodies_become_columns_and_what_is_missing_says_why(
    browser: httpx.Client,
) -> None:
    browser.post("/api/v1/topics", json={"name": "columns"})
    for body in ('{"order": {"id": 7, "lines": [{"sku": "<a>"}]}}', "no json at all"):
        browser.post("/api/v1/topics/columns/messages", json={"body": body, "queue": 0})
    query = {"topic": "columns", "since": "all", "fields": "order.id, order.lines[0].sku"}
    page = twin(browser, "/messages", **query)
    cells = {
        row["preview"]: [each["text"] or each["why"] for each in columns_of_row["values"]]
        for row, columns_of_row in zip(page["rows"], page["bodies"], strict=True)
    }
    assert sorted(cells.values())[0] == ["7", "<a>"]
    assert cells["no json at all"] == ["not JSON, Avro, MessagePack or Protobuf"] * 2
    html = browser.get("/messages", params=query).text
    assert "order.lines[0].sku</th>" in html
    assert "&lt;a&gt;" in html
    assert "fields=order.id" in page["answer"]["scan"]["here_href"]
    hexed = twin(browser, "/messages", topic="columns", order="oldest", view="hex")
    assert hexed["bodies"][0]["body"]["text"].startswith("7b 22")


@pytest.mark.parametrize("fields", ["a..b", "a[x]", ".a", "a,b,c,d,e"])
def test_a_path_that_is_none_is_told_at_its_field(browser: httpx.Client, fields: str) -> None:
    answer = browser.get("/messages", params={"topic": "orders", "fields": fields})
    assert answer.status_code == 422
    assert f'value="{fields}"' in answer.text


def test_columns_stop_where_the_time_of_a_page_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "BUDGET_S", -1)
    form = Form({})
    choice = columns.read({"view": "json", "fields": "a"}, form)
    assert choice == Columns("json", ("a",))
    message: Any = object()
    (row,) = columns.show([message], choice)
    assert "time" in row.body.why


# -- the tail -------------------------------------------------------------------------------------


def test_a_permalink_of_a_tail_shows_its_rows_again(browser: httpx.Client) -> None:
    browser.post("/api/v1/topics", json={"name": "kept-tail"})
    for number in range(4):
        browser.post("/api/v1/topics/kept-tail/messages", json={"body": f"b{number}"})
    first = twin(browser, "/tail", topic="kept-tail")
    browser.post("/api/v1/topics/kept-tail/messages", json={"body": "later"})
    again = twin(browser, "/tail", **{"topic": "kept-tail", "from": first["begin"]})
    bodies = [row["preview"] for row in again["rows"]]
    assert sorted(bodies) == ["b0", "b1", "b2", "b3", "later"]
    few = twin(browser, "/tail", **{"topic": "kept-tail", "from": first["mark"]})
    assert [row["preview"] for row in few["rows"]] == ["later"]
    wrong = browser.get("/tail", params={"topic": "kept-tail", "from": "no mark"})
    assert wrong.status_code == 422


@pytest.mark.browser
def test_a_pinned_row_stays_on_top_and_can_be_let_go(
    browser: httpx.Client, open_page: OpenPage
) -> None:
    browser.post("/api/v1/topics", json={"name": "pins"})
    browser.post("/api/v1/topics/pins/messages", json={"body": "first"})
    page = open_page("/tail?topic=pins")
    expect(page.locator("[data-tail-state]")).to_have_text("Streaming")
    page.locator("#tail-rows [data-pin]").click()
    expect(page.locator("#tail-pinned")).to_contain_text("first")
    browser.post("/api/v1/topics/pins/messages", json={"body": "second"})
    expect(page.locator("#tail-rows")).to_contain_text("second")
    page.locator("[data-tail-clear]").click()
    expect(page.locator("#tail-pinned tr")).to_have_count(1)
    page.locator("#tail-pinned [data-pin]").click()
    expect(page.locator("#tail-rows")).to_contain_text("first")
