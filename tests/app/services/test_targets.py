"""What the server calls: never itself, never what is near it only, and what of it may be seen."""

import asyncio
import gzip
import ipaddress
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from app.addresses import UNREADABLE, quiet_clients, redacted_text, redacted_url
from app.db.rows import AuditEntry
from app.errors import ProblemError
from app.security.oidc.provider import Metadata, Provider
from app.services.targets import TargetRefused, Targets, create_client
from app.settings import Settings, SettingsError, load
from engine.clock import ManualClock
from tests.app.api.test_transactions import begin, producing, until
from tests.app.conftest import App, Starter

pytestmark = pytest.mark.anyio

OPEN = {"host": "0.0.0.0", "allow_open": True}
SECRET = "Tr0ub4dorTr0ub4dor"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def refused(targets: Targets, address: str, *, host: str = "h", port: int = 9000) -> bool:
    try:
        targets.check(host, port, ipaddress.ip_address(address))
    except TargetRefused:
        return True
    return False


NEAR = [
    "127.0.0.1",
    "127.9.9.9",
    "::1",
    "169.254.169.254",
    "169.254.0.1",
    "fe80::1",
    "fe80::1%lo",
    "fd00:ec2::254",
    "100.100.100.200",
    "0.0.0.0",
    "::",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "240.0.0.1",
    "fec0::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0.0.0.0",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::1",
]


@pytest.mark.parametrize("address", NEAR)
async def test_what_is_near_a_server_on_a_network_is_refused(address: str) -> None:
    assert refused(Targets(Settings(**OPEN)), address)


@pytest.mark.parametrize("address", ["93.184.215.14", "10.1.2.3", "192.168.7.7", "2606:2800::1"])
async def test_other_machines_are_called_private_networks_included(address: str) -> None:
    assert not refused(Targets(Settings(**OPEN)), address)


async def test_every_other_address_of_this_machine_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Probe(socket.socket):
        """A machine whose only address is 10.1.2.3."""

        def connect(self, address: Any) -> None:
            """Nothing is sent."""

        def getsockname(self) -> Any:
            return ("10.1.2.3", 40_000)

    monkeypatch.setattr("app.services.targets.socket.socket", Probe)
    targets = Targets(Settings(**OPEN))
    assert refused(targets, "10.1.2.3")
    assert not refused(targets, "10.1.2.4")


async def test_a_server_on_loopback_only_calls_loopback_but_not_its_own_ports() -> None:
    targets = Targets(Settings(port=8080))
    targets.own_ports.add(8081)
    assert not refused(targets, "127.0.0.1")
    assert not refused(targets, "::1")
    assert refused(targets, "127.0.0.1", port=8080)
    assert refused(targets, "127.0.0.2", port=8081)
    assert refused(targets, "::ffff:127.0.0.1", port=8080)
    assert refused(targets, "169.254.169.254")
    assert refused(Targets(Settings(grpc_listen="0.0.0.0:8081")), "127.0.0.1")


async def test_what_is_allowed_by_the_setting_is_called_but_never_the_server_itself() -> None:
    allow = ("127.0.0.0/8", "hooks.internal", "fe80::1", "169.254.7.7")
    targets = Targets(Settings(**OPEN, port=8080, callback_allow=allow))
    assert not refused(targets, "127.0.0.1")
    assert not refused(targets, "::ffff:127.0.0.1")
    assert not refused(targets, "fe80::1")
    assert not refused(targets, "169.254.7.7")
    assert refused(targets, "169.254.7.8")
    assert not refused(targets, "169.254.7.8", host="Hooks.Internal.")
    assert refused(targets, "127.0.0.1", port=8080)
    assert refused(targets, "224.0.0.1", host="hooks.internal")


@pytest.mark.parametrize("wrong", ["a b", "10.0.0.0/99", "http://hooks", "user@host", "h:80"])
async def test_what_is_neither_name_nor_network_is_no_setting(wrong: str) -> None:
    with pytest.raises(SettingsError, match="callback_allow"):
        load({"callback_allow": wrong}, environ={})


# -- calling ------------------------------------------------------------------------------------


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Let every name resolve to the next of these, the last one for ever; the names asked for."""
    asked: list[str] = []
    left = list(answers)

    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        found = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in found]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
    return asked


async def test_every_address_of_a_name_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, ["10.1.2.3", "169.254.169.254"])
    with pytest.raises(TargetRefused, match="link-local"):
        await Targets(Settings()).resolve("both.example.org", 80)


async def test_the_connection_goes_to_the_address_that_was_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that resolves to something else a moment later is not asked for again."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = create_client(Targets(Settings()), connections_max=2)
    asked = resolving(monkeypatch, ["127.0.0.1"], ["169.254.169.254"])
    answer = await client.post(f"http://rebound.example.org:{port}/x", content=b"1")
    assert answer.status_code == 204
    assert asked == ["rebound.example.org"]
    assert f"Host: rebound.example.org:{port}".encode() in heads[0]
    with pytest.raises(TargetRefused):
        await client.post(f"http://rebound.example.org:{port}/x", content=b"1")
    await client.aclose()
    server.close()


async def test_a_name_with_several_addresses_is_reached_by_the_one_that_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with producing() as producer:
        port = httpx.URL(producer.url).port
        resolving(monkeypatch, ["127.0.0.9", "127.0.0.1"])
        client = create_client(Targets(Settings()), connections_max=2)
        answer = await client.post(f"http://two.example.org:{port}/check", content=b"{}")
        assert answer.status_code == 200
        await client.aclose()


@asynccontextmanager
async def on_network(start: Starter, **changes: Any) -> AsyncIterator[App]:
    async with start(**OPEN, **changes) as app:
        yield app


async def put(app: App, url: str) -> httpx.Response:
    return await app.http.put("/api/v1/transactions/callbacks/g", json={"url": url})


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9000/check",
        "http://localhost:9000/check",
        "http://[::1]:9000/check",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "http://0.0.0.0:8080/",
    ],
)
async def test_a_callback_to_what_is_near_is_not_registered(start: Starter, url: str) -> None:
    async with on_network(start) as app:
        answer = await put(app, url)
        assert answer.status_code == 422
        (error,) = answer.json()["errors"]
        assert error["field"] == "url"
        assert "callback_allow" in answer.text


async def test_a_registered_name_that_leads_inside_is_not_called(
    start: Starter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with producing() as producer, on_network(start) as app:
        url = producer.url.replace("127.0.0.1", "inside.example.org") + f"?token={SECRET}"
        assert (await put(app, url)).status_code == 200
        resolving(monkeypatch, ["127.0.0.1"])
        await begin(app, "a")
        app.advance(6)
        await until(lambda: "is not called" in caplog.text)
        assert producer.asked == []
        assert SECRET not in caplog.text


async def test_an_answer_that_would_unpack_to_more_is_no_answer(
    start: Starter, caplog: pytest.LogCaptureFixture
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = gzip.compress(b" " * 50_000_000)[:4000]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with start() as app:
        port = server.sockets[0].getsockname()[1]
        assert (await put(app, f"http://127.0.0.1:{port}/")).status_code == 200
        await begin(app, "a")
        app.advance(6)
        await until(lambda: "answered no decision" in caplog.text)
    server.close()


# -- secrets ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.org/check", "https://example.org/check"),
        ("https://user:pass@example.org:8443/a", "https://***@example.org:8443/a"),
        ("https://token@example.org/", "https://***@example.org/"),
        (f"https://h/a?key={SECRET}&b=1&flag", "https://h/a?key=***&b=***&***"),
        (f"https://h/services/{SECRET}/x", "https://h/services/***/x"),
        (f"https://h/a#{SECRET}", "https://h/a#***"),
        ("http://[::1]:9000/check", "http://[::1]:9000/check"),
        ("https://[broken", UNREADABLE),
        ("https://h:port/", UNREADABLE),
    ],
)
async def test_an_address_is_shown_without_what_could_be_a_secret(url: str, shown: str) -> None:
    assert redacted_url(url) == shown
    assert SECRET not in redacted_text(f"before {url} after")


async def test_a_secret_in_a_callback_is_shown_and_logged_nowhere(
    start: Starter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with producing() as producer, start() as app:
        producer.status = b"500 Oh"
        url = f"{producer.url}/{SECRET}?token={SECRET}#{SECRET}"
        answers = [await put(app, url)]
        assert answers[0].status_code == 200
        await begin(app, "a")
        app.advance(6)
        await until(lambda: "answered 500" in caplog.text)
        for path in ("/api/v1/transactions/callbacks", "/api/v1/transactions/callbacks/g"):
            answers.append(await app.http.get(path))
        answers.append(await app.http.get("/transactions"))
        answers.append(await app.http.get("/metrics"))
        name = (await app.get("/transactions"))["items"][0]["transaction_id"]
        answers.append(await app.http.get(f"/transactions/{name}"))
        await app.http.delete("/api/v1/transactions/callbacks/g")
        answers.append(await app.http.get("/api/v1/audit?object_kind=transaction_callback"))
        answers.append(await app.http.get("/audit"))
        assert [each.status_code for each in answers] == [200] * len(answers)
        assert [each.url for each in answers if SECRET in each.text] == []
        assert "token=***" in answers[1].text
    assert SECRET not in caplog.text


async def test_a_callback_is_changed_without_typing_its_secret_again(start: Starter) -> None:
    url = f"https://example.org/check?token={SECRET}"
    async with start() as app:
        await put(app, url)
        shown = (await app.get("/transactions/callbacks/g"))["url"]
        body = {"url": shown, "timeout_ms": 77}
        answer = await app.http.put("/api/v1/transactions/callbacks/g", json=body)
        assert answer.json()["timeout_ms"] == 77
        kept = app.app.services.host.broker.transactions.callbacks.get("g")
        assert (kept.url, kept.timeout_ms) == (url, 77)
        other = await put(app, shown.replace("example.org", "evil.example"))
        assert other.status_code == 422, "the secret goes to no other host"
        assert "***" in other.json()["detail"]


async def test_entries_of_an_earlier_version_show_no_secret(start: Starter) -> None:
    async with start() as app:
        entry = AuditEntry(
            at_ms=1,
            actor="a",
            action="transaction_callback.set",
            object_kind="transaction_callback",
            object_name="g",
            before_json="",
            after_json=f'["g","https://example.org/c?token={SECRET}",5000]',
            result="done",
            request_id="r",
        )
        await app.app.services.database.run(lambda database: database.audit.insert(entry))
        answer = await app.http.get("/api/v1/audit?object_kind=transaction_callback")
        assert "token=***" in answer.text
        assert SECRET not in answer.text


async def test_the_clients_library_writes_no_address_into_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    quiet_clients()
    for name in ("httpx", "httpcore.connection", "httpcore.http11"):
        logging.getLogger(name).info("HTTP Request: POST %s", SECRET)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("inside", ["https://127.0.0.1/t", "https://169.254.169.254/t"])
async def test_a_provider_elsewhere_cannot_lead_the_server_to_itself(inside: str) -> None:
    settings = Settings(oidc_issuer="https://idp.example.org")
    metadata = Metadata(
        issuer="https://idp.example.org",
        authorization_endpoint="https://idp.example.org/a",
        token_endpoint=inside,
        jwks_uri="https://idp.example.org/k",
    )
    with pytest.raises(ProblemError):
        Provider(settings, ManualClock())._check_addresses(metadata)
