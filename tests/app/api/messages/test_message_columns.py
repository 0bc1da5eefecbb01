"""JSON batches are stored and answered alike as columns and as messages."""

import random
from base64 import b64encode
from typing import Any

import pytest

from app.api.messages import message_columns
from tests.app.conftest import App

pytestmark = pytest.mark.anyio

DIFFERENT = ("id", "message_id", "offset_id", "position", "topic", "origin_topic")


def batch(randoms: random.Random) -> list[dict[str, Any]]:
    """Messages that are plain, but for one now and then."""
    base: dict[str, Any] = {"queue": randoms.choice([1, 2])}
    if randoms.random() < 0.3:
        base |= {"properties": {"a": "caf\u00e9"}, "born_ms": 1_600_000_000_000}
    if randoms.random() < 0.3:
        base |= {"tag": "all", "keys": ["one", "two"]}
    messages = [
        base | {"body": f"body {number}\u2026"} for number in range(randoms.choice([4, 30]))
    ]
    for new in messages:
        if randoms.random() < 0.3:
            new["tag"] = randoms.choice(["", "red", "blue"])
        if randoms.random() < 0.3:
            new["keys"] = randoms.choice([[], ["1"], ["1", "2"]])
        if randoms.random() < 0.1:
            new |= {"body": b64encode(randoms.randbytes(9)).decode(), "encoding": "base64"}
    if randoms.random() < 0.4:
        messages[-1] |= randoms.choice(
            [
                {"tag": "caf\u00e9"},
                {"keys": ["a b", "c"]},
                {"keys": [""]},
                {"id": "A1"},
                {"message_group": "g"},
                {"properties": {"b": "c"}},
                {"event_ms": 5},
                {"body": "!", "encoding": "base64"},
                {"tag": "a||b"},
                {"tag": "t" * 2000},
                {"properties": {"KEYS": "x"}},
            ]
        )
    return messages


async def sent(app: App, topic: str, messages: list[dict[str, Any]]) -> tuple[Any, Any]:
    """The answer, and all that the topic holds then, without what differs by itself."""
    answer = await app.http.post(f"/api/v1/topics/{topic}/messages", json={"messages": messages})
    document = answer.json()
    stored: list[Any] = []
    for queue in (1, 2):
        page = await app.get(f"/topics/{topic}/messages?queue={queue}&offset=0")
        stored += page["messages"]
    for item in (*document.get("messages", ()), *stored):
        for name in DIFFERENT:
            item.pop(name, None)
    return (answer.status_code, document), stored


@pytest.mark.parametrize("seed", range(30))
async def test_both_ways_store_and_answer_alike(
    running: App, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    messages = batch(random.Random(seed))
    for name in ("first", "other"):
        await running.post("/topics", {"name": name}, 201)
    by_columns = await sent(running, "first", messages)
    monkeypatch.setattr(message_columns, "COLUMNS_COUNT_MIN", 1 << 30)
    assert by_columns == await sent(running, "other", messages)


async def test_plain_batches_travel_as_columns(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*arguments: Any) -> None:
        raise AssertionError("a message was made")

    await running.post("/topics", {"name": "orders"}, 201)
    monkeypatch.setattr("app.api.messages.new_messages.message_of", none)
    messages = [{"body": str(number), "tag": f"t{number}"} for number in range(20)]
    (status, answer), _ = await sent(running, "orders", messages)
    assert status == 201
    assert len(answer["messages"]) == 20
