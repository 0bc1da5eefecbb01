"""The port itself: plain text and TLS by the first byte, who may come in, limits, its end."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any, Protocol

import grpc.aio
import httpx
import pytest

from app.grpc.certificate import CERTIFICATE_FILE, KEY_FILE, ensure_own, own_certificate
from app.grpc.port import GrpcPort
from app.grpc.server import GrpcServer
from app.grpc.signature import sign
from app.grpc_settings import listen_at
from app.main import create_app
from app.security.access_keys import AccessKeys, access_key_of
from app.settings import Settings, SettingsError, load
from protocol.rocketmq.numbers import Code
from tests.grpc.endpoint import OPTIONS, Running, Stub, listening, monitor_of, served

pytestmark = pytest.mark.anyio
PASSWORD = "correct horse"
DATE = "20261120T181908Z"


class Administered(Protocol):
    """A running server that tests administer over HTTP."""

    @property
    def http(self) -> httpx.AsyncClient: ...


async def logged_in(running: Administered, name: str = "admin") -> httpx.AsyncClient:
    """The HTTP client as the admin."""
    form = {"name": name, "password": PASSWORD}
    headers = {"Origin": "http://127.0.0.1:8080"}
    answer = await running.http.post("/login", data=form, headers=headers)
    assert answer.status_code == 303, answer.text
    running.http.headers.update(headers)
    return running.http


async def key_for(
    running: Administered, role: str, *patterns: str, name: str = "admin"
) -> dict[str, str]:
    """A token of the admin's with a smaller role, as access key and secret."""
    http = await logged_in(running, name)
    body = {"name": f"{role}-key", "role": role, "patterns": patterns}
    answer = await http.post("/api/v1/tokens", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, str] = answer.json()
    return made


async def end_of(reader: asyncio.StreamReader) -> bytes:
    """What came before the other side closed; it may close with what we wrote unread."""
    async with asyncio.timeout(30):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


def signed(running: Running, made: dict[str, str], **changes: str) -> Stub:
    secret = changes.get("secret", made["secret_key"])
    signature = sign(secret, DATE)
    if changes.get("upper"):
        signature = signature.upper()
    header = (
        f"MQv2-HMAC-SHA1 Credential={changes.get('access', made['access_key'])}, "
        f"SignedHeaders=x-mq-date-time, Signature={signature}"
    )
    return Stub(running.stub.channel, authorization=header, x_mq_date_time=DATE)


async def test_one_port_serves_plain_text_and_tls(open_endpoint: Any, tmp_path: Path) -> None:
    async with open_endpoint(grpc_tls=True) as running:
        assert (await running.stub.send("orders", b"plain")).status.code == Code.OK
        certificate = (tmp_path / "data" / CERTIFICATE_FILE).read_bytes()
        credentials = grpc.ssl_channel_credentials(certificate)
        address = running.port.address
        async with grpc.aio.secure_channel(address, credentials, options=OPTIONS) as channel:
            stub = Stub(channel, "tls")
            assert (await stub.send("orders", b"tls", number=1)).status.code == Code.OK
            got = await stub.receive("g", "orders")
        assert sorted(message.body for message in got) == [b"plain", b"tls"]
        assert {
            client.address.rpartition(":")[0]
            for client in running.grpc_server.backend.clients.all()
        } == {"127.0.0.1"}
        large = b"x" * 3_000_000  # more than any buffer on the way
        async with grpc.aio.secure_channel(address, credentials, options=OPTIONS) as channel:
            stub = Stub(channel, "tls")
            assert (await stub.send("large", large, number=2)).status.code == Code.OK
            (back,) = await stub.receive("g", "large")
        assert back.body == large


async def test_the_self_signed_certificate_stays_and_is_kept_from_others(tmp_path: Path) -> None:
    paths = ensure_own(tmp_path, "kite.example.org")
    before = [path.read_bytes() for path in paths]
    assert [path.name for path in paths] == [CERTIFICATE_FILE, KEY_FILE]
    assert [oct(path.stat().st_mode & 0o777) for path in paths] == ["0o600", "0o600"]
    ensure_own(tmp_path, "kite.example.org")
    assert [path.read_bytes() for path in paths] == before
    context = own_certificate(tmp_path, "x").context
    assert isinstance(context, ssl.SSLContext)


async def test_a_key_that_was_left_without_its_certificate_is_made_again(tmp_path: Path) -> None:
    certificate, key = ensure_own(tmp_path, "kite.example.org")
    before = key.read_bytes()
    certificate.unlink()
    assert isinstance(own_certificate(tmp_path, "kite.example.org").context, ssl.SSLContext)
    assert key.read_bytes() != before


async def test_where_no_certificate_can_be_made_the_reason_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"no certificate could be made .*No such file"):
        ensure_own(tmp_path / "gone", "kite.example.org")


async def test_without_tls_such_a_connection_is_closed_at_once(running: Running) -> None:
    host, _, port = running.port.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"\x16\x03\x01")
    assert await end_of(reader) == b""
    writer.close()


@pytest.mark.parametrize("bound", ["grpc_connections_max", "grpc_address_connections_max"])
async def test_connections_beyond_the_most_are_closed(open_endpoint: Any, bound: str) -> None:
    async with open_endpoint(**{bound: 1}) as running:
        assert (await running.stub.route("orders")).status.code == Code.OK
        host, _, port = running.port.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        assert await end_of(reader) == b""
        writer.close()
        assert running.grpc_server.backend.figures.connections_refused == 1
        metrics = (await running.http.get("/metrics")).text
        assert "kitemq_grpc_connections_refused_total 1" in metrics
        assert 'kitemq_grpc_calls_total{method="QueryRoute",code="OK"} 1' in metrics


async def test_a_client_has_to_say_its_name(running: Running) -> None:
    nameless = Stub(running.stub.channel, client="")
    assert (await nameless.route("orders")).status.code == Code.CLIENT_ID_REQUIRED


async def test_with_users_a_call_needs_the_signature_of_an_access_key(open_endpoint: Any) -> None:
    async with open_endpoint(admin_password=PASSWORD) as running:
        made = await key_for(running, "admin")
        assert (await running.stub.route("orders")).status.code == Code.UNAUTHORIZED
        assert (await signed(running, made).send("orders", b"1")).status.code == Code.OK
        upper = signed(running, made, upper="yes")
        assert (await upper.route("orders")).status.code == Code.OK
        for wrong in ({"secret": "guess"}, {"access": "KITE0"}, {"access": ""}):
            answer = await signed(running, made, **wrong).route("orders")
            assert answer.status.code == Code.UNAUTHORIZED
        token = Stub(running.stub.channel, authorization=f"Bearer {made['token']}")
        assert (await token.route("orders")).status.code == Code.OK
        http = await logged_in(running)
        await http.delete(f"/api/v1/tokens/{made['id']}")
        assert (await signed(running, made).route("orders")).status.code == Code.UNAUTHORIZED


async def test_a_stranger_gets_no_telemetry_stream(open_endpoint: Any) -> None:
    async with open_endpoint(admin_password=PASSWORD) as running:
        stream = running.stub.begin("Telemetry")
        assert (await stream.read()).status.code == Code.UNAUTHORIZED
        with pytest.raises(grpc.aio.AioRpcError):
            await stream.read()
        assert await stream.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_an_access_key_may_do_what_its_token_may(open_endpoint: Any) -> None:
    async with open_endpoint(admin_password=PASSWORD) as running:
        patterns = ("produce:topic:orders-*", "consume:*:orders-*")
        stub = signed(running, await key_for(running, "operator", *patterns))
        assert (await stub.send("orders-1", b"1")).status.code == Code.OK
        assert (await stub.send("other", b"1", number=1)).status.code == Code.FORBIDDEN
        assert len(await stub.receive("orders-group", "orders-1")) == 1
        (refused,) = await stub.received("other", "orders-1")
        assert refused.status.code == Code.FORBIDDEN


async def test_read_only_refuses_sends_over_this_door_too(open_endpoint: Any) -> None:
    async with open_endpoint(read_only=True) as running:
        assert (await running.stub.send("orders", b"1")).status.code == Code.FORBIDDEN
        assert (await running.stub.route("orders")).status.code == Code.OK


async def test_access_keys_outlive_the_process_and_need_their_key_file(tmp_path: Path) -> None:
    first, second = AccessKeys(tmp_path), AccessKeys(tmp_path)
    first.load()
    second.load()
    assert first.secret_key("hash") == second.secret_key("hash")
    assert first.secret_key("hash") != first.secret_key("other")
    other = AccessKeys(tmp_path / "elsewhere")
    other.load()
    assert other.secret_key("hash") != first.secret_key("hash")
    assert access_key_of("hash") == access_key_of("hash") != access_key_of("other")
    (tmp_path / "access_keys.key").write_bytes(b"short")
    with pytest.raises(ValueError, match="put the file back"):
        AccessKeys(tmp_path).load()


async def test_a_stopped_door_ends_streams_and_polls_and_the_port_is_free(
    open_endpoint: Any,
) -> None:
    async with open_endpoint() as running:
        stream = running.stub.begin("Telemetry")
        async with asyncio.timeout(30):
            while not running.grpc_server.backend.clients.stream_count:
                await asyncio.sleep(0.01)
        address = running.port.address
        await running.port.stop()
        assert await stream.read() is grpc.aio.EOF
        host, _, port = address.rpartition(":")
        again = socket.socket()
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind((host, int(port)))
        again.close()
        assert running.app.services.connections.all() == []


async def test_who_says_a_first_word_as_the_port_stops_makes_no_new_server(
    running: Running,
) -> None:
    """Nobody would end it: its round would go on over an engine that is closed."""
    await running.port.stop()
    with pytest.raises(ConnectionAbortedError, match="stops"):
        await running.port.opened()


async def test_a_server_that_is_being_made_as_the_port_stops_is_ended_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[GrpcServer] = []

    async def stop(server: GrpcServer) -> None:
        ended.append(server)
        await real(server)

    real = GrpcServer.stop
    monkeypatch.setattr(GrpcServer, "stop", stop)
    app = create_app(Settings(data=tmp_path / "data", disk_free_min_bytes=0, grpc_tls=False))
    async with app.router.lifespan_context(app):
        port = GrpcPort(app.services, listening(), monitor_of(app))
        await port.start()
        opening = [asyncio.ensure_future(port.opened()) for _ in range(2)]
        await asyncio.sleep(0)  # both have begun
        await port.stop()
        first, second = await asyncio.gather(*opening)
        assert first is second
        assert ended == [first]
        assert app.services.connections.all() == []


async def test_a_connection_that_says_nothing_takes_nothing_away(running: Running) -> None:
    host, _, port = running.port.address.rpartition(":")
    silent = [await asyncio.open_connection(host, int(port)) for _ in range(5)]
    assert (await running.stub.route("orders")).status.code == Code.OK
    for _, writer in silent:
        writer.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auto", ("10.0.0.1", 8081)),
        ("9000", ("10.0.0.1", 9000)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:9", ("[::1]", 9)),
        ("off", None),
    ],
)
async def test_where_the_door_listens(text: str, expected: tuple[str, int] | None) -> None:
    assert listen_at(Settings(grpc_listen=text), "10.0.0.1", 8080) == expected
    assert listen_at(Settings(), "h", 0) == ("h", 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"grpc_listen": "here"},
        {"grpc_listen": "h:99999"},
        {"grpc_advertised": "kite.example.org"},
        {"grpc_tls_certificate": "a.pem"},
    ],
)
async def test_settings_that_cannot_be_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        load(wrong, environ={})


async def test_a_server_process_says_where_its_clients_are_served(tmp_path: Path) -> None:
    with served(tmp_path / "data") as server:
        async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
            stub = Stub(channel)
            assert (await stub.send("orders", b"1")).status.code == Code.OK
            got = await stub.receive("g", "orders")
            assert [message.body for message in got] == [b"1"]
        # Its event loop is another one than the tests': TLS is done otherwise there.
        certificate = (tmp_path / "data" / CERTIFICATE_FILE).read_bytes()
        credentials = grpc.ssl_channel_credentials(certificate)
        async with grpc.aio.secure_channel(server.address, credentials, options=OPTIONS) as channel:
            large = b"x" * 3_000_000
            assert (await Stub(channel).send("large", large, number=1)).status.code == Code.OK
            assert [each.body for each in await Stub(channel).receive("g", "large")] == [large]
        server.process.terminate()
        assert server.process.wait(30) == 0


async def test_a_taken_port_refuses_to_start_and_says_which_option_to_change(
    tmp_path: Path,
) -> None:
    taken = listening()
    address = f"127.0.0.1:{taken.getsockname()[1]}"
    with (
        pytest.raises(AssertionError, match=r"in use by another process.*--grpc-listen"),
        served(tmp_path / "data", ["--grpc-listen", address]),
    ):
        pass
    taken.close()
