"""Logging in through OpenID Connect: who is let in as what, and who is not."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from app.security.authenticator import COOKIE
from tests.app.conftest import URL, App, Enter, Starter
from tests.app.security.oidc.provider_steps import arrive, come_back, leave, refused
from tests.app.security.oidc.strange_provider import CLIENT, StrangeProvider
from tests.app.security.test_access import log_in, token_of

pytestmark = pytest.mark.anyio


async def me(app: App) -> dict[str, Any]:
    answer = await app.http.get("/api/v1/me")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


# -- let in -------------------------------------------------------------------------------------


async def test_the_browser_is_sent_with_all_that_ties_it_to_this_login(
    served: App, provider: StrangeProvider
) -> None:
    address = await leave(served)
    assert address.startswith(f"{provider.issuer}/auth?tenant=1&")
    sent = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    assert sent["redirect_uri"] == f"{URL}/login/callback"
    assert (sent["response_type"], sent["code_challenge_method"]) == ("code", "S256")
    assert sent["scope"] == "openid profile email"
    secrets = [sent[name] for name in ("state", "nonce", "code_challenge")]
    assert len(set(secrets)) == 3
    assert all(len(secret) == 43 for secret in secrets)
    again = parse_qs(urlsplit(await leave(served)).query)
    assert again["state"] != [sent["state"]]


async def test_whom_the_provider_knows_comes_in_and_goes_where_he_wanted(
    served: App, provider: StrangeProvider
) -> None:
    answer = await come_back(served, provider)
    assert (answer.status_code, answer.headers["location"]) == (303, "/topics")
    cookies = answer.headers.get_list("set-cookie")
    session = next(cookie for cookie in cookies if cookie.startswith(COOKIE))
    assert "HttpOnly" in session
    assert "SameSite=lax" in session
    found = await me(served)
    assert (found["name"], found["role"]) == ("alice", "viewer")


async def test_behind_a_proxy_the_way_back_is_the_public_address(enter: Enter) -> None:
    async with enter(public_url="https://kite.example.org/") as app:
        answer = await app.http.get("/login/provider")
        sent = parse_qs(urlsplit(answer.headers["location"]).query)
        assert sent["redirect_uri"] == ["https://kite.example.org/login/callback"]
        assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize("then", ["https://evil.example/", "//evil.example", "/\\evil.example"])
async def test_a_login_through_the_provider_leads_to_no_other_site(
    served: App, provider: StrangeProvider, then: str
) -> None:
    sent = provider.expect(await leave(served, then), served.clock.now_ms())
    assert (await arrive(served, sent)).headers["location"] == "/"


async def test_the_highest_role_of_the_groups_counts_and_is_looked_up_at_each_login(
    served: App, provider: StrangeProvider
) -> None:
    for groups, role in (
        (["kite-viewers", "kite-ops"], "operator"),
        (["cn=admins,dc=example"], "admin"),
        (["unknown", "kite-viewers"], "viewer"),
    ):
        assert (await come_back(served, provider, groups=groups)).status_code == 303
        assert (await me(served))["role"] == role
    await come_back(served, provider, groups=["cn=admins,dc=example"])
    entries = (await served.get("/audit?object_name=alice"))["items"]
    changes = [entry for entry in entries if entry["action"] == "user.change"]
    assert [entry["actor"] for entry in changes] == [provider.issuer] * 3
    assert '"role":"viewer"' in changes[1]["after_json"]
    assert [entry["action"] for entry in entries if "user.create" in entry["action"]]


async def test_a_role_taken_away_at_the_provider_binds_the_tokens_as_well(
    served: App, provider: StrangeProvider
) -> None:
    await come_back(served, provider, groups=["cn=admins,dc=example"])
    served.http.headers["origin"] = URL
    token = await token_of(served, "alice")
    await come_back(served, provider, groups=["kite-viewers"])
    async with httpx.AsyncClient(transport=served.http._transport, base_url=URL) as program:
        headers = {"Authorization": f"Bearer {token}"}
        assert (await program.get("/api/v1/topics", headers=headers)).status_code == 200
        made = await program.post("/api/v1/topics", json={"name": "a"}, headers=headers)
        assert made.status_code == 403


async def test_a_person_is_the_subject_and_keeps_the_name_of_the_first_login(
    served: App, provider: StrangeProvider
) -> None:
    await come_back(served, provider)
    await come_back(served, provider, preferred_username="alice-married")
    assert (await me(served))["name"] == "alice"


async def test_groups_may_lie_in_an_object_and_be_one_text(
    enter: Enter, provider: StrangeProvider
) -> None:
    async with enter(oidc_groups_claim="realm_access.roles") as app:
        told = {"realm_access": {"roles": "kite-ops"}}
        assert (await come_back(app, provider, **told)).status_code == 303
        assert (await me(app))["role"] == "operator"


async def test_what_the_id_token_lacks_userinfo_tells_but_of_nobody_else(
    served: App, provider: StrangeProvider
) -> None:
    provider.userinfo = {"sub": "subject-1", "groups": ["kite-ops"], "preferred_username": "eve"}
    assert (await come_back(served, provider, groups=None)).status_code == 403
    sent = provider.expect(await leave(served), served.clock.now_ms())
    del provider.claims["groups"]
    assert (await arrive(served, sent)).status_code == 303
    found = await me(served)
    assert (found["name"], found["role"]) == ("alice", "operator")
    served.http.cookies.delete(COOKIE)
    provider.userinfo["sub"] = "subject-2"
    sent = provider.expect(await leave(served), served.clock.now_ms())
    del provider.claims["groups"]
    refused(await arrive(served, sent), "oidc_token")


# -- not let in ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "code", "hint"),
    [
        ({"groups": ["others"]}, "oidc_no_role", "oidc_roles"),
        ({"groups": []}, "oidc_no_role", "oidc_roles"),
        ({"groups": None}, "oidc_claim", "oidc_groups_claim"),
        ({"preferred_username": None}, "oidc_claim", "oidc_username_claim"),
        ({"preferred_username": "no name!"}, "oidc_claim", "oidc_username_claim"),
    ],
)
async def test_who_has_no_role_or_no_name_is_told_what_to_do_and_is_in_the_trail(
    served: App, provider: StrangeProvider, claims: dict[str, Any], code: str, hint: str
) -> None:
    page = refused(await come_back(served, provider, **claims), code)
    assert hint in page
    await come_back(served, provider, sub="admin", groups=["cn=admins,dc=example"])
    entries = (await served.get("/audit?object_name=subject-1"))["items"]
    assert [entry["result"] for entry in entries] == ["login_refused"]
    assert code in entries[0]["after_json"]
    assert [user["name"] for user in (await served.get("/users"))["items"]] == ["alice"]


async def test_a_default_role_lets_everybody_in_whom_the_provider_knows(
    enter: Enter, provider: StrangeProvider
) -> None:
    async with enter(oidc_roles=("kite-ops=operator",), oidc_default_role="viewer") as app:
        for groups, role in ((None, "viewer"), (["x"], "viewer"), (["kite-ops"], "operator")):
            await come_back(app, provider, groups=groups)
            assert (await me(app))["role"] == role


async def test_only_verified_addresses_of_the_wanted_domains_come_in(
    enter: Enter, provider: StrangeProvider
) -> None:
    async with enter(oidc_email_domains=("Example.org",)) as app:
        for email, is_verified, status in (
            ("alice@example.org", False, 403),
            ("alice@evil.example", True, 403),
            ("alice@example.org.evil.example", True, 403),
            ("alice@example.org", "true", 403),
            ("alice@EXAMPLE.org", True, 303),
        ):
            told = {"email": email, "email_verified": is_verified}
            assert (await come_back(app, provider, **told)).status_code == status, told


async def test_a_local_user_of_the_same_name_is_never_taken_over(
    enter: Enter, provider: StrangeProvider
) -> None:
    async with enter(admin_name="alice", admin_password="correct horse") as app:
        refused(await come_back(app, provider), "oidc_name_taken", 409)
        refused(await come_back(app, provider, groups=["kite-ops"]), "oidc_name_taken", 409)
        assert (await log_in(app.http, "alice")).status_code == 303
        app.http.headers["origin"] = URL
        users = (await app.get("/users"))["items"]
        assert [(user["name"], user["role"], user["source"]) for user in users] == [
            ("alice", "admin", "local")
        ]
        assert (await come_back(app, provider, preferred_username="alice2")).status_code == 303
        refused(
            await come_back(app, provider, sub="third", preferred_username="alice2"),
            "oidc_name_taken",
            409,
        )


async def test_who_is_switched_off_here_stays_out_and_gets_no_password(
    enter: Enter, provider: StrangeProvider
) -> None:
    async with enter(admin_password="correct horse") as app:
        await come_back(app, provider)
        await log_in(app.http, "admin")
        app.http.headers["origin"] = URL
        for change, field in (
            ({"password": "battery staple"}, "password"),
            ({"role": "admin"}, "role"),
        ):
            answer = await app.http.patch("/api/v1/users/alice", json=change)
            assert (answer.status_code, answer.json()["code"]) == (409, "not_local"), field
        assert (await log_in(app.http, "alice", "")).status_code == 401
        await log_in(app.http, "admin")
        switched = await app.http.patch("/api/v1/users/alice", json={"disabled": True})
        assert switched.json()["source"] == "oidc"
        refused(await come_back(app, provider), "user_disabled")


# -- the provider fails -------------------------------------------------------------------------


async def test_a_provider_that_is_down_is_said_and_everything_else_goes_on(
    enter: Enter, provider: StrangeProvider
) -> None:
    async with enter(admin_password="correct horse") as app:
        provider.status = 500
        answer = await app.http.get("/login/provider")
        refused(answer, "oidc_unreachable", 503)
        assert answer.headers["retry-after"] == "5"
        assert (await log_in(app.http, "admin")).status_code == 303
        provider.status = 200
        sent = provider.expect(await leave(app), app.clock.now_ms())
        provider.status = 502
        refused(await arrive(app, sent), "oidc_unreachable", 503)
    async with enter(oidc_issuer="http://127.0.0.1:9") as app:
        refused(await app.http.get("/login/provider"), "oidc_unreachable", 503)


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "http://127.0.0.1/another"},
        {"token_endpoint": "http://elsewhere.example/token"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
)
async def test_a_provider_that_describes_itself_wrongly_is_not_used(
    served: App, provider: StrangeProvider, metadata: dict[str, Any]
) -> None:
    provider.metadata = metadata
    refused(await served.http.get("/login/provider"), "oidc_unreachable", 503)


async def test_an_answer_without_end_is_cut_off(served: App, provider: StrangeProvider) -> None:
    provider.padding = "x" * (1 << 20)
    refused(await served.http.get("/login/provider"), "oidc_unreachable", 503)


async def test_a_wrong_client_secret_is_the_servers_fault_and_said_so(
    enter: Enter, provider: StrangeProvider
) -> None:
    async with enter(oidc_client_secret="wrong") as app:
        refused(await come_back(app, provider), "oidc_unreachable", 503)


# -- the server ---------------------------------------------------------------------------------


async def test_with_a_provider_nobody_is_let_in_unasked(served: App) -> None:
    assert (await served.http.get("/api/v1/topics")).status_code == 401
    page = await served.http.get("/", headers={"accept": "text/html"})
    assert page.headers["location"] == "/login"
    login = (await served.http.get("/login")).text
    assert "Log in with single sign-on" in login
    assert 'name="password"' in login


async def test_without_a_provider_its_addresses_say_so(running: App) -> None:
    for path in ("/login/provider", "/login/callback", "/login/leave-provider"):
        refused(await running.http.get(path), "oidc_off", 404)


async def test_passwords_can_be_switched_off(enter: Enter, provider: StrangeProvider) -> None:
    async with enter(admin_password="correct horse", password_login=False) as app:
        assert 'name="password"' not in (await app.http.get("/login")).text
        answer = await log_in(app.http, "admin")
        assert answer.status_code == 403
        assert "password_login" in answer.text
        assert (await come_back(app, provider)).status_code == 303


async def test_a_provider_that_is_no_longer_ours_vouches_for_nobody(
    enter: Enter, provider: StrangeProvider, start: Starter
) -> None:
    async with enter(admin_password="correct horse") as app:
        await come_back(app, provider)
        secret = app.http.cookies[COOKIE]
        assert (await me(app))["name"] == "alice"
    async with start() as app:
        app.http.cookies.set(COOKIE, secret)
        assert (await app.http.get("/api/v1/me")).status_code == 401


async def test_logging_out_offers_to_log_out_of_the_provider_as_well(
    served: App, provider: StrangeProvider
) -> None:
    provider.metadata = {"end_session_endpoint": f"{provider.issuer}/end"}
    await come_back(served, provider)
    served.http.headers["origin"] = URL
    out = await served.http.post("/logout")
    assert out.headers["location"] == "/login/left"
    assert (await served.http.get("/api/v1/me")).status_code == 401
    assert 'href="/login/leave-provider"' in (await served.http.get("/login/left")).text
    gone = (await served.http.get("/login/leave-provider")).headers["location"]
    query = parse_qs(urlsplit(gone).query)
    assert gone.startswith(f"{provider.issuer}/end?")
    assert query["post_logout_redirect_uri"] == [f"{URL}/login"]
    assert query["client_id"] == [CLIENT]
    assert query["id_token_hint"][0].count(".") == 2
    # Only once, and only in the browser that logged out.
    again = await served.http.get("/login/leave-provider")
    assert "id_token_hint" not in again.headers["location"]


async def test_a_page_that_refreshes_itself_does_not_keep_a_login_alive(start: Starter) -> None:
    async with start(session_idle_s=600, admin_password="correct horse") as app:
        await log_in(app.http, "admin")
        app.clock.advance(400)
        poll = {"accept": "text/html", "kitemq-poll": "1"}
        assert (await app.http.get("/topics", headers=poll)).status_code == 200
        app.clock.advance(201)
        assert (await app.http.get("/topics", headers=poll)).status_code == 303
        await log_in(app.http, "admin")
        app.clock.advance(400)
        assert (await app.http.get("/topics")).status_code == 200
        app.clock.advance(400)
        assert (await app.http.get("/topics", headers=poll)).status_code == 200
