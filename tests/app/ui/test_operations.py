"""Scheduled, transactions, clients, engine, audit and purging, as a browser without script."""

import csv
import io
import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from app.ui.audit.audit import differences
from tests.app.ui.conftest import Site
from tests.app.ui.scenery import HOUR_MS, Scenery

HTML = {"accept": "text/html"}


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers=HTML, timeout=30) as client:
        yield client


def twin(browser: httpx.Client, path: str) -> Any:
    answer = browser.get(path + ("&" if "?" in path else "?") + "format=json")
    assert answer.status_code == 200, answer.text
    return answer.json()


def waiting(scenery: Scenery, delay_ms: int = HOUR_MS) -> str:
    """A message that waits; its id."""
    name = f"W{uuid4().hex}"
    scenery.send("reminders", [{"id": name, "body": "wait for me", "delay_ms": delay_ms}])
    return name


def half(scenery: Scenery, group: str = "shop") -> str:
    """An undecided transaction; its id."""
    name = f"T{uuid4().hex}"
    scenery.send("transfers", [{"id": name, "body": "half", "transaction_group": group}])
    return name


def trail(browser: httpx.Client, action: str, name: str) -> list[Any]:
    return list(twin(browser, f"/audit?action={action}&name={name}")["rows"])


@pytest.mark.parametrize(
    ("path", "element"),
    [
        ("/scheduled", "div#scheduled-list"),
        ("/transactions", "div#transaction-list"),
        ("/clients", "div#client-list"),
        ("/engine", "div#engine-state"),
        ("/audit", "section#audit-list"),
        ("/scheduled/REMINDER2", "div#dialog-body"),
        ("/transactions/TRANSFER2", "div#dialog-body"),
        ("/topics/orders/purge?how=all", "div#topic-purge"),
    ],
)
def test_a_fragment_stands_alone(browser: httpx.Client, path: str, element: str) -> None:
    asking = {"hx-request": "true", "hx-request-type": "partial", "hx-target": element}
    part = browser.get(path, headers=asking)
    assert part.status_code == 200
    assert "<!doctype" not in part.text


# -- scheduled ------------------------------------------------------------------------------------


def test_waiting_messages_are_listed_by_time_page_by_page(browser: httpx.Client) -> None:
    first = twin(browser, "/scheduled?topic=reminders&size=25")
    rest = twin(browser, f"/scheduled?topic=reminders&size=200&cursor={first['next_cursor']}")
    rows = first["rows"] + rest["rows"]
    times = [row["due_ms"] for row in rows]
    assert times == sorted(times)
    assert {f"REMINDER{n}" for n in range(30)} - {row["message_id"] for row in rows} <= {
        "REMINDER1"
    }
    assert len({row["message_id"] for row in rows}) == len(rows)
    assert first["total"] >= len(rows)


def test_the_histogram_and_the_levels_count_everything(
    browser: httpx.Client, scenery: Scenery
) -> None:
    scenery.send("reminders", [{"body": "in two hours", "delay_level": 18}])
    for span in ("hour", "day", "week", "month", "year"):
        context = twin(browser, f"/scheduled?span={span}")
        drawn = context["histogram"]
        bars = sum(bar["count"] for bar in drawn["bars"])
        assert drawn["overdue"] + bars + drawn["later"] == drawn["total"]
        # The histogram counts what waits in delay levels, too.
        assert context["levels_total"] <= drawn["total"] == context["total"]
    context = twin(browser, "/scheduled")
    levels = {level["level"]: level["count"] for level in context["levels"]}
    assert len(levels) == 18
    assert levels[18] >= 1
    page = browser.get("/scheduled?span=day").text
    assert "<rect" in page
    assert "Show data" in page


def test_a_message_is_recalled_only_with_the_word_typed(
    browser: httpx.Client, scenery: Scenery
) -> None:
    name = waiting(scenery)
    path = f"/scheduled/{name}"
    refused = browser.post(path, data={"do": "recall", "confirm": "recal"})
    assert refused.status_code == 422
    assert re.search(r'id="field-confirm"[^>]*aria-invalid="true"', refused.text)
    assert browser.get(path).status_code == 200
    done = browser.post(path, data={"do": "recall", "confirm": "recall"})
    assert done.headers["location"] == "/scheduled?done=recalled"
    assert "not be delivered" in browser.get(done.headers["location"]).text
    gone = browser.get(path)
    assert gone.status_code == 404
    assert name in gone.text
    (entry,) = trail(browser, "message.recall", name)
    assert (entry["result"], entry["object_kind"]) == ("done", "message")


def test_a_message_is_delivered_now(browser: httpx.Client, scenery: Scenery) -> None:
    name = waiting(scenery)
    done = browser.post(f"/scheduled/{name}", data={"do": "deliver"})
    assert done.headers["location"] == "/scheduled?done=delivered"
    assert browser.get(f"/m/{name}").headers["location"].startswith("/messages/reminders/")
    assert trail(browser, "message.deliver", name)


def test_a_message_is_moved_to_another_time(browser: httpx.Client, scenery: Scenery) -> None:
    name = waiting(scenery)
    before = twin(browser, f"/scheduled/{name}")["row"]["due_ms"]
    done = browser.post(f"/scheduled/{name}", data={"do": "reschedule", "later": "604800000"})
    assert done.headers["location"] == "/scheduled?done=rescheduled"
    after = twin(browser, f"/scheduled/{name}")["row"]["due_ms"]
    assert after - before > 100 * HOUR_MS
    typed = {"do": "reschedule", "later": "", "at": "2000-01-01T00:00"}
    for at, text in (
        ("2000-01-01T00:00", "has passed"),
        ("soon", "Invalid time"),
        ("2999-01-01T00:00", "year"),
    ):
        wrong = browser.post(f"/scheduled/{name}", data={**typed, "at": at})
        assert wrong.status_code == 422, at
        assert text in wrong.text
        assert re.search(r'id="field-at"[^>]*aria-invalid="true"', wrong.text)
    assert twin(browser, f"/scheduled/{name}")["row"]["due_ms"] == after


def test_nothing_else_can_be_done_to_a_waiting_message(
    browser: httpx.Client, scenery: Scenery
) -> None:
    name = waiting(scenery)
    assert browser.post(f"/scheduled/{name}", data={"do": "eat"}).status_code == 422
    assert browser.get(f"/scheduled/{name}?do=recall&confirm=recall").status_code == 200
    assert browser.get(f"/scheduled/{name}").status_code == 200


def test_a_wrong_place_in_the_list_is_an_error_page(browser: httpx.Client) -> None:
    for path in ("/scheduled", "/transactions", "/audit"):
        assert browser.get(f"{path}?cursor=x-y").status_code == 422


# -- transactions ---------------------------------------------------------------------------------


def test_transactions_are_listed_with_their_groups(browser: httpx.Client) -> None:
    context = twin(browser, "/transactions?group=bank&size=200")
    assert {"TRANSFER0", "TRANSFER3"} <= {row["transaction_id"] for row in context["rows"]}
    tally = {row["group"]: row["pending"] for row in context["tally"]["groups"]}
    assert tally["bank"] == len(context["rows"])
    assert context["tally"]["examined"] == context["tally"]["total"]
    page = browser.get("/transactions").text
    assert "not checked" in page
    half_page = browser.get(f"/transactions/{context['rows'][0]['half_id']}/half")
    assert half_page.headers["location"].startswith("/messages/RMQ_SYS_TRANS_HALF_TOPIC/")


def test_an_operator_decides_only_with_the_word_typed(
    browser: httpx.Client, scenery: Scenery
) -> None:
    name = half(scenery)
    path = f"/transactions/{name}"
    for data in (
        {"decision": "commit", "confirm": "yes"},
        {"decision": "", "confirm": "operator"},
    ):
        refused = browser.post(path, data=data)
        assert refused.status_code == 422
        assert 'aria-invalid="true"' in refused.text
    assert twin(browser, path)["row"]["state"] == "pending"
    done = browser.post(path, data={"decision": "commit", "confirm": "operator"})
    assert done.status_code == 303
    page = browser.get(done.headers["location"])
    assert "Committed. The message is delivered." in page.text
    row = twin(browser, path)["row"]
    assert row["state"] == "committed"
    assert browser.get(row["href"]).status_code == 200
    (entry,) = trail(browser, "transaction.commit", name)
    changed = {each["name"]: (each["before"], each["after"]) for each in entry["differences"]}
    assert changed["state"] == ("pending", "committed")


def test_the_opposite_decision_is_refused_with_the_present_state(
    browser: httpx.Client, scenery: Scenery
) -> None:
    name = half(scenery)
    rolled = {"decision": "rollback", "confirm": "operator"}
    assert browser.post(f"/transactions/{name}", data=rolled).status_code == 303
    late = browser.post(f"/transactions/{name}", data={**rolled, "decision": "commit"})
    assert late.status_code == 409
    assert "rolled back" in late.text
    assert "decide-form" not in late.text


def test_only_what_was_given_up_is_resumed(browser: httpx.Client, scenery: Scenery) -> None:
    refused = browser.post(f"/transactions/{half(scenery)}", data={"do": "resume"})
    assert refused.status_code == 409


def test_callbacks_are_shown(browser: httpx.Client, site: Site) -> None:
    path = f"{site.base}/api/v1/transactions/callbacks/bank-2"
    httpx.put(path, json={"url": "http://127.0.0.1:9/ask"}).raise_for_status()
    assert "http://127.0.0.1:9/ask" in browser.get("/transactions").text
    httpx.delete(path).raise_for_status()


# -- clients, engine ------------------------------------------------------------------------------


def test_members_of_all_groups_are_listed_with_versions(
    browser: httpx.Client, scenery: Scenery
) -> None:
    beat = {"client": "pulling-1", "topics": {"orders": "*"}, "version": "9.1", "language": "JAVA"}
    scenery.post("/groups/pullers/members/heartbeat", beat)
    context = twin(browser, "/clients?q=pulling-1")
    (row,) = context["cut"]["rows"]
    assert (row["group"], row["version"], row["language"]) == ("pullers", "9.1", "JAVA")
    assert row["ways"] == ["heartbeats"]
    assert {"language": "JAVA", "version": "9.1", "clients": 1} in context["versions"]
    assert context["selection"]["clients"] >= 1
    assert "JAVA 9.1" in browser.get("/clients?sort=version").text


def test_the_engine_tells_what_the_api_tells(browser: httpx.Client) -> None:
    context = twin(browser, "/engine?settings=all")
    retention = browser.get("/api/v1/retention").json()
    assert context["retention"]["segments"] == retention["segments"]
    assert context["retention"]["disk_bytes"] == retention["disk_bytes"]
    settings = {row["name"]: row for row in context["settings"]}
    assert settings["environment"] == {
        **settings["environment"],
        "value": "staging",
        "default": "",
        "is_set": True,
    }
    assert not settings["retention_h"]["is_set"]
    assert context["settings_total"] == len(context["settings"])
    assert len(twin(browser, "/engine")["settings"]) < context["settings_total"]


def test_warnings_and_failures_stand_first(
    browser: httpx.Client, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    retention = site.app.services.host.broker.retention
    monkeypatch.setattr(type(retention), "warning", lambda _: "<b>too full</b>")
    page = browser.get("/engine").text
    assert "&lt;b&gt;too full" in page
    assert "with warnings" in page


# -- audit ----------------------------------------------------------------------------------------


def test_the_trail_is_filtered_and_paged_without_gap_or_repeat(
    browser: httpx.Client, scenery: Scenery
) -> None:
    for number in range(27):
        scenery.post("/topics", {"name": f"trail-{number}"})
    path = "/audit?name=trail-&action=topic.create&size=25"
    first = twin(browser, path)
    second = twin(browser, f"{path}&cursor={first['next_cursor']}")
    names = [row["object_name"] for row in first["rows"] + second["rows"]]
    assert names == [f"trail-{number}" for number in reversed(range(27))]
    assert second["next_cursor"] == ""
    row = first["rows"][0]
    assert {each["name"] for each in row["differences"]} >= {"name", "type"}
    (one,) = twin(browser, f"/audit?request_id={row['request_id']}")["rows"]
    assert one["id"] == row["id"]
    assert twin(browser, f"{path}&to=2001-01-01T00:00")["rows"] == []
    assert browser.get("/audit?from=soon").status_code == 422


def test_the_export_holds_all_that_matches_and_runs_no_formula(
    browser: httpx.Client, scenery: Scenery
) -> None:
    browser.post("/topics/orders/config", data={})  # refused: no entry
    api = browser.post(
        "/api/v1/topics",
        json={"name": "exported"},
        headers={"x-request-id": "=cmd()", "content-type": "application/json"},
    )
    assert api.status_code < 300
    answer = browser.get("/audit/export?name=exported")
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    header, row = csv.reader(io.StringIO(answer.text))
    entry = dict(zip(header, row, strict=True))
    assert (entry["object_name"], entry["action"]) == ("exported", "topic.create")
    assert entry["request_id"] == "'=cmd()"
    every = list(csv.reader(io.StringIO(browser.get("/audit/export").text)))
    assert len(every) > 8
    assert browser.get("/audit/export?from=soon").status_code == 422


def test_differences_are_those_fields_that_differ() -> None:
    fields = differences('{"a": 1, "b": "x", "c": [1]}', '{"a": 2, "b": "x", "d": null}')
    assert [(each.name, each.before, each.after) for each in fields] == [
        ("a", "1", "2"),
        ("c", "[1]", ""),
        ("d", "", "null"),
    ]
    assert [each.after for each in differences("", '["g", 5]')] == ['["g", 5]']
    assert differences("[1]", "[1]") == []


# -- topics ---------------------------------------------------------------------------------------


def hidden(html: str) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', html))


def test_a_topic_is_purged_of_what_was_shown_and_no_more(
    browser: httpx.Client, scenery: Scenery
) -> None:
    scenery.post("/topics", {"name": "to-purge"})
    scenery.send("to-purge", [{"body": str(n), "queue": n % 2} for n in range(10)])
    path = "/topics/to-purge/purge"
    page = browser.get(f"{path}?how=all")
    assert "<strong>10</strong> messages of 10 would be purged" in page.text
    assert browser.get("/topics/to-purge?format=json").json()["head"]["messages"] == 10
    fields = hidden(page.text)
    refused = browser.post(path, data={**fields, "confirm": "to-purg"})
    assert refused.status_code == 422
    scenery.send("to-purge", [{"body": "later", "queue": 0}])
    done = browser.post(path, data={**fields, "confirm": "to-purge"})
    assert done.headers["location"] == "/topics/to-purge?done=purged"
    assert twin(browser, "/topics/to-purge")["head"]["messages"] == 1
    (entry,) = trail(browser, "topic.purge", "to-purge")
    assert entry["result"] == "done"


def test_one_queue_is_purged_up_to_an_offset(browser: httpx.Client, scenery: Scenery) -> None:
    scenery.post("/topics", {"name": "to-trim"})
    scenery.send("to-trim", [{"body": str(n), "queue": 1} for n in range(6)])
    path = "/topics/to-trim/purge"
    page = browser.get(f"{path}?how=offset&queue=1&offset=4")
    assert "<strong>4</strong> messages of 6 would be purged" in page.text
    browser.post(path, data={**hidden(page.text), "confirm": "to-trim"})
    assert twin(browser, "/topics/to-trim")["queues"][1]["min_offset"] == "4"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("how=before", "before"),
        ("how=before&before=soon", "before"),
        ("how=offset&queue=0", "offset"),
        ("how=offset&queue=77&offset=1", "offset"),
        ("how=offset&queue=0&offset=999999", "offset"),
        ("how=some", "how"),
    ],
)
def test_what_is_no_extent_is_said_at_its_field(
    browser: httpx.Client, query: str, field: str
) -> None:
    answer = browser.get(f"/topics/orders/purge?{query}")
    assert answer.status_code == 422
    assert re.search(rf'id="field-{field}"[^>]*aria-invalid="true"', answer.text)


def test_a_purge_that_was_not_previewed_is_not_made(browser: httpx.Client) -> None:
    before = twin(browser, "/topics/shipments")["head"]["messages"]
    for offsets in ("", "0", "0:x", "0:99999999", "99:1"):
        data = {"how": "all", "offsets": offsets, "confirm": "shipments"}
        assert browser.post("/topics/shipments/purge", data=data).status_code in (409, 422)
    assert twin(browser, "/topics/shipments")["head"]["messages"] == before


def test_a_topics_retention_and_tracing_are_set_and_taken_back(
    browser: httpx.Client, scenery: Scenery
) -> None:
    scenery.post("/topics", {"name": "to-keep"})
    path = "/topics/to-keep/config"
    values = {"read_queues": "4", "write_queues": "4", "permission": "6", "durability": ""}
    own = {**values, "retention": "12h", "trace_sample": "25"}
    assert browser.post(path, data=own).status_code == 303
    config = browser.get("/api/v1/topics/to-keep").json()
    config = config.get("config", config)
    assert (config["retention_ms"], config["trace_sample"]) == (12 * HOUR_MS, 0.25)
    page = browser.get(path).text
    assert 'value="12h"' in page
    assert 'value="25"' in page
    for field, text in (("retention", "soon"), ("retention", "1ms"), ("trace_sample", "101")):
        wrong = browser.post(path, data={**own, field: text})
        assert wrong.status_code == 422
        assert re.search(rf'id="field-{field}"[^>]*aria-invalid="true"', wrong.text)
    assert browser.post(path, data={**own, "retention": "", "trace_sample": ""}).status_code == 303
    config = browser.get("/api/v1/topics/to-keep").json()
    config = config.get("config", config)
    assert (config["retention_ms"], config["trace_sample"]) == (None, None)


def test_topics_tell_their_traffic(browser: httpx.Client) -> None:
    context = twin(browser, "/topics/orders")
    traffic = context["figures"]["traffic"]
    assert traffic["messages_in"]["total"] >= 400
    assert traffic["bytes_in"]["total"] > traffic["messages_in"]["total"]
    rows = twin(browser, "/topics?sort=-bytes")["cut"]["rows"]
    assert all("bytes_rate" in row for row in rows)


def test_a_message_in_a_delay_level_is_changed_as_one_with_an_exact_time(
    browser: httpx.Client, scenery: Scenery
) -> None:
    sent = scenery.send("reminders", [{"body": f"level {n}", "delay_level": 18} for n in range(3)])
    recalled, delivered, moved = (message["message_id"] for message in sent)
    row = twin(browser, f"/scheduled/{recalled}")["row"]
    assert (row["delay_level"], row["topic"], row["group"]) == (18, "reminders", "")
    done = browser.post(f"/scheduled/{recalled}", data={"do": "recall", "confirm": "recall"})
    assert done.headers["location"] == "/scheduled?done=recalled"
    done = browser.post(f"/scheduled/{delivered}", data={"do": "deliver"})
    assert done.headers["location"] == "/scheduled?done=delivered"
    later = {"do": "reschedule", "later": "86400000"}
    done = browser.post(f"/scheduled/{moved}", data=later)
    assert done.headers["location"] == "/scheduled?done=rescheduled"
    assert twin(browser, f"/scheduled/{moved}")["row"]["delay_level"] == 0
    assert trail(browser, "message.recall", recalled)
    for gone in (recalled, delivered):
        assert browser.get(f"/scheduled/{gone}").status_code == 404


def test_a_retry_is_listed_with_its_group_and_cannot_be_changed(
    browser: httpx.Client, scenery: Scenery
) -> None:
    scenery.post("/topics", {"name": "retried-once"})
    scenery.send("retried-once", [{"body": "again"}])
    (held,) = scenery.receive("once-again", "retried-once", 1)
    nack = {"receipt": held["receipt"], "delay_level": 18}
    scenery.post("/groups/once-again/nack", {"nacks": [nack], "client": "retrying-1"})
    rows = twin(browser, "/scheduled?topic=%25RETRY%25once-again&size=200")["rows"]
    assert [(row["group"], row["delay_level"], row["preview"]) for row in rows] == [
        ("once-again", 18, "again")
    ]
    page = browser.get("/scheduled?topic=%25RETRY%25once-again").text
    assert 'href="/groups/once-again/retries"' in page
    assert f'href="/scheduled/{rows[0]["offset_id"]}"' not in page
    assert browser.get(f"/scheduled/{rows[0]['offset_id']}").status_code == 404


def test_a_message_is_scheduled_from_the_list(browser: httpx.Client) -> None:
    there = browser.get("/produce?topic=reminders&deliver=after")
    assert there.headers["location"] == "/topics/reminders/produce?deliver=after"
    assert 'value="after"\n     checked' in browser.get(there.headers["location"]).text
    assert browser.get("/produce?topic=no-such-topic&deliver=after").status_code == 404
