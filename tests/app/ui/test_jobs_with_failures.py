"""The day's jobs with dead letters: why one died, resend it, resend fifty of one error."""

from uuid import uuid4

import pytest
from playwright.sync_api import expect

from tests.app.ui.conftest import Take
from tests.app.ui.dead_letters.dead_scene import dying_group, kill, one_queue
from tests.app.ui.scenery import Scenery

pytestmark = pytest.mark.browser

ADDRESS, TIMEOUT = "ValueError: no such street", "TimeoutError: no answer within 5 s"


def test_why_a_message_died_is_read_and_it_is_resent(take: Take, scenery: Scenery) -> None:
    name = f"j{uuid4().hex[:8]}"
    one_queue(scenery, name)
    dying_group(scenery, name)
    kill(scenery, name, name, [{"body": "a letter"}], error=ADDRESS)
    hands = take()
    page = hands.page
    hands.click(page.get_by_role("link", name="Dead letters"))
    hands.click(page.locator(f"#dlq-{name}").get_by_role("link", name=name, exact=True))
    hands.see(page.get_by_role("link", name=ADDRESS, exact=True))
    hands.click(page.get_by_role("link", name=ADDRESS, exact=True))
    hands.click(page.locator("#drawer").get_by_role("button", name=f"Resend to {name}"))
    hands.see(page.get_by_role("heading", name="Finished: 1 sent"))
    hands.assert_cost(clicks=4, keys=0)
    (again,) = scenery.receive(name, name, 1)
    assert again["attempt"] == 1


def test_fifty_of_one_error_are_resent_and_no_other(take: Take, scenery: Scenery) -> None:
    name = f"j{uuid4().hex[:8]}"
    one_queue(scenery, name)
    dying_group(scenery, name)
    kill(scenery, name, name, [{"body": f"late {n}"} for n in range(50)], error=TIMEOUT)
    kill(scenery, name, name, [{"body": f"lost {n}"} for n in range(30)], error=ADDRESS)
    hands = take()
    page = hands.page
    hands.click(page.get_by_role("link", name="Dead letters"))
    hands.click(page.locator(f"#dlq-{name}").get_by_role("link", name=name, exact=True))
    hands.click(page.get_by_role("link", name="TimeoutError 50"))
    hands.click(page.get_by_role("link", name="Resend all 50 that match"))
    hands.click(page.get_by_role("button", name="Start dry run"))
    hands.see(page.get_by_role("heading", name="Dry run: 50 of 80 can be sent"))
    hands.click(page.get_by_role("button", name="Send 50"))
    hands.see(page.get_by_role("heading", name="Finished: 50 sent"))
    hands.assert_cost(clicks=6, keys=0)
    page.goto(f"/dlq/{name}")
    expect(page.locator("#facet-error_class").get_by_role("link")).to_have_text(["ValueError30"])
