"""Stars, one's own, and notes, everybody's; both stay with the name of a topic."""

import httpx
import pytest

from app.db import star_and_note_store
from app.db.rows import DatabaseError
from app.ui.framework import markdown
from kitemq.model.stars_and_notes import NOTE_CHARS_MAX
from tests.app.conftest import URL, App
from tests.app.security.test_access import PASSWORD, guarded, log_in  # noqa: F401
from tests.app.security.test_access import _hashes_are_cheap as _hashes_are_cheap

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

HTML = {"accept": "text/html"}


async def stars(app: App) -> list[str]:
    items: list[str] = (await app.get("/stars"))["items"]
    return items


async def write(app: App, text: str, version: str, status: int = 200) -> dict[str, str]:
    body = {"text": text, "version": version}
    answer = await app.http.put("/api/v1/topics/orders/note", json=body)
    assert answer.status_code == status, answer.text
    found: dict[str, str] = answer.json()
    return found


async def listed(http: httpx.AsyncClient, query: str = "") -> list[str]:
    answer = await http.get(f"/topics?format=json{query}")
    assert answer.status_code == 200, answer.text
    return [row["name"] for row in answer.json()["cut"]["rows"]]


async def trail(app: App) -> list[tuple[str, str, str]]:
    items = (await app.get("/audit?object_kind=topic&object_name=orders"))["items"]
    return [(item["action"], item["before_json"], item["after_json"]) for item in items]


async def test_a_starred_topic_stands_first_and_a_facet_shows_only_those(running: App) -> None:
    for name in ("audits", "bills", "orders"):
        await running.post("/topics", {"name": name}, 201)
    assert await listed(running.http) == ["audits", "bills", "orders"]
    for __ in range(2):  # the second does nothing
        assert (await running.http.put("/api/v1/topics/orders/star")).status_code == 204
    assert await stars(running) == ["orders"]
    assert await listed(running.http) == ["orders", "audits", "bills"]
    assert await listed(running.http, "&sort=name") == ["audits", "bills", "orders"]
    assert await listed(running.http, "&type=starred") == ["orders"]
    page = (await running.http.get("/topics", headers=HTML)).text
    assert 'aria-label="Remove star from orders"' in page
    assert 'aria-label="Star bills"' in page
    assert [entry[0] for entry in await trail(running)] == ["topic.star", "topic.create"]
    await running.http.delete("/api/v1/topics/orders/star")
    assert await listed(running.http) == ["audits", "bills", "orders"]
    assert (await trail(running))[0][0] == "topic.unstar"
    assert (await running.http.put("/api/v1/topics/nothing/star")).status_code == 404


async def test_a_star_and_a_note_outlive_their_topic(running: App) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    await running.http.put("/api/v1/topics/orders/star")
    await write(running, "What the shop sends.", "0")
    await running.http.delete("/api/v1/topics/orders")
    assert await stars(running) == ["orders"]
    assert await listed(running.http, "&type=starred") == []
    assert (await running.http.get("/api/v1/topics/orders/note")).status_code == 404
    running.advance(60)
    await running.post("/topics", {"name": "orders"}, 201)
    assert await listed(running.http, "&type=starred") == ["orders"]
    page = (await running.http.get("/topics/orders/docs", headers=HTML)).text
    assert "What the shop sends." in page
    assert "an earlier topic of this name" in page


async def test_the_number_of_stars_has_an_end(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(star_and_note_store, "STARS_MAX", 1)
    for name in ("a", "b"):
        await running.post("/topics", {"name": name}, 201)
    assert (await running.http.put("/api/v1/topics/a/star")).status_code == 204
    assert (await running.http.put("/api/v1/topics/b/star")).status_code == 409
    assert await stars(running) == ["a"]


async def test_everybody_has_stars_of_their_own_also_a_viewer(guarded: App) -> None:  # noqa: F811
    await guarded.post("/topics", {"name": "orders"}, 201)
    await guarded.http.put("/api/v1/topics/orders/star")
    guarded.http.cookies.clear()
    assert (await log_in(guarded.http, "vera")).status_code == 303
    assert await stars(guarded) == []
    form = {"star": "on", "back": "/topics?q=or"}
    posted = await guarded.http.post("/topics/orders/star", data=form, headers={"origin": URL})
    assert (posted.status_code, posted.headers["location"]) == (303, "/topics?q=or")
    assert await stars(guarded) == ["orders"]
    refused = await guarded.http.put(
        "/api/v1/topics/orders/note", json={"text": "x", "version": "0"}
    )
    assert refused.status_code == 403
    guarded.http.cookies.clear()
    assert (await log_in(guarded.http, "ann")).status_code == 303
    await guarded.http.delete("/api/v1/users/vera")
    vera = {"name": "vera", "password": PASSWORD, "role": "viewer"}
    await guarded.post("/users", vera, 201)  # somebody else, of the same name
    guarded.http.cookies.clear()
    assert (await log_in(guarded.http, "vera")).status_code == 303
    assert await stars(guarded) == []


async def test_a_note_is_kept_with_its_author_and_each_change_with_before_and_after(
    running: App,
) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    none = await running.get("/topics/orders/note")
    assert none == {
        "topic": "orders", "text": "", "author": "", "changed_ms": None, "version": "0",
    }  # fmt: skip
    first = await write(running, "One.\r\n", "0")
    assert (first["text"], bool(first["author"])) == ("One.", True)
    same = await write(running, "One.", first["version"])
    assert same == first, "nothing changed, nothing is written"
    second = await write(running, "Two.", first["version"])
    assert second["version"] > first["version"]
    gone = await write(running, "", second["version"])
    assert (gone["text"], gone["version"]) == ("", "0")
    entries = (await trail(running))[:3]
    assert [entry[0] for entry in entries] == ["topic.note"] * 3
    assert ["One." in entries[1][1], "Two." in entries[1][2]] == [True, True]
    assert "Two." in entries[0][1]


async def test_a_note_that_somebody_else_changed_is_not_written_over(running: App) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    mine = await write(running, "One.", "0")
    await write(running, "Theirs.", mine["version"])
    problem = await write(running, "Mine.", mine["version"], 409)
    assert problem["code"] == "conflict"
    await write(running, "Mine.", "0", 409)
    form = {"text": "Mine, *still here*.", "version": mine["version"]}
    page = await running.http.post(
        "/topics/orders/docs", data=form, headers={**HTML, "origin": URL}
    )
    assert page.status_code == 409
    assert "<p>Theirs.</p>" in page.text
    assert "Mine, *still here*." in page.text
    now = await running.get("/topics/orders/note")
    assert f'name="version" value="{now["version"]}"' in page.text
    form["version"] = now["version"]
    saved = await running.http.post("/topics/orders/docs", data=form, headers={"origin": URL})
    assert saved.status_code == 303
    assert (await running.get("/topics/orders/note"))["text"] == "Mine, *still here*."


async def test_a_note_has_a_length_and_there_is_an_end_to_notes(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    long = {"text": "x" * (NOTE_CHARS_MAX + 1), "version": "0"}
    assert (await running.http.put("/api/v1/topics/orders/note", json=long)).status_code == 422
    page = await running.http.post(
        "/topics/orders/docs", data=long, headers={**HTML, "origin": URL}
    )
    assert (page.status_code, "at most 20,000 are kept" in page.text) == (422, True)
    assert long["text"] in page.text, "what was typed is still there"
    for wrong in ("x", "-1", "9" * 40):
        await write(running, "x", wrong, 422)
    monkeypatch.setattr(star_and_note_store, "NOTES_MAX", 0)
    await write(running, "x", "0", 409)
    assert (await running.get("/topics/orders/note"))["text"] == ""


async def test_pages_do_without_marks_while_the_database_is_away(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    await running.http.put("/api/v1/topics/orders/star")

    def broken(*_: object) -> None:
        raise DatabaseError("OperationalError: gone")

    monkeypatch.setattr(star_and_note_store.StarAndNoteStore, "stars_of", broken)
    running.advance(60)
    page = await running.http.get("/topics", headers=HTML)
    assert (page.status_code, "the database is not responding" in page.text) == (200, True)
    assert (await running.http.get("/api/v1/stars")).status_code == 503


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
        ("a <b>c</b>", "a &lt;b&gt;c&lt;/b&gt;"),
        ("[a](javascript:alert(1))", "[a](javascript:alert(1))"),
        ("[a](JaVa&#83;cript:x)", "[a](JaVaScript:x)"),
        ("[a](data:text/html,x)", "[a](data:text/html,x)"),
        ("[a](//evil.example)", "[a](//evil.example)"),
        ("<javascript:alert(1)>", "&lt;javascript:alert(1)&gt;"),
        ("[a](/topics)", '<a href="/topics" rel="noopener noreferrer nofollow">a</a>'),
        ("[a](mailto:a@b.c)", '<a href="mailto:a@b.c" rel="noopener noreferrer nofollow">a</a>'),
        ("![p](https://e/x.png)", '<a href="https://e/x.png" rel="noopener noreferrer nofollow">p'),
        ("[![p](https://e/x.png)](https://z)", '<a href="https://z" rel="noopener noreferrer'),
        ("|a|\n|:-:|\n|b|", "<th>a</th>"),
    ],
)
async def test_a_note_is_never_markup_that_harms(text: str, html: str) -> None:
    found = str(markdown.html(text))
    assert html in found
    assert not any(harm in found for harm in ("<img", "<script", "style=", 'href="java', "<b>"))


async def test_a_list_of_any_length_asks_the_database_twice_and_then_rests(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    for name in ("stars_of", "noted", "note"):
        real = getattr(star_and_note_store.StarAndNoteStore, name)

        def spied(*values: object, name: str = name, real: object = real) -> object:
            asked.append(name)
            assert callable(real)
            return real(*values)

        monkeypatch.setattr(star_and_note_store.StarAndNoteStore, name, spied)
    for number in range(60):
        await running.post("/topics", {"name": f"t-{number:02}"}, 201)
    running.advance(60)
    for __ in range(3):
        assert len(await listed(running.http, "&size=100")) == 60
    assert asked == ["stars_of", "noted"]
