"""Refused attempts to change something: in the trail, and never so many that they fill it."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from app.db.rows import AuditFilter, DatabaseError
from app.security.refusal_audit import ADDRESS_ENTRIES_MAX, ENTRIES_MAX, WINDOW_S, RefusedAttempt
from tests.app.conftest import URL, App
from tests.app.security.test_access import PASSWORD, bearer, log_in, token_of, with_admin

pytestmark = [pytest.mark.anyio, pytest.mark.databases]


@pytest.fixture
async def guarded(running: App) -> App:
    await with_admin(running)
    new = {"name": "vera", "password": PASSWORD, "role": "viewer"}
    await running.post("/users", new, 201)
    return running


async def refused(app: App) -> list[dict[str, Any]]:
    """The refused attempts, newest first, with what their entry tells."""
    items = (await app.get("/audit?action=refused"))["items"]
    return [{**item, **json.loads(item["after_json"])} for item in items]


async def test_a_refused_change_is_in_the_trail_with_who_what_where_and_why(guarded: App) -> None:
    token = await token_of(guarded, "vera")
    headers = bearer(token) | {"x-request-id": "asked-1"}
    async with httpx.AsyncClient(transport=guarded.http._transport, base_url=URL) as http:
        answer = await http.post("/api/v1/topics", json={"name": "a"}, headers=headers)
        assert answer.status_code == 403
        await http.get("/api/v1/users", headers=headers)  # reading is no attempt to change
        assert (await http.delete("/api/v1/topics/a")).status_code == 401
        page = await http.post("/topics", data={"name": "a"}, headers=bearer(token))
        assert page.status_code == 403
    found = {(item["object_name"], item["result"]): item for item in await refused(guarded)}
    assert set(found) == {
        ("POST /api/v1/topics", "right_missing"),
        ("DELETE /api/v1/topics/a", "login_needed"),
        ("POST /topics", "right_missing"),
    }
    first = found["POST /api/v1/topics", "right_missing"]
    assert first["actor"] == "vera/vera-token"
    assert first["address"] == "127.0.0.1"
    assert first["request_id"] == "asked-1"
    assert "administer:topic:a" in first["detail"] or "administer:topic:*" in first["detail"]
    assert found["DELETE /api/v1/topics/a", "login_needed"]["actor"] == "anonymous@127.0.0.1"


async def test_a_forged_request_is_in_the_trail(guarded: App) -> None:
    headers = {"origin": "https://evil.example"}
    answer = await guarded.http.post("/api/v1/topics", json={"name": "a"}, headers=headers)
    assert answer.json()["code"] == "cross_site"
    assert [item["result"] for item in await refused(guarded)] == ["cross_site"]


async def test_the_same_attempt_is_one_entry_that_counts_until_the_window_ends(
    guarded: App,
) -> None:
    async with httpx.AsyncClient(transport=guarded.http._transport, base_url=URL) as http:
        for __ in range(30):
            await http.post("/api/v1/topics", json={"name": "a"})
        (entry,) = await refused(guarded)
        assert entry["count"] == 30
        await http.post("/api/v1/topics", json={"name": "a"})
        (entry,) = await refused(guarded)
        assert entry["count"] == 31
        guarded.clock.advance(WINDOW_S + 1)
        await http.post("/api/v1/topics", json={"name": "a"})
        assert [item["count"] for item in await refused(guarded)] == [1, 31]


async def test_ever_new_attempts_of_one_address_do_not_fill_the_trail(guarded: App) -> None:
    async with httpx.AsyncClient(transport=guarded.http._transport, base_url=URL) as http:
        for number in range(ADDRESS_ENTRIES_MAX + 25):
            await http.delete(f"/api/v1/topics/t{number}")
    found = await refused(guarded)
    assert len(found) == ADDRESS_ENTRIES_MAX + 1
    (others,) = [item for item in found if item["result"] == "too_many"]
    assert others["count"] == 25
    answer = await log_in(guarded.http, "ann", "wrong password")
    assert answer.status_code == 401  # counted with the others, and refused all the same


async def test_ever_new_addresses_do_not_fill_the_trail(running: App) -> None:
    refusals, audit = running.app.services.refusal_audit, running.app.services.audit
    for number in range(ENTRIES_MAX + 300):
        address = f"10.0.{number // 250}.{number % 250}"
        refusals.note(RefusedAttempt("", address, "refused", "request", "POST /", "login_needed"))
    await refusals.flush()
    found: list[Any] = []
    while len(found) % 200 == 0:
        before_id = found[-1].id if found else None
        page = await audit.find(AuditFilter(action="refused"), limit=200, before_id=before_id)
        found += page
        if not page:
            break
    assert len(found) == ENTRIES_MAX + 1
    assert sum(json.loads(entry.after_json)["count"] for entry in found) == ENTRIES_MAX + 300


async def test_what_a_failing_database_did_not_take_is_written_when_it_answers(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals, audit = running.app.services.refusal_audit, running.app.services.audit
    database = refusals._database

    async def fails(work: object) -> object:
        raise DatabaseError("it does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(database, "run", fails)
        refusals.note(
            RefusedAttempt("", "10.0.0.1", "refused", "request", "POST /a", "login_needed")
        )
        await refusals.flush()
        running.clock.advance(WINDOW_S + 1)
        refusals.note(
            RefusedAttempt("", "10.0.0.2", "refused", "request", "POST /b", "login_needed")
        )
        await refusals.flush()
    await refusals.flush()
    found = await audit.find(AuditFilter(action="refused"), limit=10)
    assert {entry.object_name for entry in found} == {"POST /a", "POST /b"}


async def test_the_end_amid_a_write_does_not_write_it_twice(running: App) -> None:
    refusals, audit = running.app.services.refusal_audit, running.app.services.audit
    written, go_on = asyncio.Event(), asyncio.Event()
    write = refusals._database.run

    async def slow(work: Any) -> Any:
        found = await write(work)
        written.set()
        await go_on.wait()
        return found

    vars(refusals)["_database"] = SimpleNamespace(run=slow)
    refusals.note(RefusedAttempt("", "10.0.0.1", "refused", "request", "POST /a", "login_needed"))
    await written.wait()
    closing = asyncio.create_task(refusals.close())
    await asyncio.sleep(0)
    go_on.set()
    await closing
    (entry,) = await audit.find(AuditFilter(action="refused"), limit=10)
    assert json.loads(entry.after_json)["count"] == 1


async def test_what_comes_amid_a_write_is_written_after_it(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.security.refusal_audit.FLUSH_S", 0.0)
    refusals = running.app.services.refusal_audit
    write = refusals._database.run

    async def slow(work: Any) -> Any:
        if len(refusals._folded) == 1:
            second = RefusedAttempt("", "10.0.0.2", "refused", "request", "POST /b", "login_needed")
            refusals.note(second)
        return await write(work)

    vars(refusals)["_database"] = SimpleNamespace(run=slow)
    refusals.note(RefusedAttempt("", "10.0.0.1", "refused", "request", "POST /a", "login_needed"))
    await refusals._task
    assert [each.written for each in refusals._folded.values()] == [1, 1]


async def test_every_change_says_from_where_it_was_asked(guarded: App) -> None:
    await guarded.post("/topics", {"name": "a"}, 201)
    (entry,) = (await guarded.get("/audit?action=topic.create"))["items"]
    assert entry["address"] == "127.0.0.1"
    assert (await guarded.get("/audit?address=127.0.0.1&action=topic.create"))["items"] == [entry]
    assert (await guarded.get("/audit?address=10.9.9.9"))["items"] == []


async def test_the_page_shows_from_where_links_to_the_object_and_offers_to_undo(
    guarded: App,
) -> None:
    await guarded.post("/topics", {"name": "orders"}, 201)
    await guarded.send("orders", "a", queue=0)
    await guarded.receive("billing", "orders")
    order = {"topics": ["orders"], "to": "earliest", "force": True}
    await guarded.post("/groups/billing/resets", order, 201)
    await guarded.post("/topics", {"name": "orders"}, 409)
    async with httpx.AsyncClient(transport=guarded.http._transport, base_url=URL) as http:
        await http.delete("/api/v1/topics/orders")
    html = (await guarded.http.get("/audit", headers={"accept": "text/html"})).text
    assert 'href="/groups/billing/resets/1/undo"' in html
    assert 'href="/topics/orders"' in html
    assert "127.0.0.1</td>" in html
    twin = (await guarded.http.get("/audit?action=refused&format=json")).json()
    (row,) = twin["rows"]
    assert (row["object_name"], row["result"], row["undo"]) == (
        "DELETE /api/v1/topics/orders",
        "login_needed",
        "",
    )
    export = await guarded.http.get("/audit/export?action=refused")
    head, line = export.text.splitlines()
    assert head.endswith(",address")
    assert line.endswith(",127.0.0.1")
