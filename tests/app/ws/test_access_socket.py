"""The WebSocket endpoint of a server with users: a token at the handshake, rights at each frame."""

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

from app.security import passwords
from app.ws import connection as socket_connection
from tests.live import LiveServer

pytestmark = pytest.mark.makers

PASSWORD = "correct horse"


@pytest.fixture
def server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maker_name: str
) -> Iterator[LiveServer]:
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_hasher", lambda: cheap)
    monkeypatch.setattr(socket_connection, "RIGHTS_EVERY_S", 0.05)
    server = LiveServer(tmp_path / "data", maker_name, admin_password=PASSWORD)
    server.start()
    yield server
    server.close()


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


@pytest.fixture
def open_server(tmp_path: Path) -> Iterator[LiveServer]:
    server = LiveServer(tmp_path / "data")
    server.start()
    yield server
    server.stop()


def freeze(server: LiveServer) -> None:
    body = {"read_only": True, "reason": "a move"}
    assert httpx.put(f"{server.url}/api/v1/read-only", json=body).status_code == 200


def test_a_frozen_server_takes_no_decision_over_an_open_connection(
    open_server: LiveServer,
) -> None:
    half = {"body": "x", "transaction_group": "g"}
    path = f"{open_server.url}/api/v1"
    sent = httpx.post(f"{path}/topics/orders/messages", json=half).json()
    name = sent["messages"][0]["message_id"]
    with connect(open_server.socket_url) as socket:
        freeze(open_server)
        refused = ask(socket, op="decide", id=1, transaction_id=name, decision="commit")
    assert (refused["op"], refused["code"]) == ("error", "read_only")
    assert httpx.get(f"{path}/transactions/{name}").json()["state"] == "pending"


def test_a_subscription_hands_out_nothing_more_once_the_server_is_frozen(
    open_server: LiveServer,
) -> None:
    with connect(open_server.socket_url) as socket:
        messages = [{"body": "a"}, {"body": "b"}]
        ask(socket, op="send", id=1, topic="orders", messages=messages)
        subscribe = {"group": "g", "topics": {"orders": "*"}, "credit": 1}
        ask(socket, op="subscribe", id=2, **subscribe)
        (first,) = json.loads(socket.recv(timeout=10))["messages"]
        freeze(open_server)
        ended = ask(socket, op="credit", subscription=2, count=1)
        assert (ended["op"], ended["id"], ended["code"]) == ("error", 2, "read_only")
        thaw = {"read_only": False}
        httpx.put(f"{open_server.url}/api/v1/read-only", json=thaw)
        assert ask(socket, op="subscribe", id=3, **subscribe)["op"] == "subscribed"
        (second,) = json.loads(socket.recv(timeout=10))["messages"]
        assert {first["body"], second["body"]} == {"a", "b"}


def test_a_subscription_ends_with_the_right_that_it_needs(
    server: LiveServer, admin: httpx.Client
) -> None:
    new = {"name": "otto", "password": PASSWORD, "role": "operator", "patterns": ["*:*:*"]}
    assert admin.post("/api/v1/users", json=new).status_code == 201
    with httpx.Client(base_url=server.url, headers={"origin": server.url}) as otto:
        form = {"name": "otto", "password": PASSWORD, "next": "/"}
        assert otto.post("/login", data=form).status_code == 303
        token = token_of(otto, "*:*:*")["token"]
    headers = {"Authorization": f"Bearer {token}"}
    with connect(server.socket_url, additional_headers=headers) as socket:
        messages = [{"body": "a"}, {"body": "b"}]
        ask(socket, op="send", id=1, topic="orders", messages=messages)
        ask(socket, op="subscribe", id=2, group="g", topics={"orders": "*"}, credit=1)
        assert json.loads(socket.recv(timeout=10))["op"] == "deliver"
        less = {"patterns": ["*:topic:orders"]}
        assert admin.patch("/api/v1/users/otto", json=less).status_code == 200
        ended = ask(socket, op="credit", subscription=2, count=1)
        assert (ended["op"], ended["id"], ended["code"]) == ("error", 2, "right_missing")
