"""Before a cluster nothing leads to a page that is not there."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.app.cluster.front import HTML, Front, front_of
from tests.remoting.port import Running

pytestmark = pytest.mark.anyio
LINK = re.compile(r'href="(/[^"#]*)"')


@pytest.fixture
async def front(running: Running, tmp_path: Path) -> AsyncIterator[Front]:
    await running.http.post("/api/v1/topics", json={"name": "orders"})
    await running.http.post("/api/v1/groups", json={"name": "orders-readers"})
    async with front_of(running, tmp_path / "front") as front:
        yield front


async def refused(front: Front, pages: list[str]) -> set[str]:
    """The links of pages that lead to what the engine does not have."""
    links: set[str] = set()
    for path in pages:
        links |= set(LINK.findall(await front.page(path)))
    links = {each for each in links if not each.startswith(("/static/", "/docs/"))}
    answers = {each: await front.http.get(each, headers=HTML) for each in sorted(links)}
    return {each for each, answer in answers.items() if answer.status_code == 409}


async def test_the_palette_and_the_search_offer_pages_that_are_there(front: Front) -> None:
    pages = ["/palette", "/palette?q=orders", "/palette?q=purge+orders", "/search?q=re", "/dlq"]
    assert await refused(front, pages) == set()
    assert 'href="/brokers"' in await front.page("/palette?q=master")


async def test_the_pages_of_a_topic_and_its_menu_lead_to_what_is_there(front: Front) -> None:
    pages = [
        "/topics/orders",
        "/topics/orders/messages",
        "/groups/orders-readers",
        "/tail?topic=orders",
    ]
    assert await refused(front, pages) == set()


async def test_the_messages_of_a_topic_are_found(front: Front) -> None:
    await front.http.post(
        "/api/v1/topics/orders/messages", json={"messages": [{"body": "sold-42"}]}
    )
    assert "sold-42" in await front.page("/messages?topic=orders&since=1h")
    assert "sold-42" not in await front.page("/messages?topic=orders&since=1h&contains=late")
