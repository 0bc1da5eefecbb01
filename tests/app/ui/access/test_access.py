"""A server with users: who lacks a right is told which; who has to log in comes back."""

import json
import re
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest
from argon2 import PasswordHasher
from playwright.sync_api import Browser, Page, expect

from app.security import passwords
from app.security.authenticator import COOKIE
from tests.app.ui.conftest import Site
from tests.app.ui.scenery import Scenery

PASSWORD = "correct horse"
HTML = {"accept": "text/html"}
NEW_TOPIC = {
    "name": "by-hand",
    "type": "NORMAL",
    "read_queues": "4",
    "write_queues": "4",
    "permission": "6",
    "durability": "",
}
# What changes something, as (path, form); nothing of it may reach a viewer.
CHANGES = (
    ("/topics", NEW_TOPIC),
    ("/topics/orders/delete", {"confirm": "orders"}),
    ("/topics/orders/config", {"permission": "4"}),
    ("/topics/orders/purge", {}),
    ("/topics/orders/produce", {"body": "x"}),
    ("/groups/billing/delete", {"confirm": "billing"}),
    ("/groups/billing/offsets", {}),
    ("/dlq/billing/resend", {"to": "group"}),
    ("/dlq/billing/0/resend", {"to": "group"}),
    ("/access/users", {"name": "eve", "password": PASSWORD, "role": "admin"}),
    ("/access/users/vera", {"role": "admin"}),
    ("/access/users/ann/delete", {"confirm": "ann"}),
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server with traffic, then with an admin (ann), an operator (otto) and a viewer (vera)."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    with (
        pytest.MonkeyPatch.context() as patch,
        Site(tmp_path_factory.mktemp("guarded") / "data") as site,
    ):
        patch.setattr(passwords, "_hasher", lambda: cheap)
        scenery = Scenery(site.base)
        scenery.build()
        scenery.close()
        with httpx.Client(base_url=site.base, headers={"origin": site.base}) as first:
            form = {"name": "ann", "password": PASSWORD}
            made = first.post("/access/users", data=form)
            assert (made.status_code, made.headers["location"]) == (303, "/access?done=first")
            for name, role in (("otto", "operator"), ("vera", "viewer")):
                new = {"name": name, "password": PASSWORD, "role": role, "patterns": "*:*:ord*"}
                assert first.post("/access/users", data=new).status_code == 303
        yield site


def logged_in(site: Site, name: str) -> httpx.Client:
    client = httpx.Client(base_url=site.base, headers={**HTML, "origin": site.base}, timeout=30)
    answer = client.post("/login", data={"name": name, "password": PASSWORD, "next": "/"})
    if answer.status_code != 303:
        client.close()
    assert answer.status_code == 303, answer.text
    return client


def people(site: Site, *names: str) -> Iterator[httpx.Client]:
    for name in names:
        with closing(logged_in(site, name)) as client:
            yield client


@pytest.fixture
def viewer(guarded: Site) -> Iterator[httpx.Client]:
    yield from people(guarded, "vera")


@pytest.fixture
def operator(guarded: Site) -> Iterator[httpx.Client]:
    yield from people(guarded, "otto")


@pytest.fixture
def admin(guarded: Site) -> Iterator[httpx.Client]:
    yield from people(guarded, "ann")


def test_a_page_leads_to_the_login_and_back(guarded: Site) -> None:
    with httpx.Client(base_url=guarded.base, headers=HTML) as stranger:
        answer = stranger.get("/topics?type=all")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/login?next=/topics%3Ftype%3Dall"
        page = stranger.get(answer.headers["location"])
        assert 'name="next" value="/topics?type=all"' in page.text
        assert "Topics</a>" not in page.text
        assert stranger.get("/static/app.css").status_code == 200


@pytest.mark.parametrize("then", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_a_login_never_leads_to_another_site(guarded: Site, then: str) -> None:
    with httpx.Client(base_url=guarded.base, headers={"origin": guarded.base}) as client:
        form = {"name": "ann", "password": PASSWORD, "next": then}
        assert client.post("/login", data=form).headers["location"] == "/"


def test_htmx_is_told_to_log_in_with_the_whole_window(guarded: Site) -> None:
    asking = {
        "hx-request": "true",
        "hx-request-type": "partial",
        "hx-target": "section#topic-list",
        "hx-current-url": f"{guarded.base}/topics?q=or",
    }
    with httpx.Client(base_url=guarded.base, headers={**HTML, **asking}) as stranger:
        answer = stranger.get("/topics?q=or")
        assert answer.status_code == 401
        assert answer.headers["hx-redirect"] == "/login?next=/topics%3Fq%3Dor"
        assert "<form" not in answer.text


def test_the_navigation_leads_to_no_page_that_refuses(
    admin: httpx.Client, viewer: httpx.Client
) -> None:
    def places(client: httpx.Client) -> set[str]:
        navigation = re.search(r"<nav.*?</nav>", client.get("/").text, re.DOTALL)
        assert navigation is not None
        return set(re.findall(r'href="(/[^"]*)"', navigation[0]))

    assert places(admin) - places(viewer) == {"/audit"}
    for path in places(viewer):
        assert viewer.get(path).status_code == 200, path


@pytest.mark.parametrize(("path", "form"), CHANGES)
def test_a_viewers_direct_post_is_refused_and_names_the_right(
    viewer: httpx.Client, path: str, form: dict[str, str]
) -> None:
    answer = viewer.post(path, data=form)
    assert answer.status_code == 403
    assert "right_missing" in answer.text
    assert re.search(r"lacks the right (administer|produce):", answer.text)


def test_an_operator_changes_what_the_patterns_name_and_nothing_else(
    operator: httpx.Client,
) -> None:
    assert operator.post("/topics", data={**NEW_TOPIC, "name": "ord-new"}).status_code == 303
    assert operator.post("/topics", data={**NEW_TOPIC, "name": "else"}).status_code == 403
    assert operator.post("/topics/shipments/delete", data={"confirm": "x"}).status_code == 403
    assert operator.post("/topics/ord-new/delete", data={"confirm": "x"}).status_code == 422
    assert operator.get("/access/users/ann").status_code == 403


def test_an_admin_may_and_others_see_only_themselves_on_the_page_of_access(
    admin: httpx.Client, viewer: httpx.Client
) -> None:
    everybody = admin.get("/access").text
    assert all(f'id="user-{name}"' in everybody for name in ("ann", "otto", "vera"))
    own = viewer.get("/access?format=json").json()
    assert [user["name"] for user in own["users"]] == ["vera"]
    assert {session["user"] for session in own["sessions"]} == {"vera"}
    assert "administer:people" in viewer.get("/access").text


def test_a_token_is_shown_once_and_works(admin: httpx.Client, guarded: Site) -> None:
    form = {"name": "ci", "owner": "otto", "role": "", "patterns": "", "days": "30"}
    made = admin.post("/access/tokens", data=form)
    assert made.status_code == 201
    match = re.search(r'id="made-token">([^<]+)<', made.text)
    assert match is not None
    assert match[1] not in admin.get("/access").text
    headers = {"Authorization": f"Bearer {match[1]}"}
    me = httpx.get(f"{guarded.base}/api/v1/me", headers=headers).json()
    assert (me["name"], me["token"], me["role"]) == ("otto", "ci", "operator")
    again = admin.post("/access/tokens", data=form)
    assert again.status_code == 409
    assert 'aria-describedby="help-token-name"' in again.text


def test_what_a_user_may_do_is_answered_for_a_name(admin: httpx.Client) -> None:
    def answers(on: str) -> dict[str, bool]:
        page = admin.get(f"/access/users/otto?on={on}&format=json").json()
        answers: dict[str, bool] = page["answers"]
        return answers

    assert answers("orders")["administer:topic:orders"] is True
    assert answers("shipments")["administer:topic:shipments"] is False
    assert answers("orders")["administer:people"] is False


def test_logging_out_ends_the_session(guarded: Site) -> None:
    with closing(logged_in(guarded, "vera")) as client:
        secret = client.cookies[COOKIE]
        assert client.post("/logout").headers["location"] == "/login"
        client.cookies.set(COOKIE, secret)
        assert client.get("/").status_code == 303


def test_a_page_of_another_site_cannot_use_the_cookie(guarded: Site) -> None:
    with closing(logged_in(guarded, "ann")) as client:
        for headers in ({"origin": "https://evil.example"}, {"origin": ""}):
            answer = client.post("/topics", data=NEW_TOPIC, headers=headers)
            assert answer.status_code == 403
            assert json.loads(answer.text)["code"] == "cross_site"


# -- in the browser -----------------------------------------------------------------------------


def enter(page: Page, name: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


@pytest.fixture
def window(chromium: Browser, guarded: Site) -> Iterator[Page]:
    context = chromium.new_context(base_url=guarded.base)
    context.add_cookies([{"name": "kitemq_refresh", "value": "0", "url": guarded.base}])
    page = context.new_page()
    page.set_default_timeout(15_000)
    yield page
    context.close()


@pytest.mark.browser
def test_without_the_right_controls_are_there_disabled_and_name_it(window: Page) -> None:
    window.goto("/topics/orders")
    enter(window, "vera")
    expect(window).to_have_url(re.compile("/topics/orders$"))
    for name in ("Produce", "Purge", "Delete"):
        button = window.get_by_role("button", name=re.compile(f"^{name}"))
        expect(button).to_be_visible()
        expect(button).to_be_disabled()
    delete = window.get_by_role("button", name=re.compile("^Delete"))
    reason = "Requires operator on topic orders administer:topic:orders"
    expect(delete).to_have_accessible_description(reason)
    # The keyboard gets there, though not to a disabled button.
    note = window.get_by_role("note").filter(has_text="administer:topic:orders")
    note.focus()
    expect(note).to_be_focused()
    expect(note).to_have_attribute("tabindex", "0")


@pytest.mark.browser
def test_who_may_change_orders_only_finds_other_topics_locked(window: Page) -> None:
    window.goto("/topics/orders")
    enter(window, "otto")
    expect(window.get_by_role("link", name="Purge")).to_be_visible()
    expect(window.get_by_role("note")).to_have_count(0)
    window.goto("/topics/shipments/config")
    save = window.get_by_role("button", name="Save")
    expect(save).to_be_disabled()
    expect(window.locator("fieldset.locked")).to_have_accessible_description(
        "Requires operator on topic shipments administer:topic:shipments"
    )


@pytest.mark.browser
def test_after_the_login_expired_the_whole_window_logs_in_and_comes_back(window: Page) -> None:
    window.goto("/topics?q=or")
    enter(window, "vera")
    listed = window.locator("#topic-list")
    expect(listed).to_contain_text("orders")
    expect(window.locator("[data-live]:not([data-htmx-powered])")).to_have_count(0)
    window.context.clear_cookies(name=COOKIE)
    window.get_by_role("button", name="Refresh now").click()
    expect(window).to_have_url(re.compile("/login"))
    expect(window.locator("#topic-list")).to_have_count(0)
    enter(window, "vera")
    expect(window).to_have_url(re.compile(r"/topics\?q=or$"))
    expect(listed).to_contain_text("orders")
