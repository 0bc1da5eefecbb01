"""Finding messages over REST: how far it looked, where it goes on, and one box for everything."""

import asyncio
from typing import Any

import pytest

from app.cluster import scan as cluster_scan
from app.services.search import AT_ONCE_MAX, WAITING_MAX
from engine.broker import ScanQuery
from engine.errors import Busy
from engine.search import scan
from tests.app.conftest import App

pytestmark = [pytest.mark.anyio, pytest.mark.makers]


@pytest.fixture
async def filled(running: App) -> App:
    """60 messages, a second apart, over all queues; every fifth is paid."""
    for number in range(60):
        tag = "paid" if number % 5 == 0 else ""
        await running.send("orders", f"order {number}.", tag=tag, keys=[f"k{number % 7}"])
        running.clock.advance(1)
    return running


async def all_pages(app: App, query: str) -> list[Any]:
    found = [await app.get(f"/topics/orders/search?{query}")]
    while found[-1]["next_cursor"] is not None:
        cursor = found[-1]["next_cursor"]
        found.append(await app.get(f"/topics/orders/search?{query}&cursor={cursor}"))
    return found


def bodies(found: list[Any]) -> list[str]:
    return [item["body"] for page in found for item in page["items"]]


@pytest.mark.capabilities("content_search")
async def test_a_search_says_how_far_it_looked_and_goes_on_to_the_end(filled: App) -> None:
    found = await all_pages(filled, "filter=paid&limit=5")
    assert bodies(found) == [f"order {number}." for number in range(0, 60, 5)]
    assert [len(page["items"]) for page in found[:2]] == [5, 5]
    last = found[-1]
    assert (last["scanned"], last["total"], last["matched"]) == (60, 60, 12)
    assert last["reached_ms"] == filled.clock.now_ms() - 1000


@pytest.mark.capabilities("content_search")
async def test_the_newest_come_first_over_all_pages(filled: App) -> None:
    pages = await all_pages(filled, "order=newest&limit=7")
    assert bodies(pages) == [f"order {number}." for number in reversed(range(60))]
    assert pages[-1]["reached_ms"] == filled.clock.now_ms() - 60_000
    pages = await all_pages(filled, "order=newest&filter=paid&limit=5")
    assert bodies(pages) == [f"order {number}." for number in range(55, -1, -5)]


@pytest.mark.capabilities("content_search")
async def test_a_cursor_is_of_one_order(filled: App) -> None:
    cursor = (await filled.get("/topics/orders/search?order=newest&limit=7"))["next_cursor"]
    problem = await filled.get(f"/topics/orders/search?limit=7&cursor={cursor}", 422)
    assert problem["errors"][0]["field"] == "cursor"


@pytest.mark.capabilities("content_search")
async def test_a_search_whose_time_is_up_gives_a_cursor(
    filled: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "STEP_RECORDS_MAX", 7)
    monkeypatch.setattr(cluster_scan, "LOOK_AT_ONCE", 7)
    first = await filled.get("/topics/orders/search?budget_ms=0&contains=9.")
    assert first["next_cursor"] is not None
    assert first["scanned"] == 7
    found = await all_pages(filled, "budget_ms=0&contains=9.")
    assert bodies(found) == [f"order {number}." for number in range(9, 60, 10)]


@pytest.mark.capabilities("content_search")
async def test_time_and_sql_narrow_it_down(filled: App) -> None:
    now_ms = filled.clock.now_ms()
    query = f"begin_ms={now_ms - 10_000}&end_ms={now_ms - 5000}"
    assert bodies(await all_pages(filled, query)) == [f"order {n}." for n in range(50, 55)]
    query += "&filter=SQL92: TAGS = 'paid'"
    assert bodies(await all_pages(filled, query)) == ["order 50."]


@pytest.mark.capabilities("content_search")
@pytest.mark.parametrize(
    ("query", "field", "status"),
    [
        ("cursor=x", "cursor", 422),
        ("filter=SQL92: a >", "filter", 422),
        ("begin_ms=5&end_ms=5", "end_ms", 422),
        ("limit=201", "limit", 422),
        ("order=latest", "order", 422),
    ],
)
async def test_what_is_wrong_is_named(filled: App, query: str, field: str, status: int) -> None:
    problem = await filled.get(f"/topics/orders/search?{query}", status)
    assert problem["errors"][0]["field"] == field
    await filled.get("/topics/nowhere/search", 404)


async def test_a_key_is_found_within_a_time(filled: App) -> None:
    now_ms = filled.clock.now_ms()
    path = "/topics/orders/messages/by-key?key=k3"
    assert len((await filled.get(path))["items"]) == 9
    found = await filled.get(f"{path}&begin_ms={now_ms - 10_000}&end_ms={now_ms - 1000}")
    assert bodies([found]) == ["order 52."]


async def test_a_key_of_more_than_64_messages_is_read_to_its_end(filled: App) -> None:
    for number in range(111):
        filled.clock.advance(0.1)  # some lie in the same second
        await filled.send("flights", f"flight {number}", keys=["N14228"])
    path = "/topics/flights/messages/by-key?key=N14228&limit=64"
    first = await filled.get(path)
    assert len(first["items"]) == 64
    second = await filled.get(f"{path}&cursor={first['next_cursor']}")
    assert second["next_cursor"] is None
    found = [item["body"] for item in first["items"] + second["items"]]
    assert found == [f"flight {number}" for number in reversed(range(111))]
    problem = await filled.get(f"{path}&cursor=x", 422)
    assert problem["errors"][0]["field"] == "cursor"


async def test_one_box_takes_ids_keys_and_names(filled: App) -> None:
    (sent,) = await filled.send("invoices", "x", keys=["k3"])
    await filled.post("/groups", {"name": "orders-billing"}, 201)
    assert bodies_of(await box(filled, sent["message_id"])) == ["x"]
    stored = (await filled.get(f"/messages/{sent['message_id']}"))["items"][0]
    assert bodies_of(await box(filled, stored["offset_id"])) == ["x"]
    by_key = await box(filled, "k3")
    assert len(by_key["messages"]) == 10
    assert by_key["messages_cut"] is False
    by_name = await box(filled, "orders")
    assert (by_name["topics"], by_name["groups"]) == (["orders"], ["orders-billing"])
    nothing = await box(filled, "nothing at all")
    assert (nothing["messages"], nothing["topics_total"], nothing["groups_total"]) == ([], 0, 0)


async def box(app: App, text: str) -> Any:
    answer = await app.http.get("/api/v1/search", params={"q": text})
    assert answer.status_code == 200, answer.text
    return answer.json()


def bodies_of(found: Any) -> list[str]:
    return [message["body"] for message in found["messages"]]


@pytest.mark.capabilities("content_search")
async def test_others_are_served_while_a_search_goes_on(filled: App) -> None:
    """Every step gives way to others."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    await filled.get("/topics/orders/search?filter=SQL92: a IS NOT NULL")
    counting.cancel()
    assert turns > 2


@pytest.mark.capabilities("content_search")
async def test_more_searches_than_may_wait_are_turned_away(filled: App) -> None:
    search = filled.app.services.search
    query = ScanQuery("orders", contains="nothing")
    count = AT_ONCE_MAX + WAITING_MAX + 5
    ended = await asyncio.gather(
        *(search.scan(query, count_max=1) for _ in range(count)), return_exceptions=True
    )
    refused = [each for each in ended if isinstance(each, Busy)]
    assert len(refused) == 5
    assert len([each for each in ended if not isinstance(each, Exception)]) == count - 5
