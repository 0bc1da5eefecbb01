"""Messages sent past ASGI are stored and answered like others, or take the ordinary way."""

import asyncio
import json
from typing import Any

import pytest
from starlette.types import Scope

from app.api.framework.operation import encode
from app.api.messages.direct_produce import DirectProduce, json_of, result_of
from app.eager import EAGER
from engine.message import Durability
from engine.message_columns import ColumnsResult
from tests.app.conftest import App, Starter
from tests.app.security.test_access import bearer, token_of, with_admin

pytestmark = pytest.mark.anyio

BODY = b'{"body": "x"}'
CLIENT = ("127.0.0.1", 50_000)
PATH = "/api/v1/topics/orders/messages"
JSON = {"Content-Type": "application/json"}
RAW = {
    "Content-Type": "image/png",
    "KiteMQ-Tag": "new",
    "KiteMQ-Keys": "1, 2",
    "KiteMQ-Property-colour": "caf\u00e9".encode(),
    "KiteMQ-Queue": "2",
}
SENDS: list[tuple[dict[str, Any], bytes]] = [
    (RAW, b"\x89PNG"),
    ({"Content-Type": "text/plain", "KiteMQ-Durability": "flushed"}, b"text"),
    ({"Content-Type": "text/plain", "KiteMQ-Delay-Level": "3"}, b"later"),
    ({"Content-Type": "text/plain"}, b"x" * 10_000),
    (JSON, b'{"body": "one", "tag": "new", "keys": ["1"], "properties": {"a": "b"}}'),
    (JSON, b'{"messages": [{"body": "eA==", "encoding": "base64"}, {"body": "two"}]}'),
]
REFUSED_BY_ENGINE: list[tuple[dict[str, Any], bytes]] = [
    ({"Content-Type": "text/plain", "KiteMQ-Queue": "60000"}, b"no such queue"),
    (JSON, b'{"body": "x", "id": "no id!"}'),
    (JSON, b'{"messages": [{"body": "x"}, {"body": "y", "tag": "a||b"}]}'),
]
ORDINARY: list[tuple[dict[str, Any], bytes]] = [
    (JSON, b'{"body": '),
    (JSON, b'{"bodies": 1}'),
    (JSON, b'{"body": "!", "encoding": "base64"}'),
    (JSON, b'{"messages": [{"body": "x"}, {"body": "y", "delay_ms": 99999999999}]}'),
    (JSON, b'{"body": "x", "messages": []}'),
    ({"Content-Type": "text/plain"}, b""),
]


def test_the_answer_of_columns_is_what_the_ordinary_way_writes() -> None:
    sent = ColumnsResult(3, range(7, 10), [0, 340, 1 << 40], Durability.STORED, "7F0000010BE4C4A1")
    assert json_of(sent, "10.1.2.3:8080") == encode(result_of(sent, "10.1.2.3:8080"))


async def learned(app: App, headers: dict[str, Any], body: bytes) -> tuple[Any, Scope]:
    """An answer of the ordinary way, and the scope that it leaves behind."""
    scopes: list[Scope] = []

    async def spy(scope: Scope, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await app.app(scope, receive, send)

    transport: Any = app.http._transport
    ordinary, transport.app = transport.app, spy
    try:
        answer = await app.http.post(PATH, content=body, headers=headers)
    finally:
        transport.app = ordinary
    return answer, scopes[0]


async def direct(way: DirectProduce, body: bytes) -> tuple[int, dict[str, str], Any] | None:
    """The answer past ASGI: status, headers and the body; None where it is left to the other."""
    answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
    if not way.begin(CLIENT, body, answered.set_result):
        return None
    content = await answered
    if content is None:
        return None
    head, _, text = content.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ") for line in lines)
    assert int(headers["content-length"]) == len(text)
    return int(status.split()[1]), headers, json.loads(text)


async def both(app: App, headers: dict[str, Any], body: bytes) -> tuple[Any, Any]:
    """The answers of both ways to the same request, without what differs by itself."""
    answer, scope = await learned(app, headers, body)
    assert EAGER in scope
    way = DirectProduce.of(scope)
    assert way is not None
    direct_answer = await direct(way, body)
    ordinary = (answer.status_code, dict(answer.headers), answer.json())
    return _timeless(ordinary), direct_answer and _timeless(direct_answer)


def _timeless(answer: tuple[int, dict[str, str], Any]) -> Any:
    status, headers, document = answer
    for item in document.get("messages", ()):
        for name in ("message_id", "offset_id", "offset", "position"):
            assert item.pop(name)
        del item["queue"]
    return status, {**headers, "content-length": ""}, document


async def stored(app: App) -> list[Any]:
    """All messages of the topic as REST shows them, without what differs by itself."""
    documents = []
    for queue in range(4):
        path = f"/topics/orders/messages?queue={queue}&offset=0"
        documents += (await app.get(path))["messages"]
    for item in documents:
        for name in ("id", "message_id", "offset_id", "queue", "offset", "position"):
            item.pop(name, None)
    return sorted(map(json.dumps, documents))


@pytest.mark.parametrize(("headers", "body"), SENDS)
async def test_a_message_is_stored_and_answered_alike(
    running: App, headers: dict[str, Any], body: bytes
) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    ordinary, passing = await both(running, headers, body)
    assert ordinary[0] == 201
    assert passing == ordinary
    documents = await stored(running)
    assert documents[::2] == documents[1::2]
    assert running.app.services.request_limits.requests == 0
    assert running.app.services.request_limits.used_bytes == 0


@pytest.mark.parametrize(("headers", "body"), REFUSED_BY_ENGINE)
async def test_what_the_engine_refuses_is_refused_alike(
    running: App, headers: dict[str, Any], body: bytes
) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    ordinary, passing = await both(running, headers, body)
    assert ordinary[0] == 422
    assert passing == ordinary
    assert running.app.services.request_limits.requests == 0


@pytest.mark.parametrize(("headers", "body"), ORDINARY)
async def test_what_is_out_of_the_ordinary_takes_the_ordinary_way(
    running: App, headers: dict[str, Any], body: bytes
) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    _, passing = await both(running, headers, body)
    assert passing is None
    assert running.app.services.request_limits.requests == 0


async def test_rights_are_looked_at_for_each_message(running: App) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    await with_admin(running)
    login = {**bearer(await token_of(running, "ann")), **JSON}
    answer, scope = await learned(running, login, BODY)
    assert answer.status_code == 201
    way = DirectProduce.of(scope)
    assert way is not None
    assert (await direct(way, BODY) or (0,))[0] == 201
    tokens = (await running.get("/tokens"))["items"]
    assert (await running.http.delete(f"/api/v1/tokens/{tokens[0]['id']}")).status_code == 204
    assert await direct(way, BODY) is None


async def test_a_read_only_server_refuses_by_the_ordinary_way(running: App) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    _, scope = await learned(running, JSON, BODY)
    way = DirectProduce.of(scope)
    assert way is not None
    answer = await running.http.put(
        "/api/v1/read-only", json={"read_only": True, "reason": "moving"}
    )
    assert answer.status_code == 200, answer.text
    assert await direct(way, BODY) is None


async def test_a_full_server_answers_by_the_ordinary_way(running: App) -> None:
    await running.post("/topics", {"name": "orders"}, 201)
    _, scope = await learned(running, JSON, BODY)
    way = DirectProduce.of(scope)
    assert way is not None
    limits = running.app.services.request_limits
    for _ in range(running.app.services.settings.client_requests_max):
        limits.enter(CLIENT[0])
    assert await direct(way, BODY) is None


async def test_there_is_no_short_way_behind_a_proxy(start: Starter) -> None:
    """Which client asks would have to be worked out for each request."""
    async with start(trusted_proxies=("127.0.0.1",)) as app:
        await app.post("/topics", {"name": "orders"}, 201)
        _, scope = await learned(app, JSON, BODY)
        assert DirectProduce.of(scope) is None
