"""A login that expires while a page is open: polls do not keep it, and the way leads back."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from argon2 import PasswordHasher
from playwright.sync_api import Browser, Page, Request, expect

from app.security import passwords
from tests.app.ui.conftest import Site
from tests.app.ui.screenshots import HurriedClock

PASSWORD = "correct horse"
HOUR_S = 3600
POLL_S = 2

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def clock() -> HurriedClock:
    return HurriedClock()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, clock: HurriedClock) -> Iterator[Site]:
    """A server whose clock can be hurried, with one user; a login lasts eight idle hours."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    data: Path = tmp_path_factory.mktemp("expiry") / "data"
    with pytest.MonkeyPatch.context() as patch, Site(data, clock) as site:
        patch.setattr(passwords, "_hasher", lambda: cheap)
        with httpx.Client(base_url=site.base, headers={"origin": site.base}) as first:
            first.post("/api/v1/topics", json={"name": "orders"}).raise_for_status()
            made = first.post("/access/users", data={"name": "ann", "password": PASSWORD})
            assert made.status_code == 303
        yield site


@pytest.fixture
def refresh_s() -> int:
    return 0


@pytest.fixture
def window(chromium: Browser, guarded: Site, refresh_s: int) -> Iterator[Page]:
    """A browser that is logged in on the list of topics, which refreshes itself or not."""
    context = chromium.new_context(base_url=guarded.base)
    context.add_cookies([{"name": "kitemq_refresh", "value": str(refresh_s), "url": guarded.base}])
    page = context.new_page()
    page.set_default_timeout(30_000)
    page.goto("/topics?q=or")
    enter(page)
    expect(page.locator("#topic-list")).to_contain_text("orders")
    expect(page.locator("[data-live]:not([data-htmx-powered])")).to_have_count(0)
    yield page
    context.close()


def enter(page: Page) -> None:
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


def is_poll(request: Request) -> bool:
    return "kitemq-poll" in request.headers


@pytest.mark.parametrize("refresh_s", [POLL_S])
def test_a_page_left_alone_is_logged_out_though_it_refreshes_itself_and_comes_back(
    window: Page, clock: HurriedClock
) -> None:
    clock.hurry(5 * HOUR_S)
    with window.expect_request(is_poll) as poll:
        pass  # whichever comes next
    answer = poll.value.response()
    assert answer is not None
    assert answer.status in (200, 304)
    clock.hurry(4 * HOUR_S)
    # Nobody touched it for nine hours: the whole window goes to the login, no table holds a form.
    expect(window).to_have_url(re.compile(r"/login\?next=/topics%3Fq%3Dor$"))
    expect(window.locator("#topic-list")).to_have_count(0)
    enter(window)
    expect(window).to_have_url(re.compile(r"/topics\?q=or$"))
    expect(window.locator("#topic-list")).to_contain_text("orders")


def test_a_person_who_asks_keeps_the_login_and_finds_it_expired_otherwise(
    window: Page, clock: HurriedClock
) -> None:
    for _ in range(2):
        clock.hurry(5 * HOUR_S)
        with window.expect_response(lambda answer: "/topics" in answer.url) as response:
            window.get_by_role("button", name="Refresh now").click()
        assert not is_poll(response.value.request)
        assert response.value.status in (200, 304)
    clock.hurry(9 * HOUR_S)
    window.get_by_role("button", name="Refresh now").click()
    expect(window).to_have_url(re.compile(r"/login\?next=/topics%3Fq%3Dor$"))
    expect(window.locator("#topic-list")).to_have_count(0)
    enter(window)
    expect(window).to_have_url(re.compile(r"/topics\?q=or$"))


def test_a_form_sent_after_the_login_expired_keeps_what_was_typed(
    window: Page, guarded: Site, clock: HurriedClock
) -> None:
    window.goto("/create/topic")
    field = window.locator("#topic-form [name=name]")
    field.fill("typed-before-it-expired")
    clock.hurry(9 * HOUR_S)
    send = window.get_by_role("button", name="Create")
    send.click()
    expect(window.locator("#topic-form").get_by_role("alert")).to_contain_text("session has ended")
    expect(field).to_have_value("typed-before-it-expired")
    with window.context.expect_page() as opened:
        window.get_by_role("link", name="Log in").click()
    enter(opened.value)
    expect(opened.value).to_have_url(f"{guarded.base}/create/topic")  # no longer that of the login
    opened.value.close()
    send.click()
    expect(window).to_have_url(re.compile(r"/topics/typed-before-it-expired"))


def test_a_stream_ends_with_the_login_that_it_was_opened_with(
    guarded: Site, clock: HurriedClock
) -> None:
    with httpx.Client(base_url=guarded.base, headers={"origin": guarded.base}) as browser:
        form = {"name": "ann", "password": PASSWORD, "next": "/"}
        assert browser.post("/login", data=form).status_code == 303
        mark = browser.get("/tail?topic=orders&format=json").json()["mark"]
        address = f"/tail/stream?topic=orders&from={mark}"
        with browser.stream("GET", address, timeout=60) as stream:
            assert stream.status_code == 200
            lines = stream.iter_lines()
            assert next(lines).startswith("retry:")
            clock.hurry(9 * HOUR_S)
            said = list(lines)
    assert "event: over" in said
    assert any("the session or token has ended" in line for line in said)
