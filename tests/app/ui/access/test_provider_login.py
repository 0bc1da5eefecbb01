"""Logging in through a real OpenID Connect provider, in its own pages and ours."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from app.security.authenticator import COOKIE
from tests.app.ui.accessibility import serious_faults
from tests.live import LiveServer

HERE = Path(__file__).parents[3] / "oidc"
CLIENT = "kitemq"
SECRET = "a secret, with + and / in it"
END_LIMIT_S = 60.0
PATIENCE_MS = 30_000
OUTSIDE = re.compile(r"^https://")

pytestmark = [pytest.mark.browser, pytest.mark.slow]


class Provider:
    """The provider in a process of its own; it ends when its input does."""

    def __init__(self) -> None:
        node = shutil.which("node")
        if node is None or not (HERE / "node_modules").is_dir():
            pytest.skip("no provider: run sh tools/ensure_node.sh tests/oidc")
        self._process = subprocess.Popen(
            [node, "provider.js"],
            cwd=HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.issuer = self._process.stdout.readline().strip()
        assert self.issuer.startswith("http://127.0.0.1:"), "the provider did not start"

    def leads_back_to(self, base: str) -> None:
        self._tell("client", {"base": base})

    def knows(self, **people: dict[str, Any]) -> None:
        self._tell("people", people)

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(END_LIMIT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _tell(self, what: str, value: object) -> None:
        answer = httpx.put(f"{self.issuer}/test/{what}", content=json.dumps(value), timeout=30)
        assert answer.status_code == 204, answer.text


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def server(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    server = LiveServer(
        tmp_path_factory.mktemp("provider") / "data",
        oidc_issuer=provider.issuer,
        oidc_client_id=CLIENT,
        oidc_client_secret=SECRET,
        oidc_scopes=("openid", "profile", "email", "groups"),
        oidc_name="Example Login",
        oidc_roles=("staff=viewer", "ops=operator", "root=admin"),
        environment="staging",
    )
    server.start()
    provider.leads_back_to(server.url)
    yield server
    server.stop()


NewWindow = Callable[..., Page]


@pytest.fixture
def window(chromium: Browser, server: LiveServer) -> Iterator[NewWindow]:
    """Opens a browser of its own; pages of the provider that want fonts of others get none."""
    contexts: list[BrowserContext] = []

    def opened(**options: Any) -> Page:
        context = chromium.new_context(base_url=server.url, **options)
        contexts.append(context)
        context.route(OUTSIDE, lambda route: route.abort())
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        return page

    yield opened
    for context in contexts:
        context.close()


def log_in(page: Page, name: str, *, path: str = "/topics?q=or") -> None:
    """From a page of ours through the provider's own pages, whatever comes of it."""
    page.goto(path)
    page.get_by_role("link", name="Log in with Example Login").click()
    page.get_by_placeholder("Enter any login").fill(name)
    page.get_by_placeholder("and password").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def test_through_the_providers_pages_one_comes_to_the_page_one_wanted(
    window: NewWindow, provider: Provider
) -> None:
    provider.knows(alice={"groups": ["staff", "ops"], "email": "alice@example.org"})
    page = window()
    log_in(page, "alice")
    expect(page).to_have_url(re.compile(r"/topics\?q=or$"))
    expect(page.locator(".who-badge")).to_contain_text("alice")
    page.goto("/access")
    expect(page.locator("#user-alice")).to_contain_text("operator")
    expect(page.get_by_text(f"You log in through {provider.issuer}")).to_be_visible()
    expect(page.get_by_label("Current password")).to_have_count(0)


def test_another_group_is_another_role_at_the_next_login(
    window: NewWindow, provider: Provider
) -> None:
    for group, role in (("staff", "viewer"), ("root", "admin"), ("staff", "viewer")):
        provider.knows(bob={"groups": [group]})
        page = window()
        log_in(page, "bob", path="/access")
        expect(page.locator("#user-bob")).to_contain_text(role)


def test_who_is_in_no_group_is_told_what_to_do(window: NewWindow, provider: Provider) -> None:
    provider.knows(carol={"groups": ["guests"]})
    page = window()
    log_in(page, "carol")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("oidc_no_role")
    expect(alert).to_contain_text("oidc_roles")
    expect(page.get_by_role("link", name="Log in with Example Login")).to_be_visible()
    assert all(cookie["name"] != COOKIE for cookie in page.context.cookies())


def test_who_changes_his_mind_at_the_provider_comes_back_and_is_told_so(
    window: NewWindow,
) -> None:
    page = window()
    page.goto("/login")
    page.get_by_role("link", name="Log in with Example Login").click()
    page.get_by_role("link", name=re.compile("Cancel", re.IGNORECASE)).click()
    expect(page.get_by_role("alert")).to_contain_text("oidc_denied")


def test_logging_out_can_end_the_login_at_the_provider_too(
    window: NewWindow, provider: Provider
) -> None:
    provider.knows(dave={"groups": ["staff"]})
    page = window()
    log_in(page, "dave")
    page.locator(".menu-button").click()
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/login/left$"))
    # Still logged in at the provider: back without a password.
    page.get_by_role("link", name="Log in again").click()
    page.get_by_role("link", name="Log in with Example Login").click()
    expect(page.locator(".who-badge")).to_contain_text("dave")
    page.locator(".menu-button").click()
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("link", name="Log out of Example Login too").click()
    page.get_by_role("button", name="Yes, sign me out").click()
    expect(page).to_have_url(re.compile("/login$"))
    page.get_by_role("link", name="Log in with Example Login").click()
    expect(page.get_by_placeholder("Enter any login")).to_be_visible()


def test_without_javascript_the_way_is_the_same(window: NewWindow, provider: Provider) -> None:
    provider.knows(erin={"groups": ["staff"]})
    page = window(java_script_enabled=False)
    log_in(page, "erin")
    expect(page.locator(".who-badge")).to_contain_text("erin")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_its_pages_are_narrow_and_without_a_serious_accessibility_fault(
    window: NewWindow, provider: Provider, theme: Literal["light", "dark"]
) -> None:
    provider.knows(frank={"groups": ["root"]})
    page = window(viewport={"width": 390, "height": 844}, color_scheme=theme)

    def check(path: str) -> None:
        page.goto(path)
        assert serious_faults(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path

    for path in ("/login", "/login/callback?state=none", "/login/left"):
        check(path)
    log_in(page, "frank")
    expect(page.locator(".who-badge")).to_contain_text("frank")
    for path in ("/access", "/access/users/frank"):
        check(path)
