"""What operators change of a group: its offsets, there and back, its settings, pauses, its end."""

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.app.ui.conftest import Site
from tests.app.ui.groups.group_steps import HTML, audited, consumer, hidden, offsets
from tests.app.ui.scenery import Scenery


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers=HTML, timeout=30) as client:
        yield client


def test_a_preview_shows_every_queue_and_changes_nothing(
    browser: httpx.Client, scenery: Scenery
) -> None:
    consumer(scenery, "previewed", "previewing")(20)
    before = offsets(browser, "previewing", "previewed")
    address = "/groups/previewing/offsets?step=review&to=time&at=2020-01-01T00:00&topic=previewed"
    found = browser.get(f"{address}&format=json").json()["review"]
    assert [row["queue"] for row in found["cut"]["rows"]] == [0, 1]
    assert [row["current"] for row in found["cut"]["rows"]] == before
    assert [row["target"] for row in found["cut"]["rows"]] == [0, 0]
    assert [row["delta"] for row in found["cut"]["rows"]] == [-(offset or 0) for offset in before]
    assert sum(queue["redelivered"] for queue in found["preview"]["queues"]) == 20
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
    form = {name: hidden(review, name) for name in ("to", "topic", "precondition", "offsets")}
    stored = scenery.receive("overtaking", "overtaken", 1)
    scenery.ack("overtaking", stored)
    before = offsets(browser, "overtaking", "overtaken")
    refused = browser.post("/groups/overtaking/offsets", data=form)
    assert refused.status_code == 409
    assert "Nothing was moved: the group has moved since the preview." in refused.text
    marked = re.findall(r'id="move-overtaken-(\d)" class="moved-since"', refused.text)
    assert len(marked) == 1
    assert offsets(browser, "overtaking", "overtaken") == before
    again = {**form, **{n: hidden(refused.text, n) for n in ("precondition", "offsets")}}
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
    form = {name: hidden(review, name) for name in ("to", "topic", "precondition", "offsets")}
    result = browser.post("/groups/undoing/offsets", data=form).headers["location"]
    assert offsets(browser, "undoing", "undone") == [20, 20]
    page = browser.get(result).text
    assert page.count('id="done-undone-') == 2
    asked = browser.get("/groups/undoing/resets/1/undo").text
    assert "Back to where reset 1 found the group" in asked
    assert offsets(browser, "undoing", "undone") == [20, 20]
    content = {name: hidden(asked, name) for name in ("precondition", "offsets")}
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
    content = {name: hidden(asked, name) for name in ("precondition", "offsets")}
    consume(1)
    refused = browser.post("/groups/late/resets/1/undo", data=content)
    assert refused.status_code == 409
    assert refused.text.count('class="moved-since"') == 1


@pytest.mark.parametrize(
    ("query", "field", "text"),
    [
        ("to=time&at=soon", "at", "Invalid time"),
        ("to=offset&offset=-1", "offset", "must be a whole number"),
        ("to=shift&by=0", "by", "other than 0"),
        ("to=group", "from_group", "Enter the group"),
        ("to=group&from_group=nobody-there&topic=orders", "from_group", "nobody-there"),
        ("to=earliest", "other", "at least one topic"),
        ("to=earliest&other=no-such-topic", "other", "no-such-topic"),
        ("to=earliest&topic=orders&queues=x", "queues", "queue numbers"),
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
    assert found["clipped"] == len(found["cut"]["rows"])
    assert "past the end: adjusted to it" in browser.get(address).text


def test_a_broadcast_group_is_not_reset_here(browser: httpx.Client, scenery: Scenery) -> None:
    scenery.post("/groups", {"name": "screens", "mode": "broadcast"})
    assert "keeps its own offsets" in browser.get("/groups/screens/offsets").text


@pytest.mark.parametrize("number", ["7", "x", "1x", "9" * 30])
def test_a_reset_that_is_not_remembered_is_not_found(browser: httpx.Client, number: str) -> None:
    assert browser.get(f"/groups/analytics/resets/{number}").status_code == 404
    assert browser.get(f"/groups/analytics/resets/{number}/undo").status_code == 404


SETTINGS = {
    "mode": "clustering",
    "strategy": "circle",
    "start": "earliest",
    "start_at": "",
    "rooms": "",
    "ordered": "yes",
    "dismiss_when_resent": "yes",
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
    assert "ordered: " in history
    assert found["ordered"] is True
    assert found["dismiss_when_resent"] is True
    assert browser.get("/groups/settled?format=json").json()["head"]["is_ordered"] is True
    listed = browser.get("/groups?q=settled")
    assert "ordered</span>" in listed.text
    file = browser.get("/groups?q=settled&format=csv").text.splitlines()
    cells = dict(zip(file[0].split(","), file[1].split(","), strict=True))
    assert cells["ordered"] == "yes"
    browser.post("/groups/settled/config", data={**SETTINGS, "ordered": "no"})
    assert browser.get("/api/v1/groups/settled").json()["ordered"] is False
    assert "ordered</span>" not in browser.get("/groups?q=settled").text
    retries = browser.get("/groups/settled/retries?format=json").json()
    assert (retries["policy"], retries["waits"]) == ("steps", ["1s", "1m", "1m"])


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"retry_max": "x"}, "retry_max"),
        ({"start": "time", "start_at": "noon"}, "start_at"),
        ({"strategy": "machine_room"}, "rooms"),
        ({"ordered": "perhaps"}, "ordered"),
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
    assert ">Paused<" in browser.get("/groups?q=stopping").text
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


# -- plans -------------------------------------------------------------------------------------


def test_a_plan_is_kept_looked_at_again_and_applied(
    browser: httpx.Client, scenery: Scenery
) -> None:
    consumer(scenery, "planned", "planner")(6)
    query = "step=review&to=earliest&topic=planned"
    kept = browser.get(f"/groups/planner/offsets/plan?{query}")
    assert 'filename="reset-plan-planner.json"' in kept.headers["content-disposition"]
    assert {queue["new_offset"] for queue in kept.json()["queues"]} == {"0"}
    before = offsets(browser, "planner", "planned")

    looked = browser.post("/groups/planner/offsets/plan", data={"plan": kept.text})
    assert (looked.status_code, offsets(browser, "planner", "planned")) == (200, before)
    form = {"to": "plan", "plan": kept.text, "precondition": hidden(looked.text, "precondition")}
    assert browser.post("/groups/planner/offsets", data=form).status_code == 303
    assert offsets(browser, "planner", "planned") == [0, 0]


def test_a_plan_of_a_group_that_went_on_is_a_conflict_that_marks_the_queues(
    browser: httpx.Client, scenery: Scenery
) -> None:
    consume = consumer(scenery, "replanned", "replanner")
    consume(6)
    kept = browser.get(
        "/groups/replanner/offsets/plan?step=review&to=earliest&topic=replanned"
    ).text
    consume(2)
    looked = browser.post("/groups/replanner/offsets/plan", data={"plan": kept})
    assert (looked.status_code, "moved-since" in looked.text) == (409, True)


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        ("", "Not a reset plan"),
        ("{}", "Not a reset plan"),
        ('{"kind": "x", "version": 1, "group": "warehouse", "to": "", "made_at": "",'
         ' "precondition": "", "queues": [{"topic": "orders", "queue": 0,'
         ' "current_offset": null, "new_offset": "1"}]}', "kind or version"),
        ('{"kind": "kitemq.reset-plan", "version": 1, "group": "billing", "to": "",'
         ' "made_at": "", "precondition": "", "queues": [{"topic": "orders", "queue": 0,'
         ' "current_offset": null, "new_offset": "1"}]}', "for the group billing"),
        ('{"kind": "kitemq.reset-plan", "version": 1, "group": "warehouse", "to": "",'
         ' "made_at": "", "precondition": "", "queues": [{"topic": "no-such", "queue": 0,'
         ' "current_offset": null, "new_offset": "1"}]}', "no topic"),
    ],
)  # fmt: skip
def test_what_is_no_plan_is_told_at_its_field(browser: httpx.Client, plan: str, text: str) -> None:
    answer = browser.post("/groups/warehouse/offsets/plan", data={"plan": plan})
    assert (answer.status_code, text in answer.text) == (422, True)
    assert re.search(r'id="field-plan"[^>]*aria-invalid="true"', answer.text)
