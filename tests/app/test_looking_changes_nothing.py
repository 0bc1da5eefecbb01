"""GET changes nothing: no byte of the engine's files, no row but of logins and the audit trail.

Every operation of the REST interface and every page of the console is asked for, the pages as JSON
too. The one exception is tried apart: a pull on behalf of a group, which is consuming.
"""

import re
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.api.catalog import OPERATIONS
from app.ui.routes import router
from tests.app.conftest import App
from tests.app.security.rights_cases import CASES, Case, filled
from tests.app.security.rights_site import cheap_hashes, client_of, guarded, guarded_again, state_of
from tests.rights import ADMIN, INSIDE, OPERATOR, VIEWER

pytestmark = pytest.mark.anyio

# A stream ends when its reader goes, which this client cannot.
ENDLESS = {"/tail/stream"}
ELSEWHERE = {"/{path:path}"}
# Rows that say when somebody was last here, and what was done: looking may write those. A lease is
# renewed by itself.
NOT_COMPARED = {"audit", "sessions", "leases"}
# What goes on by itself, whether anybody looks or not: the checkpoint, and what RocketMQ's broker
# would read of the log, which is written some seconds after what it tells of.
BY_ITSELF = ("checkpoint", "config", "index", "timerlog")
DATABASE = "kitemq.db"
NOT_STATE = ("/audit", "/alerts")


@pytest.fixture(autouse=True)
def _hashes_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    cheap_hashes(monkeypatch)


def fingerprint(data: Path) -> dict[str, Any]:
    """Every file of the engine by when it was written last, every row of the database."""
    found: dict[str, Any] = {
        str(path.relative_to(data)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(data.rglob("*"))
        if path.is_file() and not path.relative_to(data).parts[0].startswith((*BY_ITSELF, DATABASE))
    }
    with sqlite3.connect(f"file:{data / 'kitemq.db'}?mode=ro", uri=True) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            if table not in NOT_COMPARED:
                rows = database.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
                found[f"table {table}"] = sorted(map(str, rows))
    database.close()
    return found


def addresses(words: dict[str, str]) -> list[str]:
    """Every GET of the REST interface and of the console, with what is there in its path."""
    found = []
    for item in OPERATIONS:
        if item.method == "GET":
            case = CASES.get(item.name, Case())
            path = filled(item.path, {word: filled(text, words) for word, text in case.path})
            path = filled(path, dict.fromkeys(("topic", "group"), words["n"]))
            query = filled(case.query, words)
            found.append(f"{path}?{query}" if query else path)
    named = {"queue": "0", "offset": "0", "report": "latency", "job": "lag", "message": "0"}
    for route in router.routes:
        path = getattr(route, "path", "")
        if "GET" not in (getattr(route, "methods", None) or ()) or path in ENDLESS | ELSEWHERE:
            continue
        ids = {"/jobs": words["job"], "/scheduled": f"WAIT{words['id']}0", "/groups": "1"}
        ids |= {"/transactions": f"HALF{words['id']}0", "/alerts": "1", "/clients": "client-1"}
        id = next((each for folder, each in ids.items() if path.startswith(folder)), "")
        path = re.sub(r":path\}", "}", path)
        here = named | dict.fromkeys(("topic", "group"), words["n"]) | {"name": "ann"}
        path = filled(path, here | {"id": id or f"SENT{words['id']}"})
        found += [path, f"{path}?format=json", f"{path}?topic={words['n']}&group={words['n']}"]
    return found


async def differences(app: App, data: Path, http: httpx.AsyncClient, paths: list[str]) -> list[str]:
    """Which of these addresses changed something, and what."""
    wrong = []
    await app.app.services.replay_copies.copy()  # which also comes by itself
    engine, state = fingerprint(data), await state_of(app)
    for path in paths:
        await http.get(path, headers={"accept": "text/html, application/json"})
        now = fingerprint(data)
        changed = [key for key in {**engine, **now} if engine.get(key) != now.get(key)]
        if changed:
            wrong.append(f"GET {path}: {', '.join(changed)}")
            engine = now
    after = await state_of(app)
    compared = [key for key in state if not key.startswith(NOT_STATE)]
    wrong += [
        f"{key}: {state[key]} -> {after[key]}" for key in compared if after[key] != state[key]
    ]
    return wrong


async def test_no_get_changes_anything(tmp_path: Path) -> None:
    """The admin asks, who is refused nothing."""
    data = tmp_path / "data"
    async with guarded(data) as (app, words), client_of(app, ADMIN) as http:
        paths = addresses(words[INSIDE])
        assert len(paths) > 200
        wrong = await differences(app, data, http, paths)
    assert not wrong, "\n".join(wrong)


PULL = f"/api/v1/topics/{INSIDE}/messages?queue=0&offset=0&group="


async def groups_of(app: App) -> set[str]:
    listed = await app.get("/groups?limit=200")
    return {group["name"] for group in listed["items"]}


async def reset(app: App, group: str) -> None:
    """Move a group, which its next pull is told."""
    body = {"topics": [INSIDE], "to": "earliest", "force": True}
    await app.post(f"/groups/{group}/resets", body, 201)


async def test_a_pull_for_a_group_needs_the_right_to_consume(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with guarded(data) as (app, _), client_of(app, VIEWER) as viewer:
        await reset(app, INSIDE)
        before = fingerprint(data), await groups_of(app)
        for group in (INSIDE, "a-new-one"):
            refused = await viewer.get(PULL + group)
            assert (refused.status_code, refused.json()["code"]) == (403, "right_missing")
            assert f"consume:group:{group}" in refused.json()["detail"]
        assert (fingerprint(data), await groups_of(app)) == before
        plain = await viewer.get(PULL.removesuffix("&group="))
        assert plain.status_code == 200, plain.text
        async with client_of(app, OPERATOR) as operator:
            told = await operator.get(PULL + INSIDE)
            assert told.json()["status"] == "offset_reset"


async def test_a_pull_for_a_group_is_refused_while_the_server_is_read_only(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with guarded(data) as (app, _):
        await reset(app, INSIDE)
    async with guarded_again(data) as app, client_of(app, OPERATOR) as operator:
        before = fingerprint(data)
        for group in (INSIDE, "a-new-one"):
            refused = await operator.get(PULL + group)
            assert (refused.status_code, refused.json()["code"]) == (403, "read_only")
        assert fingerprint(data) == before


async def test_a_pull_for_a_group_is_refused_on_an_open_server_that_is_read_only(
    running: App,
) -> None:
    await running.post("/topics", {"name": INSIDE}, 201)
    frozen = await running.http.put("/api/v1/read-only", json={"read_only": True, "reason": "x"})
    assert frozen.status_code == 200
    refused = await running.http.get(PULL + "a-new-one")
    assert (refused.status_code, refused.json()["code"]) == (403, "read_only")


FOREIGN = (
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    {"origin": "https://evil.example"},
    {"sec-fetch-site": "same-site"},
)


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_a_foreign_page_cannot_pull_for_a_group(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    data = tmp_path / "data"
    async with guarded(data) as (app, _), client_of(app, OPERATOR) as operator:
        del operator.headers["origin"]
        await reset(app, INSIDE)
        before = fingerprint(data), await groups_of(app)
        for group in (INSIDE, "a-new-one"):
            refused = await operator.get(PULL + group, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (403, "cross_site")
            unsaid = await operator.get(PULL + group)  # with the cookie, from nowhere
            assert (unsaid.status_code, unsaid.json()["code"]) == (403, "cross_site")
        assert (fingerprint(data), await groups_of(app)) == before


async def test_a_foreign_page_cannot_pull_for_a_group_of_an_open_server(running: App) -> None:
    await running.post("/topics", {"name": INSIDE}, 201)
    refused = await running.http.get(PULL + "new", headers={"origin": "https://evil.example"})
    assert (refused.status_code, refused.json()["code"]) == (403, "cross_site")
    assert "new" not in await groups_of(running)
    assert (await running.http.get(PULL + "new")).status_code == 200
    assert "new" in await groups_of(running)
