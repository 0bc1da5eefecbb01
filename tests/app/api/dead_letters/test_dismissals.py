"""Dismissing and restoring dead letters over REST, the SDK and the command line."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.db.rows import Actor
from app.services.dismissals import DeadChoice, Dismissals
from engine.broker import DismissalSnapshot
from kitemq import Client, NotFound, Refused
from kitemq.cli import main
from tests.app.api.dead_letters.test_dead_letters import bury
from tests.app.api.replays.test_replays import kill
from tests.app.conftest import App
from tests.live import LiveServer

asked = pytest.mark.anyio
PATH = "/groups/billing/dead-letters"
OK, REFUSED = 0, 2


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    live = LiveServer(tmp_path / "data")
    live.start()
    yield live
    live.stop()


@asked
async def test_what_is_dismissed_rests_and_says_who_and_why(running: App) -> None:
    await bury(running, *"abcde")
    await bury(running, "f", error="other")
    new = {"offsets": ["1", 2, "2"], "note": "test orders"}
    assert await running.post(f"{PATH}/dismiss", {**new, "dry_run": True}) == {
        "id": "",
        "count": 2,
        "already": 0,
    }
    done = await running.post(f"{PATH}/dismiss", new)
    assert (done["count"], done["already"]) == (2, 0)
    letters = (await running.get(f"{PATH}?state=all"))["items"]
    snapshot = {each["message"]["offset"]: each["dismissed"] for each in letters}
    note = snapshot["1"]
    assert (note["id"], note["note"]) == (done["id"], "test orders")
    assert note["by"].startswith("anonymous@")
    assert note["at_ms"] == running.clock.now_ms()
    assert [offset for offset, each in snapshot.items() if each is None] == ["5", "4", "3", "0"]
    only = (await running.get(f"{PATH}?state=dismissed"))["items"]
    assert [each["message"]["body"] for each in only] == ["c", "b"]
    assert [each["state"] for each in only] == ["dismissed"] * 2
    assert len((await running.get(PATH))["items"]) == 4  # the open ones
    counts = await running.get(f"{PATH}/counts")
    assert counts["dismissed"] == 2
    assert counts["states"] == {"open": 4, "resent": 0, "dismissed": 2}
    found = await running.get(f"{PATH}/dismissals")
    assert (found["total"], found["dismissed"]) == (1, 2)
    assert (found["items"][0]["id"], found["items"][0]["count"]) == (done["id"], 2)


@asked
async def test_those_that_meet_conditions_are_dismissed_and_restored_together(running: App) -> None:
    await bury(running, *map(str, range(230)))  # more than one page
    running.advance(60)
    before_ms = running.clock.now_ms()
    await bury(running, "late")
    for choice, count in (
        ({"reason": "attempts_exhausted"}, 0),
        ({"topic": "bills"}, 0),
        ({"filter": "other"}, 0),
        ({"to_ms": before_ms}, 230),
        ({"from_ms": before_ms}, 1),
        ({"reason": "rejected", "topic": "orders", "filter": "t"}, 231),
        ({}, 231),
    ):
        counted = await running.post(f"{PATH}/dismiss", {**choice, "note": "x", "dry_run": True})
        assert counted["count"] == count, choice
    # Neighbours are one stretch: however many, what is done to them takes no time on the loop.
    service = running.app.services.dismissals
    assert await service.chosen("billing", DeadChoice(reason="rejected")) == [range(231)]
    old = await running.post(f"{PATH}/dismiss", {"to_ms": before_ms, "note": "old"})
    rest = await running.post(f"{PATH}/dismiss", {"note": "all"})
    assert (old["count"], rest["count"], rest["already"]) == (230, 1, 230)
    undone = await running.post(f"{PATH}/restore", {"dismissal": old["id"]})
    assert undone["count"] == 230
    await running.post(f"{PATH}/restore", {"dismissal": old["id"]}, 404)
    assert await running.post(f"{PATH}/restore", {"all": True}) == {"count": 1}


@asked
async def test_stretches_are_looked_through_beside_the_loop(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bury(running, *"abcdef")
    here, threads = threading.get_ident(), list[int]()
    for name in ("counts", "dismissals", "of", "plan_dismissal", "plan_restoration"):
        real = getattr(DismissalSnapshot, name)

        def spy(snapshot: DismissalSnapshot, *given: Any, real: Any = real) -> Any:
            threads.append(threading.get_ident())
            return real(snapshot, *given)

        monkeypatch.setattr(DismissalSnapshot, name, spy)
    done = await running.post(f"{PATH}/dismiss", {"offsets": ["0", "2", "4"], "note": "x"})
    assert (await running.get(f"{PATH}/dismissals"))["dismissed"] == 3
    assert await running.post(f"{PATH}/restore", {"dismissal": done["id"]}) == {"count": 3}
    assert len(threads) >= 6
    assert here not in threads


@asked
async def test_two_who_dismiss_at_once_both_count_what_they_changed(running: App) -> None:
    await bury(running, *map(str, range(40)))
    service: Dismissals = running.app.services.dismissals
    eva, ann = Actor("eva", ""), Actor("ann", "")
    half, whole = await asyncio.gather(
        service.dismiss(eva, "billing", [range(0, 40, 1)[:20]], "half", None),
        service.dismiss(ann, "billing", [range(40)], "all", None),
    )
    assert half.count + whole.count == 40
    listed = {each.note: each.count for each in await service.listed("billing")}
    assert listed == {one.note: one.count for one in (half, whole) if one.count}


@asked
async def test_each_change_is_audited_with_its_numbers(running: App) -> None:
    await bury(running, *"abc")
    await running.post(f"{PATH}/dismiss", {"note": "why", "expected": 2}, 409)
    await running.post(f"{PATH}/dismiss", {"note": "why", "expected": 3})
    await running.post(f"{PATH}/restore", {"offsets": ["0"]})
    entries = (await running.get("/audit?object_kind=dead_letters"))["items"]
    orders = [(each["action"], each["object_name"], each["result"]) for each in entries]
    assert orders == [
        ("dead_letters.restore", "billing", "done"),
        ("dead_letters.dismiss", "billing", "done"),
        ("dead_letters.dismiss", "billing", "conflict"),
    ]
    after = json.loads(entries[1]["after_json"])
    assert (after["count"], after["note"]) == (3, "why")
    told = [json.loads(entries[0][name]) for name in ("before_json", "after_json")]
    assert told == [{"dismissed": 1}, {"dismissed": 0}]


@asked
async def test_what_cannot_be_dismissed_is_refused_with_its_field(running: App) -> None:
    await bury(running, "a")
    for body, status, field in (
        ({}, 422, "note"),
        ({"note": " "}, 422, "note"),
        ({"note": "two\nlines"}, 422, "note"),
        ({"note": "x", "offsets": ["7"]}, 404, "offsets"),
        ({"note": "x", "offsets": ["-"]}, 422, "offsets[0]"),
        ({"note": "x", "filter": "SQL92: >"}, 422, "filter"),
        ({"note": "x", "expected": 9}, 409, "expected"),
    ):
        problem = await running.post(f"{PATH}/dismiss", body, status)
        assert problem["errors"][0]["field"] == field, body
    for body in ({}, {"all": True, "offsets": ["0"]}):
        problem = await running.post(f"{PATH}/restore", body, 422)
        assert problem["errors"][0]["field"] == "offsets"
    await running.post("/groups/nobody/dead-letters/dismiss", {"note": "x"}, 404)
    assert (await running.get(f"{PATH}/dismissals"))["items"] == []


@asked
async def test_a_redrive_leaves_out_what_is_dismissed(running: App) -> None:
    await bury(running, *"abc")
    await running.post(f"{PATH}/dismiss", {"offsets": ["1"], "note": "x"})
    for changes, selected in (({}, 2), ({"with_dismissed": True}, 3), ({"offsets": ["1"]}, 1)):
        job = await running.post(f"{PATH}/redrive", {"dry_run": True, **changes}, 201)
        assert job["selected"] == selected, changes
    job = await running.post("/replays", {"source": "%DLQ%billing", "to": "origin"}, 201)
    assert job["selected"] == 2


@asked
async def test_what_failed_in_a_job_is_tried_again_by_another(running: App) -> None:
    await running.post("/topics", {"name": "gone", "read_queues": 1, "write_queues": 1}, 201)
    await running.send("gone", *"abc", queue=0)
    deliveries = await running.receive("billing", "gone", max=100)
    nacks = [{"receipt": each["receipt"], "delay_level": -1} for each in deliveries]
    await running.post("/groups/billing/nack", {"nacks": nacks})
    running.advance(0)
    await running.http.delete("/api/v1/topics/gone")
    new = {"source": "%DLQ%billing", "to": "origin", "rate": 0}
    job = await running.post("/replays", new, 201)
    running.advance(0)
    failed = await running.get(f"/replays/{job['id']}")
    assert (failed["totals"], failed["failed"], failed["retried_by"]) == ({"topic_gone": 3}, 3, [])
    await running.post("/topics", {"name": "gone", "read_queues": 1, "write_queues": 1}, 201)
    again = await running.post(f"/replays/{job['id']}/retry", {"rate": 0, "name": "again"}, 201)
    running.advance(0)
    done = await running.get(f"/replays/{again['id']}")
    assert (done["totals"], done["retry_of"], done["name"]) == ({"sent": 3}, job["id"], "again")
    assert (await running.get(f"/replays/{job['id']}"))["retried_by"] == [again["id"]]
    problem = await running.post(f"/replays/{again['id']}/retry", {}, 409)
    assert "no failures" in problem["detail"]
    where = {"to": "topic", "to_name": "nowhere"}
    await running.post(f"/replays/{job['id']}/retry", where, 404)
    (entry,) = [
        each
        for each in (await running.get("/audit?object_kind=replay"))["items"]
        if each["action"] == "replay.retry" and each["result"] == "done"
    ]
    assert (entry["object_name"], json.loads(entry["after_json"])["id"]) == (job["id"], again["id"])


def test_the_sdk_and_the_command_line_dismiss_restore_and_retry(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> tuple[int, list[dict[str, object]], str]:
        code = main(["--server", server.url, *arguments])
        captured = capsys.readouterr()
        return code, [json.loads(line) for line in captured.out.splitlines()], captured.err

    with Client(server.url) as client:
        kill(client, 20)
        code, (dry,), err = run("dead", "dismiss", "billing", "--note", "test", "--dry-run")
        assert (code, dry["count"]) == (OK, 20)
        assert "nothing was dismissed" in err
        code, (done,), _ = run("dead", "dismiss", "billing", "3", "4", "--note", "test run")
        assert (code, done["count"]) == (OK, 2)
        assert len(run("dead", "list", "billing", "--state", "open")[1]) == 18
        assert len(list(client.dead_letters.list("billing", state="dismissed"))) == 2
        (told,) = run("dead", "dismissals", "billing")[1]
        assert (told["note"], told["count"]) == ("test run", 2)
        code, (job,), _ = run("dead", "redrive", "billing", "--dry-run", "--with-dismissed")
        assert job["selected"] == 20
        assert run("dead", "restore", "billing", "4")[1] == [{"count": 1}]
        code, rows, _ = run("dead", "restore", "billing", "--dismissal", str(done["id"]))
        assert rows == [{"count": 1}]
        assert run("dead", "restore", "billing")[0] == REFUSED
        with pytest.raises(NotFound):
            client.dead_letters.restore("billing", dismissal=str(done["id"]))

        client.topics.delete("orders")
        lost = client.replays.wait(client.dead_letters.redrive("billing", to="origin", rate=0).id)
        assert lost.totals == {"topic_gone": 20}
        client.topics.create("copies", read_queues=1, write_queues=1)
        code, (again,), _ = run(
            "replay", "retry", lost.id, "--to", "topic", "--to-name", "copies", "--wait"
        )
        assert (code, again["totals"], again["retry_of"]) == (OK, {"sent": 20}, lost.id)
        with pytest.raises(Refused):
            client.replays.retry(str(again["id"]))
    assert main(["--server", server.url, "--table", "dead", "dismissals", "billing"]) == OK
