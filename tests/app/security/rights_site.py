"""A server with everybody on it, each with a client of his own, and how it stands."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher

from app.api.framework.operation import API
from app.security import passwords
from tests.app.conftest import URL, App, started
from tests.app.security.rights_cases import build
from tests.rights import ADMIN, INSIDE, NOBODY, OUTSIDE, PASSWORD, USERS, Person

# Looked at before and after: whatever a request could have changed.
STATE = (
    "/topics", "/groups", "/replays", "/scheduled", "/transactions", "/transactions/callbacks",
    "/alerts", "/alerts/rules", "/alerts/receivers", "/users", "/tokens", "/sessions",
    "/audit?limit=200",
    *(f"/topics/{name}" for name in (INSIDE, OUTSIDE)),
    *(f"/groups/{name}{path}" for name in (INSIDE, OUTSIDE)
      for path in ("", "/members", "/locks", "/resets", "/dead-letters", f"/offsets?topic={name}")),
)  # fmt: skip


def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As slow as they must be elsewhere, hundreds of them take minutes."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_hasher", lambda: cheap)


async def log_in(http: httpx.AsyncClient, name: str) -> None:
    form = {"name": name, "password": PASSWORD, "next": "/"}
    answer = await http.post("/login", data=form, headers={"origin": URL})
    assert answer.status_code == 303, answer.text
    http.headers["origin"] = URL


@asynccontextmanager
async def client_of(app: App, person: Person) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody's own client: with a login, with a token, or with nothing."""
    async with httpx.AsyncClient(transport=app.http._transport, base_url=URL) as http:
        if person.has_token:
            new: dict[str, object] = {"name": person.name, "owner": person.owner}
            new |= {"role": person.token_role, "patterns": list(person.token_patterns)}
            made = await app.post("/tokens", new, 201)
            http.headers["authorization"] = f"Bearer {made['token']}"
            await http.get("/api/v1/me")  # from now on its last use stays the same
        elif person is not NOBODY:
            await log_in(http, person.name)
        yield http


@asynccontextmanager
async def guarded(data: Path, **settings: Any) -> AsyncIterator[tuple[App, dict[str, Any]]]:
    """A server with everybody on it; its own client is the admin's."""
    async with started(data, **settings) as app:
        words = await build(app)
        for user in (ADMIN, *(user for user in USERS if user is not ADMIN)):
            new = {"name": user.name, "password": PASSWORD, "role": user.role}
            await app.post("/users", new | {"patterns": list(user.patterns)}, 201)
            if user is ADMIN:
                await log_in(app.http, user.name)
        await app.post("/users", {"name": "bob", "password": PASSWORD, "role": "viewer"}, 201)
        yield app, words


@asynccontextmanager
async def guarded_again(data: Path) -> AsyncIterator[App]:
    """The same server later, read-only."""
    async with started(data, read_only=True) as app:
        yield app


async def own_words(app: App, person: Person) -> dict[str, str]:
    """A token and a login of somebody, for him to end."""
    if person is NOBODY:
        return {"token": "1", "session": "1"}
    async with httpx.AsyncClient(transport=app.http._transport, base_url=URL) as other:
        await log_in(other, person.owner)
        view = {"name": f"of {person.name}", "path": "/topics"}
        assert (await other.post("/api/v1/views", json=view)).status_code == 201
        sessions = (await other.get("/api/v1/sessions")).json()["items"]
    mine = [each["id"] for each in sessions if each["user"] == person.owner]
    made = await app.post("/tokens", {"name": "spare", "owner": person.owner}, 201)
    return {"token": made["id"], "session": max(mine, key=int)}


async def state_of(app: App) -> dict[str, Any]:
    """How everything stands; that somebody was refused is told by the trail, and no change."""
    found = {path: (await app.http.get(f"{API}{path}")).json() for path in STATE}
    trail = found["/audit?limit=200"]["items"]
    found["/audit?limit=200"] = [entry for entry in trail if entry["action"] != "refused"]
    return found
