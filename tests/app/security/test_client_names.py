"""Whose a client's name is: nobody else's, at any endpoint, for as long as its holder is there."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from argon2 import PasswordHasher
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from app.security import passwords
from tests.app.ws.test_access_socket import PASSWORD, ask
from tests.live import LiveServer
from tests.patience import until


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveServer]:
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_hasher", lambda: cheap)
    server = LiveServer(tmp_path / "data", admin_password=PASSWORD)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def admin(server: LiveServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{server.url}/api/v1", headers={"origin": server.url}) as client:
        form = {"name": "admin", "password": PASSWORD, "next": "/"}
        assert client.post(f"{server.url}/login", data=form).status_code == 303
        for name, role in (("otto", "operator"), ("petra", "operator"), ("vera", "viewer")):
            new = {"name": name, "password": PASSWORD, "role": role}
            assert client.post("/users", json=new).status_code == 201
        assert client.post("/groups", json={"name": "g"}).status_code == 201
        yield client


def token_of(admin: httpx.Client, owner: str, name: str = "t") -> dict[str, str]:
    made = admin.post("/tokens", json={"name": name, "owner": owner})
    assert made.status_code == 201, made.text
    return {"Authorization": f"Bearer {made.json()['token']}"}


@contextmanager
def opened(server: LiveServer, headers: dict[str, str]) -> Iterator[ClientConnection]:
    with connect(server.socket_url, additional_headers=headers) as socket:
        yield socket


def hello(socket: ClientConnection, client: str) -> dict[str, str]:
    answer: dict[str, str] = ask(socket, op="hello", id=1, client=client, version=1)
    return answer


def is_alive(socket: ClientConnection) -> bool:
    return bool(ask(socket, op="call", id=9, method="GET", path="/api/v1/me")["status"] == 200)


@pytest.mark.parametrize("stranger", ["vera", "petra"])
def test_a_name_in_use_is_refused_to_another_user(
    server: LiveServer, admin: httpx.Client, stranger: str
) -> None:
    with (
        opened(server, token_of(admin, "otto")) as holder,
        opened(server, token_of(admin, stranger)) as other,
    ):
        assert hello(holder, "w1")["op"] == "welcome"
        refused = hello(other, "w1")
        assert (refused["op"], refused["code"]) == ("error", "client_name_taken")
        assert refused["field"] == "client"
        assert is_alive(holder), "the holder was ended"
        assert hello(other, "w2")["op"] == "welcome", "the connection goes on under another name"


def test_a_name_in_use_is_refused_to_another_token_of_the_same_user(
    server: LiveServer, admin: httpx.Client
) -> None:
    with (
        opened(server, token_of(admin, "otto", "consumer")) as holder,
        opened(server, token_of(admin, "otto", "producer")) as other,
    ):
        hello(holder, "w1")
        assert hello(other, "w1")["code"] == "client_name_taken"
        assert is_alive(holder)


def test_the_same_token_takes_its_name_over_from_its_old_connection(
    server: LiveServer, admin: httpx.Client
) -> None:
    token = token_of(admin, "otto")
    with opened(server, token) as old, opened(server, token) as new:
        hello(old, "w1")
        assert hello(new, "w1")["op"] == "welcome"
        assert b"connection_closed" in bytes(old.recv(timeout=10))
        with pytest.raises(ConnectionClosed) as ended:
            old.recv(timeout=10)
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 4001
        assert is_alive(new)


def test_a_name_is_free_once_its_holder_is_gone(server: LiveServer, admin: httpx.Client) -> None:
    with opened(server, token_of(admin, "otto")) as holder:
        hello(holder, "w1")
    with opened(server, token_of(admin, "petra")) as other:
        until(lambda: hello(other, "w1")["op"] == "welcome")


def test_a_members_name_is_refused_to_others_over_rest(
    server: LiveServer, admin: httpx.Client
) -> None:
    """Whoever speaks for a member ends its memberships, locks and place in a broadcast."""
    admin.post("/topics", json={"name": "t"})
    other = token_of(admin, "petra")
    queues = {"client": "w1", "queues": [{"topic": "t", "queue": 0}]}
    group = f"{server.url}/api/v1/groups/g"
    asked = [
        ("POST", "/members/heartbeat", {"client": "w1", "topics": {"t": "*"}}),
        ("POST", "/locks", queues),
        ("POST", "/unlocks", queues),
        ("POST", "/receive", {"topic": "t", "client": "w1"}),
        ("POST", "/nack", {"nacks": [{"receipt": "t:0:0:1"}], "client": "w1"}),
        ("POST", "/ack", {"receipts": ["t:0:0:1"], "client": "w1"}),
        ("POST", "/release", {"receipts": ["t:0:0:1"], "client": "w1"}),
        ("POST", "/extend", {"receipts": ["t:0:0:1"], "invisible_ms": 1000, "client": "w1"}),
        ("PUT", "/offsets", {"topic": "t", "queue": 0, "offset": "0", "client": "w1"}),
        ("DELETE", "/members?client=w1", None),
    ]
    with opened(server, token_of(admin, "otto")) as holder:
        hello(holder, "w1")
        subscribed = ask(holder, op="subscribe", id=2, group="g", topics={"t": "*"}, credit=1)
        assert subscribed["op"] == "subscribed", subscribed
        for method, path, body in asked:
            answer = httpx.request(method, f"{group}{path}", json=body, headers=other)
            assert answer.status_code == 403, f"{path}: {answer.text}"
            assert answer.json()["code"] == "client_name_taken", f"{path}: {answer.text}"
        members = admin.get("/groups/g/members").json()["items"]
        assert [each["client"] for each in members] == ["w1"]


def test_a_member_that_only_makes_requests_holds_its_name_while_it_is_alive(
    server: LiveServer, admin: httpx.Client
) -> None:
    admin.post("/topics", json={"name": "t"})
    mine, other = token_of(admin, "otto"), token_of(admin, "petra")
    path = f"{server.url}/api/v1/groups/g/members"
    beat = {"client": "w1", "topics": {"t": "*"}}
    assert httpx.post(f"{path}/heartbeat", json=beat, headers=mine).status_code == 200
    refused = httpx.delete(f"{path}?client=w1", headers=other)
    assert (refused.status_code, refused.json()["code"]) == (403, "client_name_taken")
    with opened(server, other) as socket:
        hello(socket, "w1")
        wanted = ask(socket, op="subscribe", id=2, group="g", topics={"t": "*"}, credit=1)
        assert wanted["code"] == "client_name_taken", json.dumps(wanted)
    assert httpx.delete(f"{path}?client=w1", headers=mine).status_code == 204
    assert httpx.post(f"{path}/heartbeat", json=beat, headers=other).status_code == 200
