"""Who may ask, under which name, from which pages, and how much at once."""

import asyncio
from typing import Any

import pytest

from tests.app.conftest import URL, App, Starter

pytestmark = pytest.mark.anyio

MESSAGES = "/api/v1/topics/orders/messages"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "[::2]:8080"])
async def test_a_name_that_is_not_ours_is_not_answered(running: App, host: str) -> None:
    answer = await running.http.get("/healthz", headers={"Host": host})
    assert answer.status_code == 421
    assert answer.json()["code"] == "host_not_allowed"


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "[::1]:9", "LOCALHOST"])
async def test_loopback_is_answered_under_each_of_its_names(running: App, host: str) -> None:
    answer = await running.http.get("/healthz", headers={"Host": host})
    assert answer.status_code == 200


async def test_an_allowed_host_is_answered(start: Starter) -> None:
    async with start(allowed_hosts=("mq.example.org",)) as app:
        answer = await app.http.get("/healthz", headers={"Host": "mq.example.org:80"})
        assert answer.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": URL},
    ],
)
async def test_a_page_of_another_site_changes_nothing(
    running: App, headers: dict[str, str]
) -> None:
    answer = await running.http.post("/api/v1/topics", json={"name": "a"}, headers=headers)
    assert answer.status_code == 403
    assert answer.json()["code"] == "cross_site"
    assert (await running.get("/topics"))["total"] == 0


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": URL}, {"Origin": URL, "Sec-Fetch-Site": "same-origin"}],
)
async def test_our_own_pages_and_programs_may_change(running: App, headers: dict[str, str]) -> None:
    answer = await running.http.post("/api/v1/topics", json={"name": "a"}, headers=headers)
    assert answer.status_code == 201


async def test_an_allowed_origin_may_change(start: Starter) -> None:
    async with start(allowed_origins=("https://app.example.org",)) as app:
        headers = {"Origin": "https://app.example.org", "Sec-Fetch-Site": "cross-site"}
        answer = await app.http.post("/api/v1/topics", json={"name": "a"}, headers=headers)
        assert answer.status_code == 201


@pytest.mark.parametrize(
    ("path", "default"),
    [("/healthz", "'none'"), ("/nothing", "'none'"), ("/docs/api", "'self'"), ("/", "'self'")],
)
async def test_every_answer_carries_the_security_headers(
    running: App, path: str, default: str
) -> None:
    answer = await running.http.get(path)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith(f"default-src {default};")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


async def test_a_handshake_from_another_site_is_refused(running: App) -> None:
    for headers in ([(b"host", b"evil.example")], [(b"host", b"localhost"), (b"origin", b"null")]):
        sent: list[Any] = []
        scope = {
            "type": "websocket",
            "path": "/ws/v1",
            "raw_path": b"/ws/v1",
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}},
        }
        await running.app(scope, _connect, _collect(sent))
        assert sent[0]["type"] == "websocket.http.response.start"
        assert sent[0]["status"] in (403, 421)


async def _connect() -> dict[str, Any]:
    return {"type": "websocket.connect"}


def _collect(sent: list[Any]) -> Any:
    async def send(message: Any) -> None:
        sent.append(message)

    return send


# -- how much at once ----------------------------------------------------------------------------


async def test_a_request_larger_than_allowed_is_a_413(start: Starter) -> None:
    async with start(request_bytes_max=1000) as app:
        answer = await app.http.post(MESSAGES, content=b"x" * 1001)
        assert answer.status_code == 413
        assert answer.json()["code"] == "body_too_large"
        assert (await app.http.post(MESSAGES, content=b"x" * 1000)).status_code == 201
        assert app.app.services.request_limits.used_bytes == 0


async def test_a_body_of_unknown_length_is_stopped_where_it_grows_too_large(
    start: Starter,
) -> None:
    async def endless() -> Any:
        while True:
            yield b"x" * 500

    async with start(request_bytes_max=1000) as app:
        answer = await app.http.post(MESSAGES, content=endless())
        assert answer.status_code == 413
        assert (
            app.app.services.request_limits.used_bytes,
            app.app.services.request_limits.requests,
        ) == (0, 0)


async def test_a_client_with_too_many_requests_waits_with_a_429(start: Starter) -> None:
    async with start(client_requests_max=1) as app:
        await app.post("/topics", {"name": "orders"}, 201)
        polling = asyncio.create_task(app.receive("g", "orders", wait_ms=30_000))
        await app.until_parked()
        answer = await app.http.get("/api/v1/topics")
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.json()["code"] == "too_many_requests"
        app.app.services.host.drain()
        await polling


async def test_a_full_server_says_503_and_when_to_come_back(start: Starter) -> None:
    async with start(request_bytes_max=1000, inflight_bytes_max=1000) as app:
        others = app.app.services.request_limits.budget.reserve("192.0.2.1", "", lambda: None)
        others.add(1100)  # also what small ones may take beyond it
        answer = await app.http.post(MESSAGES, content=b"x" * 200)
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        others.close()
        assert (await app.http.post(MESSAGES, content=b"x" * 200)).status_code == 201


async def test_more_long_polls_than_may_wait_are_a_503(start: Starter) -> None:
    async with start(long_polls_max=1) as app:
        await app.post("/topics", {"name": "orders"}, 201)
        polling = asyncio.create_task(app.receive("g", "orders", wait_ms=30_000))
        await app.until_parked()
        answer = await app.http.post(
            "/api/v1/groups/g/receive", json={"topic": "orders", "wait_ms": 30_000}
        )
        assert answer.status_code == 503
        assert "retry-after" in answer.headers
        app.app.services.host.drain()
        await polling
