"""What a started server has loaded: what messages and probes need, the rest with its first request.

A server of its own process, as this one has loaded everything long before.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.deferred import Deferred

ANSWER: Message = {"type": "http.response.start", "status": 204}
# The libraries and parts that only pages, administration, the database or gRPC calls need.
DEFERRED = (
    "alembic", "app.api.catalog", "app.db.database", "app.grpc.server", "app.routes",
    "app.ui.routes", "authlib", "babel", "cryptography", "fastapi", "fastavro", "grpc", "jinja2",
    "joserfc", "markdown_it", "opentelemetry", "pydantic", "sqlalchemy",
)  # fmt: skip

# Runs a server with all ports; prints the modules that it has when it is ready, and after each
# of the calls that machines make, and after a page.
SERVER = """
import asyncio, json, signal, sys
from app import serve
from app.db import worker

worker.WARM_UP_S = 600.0  # the database is opened by itself soon after the start
CALLS = ["GET /readyz", "GET /healthz", "GET /metrics", "POST /api/v1/topics/t/messages",
         "POST /api/v1/groups/g/receive", "GET /ws/v1", "GET /help"]
BODIES = {"messages": '{"messages": [{"body": "x"}]}', "receive": '{"topic": "t"}'}

async def call(server, words):
    port = server._listener.getsockname()[1]
    method, path = words.split()
    body = BODIES.get(path.rpartition("/")[2], "")
    head = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
    if path.startswith("/ws"):
        head += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    else:
        head += ["Connection: close", "Accept: */*"]
    if body:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(("\\r\\n".join(head) + "\\r\\n\\r\\n" + body).encode())
    status = (await reader.readline()).split()[1].decode()
    writer.close()
    return status

async def ask(server):
    state = [("ready", "", sorted(sys.modules))]
    try:
        for words in CALLS:
            state.append((words, await call(server, words), sorted(sys.modules)))
    finally:
        print(json.dumps(state), flush=True)
        signal.raise_signal(signal.SIGTERM)

class Server(serve.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        self.asking = asyncio.create_task(ask(self))

serve.Server = Server
sys.exit(serve.main(sys.argv[1:]))
"""


def test_a_started_server_has_loaded_only_what_messages_and_probes_need(tmp_path: Path) -> None:
    options = {
        "data": tmp_path / "data",
        "port": 0,
        "grpc-listen": "127.0.0.1:0",
        "remoting-listen": "127.0.0.1:0",
        "log-level": "warning",
    }
    words = [f"--{name}={value}" for name, value in options.items()]
    result = subprocess.run(
        [sys.executable, "-c", SERVER, *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    steps = json.loads(result.stdout)
    *before, (page, status, after) = steps

    assert [status for _, status, _ in before] == ["", "200", "200", "200", "201", "200", "101"]
    for step, _, modules in before:
        loaded = {name for name in DEFERRED if name in modules}
        assert not loaded, f"{step}: {sorted(loaded)}"
    assert (page, status) == ("GET /help", "200")
    assert {"app.routes", "fastapi", "jinja2"} <= set(after)


def test_requests_that_come_while_the_routes_are_loaded_wait_for_one_loading() -> None:
    loads = []

    def load() -> ASGIApp:
        loads.append(1)
        return _answer

    async def story() -> list[list[Message]]:
        app = Deferred(load)
        first, *others = [asyncio.create_task(_request(app)) for _ in range(5)]
        await asyncio.sleep(0)
        first.cancel()
        return await asyncio.gather(*others)

    assert asyncio.run(story()) == [[ANSWER]] * 4
    assert len(loads) == 1


def test_the_next_request_tries_again_where_loading_failed() -> None:
    errors = [OSError(24, "Too many open files")]

    def load() -> ASGIApp:
        if errors:
            raise errors.pop()
        return _answer

    async def story() -> list[Message]:
        app = Deferred(load)
        with pytest.raises(OSError, match="Too many"):
            await _request(app)
        return await _request(app)

    assert asyncio.run(story()) == [ANSWER]


async def _request(app: Deferred) -> list[Message]:
    async def receive() -> Message:
        return {"type": "http.request"}

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await app({"type": "http"}, receive, send)
    return sent


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    await send(ANSWER)
