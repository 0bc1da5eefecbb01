"""The Produce form: delivery times, transactions, templates, and files of messages."""

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from app.services import message_imports
from app.ui.framework import typed_time
from tests.app.ui.conftest import OpenPage, Site

HTML = {"accept": "text/html"}
MESSAGE = {"body": "hello", "count": "1", "deliver": "now", "zone": "UTC"}


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers=HTML, timeout=30) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def _topics(site: Site) -> None:
    """Topics of each type, for this file alone."""
    kinds = {"form": "NORMAL", "form-fifo": "FIFO", "form-txn": "TRANSACTION"}
    with httpx.Client(base_url=f"{site.base}/api/v1", timeout=30) as client:
        for name, kind in kinds.items():
            answer = client.post("/topics", json={"name": name, "type": kind, "read_queues": 1})
            assert answer.status_code in (201, 409), answer.text  # 409: made before


def send(browser: httpx.Client, topic: str = "form", **fields: str) -> httpx.Response:
    return browser.post(f"/topics/{topic}/produce", data={**MESSAGE, **fields})


def sent(browser: httpx.Client, topic: str = "form", **fields: str) -> Any:
    """What the page says of the messages that were sent."""
    answer = send(browser, topic, **fields)
    assert answer.status_code == 303, answer.text
    return browser.get(f"{answer.headers['location']}&format=json").json()["sent"]


# -- delivery ------------------------------------------------------------------------------------


def test_a_message_waits_for_a_duration_a_time_or_a_level(
    browser: httpx.Client, site: Site
) -> None:
    now_ms = site.app.console.now_ms()
    at = typed_time.moment_text(now_ms + 7_200_000)
    ways = (
        ({"deliver": "after", "after": "2h", "at": "nonsense"}, 7_200_000, 0),
        ({"deliver": "at", "at": at, "after": "nonsense"}, 7_200_000, 0),
        ({"deliver": "level", "delay_level": "18", "at": "nonsense"}, 7_200_000, 18),
    )
    for fields, wait_ms, level in ways:
        (one,) = sent(browser, **fields)
        row = browser.get(f"/scheduled/{one['message_id']}?format=json").json()["row"]
        assert abs(row["due_ms"] - now_ms - wait_ms) < 60_000, fields
        assert row["delay_level"] == level
        page = browser.get(f"/topics/form/produce?sent={one['href'][10:].replace('/', ':')}").text
        assert f'href="/scheduled/{one["message_id"]}"' in page


def test_a_time_is_typed_in_the_zone_that_stands_beside_it(
    browser: httpx.Client, site: Site
) -> None:
    utc_ms = (site.app.console.now_ms() // 1000 + 86_400) * 1000
    at = typed_time.moment_text(utc_ms + 9 * 3_600_000)
    (one,) = sent(browser, deliver="at", at=at, zone="Asia/Tokyo")
    row = browser.get(f"/scheduled/{one['message_id']}?format=json").json()["row"]
    assert row["due_ms"] == utc_ms


@pytest.mark.parametrize(
    ("fields", "field", "text"),
    [
        ({"deliver": "after", "after": "soon"}, "after", "Invalid duration"),
        ({"deliver": "after", "after": "400d"}, "after", "a year"),
        ({"deliver": "at", "at": "2001-01-01T00:00"}, "at", "That time has passed"),
        ({"deliver": "at", "at": ""}, "at", "Invalid time"),
        ({"deliver": "level", "delay_level": "19"}, "delay_level", "Delay must be"),
        ({"deliver": "someday"}, "deliver", "Delivery must be one of"),
    ],
)
def test_a_wrong_time_is_refused_and_nothing_is_sent(
    browser: httpx.Client, fields: dict[str, str], field: str, text: str
) -> None:
    before = browser.get("/scheduled?format=json").json()["total"]
    answer = send(browser, **fields)
    assert answer.status_code == 422
    assert text in answer.text
    help = re.search(rf'id="help-{field}".*?</p>', answer.text, re.DOTALL)
    assert help is not None
    assert "field-error" in help[0]
    assert browser.get("/scheduled?format=json").json()["total"] == before


def test_each_type_of_topic_has_the_fields_that_it_needs(browser: httpx.Client) -> None:
    fields = {
        name: set(re.findall(r'name="(\w+)"', browser.get(f"/topics/{name}/produce").text))
        for name in ("form", "form-fifo", "form-txn")
    }
    times, transaction = {"deliver", "after", "at", "delay_level"}, {"outcome", "transaction_group"}
    assert times <= fields["form"]
    assert not fields["form"] & transaction
    assert not fields["form-fifo"] & (times | transaction)
    assert transaction <= fields["form-txn"]
    assert not fields["form-txn"] & times
    assert all("message_group" in names for names in fields.values())


def test_a_fifo_topic_requires_the_message_group_without_calling_it_optional(
    browser: httpx.Client,
) -> None:
    page = browser.get("/topics/form-fifo/produce").text
    label = re.search(r'<label for="field-message_group">(.*?)</label>', page, re.DOTALL)
    assert label is not None
    assert "optional" not in label[1]
    (one,) = sent(browser, "form-fifo", message_group="g")
    assert one["place"]


def test_a_transaction_is_committed_rolled_back_or_left_open(browser: httpx.Client) -> None:
    states = {"commit": "committed", "rollback": "rolled_back", "open": "pending"}
    for outcome, state in states.items():
        (one,) = sent(browser, "form-txn", outcome=outcome, transaction_group="desk")
        row = browser.get(f"/transactions/{one['message_id']}?format=json").json()["row"]
        assert (row["state"], row["group"]) == (state, "desk")
        assert one["is_transaction"] is (outcome != "commit")
    assert send(browser, "form-txn", outcome="open", transaction_group="").status_code == 422


# -- templates -----------------------------------------------------------------------------------


def test_a_template_fills_the_form_and_is_replaced_and_deleted(browser: httpx.Client) -> None:
    fields = {**MESSAGE, "body": "a\r\nb", "tag": "x", "deliver": "after", "after": "3h"}
    save = {**fields, "template": "My  template", "at": "2030-01-01T00:00"}
    answer = browser.post("/topics/form/produce/templates", data=save)
    assert answer.status_code == 303, answer.text
    filled = browser.get(f"{answer.headers['location']}&format=json").json()
    values = filled["form"]["values"]
    assert (values["body"], values["tag"], values["after"]) == ("a\nb", "x", "3h")
    assert values["deliver"] == "after"
    assert values["at"] != "2030-01-01T00:00"
    browser.post("/topics/form-fifo/produce/templates", data={**save, "tag": "y"})
    context = browser.get("/topics/form/produce?format=json").json()
    (template,) = context["templates"]
    assert (template["name"], template["topic"]) == ("My template", "form-fifo")
    page = browser.get(f"/topics/form/produce?template={template['id']}")
    assert 'value="y"' in page.text
    gone = browser.post(f"/topics/form/produce/templates/{template['id']}/delete")
    assert gone.headers["location"] == "/topics/form/produce?done=deleted"
    assert browser.get(f"/topics/form/produce?template={template['id']}").status_code == 404
    trail = browser.get("/audit?kind=template&format=json").json()
    assert trail["rows"][0]["action"] == "template.delete"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"template": " "}, "1 to 80 characters"),
        ({"template": "big", "body": "x" * 70_000}, "at most 65,536"),
    ],
)
def test_a_template_that_cannot_be_kept_is_refused_at_its_name(
    browser: httpx.Client, fields: dict[str, str], text: str
) -> None:
    answer = browser.post("/topics/form/produce/templates", data={**MESSAGE, **fields})
    assert answer.status_code == 422
    assert text in answer.text
    assert re.search(r'id="field-template"[^>]*aria-invalid="true"', answer.text)


# -- files ---------------------------------------------------------------------------------------

LINES = """body,keys,tag,queue,delay_ms,properties.source
one,k1 k2,t,,,shop
"two
lines",k3,,77,,
three,,,,60000,
four,,,,x,
"""


def file(browser: httpx.Client, content: str, step: str, topic: str = "form") -> httpx.Response:
    path = f"/topics/{topic}/produce/file"
    return browser.post(path, data={"content": content, "step": step})


def test_a_file_is_checked_by_line_and_only_then_sent(browser: httpx.Client) -> None:
    before = browser.get("/topics/form?format=json").json()["head"]["messages"]
    preview = file(browser, LINES, "check")
    assert preview.status_code == 200
    for text in ("Line", "77", "one", "Send 2 messages", "Nothing has been sent yet."):
        assert text in preview.text
    assert 'id="line-3"' in preview.text
    assert 'id="line-6"' in preview.text
    assert browser.get("/topics/form?format=json").json()["head"]["messages"] == before
    done = file(browser, LINES, "send")
    assert done.status_code == 303
    place = done.headers["location"]
    context = browser.get(f"{place}?format=json").json()
    assert context["counts"] == {"refused": 2, "sent": 2}
    rows = list(csv.DictReader(io.StringIO(browser.get(f"{place}?format=csv").text)))
    assert [(row["line"], row["result"]) for row in rows] == [
        ("2", "sent"),
        ("3", "refused"),
        ("5", "sent"),
        ("6", "refused"),
    ]
    assert rows[1]["field"] == "queue"
    assert (rows[3]["field"], rows[3]["reason"]) == ("delay_ms", "the value is no whole number")
    first = browser.get(f"/messages/form/{rows[0]['queue']}/{rows[0]['offset']}?format=json").json()
    properties = {item["name"]: item["value"] for item in first["properties"]}
    assert (properties["KEYS"], properties["source"]) == ("k1 k2", "shop")
    assert rows[2]["message_id"]
    assert rows[2]["queue"] == ""


def test_lines_of_json_that_are_wrong_do_not_stop_the_others(browser: httpx.Client) -> None:
    lines = [
        json.dumps({"body": "a", "properties": {"n": "1"}}),
        "{not json",
        "",
        json.dumps({"body": "b", "colour": "red"}),
        json.dumps({"body": "c", "properties": {"UNIQ_KEY": "x"}}),
    ]
    page = file(browser, "\n".join(lines), "check").text
    assert re.findall(r'id="line-(\d+)"', page) == ["2", "4", "5"]
    assert "Send 1 message" in page


def test_a_fifo_topic_refuses_lines_without_a_message_group(browser: httpx.Client) -> None:
    page = file(browser, "body,message_group\na,g\nb,\n", "check", "form-fifo").text
    assert re.findall(r'id="line-(\d+)"', page) == ["3"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "no “body”"),
        ("body\n", "has no message"),
        ("body,colour\na,red\n", "no column"),
        ('body\n"a\n', "is no CSV"),
        ("body\n" + "x\n" * 5_001, "more than 5,000"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_remedy(
    browser: httpx.Client, content: str, text: str
) -> None:
    answer = file(browser, content, "check")
    assert answer.status_code == 422
    assert text in answer.text


def test_lines_that_are_not_reached_in_time_are_unsent(
    browser: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_imports, "BUDGET_S", 0.0)
    place = file(browser, "body\na\n", "send").headers["location"]
    assert browser.get(f"{place}?format=json").json()["counts"] == {"unsent": 1}


def test_results_go_when_newer_runs_take_their_place(
    browser: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_imports, "RUNS_MAX", 1)
    first = file(browser, "body\na\n", "send").headers["location"]
    second = file(browser, "body\nb\n", "send").headers["location"]
    assert browser.get(first).status_code == 404
    assert browser.get(second).status_code == 200
    assert browser.get(second.replace("/form/", "/orders/")).status_code == 404


# -- in a browser --------------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize("javascript", [True, False])
def test_a_choice_shows_the_field_that_it_needs(open_page: OpenPage, javascript: bool) -> None:
    page = open_page("/topics/form/produce", javascript=javascript)
    fields = {
        "after": page.get_by_label("Duration", exact=True),
        "at": page.get_by_label("Time (UTC)"),
        "level": page.get_by_label("Delay level", exact=True),
    }
    for field in fields.values():
        expect(field).to_be_hidden()
    words = {"after": "After a duration", "at": "At an exact time", "level": "After a delay level"}
    for chosen, word in words.items():
        page.get_by_label(word, exact=True).check()
        for name, field in fields.items():
            expect(field).to_be_visible(visible=name == chosen)
    page.get_by_label("After a duration").check()
    page.get_by_label("Body").fill("later")
    fields["after"].fill("2h")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".sent")).to_contain_text("scheduled")


@pytest.mark.browser
def test_a_template_is_saved_from_the_form_and_fills_it_again(open_page: OpenPage) -> None:
    page = open_page("/topics/form/produce")
    page.get_by_label("Body").fill("from a template")
    page.get_by_text("Save as template").click()
    page.get_by_role("button", name="Save template").click()
    expect(page.locator(".field-error")).to_contain_text("1 to 80 characters")
    page.get_by_label("Template name").fill("Browser")
    page.get_by_role("button", name="Save template").click()
    expect(page.get_by_role("status").first).to_contain_text("Template saved")
    page.goto("/topics/form/produce")
    page.get_by_role("link", name="Browser", exact=True).click()
    expect(page.get_by_label("Body")).to_have_value("from a template")
    page.get_by_role("button", name="Delete template Browser").click()
    expect(page.get_by_role("link", name="Browser", exact=True)).to_have_count(0)


@pytest.mark.browser
def test_a_file_is_chosen_looked_at_and_sent(open_page: OpenPage) -> None:
    page = open_page("/topics/form/produce")
    page.get_by_role("link", name="Send a file").click()
    content = {"name": "a.csv", "mimeType": "text/csv", "buffer": b"body\nfirst\nsecond\n"}
    page.get_by_label("Choose file").set_input_files(content)
    expect(page.get_by_label("File content")).to_have_value("body\nfirst\nsecond\n")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("main")).to_contain_text("second")
    page.get_by_role("button", name="Send 2 messages").click()
    expect(page.get_by_role("link", name="Results as CSV")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Results as CSV").click()
    assert download.value.suggested_filename == "form-results.csv"
