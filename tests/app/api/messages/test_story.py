"""Stories of a message, told through the REST endpoint."""

import asyncio
from base64 import b64encode

import pytest

from tests.app.conftest import App, Starter

pytestmark = [pytest.mark.anyio, pytest.mark.makers]


async def test_a_message_that_was_sent_is_received_and_acknowledged_once(running: App) -> None:
    [sent] = await running.send(
        "orders", "first", tag="new", keys=["k1"], properties={"colour": "red"}
    )
    [delivery] = await running.receive("billing", "orders")
    assert delivery["message_id"] == sent["message_id"]
    assert delivery["offset_id"] == sent["offset_id"]
    assert (delivery["body"], delivery["encoding"]) == ("first", "utf-8")
    assert (delivery["tag"], delivery["keys"]) == ("new", ["k1"])
    assert delivery["properties"] == {"colour": "red"}
    assert delivery["attempt"] == 1
    receipts = {"receipts": [delivery["receipt"]]}
    done = await running.post("/groups/billing/ack", receipts)
    assert done["results"] == [{"receipt": delivery["receipt"], "result": "done"}]
    again = await running.post("/groups/billing/ack", receipts)
    assert again["results"][0]["result"] == "already"
    running.advance(3600)
    assert await running.receive("billing", "orders") == []


async def test_every_group_gets_every_message(running: App) -> None:
    await running.send("orders", "x")
    assert len(await running.receive("a", "orders")) == 1
    assert len(await running.receive("b", "orders")) == 1


async def test_a_hand_out_that_expires_is_delivered_again(running: App) -> None:
    await running.send("orders", "x")
    [first] = await running.receive("billing", "orders", invisible_ms=30_000)
    assert await running.receive("billing", "orders") == []
    running.advance(31)
    [second] = await running.receive("billing", "orders")
    assert second["attempt"] == 2
    assert second["message_id"] == first["message_id"]
    assert second["origin_topic"] == "orders"
    stale = await running.post("/groups/billing/ack", {"receipts": [first["receipt"]]})
    assert stale["results"][0]["result"] != "done"


@pytest.mark.apache
async def test_a_nacked_message_comes_back_after_its_wait_then_lies_in_the_dead_letters(
    running: App,
) -> None:
    await running.post("/groups", {"name": "billing", "retry_max": 1}, 201)
    await running.send("orders", "x")
    for attempt in (1, 2):
        [delivery] = await running.receive("billing", "orders")
        assert delivery["attempt"] == attempt
        nack = {"receipt": delivery["receipt"], "delay_level": 2, "error": "no stock"}
        done = await running.post("/groups/billing/nack", {"nacks": [nack]})
        assert done["results"][0]["result"] == "done"
        assert await running.receive("billing", "orders") == []
        running.advance(6)
    assert await running.receive("billing", "orders") == []
    dead = await running.get("/topics/%25DLQ%25billing/messages")
    [letter] = dead["messages"]
    assert letter["body"] == "x"
    assert letter["origin_topic"] == "orders"
    assert letter["properties"]["KITE_ERROR"] == "no stock"
    assert (await running.get("/groups/billing/lag"))["dead"] == 1


@pytest.mark.capabilities("uncounted_releases")
async def test_a_released_message_is_delivered_again_without_counting(running: App) -> None:
    await running.send("orders", "x")
    [first] = await running.receive("billing", "orders")
    await running.post("/groups/billing/release", {"receipts": [first["receipt"]]})
    [second] = await running.receive("billing", "orders")
    assert second["attempt"] == 1


async def test_an_extended_hand_out_stays_invisible_longer(running: App) -> None:
    await running.send("orders", "x")
    [first] = await running.receive("billing", "orders", invisible_ms=10_000)
    longer = {"receipts": [first["receipt"]], "invisible_ms": 60_000}
    [extended] = (await running.post("/groups/billing/extend", longer))["results"]
    assert extended["invisible_until_ms"] == running.clock.now_ms() + 60_000
    running.advance(30)
    assert await running.receive("billing", "orders") == []


async def test_a_delayed_message_arrives_when_it_is_due(running: App) -> None:
    await running.post("/topics", {"name": "later", "type": "DELAY"}, 201)
    await running.send("later", "x", delay_level=2)
    assert await running.receive("billing", "later") == []
    running.advance(5.1)
    [delivery] = await running.receive("billing", "later")
    assert delivery["body"] == "x"


async def test_messages_of_one_group_of_a_fifo_topic_come_side_by_side_to_an_unordered_group(
    running: App,
) -> None:
    await running.post("/topics", {"name": "steps", "type": "FIFO"}, 201)
    await running.send("steps", "1", "2", message_group="order-7")
    got = await running.receive("billing", "steps", max=10)
    assert [delivery["body"] for delivery in got] == ["1", "2"]
    assert (await running.get("/groups/billing"))["ordered"] is False


async def test_messages_of_one_group_of_a_fifo_topic_come_one_after_the_other(
    running: App,
) -> None:
    await running.post("/topics", {"name": "steps", "type": "FIFO"}, 201)
    await running.post("/groups", {"name": "billing", "ordered": True}, 201)
    await running.send("steps", "1", "2", message_group="order-7")
    [first] = await running.receive("billing", "steps", max=10)
    assert first["body"] == "1"
    assert await running.receive("billing", "steps", max=10) == []
    await running.post("/groups/billing/ack", {"receipts": [first["receipt"]]})
    [second] = await running.receive("billing", "steps", max=10)
    assert second["body"] == "2"


async def test_a_filter_lets_only_its_tags_through(running: App) -> None:
    await running.send("orders", "a", tag="new")
    await running.send("orders", "b", tag="old")
    await running.send("orders", "c", tag="odd")
    got = await running.receive("billing", "orders", filter="new || odd", max=10)
    assert sorted(delivery["body"] for delivery in got) == ["a", "c"]


async def test_one_receive_reads_several_topics(running: App) -> None:
    await running.send("a", "1")
    await running.send("b", "2")
    wanted = {"topics": {"a": "*", "b": "*"}, "max": 10}
    got = await running.post("/groups/billing/receive", wanted)
    assert sorted(delivery["body"] for delivery in got["deliveries"]) == ["1", "2"]


async def test_a_long_poll_ends_when_a_message_comes(running: App) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    polling = asyncio.create_task(running.receive("billing", "orders", wait_ms=20_000))
    await running.until_parked()
    await running.send("orders", "x")
    [delivery] = await polling
    assert delivery["body"] == "x"


async def test_a_pull_waits_for_a_message_that_matches(running: App) -> None:
    await running.post("/topics", {"name": "one", "read_queues": 1, "write_queues": 1}, 201)
    path = "/topics/one/messages?wait_ms=20000&filter=wanted"
    pulling = asyncio.create_task(running.get(path))
    await running.until_parked()
    await running.send("one", "no", tag="other")
    await running.send("one", "yes", tag="wanted")
    pulled = await pulling
    assert [message["body"] for message in pulled["messages"]] == ["yes"]
    assert pulled["next_offset"] == "2"


async def test_stopping_ends_long_polls_at_once(running: App) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    polling = asyncio.create_task(running.receive("billing", "orders", wait_ms=30_000))
    await running.until_parked()
    running.app.services.host.drain()
    assert await asyncio.wait_for(polling, 5) == []


async def test_a_raw_body_keeps_its_bytes_and_what_its_headers_say(running: App) -> None:
    body = bytes(range(256))
    answer = await running.http.post(
        "/api/v1/topics/files/messages",
        content=body,
        headers={
            "Content-Type": "image/png",
            "KiteMQ-Tag": "picture",
            "KiteMQ-Keys": "k1, k2",
            "KiteMQ-Property-Colour": "grün".encode(),
        },
    )
    assert answer.status_code == 201, answer.text
    [delivery] = await running.receive("viewer", "files")
    assert (delivery["body"], delivery["encoding"]) == (b64encode(body).decode(), "base64")
    assert delivery["keys"] == ["k1", "k2"]
    assert delivery["properties"] == {"colour": "grün", "content-type": "image/png"}


@pytest.mark.capabilities("topic_overrides")
async def test_a_raw_body_asks_for_its_durability_by_a_header(running: App) -> None:
    headers = {"Content-Type": "image/png", "KiteMQ-Durability": "flushed"}
    answer = await running.http.post(
        "/api/v1/topics/files/messages", content=b"\x89PNG", headers=headers
    )
    assert (answer.status_code, answer.json()["durability"]) == (201, "flushed")


async def test_a_message_is_found_by_offset_by_id_and_by_key(running: App) -> None:
    [sent] = await running.send("orders", "x", keys=["order-1"])
    at = await running.get(f"/topics/orders/messages/{sent['queue']}/{sent['offset']}")
    assert at["body"] == "x"
    for name in ("message_id", "offset_id"):
        assert (await running.get(f"/messages/{sent[name]}"))["items"] == [at]
    by_key = await running.get("/topics/orders/messages/by-key?key=order-1")
    assert by_key["items"] == [at]


async def test_a_consumer_that_pulls_commits_its_offset(running: App) -> None:
    await running.post("/topics", {"name": "one", "read_queues": 1, "write_queues": 1}, 201)
    await running.send("one", "a", "b", "c")
    await running.post("/groups", {"name": "reader"}, 201)
    new = {"topic": "one", "queue": 0, "offset": "2"}
    answer = await running.http.put("/api/v1/groups/reader/offsets", json=new)
    assert answer.status_code == 204, answer.text
    offsets = await running.get("/groups/reader/offsets?topic=one")
    assert offsets["queues"] == [{"queue": 0, "offset": "2", "start": None}]
    assert (await running.get("/groups/reader/lag"))["count"] == 1


async def test_what_was_stored_and_acknowledged_is_so_after_a_restart(start: Starter) -> None:
    async with start() as app:
        await app.send("orders", "done", "open")
        first, _ = await app.receive("billing", "orders", max=2, invisible_ms=1000)
        await app.post("/groups/billing/ack", {"receipts": [first["receipt"]]})
    async with start() as app:
        app.advance(2)
        [delivery] = await app.receive("billing", "orders", max=2)
        assert delivery["body"] == "open"
        assert delivery["attempt"] == 2


@pytest.mark.parametrize("delay", [{"delay_ms": 1500}, {"deliver_at_ms": "now + 1500"}])
async def test_a_message_with_an_exact_delay_arrives_then_and_not_before(
    running: App, delay: dict[str, int | str]
) -> None:
    if "deliver_at_ms" in delay:
        delay = {"deliver_at_ms": running.clock.now_ms() + 1500}
    await running.send("orders", "x", **delay)
    running.advance(1.499)
    assert await running.receive("billing", "orders") == []
    running.advance(0.001)
    [delivery] = await running.receive("billing", "orders")
    assert (delivery["body"], delivery["topic"], delivery["attempt"]) == ("x", "orders", 1)
