"""Clients that go away in the middle: nothing of theirs stays, nothing of others is lost."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from tests.app.conftest import URL, App

pytestmark = pytest.mark.anyio

MESSAGES = "/api/v1/topics/orders/messages"


def collect(sent: list[Any]) -> Any:
    async def send(message: Any) -> None:
        sent.append(message)

    return send


def scope_of(path: str, body: bytes) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080),
        "scheme": "http",
        "http_version": "1.1",
        "root_path": "",
    }


async def test_a_client_that_goes_while_it_waits_leaves_its_place(running: App) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    body = json.dumps({"topic": "orders", "wait_ms": 30_000}).encode()
    gone = asyncio.Event()
    first = True

    async def receive() -> dict[str, Any]:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body}
        await gone.wait()
        return {"type": "http.disconnect"}

    sent: list[Any] = []
    scope = scope_of("/api/v1/groups/g/receive", body)
    request = asyncio.create_task(running.app(scope, receive, collect(sent)))
    await running.until_parked()
    gone.set()
    await asyncio.wait_for(request, 15)
    assert sent == []
    assert running.app.services.host.waiting_count == 0
    await running.send("orders", "x")
    [delivery] = await running.receive("g", "orders")
    assert delivery["attempt"] == 1


async def test_what_was_handed_to_a_client_that_just_went_is_put_back(running: App) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    body = json.dumps({"topic": "orders", "wait_ms": 30_000}).encode()
    gone = asyncio.Event()
    first = True

    async def receive() -> dict[str, Any]:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body}
        await gone.wait()
        return {"type": "http.disconnect"}

    scope = scope_of("/api/v1/groups/g/receive", body)
    request = asyncio.create_task(running.app(scope, receive, collect([])))
    await running.until_parked()
    gone.set()  # in the same turn of the loop as the message that wakes it
    await running.send("orders", "x")
    await asyncio.wait_for(request, 15)
    [delivery] = await running.receive("g", "orders")
    assert delivery["attempt"] == 1


async def test_a_body_that_breaks_off_stores_nothing(running: App) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    messages = iter(
        [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    )

    async def receive() -> dict[str, Any]:
        return next(messages)

    sent: list[Any] = []
    await running.app(scope_of(MESSAGES, b"{}"), receive, collect(sent))
    assert sent == []
    assert running.app.services.request_limits.requests == 0


async def test_an_unexpected_failure_is_a_500_that_tells_no_details(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(running.app.services.host.broker, "topic", fail)
    transport = httpx.ASGITransport(running.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=URL) as http:
        answer = await http.get("/api/v1/topics/a")
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal_error"
    assert "secret" not in answer.text
