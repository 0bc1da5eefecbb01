"""A body that a producer of RocketMQ compressed leaves every endpoint as it was sent."""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.security.message_rights import concealed
from app.services import bodies
from engine.broker import GroupConfig, TopicConfig, TopicType
from engine.message import Message
from tests.app.conftest import App, started
from tests.engine.test_compression import PACKERS

pytestmark = pytest.mark.anyio

TEXT = '{"item": "BODYMARK"}' + " " * 5000
FLAG = 0x301
MIB = 1024 * 1024
ONE_QUEUE = {"name": "orders", "read_queues": 1, "write_queues": 1}


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with started(tmp_path / "data") as running:
        yield running


def store(app: App, topic: str, *bodies: bytes, flag: int = FLAG, **fields: Any) -> None:
    """As a producer of RocketMQ over its own protocol sends them, or a store that was carried."""
    messages = [
        Message(topic, PACKERS[flag](body), sys_flag=flag, keys=("K",), **fields) for body in bodies
    ]
    app.app.services.host.broker.send(messages)


def broken(app: App, body: bytes = b"no such data") -> None:
    app.app.services.host.broker.send([Message("orders", body, sys_flag=FLAG, keys=("K",))])


async def places(app: App) -> None:
    """A compressed message wherever one can be: a topic, dead, delayed, half."""
    broker = app.app.services.host.broker
    broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
    broker.create_topic(TopicConfig("later", type=TopicType.DELAY))
    broker.create_topic(TopicConfig("half", type=TopicType.TRANSACTION))
    broker.create_group(GroupConfig("g", retry_max=0))
    store(app, "orders", TEXT.encode())
    (got,) = await app.receive("g", "orders")
    await app.post("/groups/g/nack", {"nacks": [{"receipt": got["receipt"]}]})
    due_ms = app.clock.now_ms() + 3_600_000
    store(app, "later", TEXT.encode(), deliver_at_ms=due_ms, message_id="LATER")
    store(app, "half", TEXT.encode(), transaction_group="p", message_id="HALF")


READS = (
    "/topics/orders/messages",
    "/topics/orders/messages/0/0",
    "/topics/orders/messages/by-key?key=K",
    "/topics/orders/search?contains=BODYMARK",
    "/search?q=K",
    "/groups/g/dead-letters",
    "/groups/g/dead-letters/0",
    "/scheduled",
    "/transactions",
    "/transactions/HALF",
)
PAGES = (
    "/messages/orders/0/0",
    "/messages/orders/0/0/raw",
    "/messages?by=search&topic=orders&contains=BODYMARK",
    "/messages?by=search&topic=orders&view=json&fields=item",
    "/messages/export?topic=orders&format=ndjson",
    "/messages/export?topic=orders&format=csv",
    "/topics/orders/messages",
    "/topics/orders/produce?from=orders:0:0",
    "/dlq/g/0",
    "/dlq/g/0/raw",
    "/dlq/g/export?format=ndjson",
    "/dlq/g/export?format=csv",
    "/tail?topic=orders",
    "/messages?by=key&topic=orders&key=K",
    "/scheduled",
    "/transactions",
)


async def test_every_read_of_rest_gives_the_body_that_was_sent(app: App) -> None:
    await places(app)
    for path in READS:
        text = json.dumps(await app.get(path))
        assert '"compressed": {"codec": "zlib"' in text, path
        assert "BODYMARK" in text, path


async def test_every_page_shows_the_body_that_was_sent(app: App) -> None:
    await places(app)
    for path in PAGES:
        page = await app.http.get(path)
        assert page.status_code == 200, (path, page.text)
        assert "BODYMARK" in page.text, path


async def test_the_page_of_a_message_tells_the_codec_and_both_sizes(app: App) -> None:
    await places(app)
    page = (await app.http.get("/messages/orders/0/0")).text
    assert "compressed with zlib" in page
    assert "decompressed" in page
    assert "bytes to 5,020" in page


@pytest.mark.parametrize("flag", PACKERS)
async def test_what_is_received_is_what_was_sent(app: App, flag: int) -> None:
    await app.post("/topics", {"name": "orders"}, 201)
    store(app, "orders", TEXT.encode(), flag=flag)
    (got,) = await app.receive("g", "orders")
    assert (got["body"], got["encoding"]) == (TEXT, "utf-8")
    assert got["compressed"] == {
        "codec": {1: "lz4", 2: "zstd"}.get(flag >> 8, "zlib"),
        "stored_bytes": len(PACKERS[flag](TEXT.encode())),
        "body_bytes": len(TEXT),
        "error": "",
    }


async def test_an_uncompressed_body_says_so(app: App) -> None:
    await app.post("/topics", {"name": "orders"}, 201)
    await app.send("orders", "plain")
    assert (await app.receive("g", "orders"))[0]["compressed"] is None


async def test_a_broken_body_comes_raw_with_the_reason(app: App) -> None:
    await app.post("/topics", ONE_QUEUE, 201)
    broken(app, b"\xff\xfe no such data")
    got = await app.get("/topics/orders/messages/0/0")
    assert (b64decode(got["body"]), got["encoding"]) == (b"\xff\xfe no such data", "base64")
    assert got["compressed"]["codec"] == "zlib"
    assert "Error -3" in got["compressed"]["error"]
    page = await app.http.get("/messages/orders/0/0")
    assert page.status_code == 200
    assert "Shown compressed, as stored" in page.text
    rows = (await app.http.get("/messages/export?topic=orders&format=ndjson")).text
    assert json.loads(rows.splitlines()[0])["body_encoding"] == "base64;zlib"


async def test_a_bomb_comes_raw_and_states_the_limit(app: App) -> None:
    await app.post("/topics", ONE_QUEUE, 201)
    store(app, "orders", bytes(4 * MIB + 1))
    (got,) = await app.receive("g", "orders")
    assert got["compressed"]["error"] == "decompresses to more than 4194304 bytes"
    assert len(b64decode(got["body"]) if got["encoding"] == "base64" else got["body"]) < MIB


async def test_what_would_be_too_much_for_one_answer_is_handed_out_next_time(app: App) -> None:
    await app.post("/topics", ONE_QUEUE, 201)
    await app.post("/groups", {"name": "g"}, 201)
    store(app, "orders", *[b"%d" % n * MIB * 3 for n in range(3)])
    got = []
    for _ in range(3):
        (one,) = await app.receive("g", "orders", max=16)
        got.append((one["body"][0], one["attempt"]))
    assert got == [("0", 1), ("1", 1), ("2", 1)]
    pulled = await app.get("/topics/orders/messages?limit=10")
    assert (len(pulled["messages"]), pulled["next_offset"]) == (1, "1")


async def test_an_answer_decompresses_no_more_than_its_limit(app: App) -> None:
    await app.post("/topics", ONE_QUEUE, 201)
    store(app, "orders", *[b"x" * MIB * 4 for _ in range(6)])
    found = await app.get("/topics/orders/messages/by-key?key=K")
    errors = [item["compressed"]["error"] for item in found["items"]]
    assert errors[:4] == [""] * 4
    assert errors[4:] == [bodies.ANSWER_IS_FULL] * 2


async def test_large_bodies_are_decompressed_beside_the_event_loop(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    thread = asyncio.to_thread

    async def watched(work: Any, *arguments: Any) -> Any:
        ran.append(getattr(work, "__name__", ""))
        return await thread(work, *arguments)

    monkeypatch.setattr(asyncio, "to_thread", watched)
    await app.post("/topics", ONE_QUEUE, 201)
    store(app, "orders", bytes(range(256)) * 10_000, b"small " * 1000)
    await app.receive("g", "orders")
    assert ran.count("fitting_count") == 1
    ran.clear()
    await app.receive("g", "orders")
    assert not ran.count("fitting_count")


async def test_a_concealed_message_keeps_nothing_of_its_decompressed_body(app: App) -> None:
    await app.post("/topics", ONE_QUEUE, 201)
    store(app, "orders", TEXT.encode())
    message = app.app.services.host.broker.message("orders", 0, 0)
    await bodies.decompress([message])
    hidden = concealed(message, "read_messages:topic:orders")
    assert (hidden.body, hidden.plain.body, hidden.plain.codec) == (b"", b"", "")
