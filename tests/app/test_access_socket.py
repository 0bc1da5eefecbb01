"""The WebSocket door of a server with users: a token at the handshake, rights at each frame."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from app.api import socket_session
from app.security import passwords
from tests.live import LiveServer

PASSWORD = "correct horse"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveServer]:
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_hasher", lambda: cheap)
    monkeypatch.setattr(socket_session, "RIGHTS_EVERY_S", 0.05)
    server = LiveServer(tmp_path / "data", admin_password=PASSWORD)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def admin(server: LiveServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers={"origin": server.url}) as client:
        form = {"name": "admin", "password": PASSWORD, "next": "/"}
        assert client.post("/login", data=form).status_code == 303
        yield client


def token_of(admin: httpx.Client, *patterns: str) -> dict[str, Any]:
    new = {"name": "t", "role": "operator", "patterns": list(patterns)}
    made = admin.post("/api/v1/tokens", json=new)
    assert made.status_code == 201, made.text
    answer: dict[str, Any] = made.json()
    return answer


def ask(socket: ClientConnection, **frame: object) -> dict[str, Any]:
    socket.send(json.dumps(frame))
    answer: dict[str, Any] = json.loads(socket.recv(timeout=10))
    return answer


def test_without_a_token_the_handshake_is_refused(server: LiveServer) -> None:
    with pytest.raises(InvalidStatus) as refused, connect(server.socket_url):
        pass
    assert refused.value.response.status_code == 401


def test_each_frame_needs_its_right_also_a_call(server: LiveServer, admin: httpx.Client) -> None:
    token = token_of(admin, "produce:topic:orders")["token"]
    offered = [Subprotocol("kitemq.v1"), Subprotocol(f"kitemq.token.{token}")]
    with connect(server.socket_url, subprotocols=offered) as socket:
        assert socket.subprotocol == "kitemq.v1"
        body = {"messages": [{"body": "x"}]}
        sent = ask(socket, op="send", id=1, topic="orders", **body)
        assert sent["op"] == "sent", sent
        refused = ask(socket, op="send", id=2, topic="payments", **body)
        assert (refused["op"], refused["code"]) == ("error", "right_missing")
        wanted = ask(socket, op="subscribe", id=3, group="g", topics={"orders": "*"}, credit=1)
        assert wanted["code"] == "right_missing"
        called = ask(socket, op="call", id=4, method="GET", path="/api/v1/me")
        assert called["status"] == 200, called
        called = ask(socket, op="call", id=5, method="DELETE", path="/api/v1/topics/orders")
        assert called["status"] == 403, called


def test_a_connection_ends_soon_after_its_token(server: LiveServer, admin: httpx.Client) -> None:
    made = token_of(admin, "*:*:*")
    headers = {"Authorization": f"Bearer {made['token']}"}
    with connect(server.socket_url, additional_headers=headers) as socket:
        assert admin.delete(f"/api/v1/tokens/{made['id']}").status_code == 204
        assert b"connection_closed" in bytes(socket.recv(timeout=10))
        with pytest.raises(ConnectionClosed) as ended:
            socket.recv(timeout=10)
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 4003
