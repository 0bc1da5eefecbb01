"""Pages of a key before a cluster; `tests/rocketmq/test_serve.py` reads those of Apache's index.

KiteMQ's own port stands in the place of the broker.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.cluster import key_pages
from tests.app.cluster.front import Front, front_of
from tests.remoting.port import Running

pytestmark = pytest.mark.anyio
PATH = "/topics/flights/messages/by-key?key=N14228"


@pytest.fixture
async def front(running: Running, tmp_path: Path) -> AsyncIterator[Front]:
    async with front_of(running, tmp_path / "front") as front:
        yield front


async def send(running: Running, count: int, *, apart_s: float) -> None:
    for number in range(count):
        running.clock.advance(apart_s)
        message = {"body": f"m{number}", "keys": ["N14228"], "queue": 0}
        path = "/api/v1/topics/flights/messages"
        assert (await running.http.post(path, json={"messages": [message]})).is_success


async def all_pages(front: Front, query: str) -> list[Any]:
    items, cursor = [], ""
    while cursor is not None:
        page = await front.get(f"{PATH}&{query}&cursor={cursor}")
        items += page["items"]
        cursor = page["next_cursor"]
    return items


@pytest.mark.parametrize("limit", [1, 7, 64])
async def test_each_message_is_on_one_page(running: Running, front: Front, limit: int) -> None:
    await send(running, 150, apart_s=0.05)
    found = [each["body"] for each in await all_pages(front, f"limit={limit}")]
    assert found == [f"m{number}" for number in reversed(range(150))]


async def test_pages_stay_within_their_time(running: Running, front: Front) -> None:
    await send(running, 150, apart_s=0.05)
    now_ms = running.clock.now_ms()
    query = f"begin_ms={now_ms - 5_000}&end_ms={now_ms - 1_000}&limit=20"
    found = [each["body"] for each in await all_pages(front, query)]
    assert found == [f"m{number}" for number in range(128, 48, -1)]


async def test_a_page_that_the_index_has_no_place_for_is_refused_and_never_left_out(
    running: Running, front: Front
) -> None:
    await send(running, 100, apart_s=0.0)
    first = await front.get(f"{PATH}&limit=50")
    assert [each["body"] for each in first["items"]] == [f"m{n}" for n in range(99, 49, -1)]
    second = await front.get(f"{PATH}&limit=50&cursor={first['next_cursor']}")
    assert [each["body"] for each in second["items"]] == [f"m{n}" for n in range(49, 35, -1)]
    problem = await front.get(f"{PATH}&limit=50&cursor={second['next_cursor']}", 409)
    assert problem["code"] == "refused"
    assert "more than 64 messages" in problem["detail"]


async def test_a_page_ends_after_some_answers_and_goes_on_at_its_cursor(
    running: Running, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(running, 150, apart_s=0.05)
    monkeypatch.setattr(key_pages, "ROUNDS_MAX", 1)
    page = await front.get(f"{PATH}&limit=64")
    assert len(page["items"]) < 64
    found = [each["body"] for each in await all_pages(front, "limit=64")]
    assert found == [f"m{number}" for number in reversed(range(150))]


@pytest.mark.parametrize("cursor", ["x", "1-2", "1-2-x", "-1-2-3"])
async def test_a_cursor_that_is_none_is_named(running: Running, front: Front, cursor: str) -> None:
    await send(running, 1, apart_s=0.05)
    problem = await front.get(f"{PATH}&cursor={cursor}", 422)
    assert problem["errors"][0]["field"] == "cursor"
