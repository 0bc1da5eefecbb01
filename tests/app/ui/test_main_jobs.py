"""The console's main jobs by its pages, the same before the embedded engine and before a cluster.

`tests/rocketmq/test_main_jobs.py` runs those that need no browser before Apache's brokers.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import expect

from tests.app.security.rights_site import cheap_hashes
from tests.app.ui.conftest import OpenPage
from tests.app.ui.visitor import Visitor, page_of, visiting, words
from tests.live import LiveServer

pytestmark = pytest.mark.makers

PASSWORD = "correct horse"
ERROR = "ValueError: no such street"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, maker_name: str) -> Iterator[LiveServer]:
    """One for all tests of a maker."""
    with LiveServer(tmp_path_factory.mktemp("jobs") / "data", maker_name) as live:
        yield live


@pytest.fixture
def visitor(server: LiveServer) -> Iterator[Visitor]:
    with visiting(server) as visitor:
        yield visitor


@pytest.fixture
def base(server: LiveServer) -> str:
    return server.url


# -- topics and messages --------------------------------------------------------------------------


def test_a_topic_is_created_and_stands_in_the_list(visitor: Visitor) -> None:
    topic = visitor.named("orders")
    where, _ = visitor.submit("/create/topic", "/topics", name=topic, read_queues="2")
    assert where == f"/topics/{topic}?done=created"
    visitor.see(f"/topics?q={topic}", f"topic-{topic}", topic, "NORMAL")
    assert visitor.api.get(f"/topics/{topic}")["read_queues"] == 2


def test_a_message_is_published_and_opened_by_id_key_time_and_offset(visitor: Visitor) -> None:
    topic, key = visitor.topic("orders"), visitor.named("k")
    form = f"/topics/{topic}/produce"
    fields = {"body": "a parcel", "tag": "paid", "keys": key, "queue": "1"}
    sent, _ = visitor.submit(form, form, **fields)
    visitor.see(sent, "topic-produce", "1 message stored.", "queue 1, offset 0")
    message = visitor.see(f"/messages/{topic}/1/0", "main", "a parcel", "paid", key)
    (stored,) = visitor.api.get(f"/topics/{topic}/messages/by-key?key={key}")["items"]
    assert stored["message_id"] in message
    stored_ms = stored["stored_ms"]
    for query in (
        f"by=id&id={stored['message_id']}",
        f"by=id&id={stored['offset_id']}",
        f"by=key&key={key}",
        f"by=key&key={key}&topic={topic}",
        f"by=offset&topic={topic}&queue=1&offset=0",
        f"topic={topic}&from={minute(stored_ms)}&to={minute(stored_ms + 60_000)}",
    ):
        visitor.see(f"/messages?{query}", "search-results", "1:0", "a parcel")
    before = f"topic={topic}&from=2001-01-01T00:00&to={minute(stored_ms)}"
    visitor.see(f"/messages?{before}", "search-results", "No messages in this time range")


def minute(time_ms: int) -> str:
    """A time as it is typed, cut to the minute."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%dT%H:%M}"


def test_the_publish_form_sends_what_is_typed(open_page: OpenPage, visitor: Visitor) -> None:
    topic = visitor.topic("orders")
    page = open_page(f"/topics/{topic}/produce")
    page.get_by_label("Body").fill("typed")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_text("1 message stored.")).to_be_visible()
    expect(page.get_by_label("Body")).to_have_value("typed")  # for the next one
    page.locator(".sent a.mono").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_text("typed", exact=True).first).to_be_visible()
    assert visitor.receive(visitor.group("shop"), topic, 1) == ["typed"]


@pytest.mark.capabilities("content_search")
def test_a_topic_is_searched_by_content(visitor: Visitor) -> None:
    topic = visitor.topic("haystack", "straw one", "a needle", "straw two")
    path = f"/messages?topic={topic}&contains=needle"
    results = visitor.see(path, "search-results", "1 matches", "scanned 3 of 3", "0:1")
    assert "straw" not in results
    visitor.see(f"/messages?topic={topic}&contains=pin", "search-results", "No matching messages")


def test_the_live_tail_shows_what_is_sent(open_page: OpenPage, visitor: Visitor) -> None:
    topic = visitor.topic("orders", "before")
    page = open_page(f"/tail?topic={topic}")
    expect(page.locator("[data-tail-state]")).to_have_text("Streaming")
    bodies = page.locator("#tail-rows .tail-body")
    expect(bodies).to_have_text(["before"])
    visitor.api.send(topic, [{"body": "after"}])
    expect(bodies).to_have_text(["after", "before"])


@pytest.mark.capabilities("journeys")
def test_a_journey_is_read_by_the_messages_id(visitor: Visitor) -> None:
    topic, group = visitor.topic("orders"), visitor.group("billing")
    visitor.commit(group, topic, 0)
    (sent,) = visitor.api.send(topic, [{"body": "a parcel", "queue": 0}])
    path = f"/trace/{sent['message_id']}"
    visitor.see(path, "main", f"Journey of {sent['message_id']}", topic, group)
    visitor.see(f"/trace?q={sent['message_id']}", "main", f"Journey of {sent['message_id']}")
    visitor.see("/trace/nobody-sent-this", "main", "No record of this id")


@pytest.mark.capabilities("scheduled_list")
def test_what_waits_is_scheduled_by_the_form_and_listed(visitor: Visitor) -> None:
    topic = visitor.topic("reminders", kind="DELAY")
    form = f"/topics/{topic}/produce"
    body = visitor.named("remember")
    _, sent = visitor.submit(form, form, body=body, deliver="after", after="2h")
    assert "1 message stored." in words(sent)
    visitor.see(
        f"/scheduled?topic={topic}", "main", f"Scheduled messages for {topic}", body, "exact time"
    )
    assert visitor.api.get(f"/topics/{topic}")["messages"] == 0


@pytest.mark.capabilities("transaction_queries")
def test_an_undecided_transaction_is_listed_and_decided(visitor: Visitor) -> None:
    topic, producers = visitor.topic("transfers", kind="TRANSACTION"), visitor.named("bank")
    half = {"body": "ten euros", "transaction_group": producers}
    (sent,) = visitor.api.send(topic, [half])
    listed = f"/transactions?group={producers}"
    visitor.see(listed, "transaction-list", f"Undecided of {producers}", sent["message_id"])
    page = visitor.page(f"/transactions/{sent['message_id']}")
    (form,) = [each for each in page.forms if each.action.startswith("/transactions/")]
    done = page_of(visitor.post(form.action, form.sent() | {"decision": "commit"}))
    assert "Committed. The message is delivered." in words(done)
    visitor.see(listed, "transaction-list", f"No transactions of {producers}")
    assert visitor.receive(visitor.group("ledger"), topic, 1) == ["ten euros"]


# -- groups ---------------------------------------------------------------------------------------


def test_a_group_shows_its_lag(visitor: Visitor) -> None:
    topic, group = visitor.topic("orders", "0", "1", "2", "3"), visitor.group("billing")
    visitor.see(f"/groups/{group}", "group-detail", "the group has no offset in any queue yet")
    visitor.commit(group, topic, 1)
    visitor.see(f"/groups/{group}", "group-detail", "Unread 3 ", topic)
    visitor.commit(group, topic, 4)
    visitor.see(f"/groups/{group}", "group-detail", "Unread 0 ")
    visitor.see(f"/groups?q={group}", f"group-{group}", group)


def test_a_group_is_paused_and_resumed(visitor: Visitor) -> None:
    topic, group = visitor.topic("orders", "a parcel"), visitor.group("billing")
    visitor.submit(f"/groups/{group}/pause", f"/groups/{group}/pause")
    visitor.see(f"/groups/{group}", "main", "paused")
    receive = f"/api/v1/groups/{group}/receive"
    assert visitor.http.post(receive, json={"topic": topic}).status_code == 403
    visitor.submit(f"/groups/{group}/resume", f"/groups/{group}/resume")
    assert "paused" not in visitor.text(f"/groups/{group}")
    assert visitor.receive(group, topic, 1) == ["a parcel"]


@pytest.mark.capabilities("member_shares")
def test_the_clients_of_a_group_are_listed(visitor: Visitor) -> None:
    topic, group = visitor.topic("orders"), visitor.group("billing")
    assert "client-pulls-1" not in visitor.page(f"/groups/{group}/clients").texts
    beat = {"client": "pulls-1", "topics": {topic: "*"}, "version": "9.1", "language": "JAVA"}
    visitor.api.post(f"/groups/{group}/members/heartbeat", beat)
    visitor.see(f"/groups/{group}/clients", "client-pulls-1", "pulls-1", "JAVA 9.1", topic)
    visitor.see(f"/clients?q={group}", "client-list", "pulls-1")


@pytest.fixture
def done_group(visitor: Visitor) -> tuple[str, str]:
    """A group that is done with the four messages of a topic."""
    topic, group = visitor.topic("orders", "0", "1", "2", "3"), visitor.group("billing")
    visitor.commit(group, topic, 4)
    visitor.see(f"/groups/{group}", "group-detail", "Unread 0 ")
    return topic, group


def offset(visitor: Visitor, group: str, topic: str) -> Any:
    """Committed in the first queue."""
    return visitor.api.get(f"/groups/{group}/offsets?topic={topic}")["queues"][0]["offset"]


@pytest.mark.capabilities("offset_resets")
def test_a_reset_is_previewed_and_then_applied(
    visitor: Visitor, done_group: tuple[str, str]
) -> None:
    topic, group = done_group
    review = f"/groups/{group}/offsets?step=review&to=offset&offset=1&topic={topic}&queues=0"
    visitor.see(review, f"move-{topic}-0", f"{topic} 0 4 1 \N{MINUS SIGN}3")
    assert offset(visitor, group, topic) == "4"  # a preview moves nothing
    visitor.submit(review, f"/groups/{group}/offsets")
    assert offset(visitor, group, topic) == "1"
    visitor.see(f"/groups/{group}", "group-detail", "Unread 3 ")


@pytest.mark.capabilities("offset_resets")
def test_a_reset_is_not_applied_where_the_group_moved_since_the_preview(
    visitor: Visitor, done_group: tuple[str, str]
) -> None:
    topic, group = done_group
    path = f"/groups/{group}/offsets"
    form = visitor.form(f"{path}?step=review&to=earliest&topic={topic}&queues=0", path)
    visitor.commit(group, topic, 3)
    answer = visitor.post(path, form.sent())
    assert answer.status_code == 409
    assert "the group has moved since the preview" in answer.text
    assert offset(visitor, group, topic) == "3"


@pytest.mark.capabilities("offset_resets")
def test_a_reset_is_done_by_its_wizard(
    open_page: OpenPage, visitor: Visitor, done_group: tuple[str, str]
) -> None:
    topic, group = done_group
    page = open_page(f"/groups/{group}")
    page.get_by_role("link", name="Reset offsets").click()
    page.get_by_label("Earliest").check()
    page.get_by_role("button", name="Preview all queues").click()
    row = page.locator(f"#move-{topic}-0")
    expect(row.locator(".now")).to_have_text("4")
    expect(row.locator(".new")).to_have_text("0")
    page.get_by_role("button", name=re.compile("^Apply to")).click()
    expect(page.get_by_role("heading", name="Reset 1")).to_be_visible()
    assert offset(visitor, group, topic) == "0"


# -- dead letters ---------------------------------------------------------------------------------


@pytest.fixture
def dead_group(visitor: Visitor) -> tuple[str, str]:
    """A group that gave up three messages of a topic."""
    topic, group = visitor.topic("orders"), visitor.group("billing", retry_max=0)
    visitor.api.send(topic, [{"body": f"letter {n}", "queue": 0} for n in range(3)])
    for _ in range(3):
        deliveries: list[Any] = []
        while not deliveries:
            deliveries = visitor.api.receive(group, topic, 1)
        nacks = [{"receipt": deliveries[0]["receipt"], "error": ERROR}]
        visitor.api.post(f"/groups/{group}/nack", {"nacks": nacks})
    for n in range(3):
        visitor.see(f"/dlq/{group}", f"letter-{n}", ERROR)
    return topic, group


@pytest.mark.apache
def test_dead_letters_are_listed_and_one_is_opened_and_resent(
    visitor: Visitor, dead_group: tuple[str, str]
) -> None:
    topic, group = dead_group
    visitor.see(f"/dlq?q={group}", f"dlq-{group}", group, "ValueError 3")
    letter = f"/dlq/{group}/1"
    failed = f"{ERROR} Failed 1 time; moved to dead letters"
    visitor.see(letter, "main", "Dead letter 1", failed, "letter 1", topic)
    where, _ = visitor.submit(letter, f"{letter}/resend")
    visitor.see(where, "main", "Finished: 1 sent")
    assert visitor.receive(group, topic, 1) == ["letter 1"]
    visitor.see(letter, "main", "resent")
    visitor.see(f"/dlq/{group}?state=resent", "letter-1", ERROR)
    assert "letter-1" not in visitor.page(f"/dlq/{group}").texts


@pytest.mark.apache
@pytest.mark.capabilities("dead_letter_replays")
def test_all_dead_letters_are_resent_by_a_job(
    visitor: Visitor, dead_group: tuple[str, str]
) -> None:
    topic, group = dead_group
    job, _ = visitor.submit(f"/dlq/{group}/resend", f"/dlq/{group}/resend")
    visitor.see(job, "job-now", "Dry run: 3 of 3 can be sent", "No messages sent yet.")
    assert visitor.api.receive(group, topic, 3) == []
    where, _ = visitor.submit(job, f"{job.partition('?')[0]}/begin")
    visitor.see(where, "job-now", "Finished: 3 sent")
    assert visitor.receive(group, topic, 3) == ["letter 0", "letter 1", "letter 2"]
    visitor.see("/jobs", "main", group, job.rpartition("/")[2].partition("?")[0])


@pytest.mark.apache
@pytest.mark.capabilities("dismissals")
def test_a_dead_letter_is_dismissed_with_a_comment(
    visitor: Visitor, dead_group: tuple[str, str]
) -> None:
    _, group = dead_group
    form = f"/dlq/{group}/dismiss"
    visitor.submit(f"{form}?offset=2", form, note="known and harmless")
    visitor.see(f"/dlq/{group}/2", "main", "Dismissed", "known and harmless")
    assert "letter-2" not in visitor.page(f"/dlq/{group}").texts
    visitor.see(f"/dlq/{group}?state=dismissed", "letter-2", ERROR)
    visitor.see(f"/dlq?q={group}", f"dlq-{group}", "2 +1 dismissed")


# -- the server -----------------------------------------------------------------------------------


def test_the_brokers_of_a_cluster_or_the_engine_have_their_page(visitor: Visitor) -> None:
    has_brokers = visitor.api.get("/system")["capabilities"]["brokers"]
    shown, absent = ("/brokers", "/engine") if has_brokers else ("/engine", "/brokers")
    figures = ("Stored today", "up") if has_brokers else ("Retention time", "Disk free")
    visitor.see(shown, "main", shown[1:].title(), *figures)
    visitor.page(absent, 409)
    navigation = visitor.http.get("/").text
    assert f'href="{shown}"' in navigation
    assert f'href="{absent}"' not in navigation


def test_the_audit_trail_names_what_was_done(visitor: Visitor) -> None:
    topic, group = visitor.named("orders"), visitor.group("billing")
    visitor.submit("/create/topic", "/topics", name=topic)
    visitor.submit(f"/topics/{topic}/delete", f"/topics/{topic}/delete")
    visitor.submit(f"/groups/{group}/pause", f"/groups/{group}/pause")
    trail = visitor.see(f"/audit?name={topic}", "audit-list", "topic.delete", "done")
    assert trail.index("topic.delete") < trail.index("topic.create")
    visitor.see(f"/audit?name={group}", "audit-list", "group.create", "group.pause", group)


@pytest.fixture
def guarded(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveServer]:
    """A server with an admin, of the same maker."""
    cheap_hashes(monkeypatch)
    live = server.beside(f"guarded-{uuid4().hex[:8]}", admin_password=PASSWORD)
    live.start()
    try:
        yield live
    finally:
        live.close()


def test_who_may_not_publish_finds_the_form_locked_and_is_refused(
    guarded: LiveServer,
) -> None:
    with visiting(guarded) as admin, visiting(guarded) as viewer:
        assert "Log in" in admin.text("/topics")
        topic = admin.named("orders")
        log_in(admin, "admin")
        admin.submit("/create/topic", "/topics", name=topic)
        new = {"name": "vera", "password": PASSWORD, "role": "viewer"}
        admin.submit("/access", "/access/users", **new)
        log_in(viewer, "vera")
        path = f"/topics/{topic}/produce"
        page = viewer.page(path)
        (form,) = [each for each in page.forms if each.action == path]
        (send,) = form.buttons
        assert send.is_disabled
        assert f"produce:topic:{topic}" in " ".join(page.reasons(send))
        assert viewer.post(path, form.sent() | {"body": "x"}).status_code == 403
        sent, _ = admin.submit(path, path, body="x")
        admin.see(sent, "topic-produce", "1 message stored.")
        admin.see(f"/topics/{topic}/messages", "main", "x")


def log_in(visitor: Visitor, name: str) -> None:
    visitor.submit("/login", "/login", name=name, password=PASSWORD)
