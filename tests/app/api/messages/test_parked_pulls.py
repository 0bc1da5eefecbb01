"""How long a pull waits, and what ends it: item 16 of the reference's section 15."""

import asyncio

import pytest

from tests.app.conftest import App

pytestmark = [pytest.mark.anyio, pytest.mark.makers]

HOLD_S = 0.4
LATE_S = 4.5  # RocketMQ would answer up to 5 s late


async def test_a_parked_pull_ends_at_its_hold_time(running: App) -> None:
    await running.post("/topics", {"name": "one", "read_queues": 1, "write_queues": 1}, 201)
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    pulled = await running.get(f"/topics/one/messages?wait_ms={HOLD_S * 1000:.0f}")
    assert HOLD_S <= loop.time() - begun_s < HOLD_S + LATE_S
    assert (pulled["messages"], pulled["next_offset"]) == ([], "0")


async def test_a_message_with_another_tag_leaves_a_pull_parked_and_one_with_its_own_ends_it(
    running: App,
) -> None:
    await running.post("/topics", {"name": "one", "read_queues": 1, "write_queues": 1}, 201)
    path = "/topics/one/messages?wait_ms=20000&filter=a"
    pulling = asyncio.create_task(running.get(path))
    await running.until_parked()
    await running.send("one", "no", tag="b")
    for _ in range(100):
        await asyncio.sleep(0)
    assert not pulling.done()
    assert running.app.services.host.waiting_count == 1
    await running.send("one", "yes", tag="a")
    pulled = await asyncio.wait_for(pulling, 15)
    assert [message["body"] for message in pulled["messages"]] == ["yes"]
