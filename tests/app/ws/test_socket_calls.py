"""Operations of the REST interface over the WebSocket, against a real server."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from app.api.catalog import OPERATIONS
from app.api.framework.operation import API
from app.ws import calls as socket_calls
from app.ws.limits import SocketLimits
from kitemq.protocol.calls import AnswerFrame, CallFrame
from kitemq.protocol.frames import ErrorFrame, Frame, UnsubscribeFrame, encode
from kitemq.protocol.stream import SERVER_FRAMES, iter_frames
from tests.live import LiveServer
from tests.patience import until

pytestmark = [pytest.mark.anyio, pytest.mark.makers]

WAIT_S = 30.0
JSON = "application/json"


class Peer:
    """Speaks frames; answers come in any order, so they are kept by request number."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._heard: dict[int, Frame] = {}

    def say(self, request: int, frame: Frame) -> None:
        self.socket.send(encode(request, frame))

    def hear(self, request: int) -> Any:
        deadline_s = time.monotonic() + WAIT_S
        while request not in self._heard:
            data = self.socket.recv(max(0.0, deadline_s - time.monotonic()))
            assert isinstance(data, bytes)
            self._heard.update(iter_frames(data, SERVER_FRAMES))  # type: ignore[arg-type]
        return self._heard.pop(request)

    def call(self, method: str, path: str, body: object = None, request: int = 1) -> Any:
        """Status and document of an operation below /api/v1."""
        if body is None:
            self.say(request, CallFrame(method, API + path))
        else:
            self.say(request, CallFrame(method, API + path, JSON, json.dumps(body).encode()))
        answer = self.hear(request)
        assert isinstance(answer, AnswerFrame), answer
        return answer.status, json.loads(answer.body) if answer.body else None


@pytest.fixture
def server(tmp_path: Path, maker_name: str) -> Iterator[LiveServer]:
    with LiveServer(tmp_path / "data", maker_name) as live:
        yield live


@pytest.fixture
def meet(server: LiveServer) -> Iterator[Callable[..., Peer]]:
    with contextlib.ExitStack() as stack:

        def connected(**settings: Any) -> Peer:
            return Peer(stack.enter_context(opened(server, **settings)))

        yield connected


def opened(server: LiveServer, **settings: Any) -> ClientConnection:
    return connect(server.socket_url, max_size=None, compression=None, close_timeout=1, **settings)


def waiting(server: LiveServer) -> int:
    assert server.app is not None
    host = server.app.services.host
    return int(server.call(lambda: host.waiting_count))


def under_way(server: LiveServer) -> int:
    assert server.app is not None
    load = server.app.services.request_limits
    return int(server.call(lambda: load.requests))


def test_operations_answer_as_over_http(meet: Callable[..., Peer]) -> None:
    peer = meet()
    status, topic = peer.call("POST", "/topics", {"name": "orders"})
    assert (status, topic["name"]) == (201, "orders")
    assert peer.call("GET", "/topics/orders")[1]["name"] == "orders"
    assert peer.call("POST", "/groups", {"name": "billing", "retry_max": 5})[0] == 201
    assert peer.call("GET", "/groups?q=bill&limit=5")[1]["total"] == 1
    sent = peer.call("POST", "/topics/orders/messages", {"body": "1"})[1]
    assert peer.call("GET", f"/messages/{sent['messages'][0]['message_id']}")[0] == 200
    assert peer.call("DELETE", "/groups/billing") == (204, None)
    peer.say(2, CallFrame("GET", "/healthz"))
    assert peer.hear(2).status == 200


def test_names_are_escaped_as_in_an_address(meet: Callable[..., Peer]) -> None:
    peer = meet()
    assert peer.call("POST", "/groups", {"name": "a|b"})[0] == 201
    assert peer.call("GET", "/groups/a%7Cb")[1]["name"] == "a|b"


def test_a_refusal_is_the_problem_of_http(meet: Callable[..., Peer]) -> None:
    peer = meet()
    status, problem = peer.call("GET", "/topics/none")
    assert (status, problem["code"]) == (404, "topic_not_found")
    assert peer.call("POST", "/topics", {"nme": "x"})[0] == 422
    assert peer.call("GET", "/nothing")[0] == 404
    assert peer.call("PATCH", "/topics")[0] == 405
    peer.say(3, CallFrame("POST", f"{API}/topics", "text/plain", b"{}"))
    assert peer.hear(3).status == 415


def test_a_change_is_audited_under_the_connections_address(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    peer = meet()
    peer.call("POST", "/topics", {"name": "orders"})
    assert server.app is not None
    assert server.loop is not None
    listing = server.app.services.audit.entries(limit=1)
    (entry,) = asyncio.run_coroutine_threadsafe(listing, server.loop).result(WAIT_S)
    host, port = peer.socket.local_address[:2]
    assert (entry.action, entry.actor) == ("topic.create", f"anonymous@{host}:{port}")


@pytest.mark.parametrize("body", [b"", b"{}"])
async def test_a_call_carries_the_handshakes_headers_but_those_of_the_connection(
    body: bytes,
) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    kept = [(b"host", b"h"), (b"authorization", b"Bearer x"), (b"cookie", b"a=b")]
    others = [(b"upgrade", b"websocket"), (b"sec-websocket-key", b"k"), (b"content-length", b"9")]
    scope = {"type": "websocket", "scheme": "wss", "headers": kept + others, "app": app,
             "client": ("10.0.0.1", 5), "server": ("10.0.0.2", 80)}  # fmt: skip
    answers: list[AnswerFrame] = []
    calls = calls_of(app, answers, scope)
    calls.begin(1, CallFrame("GET", f"{API}/topics/a%2Fb?c=d%20e", "x/y" if body else "", body),
                is_text=False)  # fmt: skip
    while not answers:
        await asyncio.sleep(0)
    (inner,) = seen
    sizes = [(b"content-type", b"x/y"), (b"content-length", b"2")] if body else []
    assert inner["headers"] == kept + sizes
    assert (inner["scheme"], inner["client"]) == ("https", ("10.0.0.1", 5))
    assert (inner["path"], inner["query_string"]) == (f"{API}/topics/a/b", b"c=d%20e")


def calls_of(app: Any, answers: list[AnswerFrame], scope: Any = None) -> socket_calls.Calls:
    scope = scope or {"type": "websocket", "headers": [], "app": app}
    return socket_calls.Calls(
        scope,
        SocketLimits(),
        on_answer=lambda _request, answer, _is_text: answers.append(answer),
        on_done=lambda _size_bytes: None,
        has_room=lambda: True,
    )


async def test_a_call_is_told_that_its_connection_has_gone_and_ends_by_itself() -> None:
    heard: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        heard.append("body")
        heard.append((await receive())["type"])

    answers: list[AnswerFrame] = []
    calls = calls_of(app, answers)
    calls.begin(1, CallFrame("GET", f"{API}/topics"), is_text=False)
    while not heard:
        await asyncio.sleep(0)
    await calls.close()
    assert heard == ["body", "http.disconnect"]
    assert answers == []


async def test_a_call_that_does_not_heed_the_end_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket_calls, "CLOSE_TIMEOUT_S", 0.01)
    ended: list[str] = []
    begun = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    calls = calls_of(app, [])
    calls.begin(1, CallFrame("GET", f"{API}/topics"), is_text=False)
    await begun.wait()
    await calls.close()
    await asyncio.sleep(0)
    assert ended == ["cancelled"]


@pytest.mark.parametrize("kind", [b"text/event-stream", b"text/plain"])
async def test_a_stream_that_never_ends_is_cut_off_with_a_problem(kind: bytes) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", kind)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while True:
            await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": b"x" * 100, "more_body": True})

    answer = await socket_calls.ask(app, {}, b"", asyncio.Event(), answer_bytes_max=1000)
    assert answer is not None
    assert answer.status == (406 if kind == b"text/event-stream" else 413)


async def test_an_application_that_fails_answers_500(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("secret")

    scope = {"method": "GET", "path": "/"}
    answer = await socket_calls.ask(app, scope, b"", asyncio.Event(), answer_bytes_max=1000)
    assert answer is not None
    assert (answer.status, b"secret" in answer.body) == (500, False)
    assert "secret" in caplog.text


@pytest.mark.parametrize(
    "frame",
    [
        CallFrame("GET", "/ws/v1"),
        CallFrame("GET", "/topics"),
        CallFrame("GET", "api/v1/topics"),
        CallFrame("GET", f"{API}/a b"),
        CallFrame("GET", f"{API}/\u00e9"),
        CallFrame("get", f"{API}/topics"),
        CallFrame("G T", f"{API}/topics"),
        CallFrame("", f"{API}/topics"),
        CallFrame("GET", f"{API}/" + "x" * 9000),
        CallFrame("POST", f"{API}/topics", "a\r\nb: c", b"{}"),
    ],
)
def test_what_is_no_request_of_the_interface_is_an_error(
    meet: Callable[..., Peer], frame: CallFrame
) -> None:
    peer = meet()
    peer.say(1, frame)
    error = peer.hear(1)
    assert isinstance(error, ErrorFrame)
    assert error.code == "invalid"
    assert error.remedy


def test_every_operation_of_the_interface_can_be_called() -> None:
    for item in OPERATIONS:
        assert item.path.startswith(f"{API}/") or item.path in socket_calls.PLAIN_PATHS


def test_a_long_poll_does_not_hold_up_other_frames(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    peer = meet()
    peer.call("POST", "/topics", {"name": "orders"})
    wanted = {"topic": "orders", "wait_ms": 30_000}
    peer.say(7, CallFrame("POST", f"{API}/groups/g/receive", JSON, json.dumps(wanted).encode()))
    until(lambda: waiting(server) == 1)
    assert peer.call("GET", "/topics/orders", request=8)[0] == 200
    peer.say(9, UnsubscribeFrame(1))
    peer.hear(9)
    peer.call("POST", "/topics/orders/messages", {"body": "now"}, request=10)
    assert json.loads(peer.hear(7).body)["deliveries"][0]["body"] == "now"


def test_a_long_poll_ends_when_its_connection_closes(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    peer, other = meet(), meet()
    peer.call("POST", "/topics", {"name": "orders"})
    wanted = json.dumps({"topic": "orders", "wait_ms": 30_000}).encode()
    for request in range(3):
        peer.say(request, CallFrame("POST", f"{API}/groups/g/receive", JSON, wanted))
    until(lambda: waiting(server) == 3)
    peer.socket.socket.close()
    until(lambda: waiting(server) == 0)
    until(lambda: under_way(server) == 1)  # the other connection
    other.call("POST", "/topics/orders/messages", {"body": "1"})
    _, got = other.call("POST", "/groups/g/receive", {"topic": "orders"})
    assert got["deliveries"][0]["attempt"] == 1  # nobody took it before


def test_calls_under_way_are_bounded(server: LiveServer, meet: Callable[..., Peer]) -> None:
    peer = meet()
    peer.call("POST", "/topics", {"name": "orders"})
    wanted = json.dumps({"topic": "orders", "wait_ms": 30_000}).encode()
    limit = SocketLimits().calls_max
    for request in range(limit + 1):
        peer.say(request, CallFrame("POST", f"{API}/groups/g/receive", JSON, wanted))
    error = peer.hear(limit)
    assert isinstance(error, ErrorFrame)
    assert (error.code, error.retry_after_ms > 0) == ("busy", True)
    until(lambda: waiting(server) == limit)


def test_an_answer_that_fits_into_no_frame_is_a_problem(tmp_path: Path) -> None:
    with (
        LiveServer(tmp_path / "data", request_bytes_max=64 * 1024) as live,
        opened(live) as socket,
    ):
        peer = Peer(socket)
        for _ in range(3):
            message = {"body": "x" * 30_000, "queue": 0}
            assert peer.call("POST", "/topics/orders/messages", message)[0] == 201
        status, problem = peer.call("GET", "/topics/orders/messages?limit=10")
        assert (status, problem["code"]) == (413, "answer_too_large")
        assert peer.call("GET", "/topics/orders/messages?limit=1")[0] == 200


def test_who_does_not_take_answers_makes_calls_wait(
    server: LiveServer, meet: Callable[..., Peer]
) -> None:
    peer = meet(max_queue=1)
    for _ in range(4):
        peer.call("POST", "/topics/orders/messages", {"body": "x" * 2**20, "queue": 0})
    for request in range(40):
        path = f"{API}/topics/orders/messages?offset={request % 4}&limit=1"
        peer.say(request, CallFrame("GET", path))
    for request in range(40):
        assert peer.hear(request).status == 200


def test_a_request_and_its_reply_travel_over_connections(meet: Callable[..., Peer]) -> None:
    asker, answerer = meet(), meet()
    asker.call("POST", "/topics", {"name": "prices"})
    wanted = {"message": {"body": "tea"}, "timeout_ms": 20_000}
    path = f"{API}/topics/prices/request"
    asker.say(7, CallFrame("POST", path, JSON, json.dumps(wanted).encode()))
    poll = {"topic": "prices", "wait_ms": 10_000}
    _, received = answerer.call("POST", "/groups/shop/receive", poll)
    (request,) = received["deliveries"]
    reply = {"receipt": request["receipt"], "body": "3.50"}
    assert answerer.call("POST", "/replies", reply)[1]["result"] == "delivered"
    assert json.loads(asker.hear(7).body)["reply"]["body"] == "3.50"
    wanted["timeout_ms"] = 1
    assert asker.call("POST", "/topics/prices/request", wanted)[1]["code"] == "timeout"


def test_a_text_client_calls_too(meet: Callable[..., Peer]) -> None:
    peer = meet()
    ask = {"op": "call", "id": 4, "method": "POST", "path": f"{API}/topics", "json": {"name": "a"}}
    peer.socket.send(json.dumps(ask))
    answer = json.loads(peer.socket.recv(WAIT_S))
    assert (answer["op"], answer["id"], answer["status"]) == ("answer", 4, 201)
    assert answer["json"]["name"] == "a"


def test_a_stop_of_the_server_ends_calls(server: LiveServer, meet: Callable[..., Peer]) -> None:
    peer = meet()
    peer.call("POST", "/topics", {"name": "orders"})
    wanted = json.dumps({"topic": "orders", "wait_ms": 30_000}).encode()
    peer.say(2, CallFrame("POST", f"{API}/groups/g/receive", JSON, wanted))
    until(lambda: waiting(server) == 1)
    begun_s = time.monotonic()
    server.stop()
    assert time.monotonic() - begun_s < 10
