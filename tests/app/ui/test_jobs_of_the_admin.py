"""The day's jobs of an admin: users and their rights, a report that is run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from playwright.sync_api import expect

from app.security import passwords
from tests.app.ui.conftest import Site, Take
from tests.app.ui.scenery import Scenery

pytestmark = pytest.mark.browser

PASSWORD = "correct horse"
OPERATOR = "operator: produces, consumes and administers what the patterns allow"


@pytest.fixture
def without_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server of the test's own, with a topic and nobody who logs in."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    with Site(tmp_path / "data") as site:
        monkeypatch.setattr(passwords, "_hasher", lambda: cheap)
        scenery = Scenery(site.base)
        for name in ("orders", "payments"):
            scenery.post("/topics", {"name": name})
        scenery.close()
        yield site


def test_an_admin_lets_an_operator_change_one_topic_and_no_other(
    take: Take, without_users: Site
) -> None:
    hands = take(without_users.base)
    page = hands.page
    hands.click(page.get_by_role("link", name="Access", exact=True))
    hands.type(page.get_by_label("Name of the first admin"), "ann")
    hands.type(page.get_by_label("Password"), PASSWORD)
    hands.click(page.get_by_role("button", name="Create admin and log in"))
    form = page.locator("form", has=page.get_by_role("button", name="Add user"))
    hands.type(form.get_by_label("Name", exact=True), "otto")
    hands.type(form.get_by_label("Password", exact=True), PASSWORD)
    hands.choose(form.get_by_label("Role"), OPERATOR)
    hands.type(form.get_by_label("Permissions by pattern"), "*:*:orders")
    hands.click(page.get_by_role("button", name="Add user"))
    hands.see(page.get_by_role("row", name="otto"))
    hands.assert_cost(clicks=10, keys=len("ann" + PASSWORD + "otto" + PASSWORD + "*:*:orders"))

    guest = take(without_users.base)
    page = guest.page
    guest.type(page.get_by_label("Name"), "otto")
    guest.type(page.get_by_label("Password"), PASSWORD)
    guest.click(page.get_by_role("button", name="Log in"))
    guest.click(page.get_by_role("link", name="orders", exact=True))
    expect(page.get_by_role("link", name="Purge")).to_be_enabled()
    page.goto("/topics/payments")
    guest.see(page.get_by_text("administer:topic").first)
    guest.assert_cost(clicks=3, keys=len("otto" + PASSWORD))


@pytest.mark.spark
@pytest.mark.gives_way
def test_a_report_is_run_and_cancelled_and_its_figures_stay(take: Take) -> None:
    hands = take()
    page = hands.page
    hands.click(page.get_by_role("link", name="Reports", exact=True))
    hands.click(page.get_by_role("button", name="Run now Lag of every group"))
    hands.see(page.get_by_text("Run started. The current figures stay"))
    hands.click(page.get_by_role("button", name="Cancel run"))
    expect(page.locator("#run-state")).to_contain_text("cancelled", timeout=60_000)
    sections = page.get_by_role("navigation", name="Sections")
    hands.click(sections.get_by_role("link", name="Reports", exact=True))
    hands.click(page.get_by_role("link", name="Lag Lagging groups"))
    hands.see(page.locator("#table-now"))
    hands.assert_cost(clicks=5, keys=0)
