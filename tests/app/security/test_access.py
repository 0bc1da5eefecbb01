"""Who may do what: the table cell by cell, users, tokens, logins, and the server without users."""

import itertools
import json
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher
from sqlalchemy import create_engine, select

from app.api.catalog import OPERATIONS
from app.db.tables import metadata
from app.security import passwords
from app.security.access import (
    NOBODY,
    TABLE,
    Action,
    Grant,
    Kind,
    Principal,
    Reach,
    Role,
    lacks,
    parse_patterns,
)
from app.security.authenticator import COOKIE
from app.security.login_limits import FREE_FAILURES, FailureCounts
from app.ui.routes import PageRoute, UnknownPage, router
from engine.errors import Invalid
from tests.app.conftest import URL, App, Starter

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

PASSWORD = "correct horse"
FORM = {"content-type": "application/x-www-form-urlencoded", "origin": URL}
PATTERNS = ["produce:topic:orders-*", "consume:*:orders-*", "administer:topic:orders-*"]
CELLS = list(
    itertools.product(
        Role,
        Action,
        (Kind.TOPIC, Kind.GROUP, Kind.SERVER, Kind.AUDIT),
    )
)
# One operation for each cell: method, path below /api/v1, body.
ENDPOINTS: dict[tuple[Action, Kind], tuple[str, str, Any]] = {
    (Action.READ, Kind.TOPIC): ("GET", "/topics/orders-1", None),
    (Action.READ, Kind.GROUP): ("GET", "/groups/orders-1", None),
    (Action.READ, Kind.SERVER): ("GET", "/system", None),
    (Action.READ, Kind.AUDIT): ("GET", "/audit", None),
    (Action.READ, Kind.PEOPLE): ("GET", "/users", None),
    (Action.READ, Kind.OWN): ("GET", "/tokens", None),
    (Action.PRODUCE, Kind.TOPIC): ("POST", "/topics/orders-1/messages", {"body": "x"}),
    (Action.PRODUCE, Kind.GROUP): ("POST", "/transactions/checks", {"group": "orders-1"}),
    (Action.CONSUME, Kind.TOPIC): (
        "POST",
        "/groups/orders-1/receive",
        {"topic": "orders-1"},
    ),
    (Action.CONSUME, Kind.GROUP): ("POST", "/groups/orders-1/ack", {"receipts": []}),
    (Action.ADMINISTER, Kind.TOPIC): ("PATCH", "/topics/orders-1", {"permission": 6}),
    (Action.ADMINISTER, Kind.GROUP): ("PATCH", "/groups/orders-1", {"retry_max": 3}),
    (Action.ADMINISTER, Kind.PEOPLE): ("PATCH", "/users/bob", {"disabled": False}),
    (Action.ADMINISTER, Kind.OWN): ("DELETE", "/tokens/999", None),
}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def token_of(app: App, owner: str, **fields: object) -> str:
    """A new token of a user, made by the admin."""
    name = fields.pop("name", f"{owner}-token")
    made = await app.post("/tokens", {"name": name, "owner": owner, **fields}, 201)
    return str(made["token"])


async def with_admin(app: App) -> None:
    """Make the first user; the client of `app` is logged in as she is from then on."""
    await app.post("/users", {"name": "ann", "password": PASSWORD, "role": "admin"}, 201)
    answer = await log_in(app.http, "ann")
    assert answer.status_code == 303
    app.http.headers["origin"] = URL


async def log_in(http: httpx.AsyncClient, name: str, password: str = PASSWORD) -> httpx.Response:
    form = {"name": name, "password": password, "next": "/topics"}
    return await http.post("/login", data=form, headers=FORM)


@pytest.fixture
async def guarded(running: App) -> App:
    """A server with an admin, whose client is logged in, and a user of each other role."""
    await running.post("/topics", {"name": "orders-1"}, 201)
    await running.post("/groups", {"name": "orders-1"}, 201)
    await with_admin(running)
    for name, role in (("vera", "viewer"), ("otto", "operator"), ("bob", "viewer")):
        new: dict[str, Any] = {"name": name, "password": PASSWORD, "role": role}
        await running.post("/users", new, 201)
    return running


@pytest.fixture(autouse=True)
def _hashes_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """As slow as they must be elsewhere, hundreds of them take minutes."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_hasher", lambda: cheap)


# -- the decision -------------------------------------------------------------------------------


@pytest.mark.parametrize(("role", "action", "kind"), CELLS)
def test_each_cell_of_the_table_decides(role: Role, action: Action, kind: Kind) -> None:
    reach = TABLE.get((role, action, kind), Reach.NONE)
    everywhere = Principal("x", (Grant(role, ("*:*:*",)),))
    nowhere = Principal("x", (Grant(role, ()),))
    assert (not lacks(everywhere, action, kind, "a")) == (reach is not Reach.NONE)
    assert (not lacks(nowhere, action, kind, "a")) == (reach is Reach.ALL)


@pytest.mark.parametrize(
    ("pattern", "action", "kind", "name", "may"),
    [
        ("produce:topic:orders-*", Action.PRODUCE, Kind.TOPIC, "orders-1", True),
        ("produce:topic:orders-*", Action.PRODUCE, Kind.TOPIC, "payments", False),
        ("produce:topic:orders-*", Action.CONSUME, Kind.TOPIC, "orders-1", False),
        ("produce:topic:orders-*", Action.PRODUCE, Kind.GROUP, "orders-1", False),
        ("*:group:billing", Action.ADMINISTER, Kind.GROUP, "billing", True),
        ("*:group:billing", Action.ADMINISTER, Kind.TOPIC, "%DLQ%billing", True),
        ("*:topic:*", Action.ADMINISTER, Kind.TOPIC, "%DLQ%billing", False),
        ("*:topic:a*", Action.ADMINISTER, Kind.TOPIC, "*", False),
        ("*:topic:*", Action.ADMINISTER, Kind.TOPIC, "*", True),
        ("*:*:*", Action.ADMINISTER, Kind.PEOPLE, "", False),
    ],
)
def test_an_operator_reaches_what_a_pattern_names(
    pattern: str, action: Action, kind: Kind, name: str, may: bool
) -> None:
    who = Principal("otto", (Grant(Role.OPERATOR, (pattern,)),))
    assert (not lacks(who, action, kind, name)) is may


def test_nobody_may_do_anything_but_what_is_public() -> None:
    for action, kind in itertools.product(Action, Kind):
        assert bool(lacks(NOBODY, action, kind)) == (kind is not Kind.PUBLIC)


@pytest.mark.parametrize("text", ["", "a", "produce:topic", "produce:topic:", "drink:topic:a"])
def test_what_is_no_pattern_is_refused_by_its_place(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_patterns(["*:*:*", text])
    assert refused.value.field == "patterns[1]"


def test_every_operation_and_every_page_says_which_right_it_needs() -> None:
    assert [item.name for item in OPERATIONS if item.needs is None] == []
    for route in router.routes:
        assert isinstance(route, PageRoute | UnknownPage), route


def test_an_operation_that_changes_something_asks_for_more_than_reading() -> None:
    looks_only = {"preview_reset", "preview_undo"}
    for item in OPERATIONS:
        assert item.needs is not None
        if item.method == "GET" or item.name in looks_only:
            assert item.needs.action is Action.READ, item.name
        else:
            assert item.needs.action is not Action.READ, item.name


# -- through the API ----------------------------------------------------------------------------


@pytest.mark.parametrize("role", list(Role))
async def test_each_cell_of_the_table_holds_at_its_door(guarded: App, role: Role) -> None:
    owner = {Role.VIEWER: "vera", Role.OPERATOR: "otto", Role.ADMIN: "ann"}[role]
    token = await token_of(guarded, owner)
    transport = guarded.http._transport
    async with httpx.AsyncClient(transport=transport, base_url=URL) as program:
        for (action, kind), (method, path, body) in ENDPOINTS.items():
            answer = await program.request(
                method, f"/api/v1{path}", json=body, headers=bearer(token)
            )
            may = TABLE.get((role, action, kind), Reach.NONE) is not Reach.NONE
            # One's own things are changed by oneself, not by a token.
            may = may and not (kind is Kind.OWN and action is not Action.READ and role != "admin")
            assert (answer.status_code != 403) == may, f"{role} {action} {kind}: {answer.text}"
            if not may:
                problem = answer.json()
                assert problem["code"] == "right_missing"
                assert f"{action}:" in problem["detail"]


async def test_patterns_bind_an_operator_also_where_the_body_names_the_resource(
    guarded: App,
) -> None:
    await guarded.http.patch("/api/v1/users/otto", json={"patterns": PATTERNS})
    token = await token_of(guarded, "otto")
    async with httpx.AsyncClient(
        transport=guarded.http._transport, base_url=f"{URL}/api/v1", headers=bearer(token)
    ) as otto:

        async def status(path: str, body: object) -> int:
            return (await otto.post(path, json=body)).status_code

        assert await status("/topics", {"name": "orders-2"}) == 201
        assert await status("/topics", {"name": "payments"}) == 403
        assert await status("/topics/orders-2/messages", {"body": "x"}) == 201
        assert await status("/topics/payments/messages", {"body": "x"}) == 403
        assert await status("/groups/orders-1/receive", {"topic": "orders-2"}) == 200
        assert await status("/groups/orders-1/receive", {"topic": "payments"}) == 403
        assert await status("/groups/billing/receive", {"topic": "orders-2"}) == 403
        assert await status("/groups", {"name": "orders-9"}) == 403
        assert await status("/replays", {"source": "%DLQ%billing", "to": "origin"}) == 403
        assert await status("/replies", {"correlation_id": "x", "body": ""}) == 403
        assert await status("/transactions/checks", {"group": "payments"}) == 403
        assert (await otto.get("/topics")).status_code == 200


async def test_without_token_or_login_only_health_and_the_login_page_answer(guarded: App) -> None:
    async with httpx.AsyncClient(transport=guarded.http._transport, base_url=URL) as stranger:
        for path in ("/healthz", "/readyz", "/login"):
            assert (await stranger.get(path)).status_code == 200
        for path in ("/api/v1/topics", "/metrics", "/openapi.json", "/api/v1/me"):
            answer = await stranger.get(path)
            assert answer.status_code == 401, path
            assert answer.json()["code"] == "login_needed"
            assert answer.headers["www-authenticate"].startswith("Bearer")
        sent = await stranger.post("/api/v1/topics/orders-1/messages", json={"body": "x"})
        assert sent.status_code == 401
        wrong = await stranger.get("/api/v1/topics", headers=bearer("kite_wrong"))
        assert wrong.status_code == 401
        page = await stranger.get("/topics?q=or", headers={"accept": "text/html"})
        assert page.status_code == 303
        assert page.headers["location"] == "/login?next=/topics%3Fq%3Dor"


async def test_a_token_may_do_what_both_it_and_its_owner_may(guarded: App) -> None:
    strong = await token_of(guarded, "vera", role="admin", name="strong")
    weak = await token_of(guarded, "ann", role="viewer", name="weak")
    async with httpx.AsyncClient(transport=guarded.http._transport, base_url=URL) as program:
        for token in (strong, weak):
            made = await program.post("/api/v1/topics", json={"name": "new"}, headers=bearer(token))
            assert made.status_code == 403
        another = await program.post(
            "/api/v1/tokens", json={"name": "more", "role": "admin"}, headers=bearer(weak)
        )
        assert another.status_code == 403


async def test_a_token_ends_when_it_expires_is_revoked_or_its_owner_is_switched_off(
    guarded: App,
) -> None:
    short = await guarded.post("/tokens", {"name": "short", "owner": "otto", "days": 1}, 201)
    long = await guarded.post("/tokens", {"name": "long", "owner": "otto"}, 201)
    third = await guarded.post("/tokens", {"name": "third", "owner": "vera"}, 201)
    async with httpx.AsyncClient(transport=guarded.http._transport, base_url=URL) as program:

        async def status(made: dict[str, Any]) -> int:
            answer = await program.get("/api/v1/topics", headers=bearer(made["token"]))
            return answer.status_code

        assert [await status(made) for made in (short, long, third)] == [200, 200, 200]
        used = {t["name"]: t["used_ms"] for t in (await guarded.get("/tokens"))["items"]}
        assert used["short"] == guarded.clock.now_ms()
        await guarded.http.delete(f"/api/v1/tokens/{third['id']}")
        assert await status(third) == 401
        guarded.clock.advance(6 * 3600)
        await guarded.get("/me")  # keeps the login alive
        for _ in range(3):
            guarded.clock.advance(6 * 3600)
            await guarded.get("/me")
        assert [await status(made) for made in (short, long)] == [401, 200]
        await guarded.http.patch("/api/v1/users/otto", json={"disabled": True})
        assert await status(long) == 401


async def test_only_hashes_are_kept(guarded: App) -> None:
    token = await token_of(guarded, "otto")
    cookie = guarded.http.cookies[COOKIE]
    engine = create_engine(guarded.app.services.settings.database)
    with engine.connect() as connection:
        kept = [connection.execute(select(table)).all() for table in metadata.sorted_tables]
    engine.dispose()
    text = str(kept)
    assert "$argon2id$" in text
    for secret in (PASSWORD, token, cookie):
        assert secret not in text


# -- logging in ---------------------------------------------------------------------------------


async def test_a_login_gets_a_new_session_each_time_and_the_old_one_ends(guarded: App) -> None:
    old = guarded.http.cookies[COOKIE]
    answer = await log_in(guarded.http, "ann")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie
    assert guarded.http.cookies[COOKIE] != old
    async with httpx.AsyncClient(
        transport=guarded.http._transport, base_url=URL, cookies={COOKIE: old}
    ) as thief:
        assert (await thief.get("/api/v1/me")).status_code == 401


async def test_over_https_the_cookie_is_secure(guarded: App) -> None:
    form = {"name": "ann", "password": PASSWORD, "next": "/"}
    origin = {"origin": URL.replace("http:", "https:")}
    answer = await guarded.http.post("/login", data=form, headers=FORM | origin)
    assert "Secure" in answer.headers["set-cookie"]


async def test_a_login_ends_when_idle_and_at_its_utmost(start: Starter) -> None:
    async with start(session_idle_s=600, session_max_s=3000) as app:
        await with_admin(app)
        for _ in range(5):
            app.clock.advance(500)
            assert (await app.http.get("/api/v1/me")).status_code == 200
        app.clock.advance(501)
        assert (await app.http.get("/api/v1/me")).status_code == 401
        await log_in(app.http, "ann")
        app.clock.advance(601)
        assert (await app.http.get("/api/v1/me")).status_code == 401


async def test_a_cookie_changes_nothing_without_the_page_it_comes_from(guarded: App) -> None:
    del guarded.http.headers["origin"]
    problem = await guarded.post("/topics", {"name": "a"}, 403)
    assert problem["code"] == "cross_site"
    headers = {"origin": "https://evil.example"}
    forged = await guarded.http.post("/api/v1/topics", json={"name": "a"}, headers=headers)
    assert forged.json()["code"] == "cross_site"


async def test_failed_logins_slow_down_are_in_the_trail_and_name_nobody(guarded: App) -> None:
    said = set()
    for name in ("no-such-one", *["vera"] * FREE_FAILURES):
        answer = await log_in(guarded.http, name, "wrong password")
        assert answer.status_code == 401
        said.add(answer.text.replace(name, ""))
    assert len(said) == 1
    limited = await log_in(guarded.http, "vera")
    assert limited.status_code == 429
    assert int(limited.headers["retry-after"]) >= 1
    guarded.clock.advance(61)
    assert (await log_in(guarded.http, "vera")).status_code == 303
    await log_in(guarded.http, "ann")
    trail = (await guarded.get("/audit?object_name=vera"))["items"]
    assert [item["result"] for item in trail] == ["done", "login_limited", "login_failed", "done"]
    # The one that made her wait and the one that had to are of a kind, as are those before.
    counts = [json.loads(item["after_json"]).get("count") for item in trail[1:3]]
    assert counts == [2, FREE_FAILURES - 1]
    assert {item["address"] for item in trail} == {"127.0.0.1"}


def test_the_wait_doubles_up_to_its_limit_and_what_is_remembered_is_bounded() -> None:
    attempts = FailureCounts(60.0, keys_max=10)
    waits = []
    for _ in range(FREE_FAILURES + 8):
        attempts.failed("ann", 0.0)
        waits.append(attempts.wait_s("ann", 0.0))
    assert waits[: FREE_FAILURES - 1] == [0.0] * (FREE_FAILURES - 1)
    assert waits[FREE_FAILURES - 1 :][:4] == [1.0, 2.0, 4.0, 8.0]
    assert waits[-1] == 60.0
    for number in range(100):
        attempts.failed(str(number), 0.0)
    assert len(attempts) == 10
    attempts.succeeded("99")
    assert attempts.wait_s("99", 0.0) == 0.0


async def test_a_new_password_ends_every_login(guarded: App) -> None:
    wrong = {"old": "not that one", "new": "battery staple"}
    assert (await guarded.post("/me/password", wrong, 401))["code"] == "login_failed"
    await guarded.post("/me/password", {"old": PASSWORD, "new": "battery staple"}, 204)
    assert (await guarded.http.get("/api/v1/me")).status_code == 401
    assert (await log_in(guarded.http, "ann")).status_code == 401
    assert (await log_in(guarded.http, "ann", "battery staple")).status_code == 303


# -- users --------------------------------------------------------------------------------------


async def test_the_first_user_is_an_admin_and_one_admin_stays(running: App) -> None:
    new = {"name": "ann", "password": PASSWORD}
    assert "must be an admin" in (await running.post("/users", new, 422))["detail"]
    await with_admin(running)
    last = await running.http.delete("/api/v1/users/ann")
    assert (last.status_code, last.json()["code"]) == (409, "last_admin")
    demoted = await running.http.patch("/api/v1/users/ann", json={"role": "viewer"})
    assert demoted.json()["code"] == "last_admin"
    await running.post("/users", {"name": "eve", "password": PASSWORD, "role": "admin"}, 201)
    assert (await running.http.delete("/api/v1/users/eve")).status_code == 204


async def test_each_change_of_people_is_in_the_trail_with_before_and_after(guarded: App) -> None:
    await guarded.http.patch("/api/v1/users/otto", json={"role": "viewer"})
    newest = (await guarded.get("/audit?object_name=otto"))["items"][0]
    assert (newest["actor"], newest["action"]) == ("ann", "user.change")
    assert '"role":"operator"' in newest["before_json"]
    assert '"role":"viewer"' in newest["after_json"]
    token = await token_of(guarded, "ann", name="ci")
    async with httpx.AsyncClient(transport=guarded.http._transport, base_url=URL) as program:
        await program.post("/api/v1/topics", json={"name": "t"}, headers=bearer(token))
    assert (await guarded.get("/audit?object_name=t"))["items"][0]["actor"] == "ann/ci"


async def test_a_change_that_fails_leaves_neither_itself_nor_an_entry(guarded: App) -> None:
    taken = {"name": "vera", "password": PASSWORD}
    await guarded.post("/users", taken, 409)
    entries = (await guarded.get("/audit?object_name=vera"))["items"]
    assert [entry["action"] for entry in entries] == ["user.create"]


# -- open, read-only ----------------------------------------------------------------------------


async def test_without_users_everybody_may_and_is_told_so(running: App) -> None:
    me = await running.get("/me")
    assert (me["open"], me["role"], me["name"]) == (True, None, "")
    await running.post("/topics", {"name": "a"}, 201)


async def test_an_open_server_on_a_network_gets_no_first_user_from_there(start: Starter) -> None:
    async with start(host="0.0.0.0", allow_open=True) as app:
        new = {"name": "eve", "password": PASSWORD, "role": "admin"}
        assert "kitemq users add" in (await app.post("/users", new, 403))["errors"][0]["remedy"]


async def test_the_settings_make_an_admin_once(start: Starter) -> None:
    for _ in range(2):
        async with start(admin_password=PASSWORD) as app:
            assert (await app.http.get("/api/v1/topics")).status_code == 401
            await log_in(app.http, "admin")
            names = [user["name"] for user in (await app.get("/users"))["items"]]
            assert names == ["admin"]


async def test_a_read_only_server_refuses_every_change_and_shows_everything(
    start: Starter,
) -> None:
    async with start(read_only=True) as app:
        for path, body in (
            ("/topics", {"name": "a"}),
            ("/topics/a/messages", {"body": "x"}),
            ("/groups/g/receive", {"topic": "a"}),
        ):
            assert (await app.post(path, body, 403))["code"] == "read_only"
        assert (await app.get("/topics"))["total"] == 0
        assert "read-only" in (await app.http.get("/topics")).text
