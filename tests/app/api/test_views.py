"""Saved views: one's own, bounded, only of our own lists; and on the pages that they are about."""

import pytest

from app.db import view_store
from tests.app.conftest import URL, App
from tests.app.security.test_access import PASSWORD, guarded, log_in  # noqa: F401
from tests.app.security.test_access import _hashes_are_cheap as _hashes_are_cheap

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

NEW = {"name": "behind", "path": "/groups", "query": "sort=-lag&page=3&done=changed&format=json"}
HTML = {"accept": "text/html"}


async def names(app: App) -> list[str]:
    return [view["name"] for view in (await app.get("/views"))["items"]]


async def trail(app: App) -> list[tuple[str, str]]:
    items = (await app.get("/audit?object_kind=view"))["items"]
    return [(item["action"], item["object_name"]) for item in items]


async def page(app: App, path: str, status: int = 200) -> str:
    answer = await app.http.get(path, headers=HTML)
    assert answer.status_code == status, answer.text
    return answer.text


async def test_a_view_keeps_a_list_and_its_filter_but_not_the_page_one_was_on(
    running: App,
) -> None:
    made = await running.post("/views", {**NEW, "name": "  far   behind "}, 201)
    assert (made["name"], made["query"]) == ("far behind", "sort=-lag")
    assert made["address"] == "/groups?sort=-lag"
    assert (await running.get("/views"))["items"] == [made]
    await running.http.delete(f"/api/v1/views/{made['id']}")
    assert await names(running) == []
    assert (await running.http.delete(f"/api/v1/views/{made['id']}")).status_code == 404
    assert await trail(running) == [("view.delete", "far behind"), ("view.create", "far behind")]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"path": "https://example.org/"}, "path"),
        ({"path": "//example.org/topics"}, "path"),
        ({"path": "/topics/../logout"}, "path"),
        ({"path": "/\\example.org"}, "path"),
        ({"path": "/dlq/a/b"}, "path"),
        ({"path": "/access"}, "path"),
        ({"path": "/topics?x=1"}, "path"),
        ({"name": " "}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"query": "q=" + "x" * 2000}, "query"),
        ({"query": "&".join(f"a{n}=1" for n in range(201))}, "query"),
    ],
)
async def test_what_is_no_list_of_ours_or_too_long_is_refused_at_its_field(
    running: App, changes: dict[str, str], field: str
) -> None:
    problem = await running.post("/views", NEW | changes, 422)
    assert problem["errors"][0]["field"] == field
    assert await names(running) == []
    assert await trail(running) == []


async def test_a_name_is_given_once_and_the_number_of_views_has_an_end(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.post("/views", NEW, 201)
    problem = await running.post("/views", NEW, 409)
    assert (problem["code"], problem["errors"][0]["field"]) == ("conflict", "name")
    monkeypatch.setattr(view_store, "VIEWS_MAX", 2)
    await running.post("/views", {**NEW, "name": "second"}, 201)
    await running.post("/views", {**NEW, "name": "third"}, 409)
    assert await names(running) == ["behind", "second"]
    assert len(await trail(running)) == 2


async def test_everybody_has_views_of_their_own_also_a_viewer(guarded: App) -> None:  # noqa: F811
    await guarded.post("/views", NEW, 201)
    guarded.http.cookies.clear()
    assert (await log_in(guarded.http, "vera")).status_code == 303
    assert await names(guarded) == []
    hers = await guarded.post("/views", NEW, 201)
    assert await names(guarded) == ["behind"]
    assert "behind" in await page(guarded, "/groups")
    guarded.http.cookies.clear()
    assert (await log_in(guarded.http, "bob")).status_code == 303
    assert "saved-view" not in await page(guarded, "/groups")
    assert (await guarded.http.delete(f"/api/v1/views/{hers['id']}")).status_code == 404
    stolen = await guarded.http.post(f"/views/{hers['id']}/delete", headers={"origin": URL})
    assert stolen.status_code in (404, 422)
    guarded.http.cookies.clear()
    assert (await log_in(guarded.http, "ann")).status_code == 303
    await guarded.http.delete("/api/v1/users/vera")
    vera = {"name": "vera", "password": PASSWORD, "role": "viewer"}
    await guarded.post("/users", vera, 201)  # somebody else, of the same name
    guarded.http.cookies.clear()
    assert (await log_in(guarded.http, "vera")).status_code == 303
    assert await names(guarded) == []
    assert "saved-view" not in await page(guarded, "/groups")


async def test_a_list_shows_its_views_and_the_palette_finds_them(running: App) -> None:
    form = {"name": "<b>big</b>", "path": "/topics", "query": "q=orders&page=2"}
    answer = await running.http.post("/views", data=form, headers={"origin": URL})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/topics?q=orders&done=view-saved"
    await running.post("/groups", {"name": "billing"}, 201)
    shown = await page(running, answer.headers["location"])
    link = '<a class="saved-view" href="/topics?q=orders" aria-current="true">&lt;b&gt;big'
    assert link in shown
    assert "saved-view" not in await page(running, "/groups")
    assert "saved-add" in await page(running, "/dlq/billing")
    assert "saved-add" not in await page(running, "/engine")
    hits = (await running.http.get("/palette?q=%3Cb%3Ebig&format=json")).json()["hits"]
    assert [(hit["kind"], hit["href"]) for hit in hits] == [("View", "/topics?q=orders")]
    (view,) = (await running.http.get("/views?format=json")).json()["lines"]
    deleted = await running.http.post(f"/views/{view['id']}/delete", headers={"origin": URL})
    assert deleted.headers["location"] == "/views?done=deleted"
    assert "saved-view" not in await page(running, "/topics")


async def test_a_form_that_is_wrong_keeps_what_was_typed_and_saves_the_typed_filter(
    running: App,
) -> None:
    await running.post("/views", NEW, 201)
    form = {"name": "behind", "path": "/topics", "query": "q=orders"}
    answer = await running.http.post("/views", data=form, headers={"origin": URL})
    assert answer.status_code == 409
    assert 'value="behind"' in answer.text
    assert 'value="q=orders"' in answer.text
    assert "You have a view" in answer.text
    elsewhere = {"name": "x", "path": "//example.org/", "query": ""}
    answer = await running.http.post("/views", data=elsewhere, headers={"origin": URL})
    assert answer.status_code == 422
    assert 'href="//example.org' not in answer.text
    typed = {"hx-request": "true", "hx-current-url": f"{URL}/topics?q=typed&page=4"}
    shown = await running.http.get("/views?path=/topics&query=q%3Dold", headers=typed)
    assert 'value="q=typed"' in shown.text
    broken = {"hx-request": "true", "hx-current-url": "http://[broken"}
    shown = await running.http.get("/views?path=/topics&query=q%3Dold", headers=broken)
    assert (shown.status_code, 'value="q=old"' in shown.text) == (200, True)


async def test_a_list_is_shown_when_nobody_knows_the_views(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.db.rows import DatabaseError

    async def fail(_: object) -> None:
        raise DatabaseError("gone")

    monkeypatch.setattr(running.app.services.database, "run", fail)
    shown = await page(running, "/topics")
    assert "saved views" in shown
    assert "the database is not responding" in shown
    assert "gone" not in shown
    assert (await running.get("/views", 503))["code"] == "views_unavailable"
    monkeypatch.undo()
    running.clock.advance(60)
    assert "the database is not responding" not in await page(running, "/topics")
