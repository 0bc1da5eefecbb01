"""TLS on the HTTP port: who is served, who is refused, and what a certificate may be."""

import asyncio
import os
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives import serialization

from app.grpc.certificate import CERTIFICATE_FILE, KEY_FILE, make_own
from app.services.exposure import plain_ports, warn_of_plain
from app.settings import Settings, SettingsError, load
from app.tls import Certificate, Pair, TlsError, create_context
from kitemq import Client, Consumer, Invalid, Producer, Unreachable
from tests.app.test_serve import LIMIT_S, ROOT, serving

ADDRESS_CONNECTIONS_MAX = 64


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A certificate of 127.0.0.1 that is its own authority."""
    return made(tmp_path_factory.mktemp("tls"))


def made(folder: Path) -> Pair:
    folder.mkdir(exist_ok=True)
    make_own(folder, "kite.example.org")
    return Pair(folder / CERTIFICATE_FILE, folder / KEY_FILE)


class Secure(NamedTuple):
    url: str
    ca: str

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@pytest.fixture(scope="module")
def server(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    options = ["--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key)]
    options += ["--grpc-listen", "off", "--allowed-hosts", "kite.example.org"]
    options += ["--address-connections-max", str(ADDRESS_CONNECTIONS_MAX)]
    with serving(tmp_path_factory.mktemp("secure") / "data", *options) as (_, url):
        yield Secure(url, str(pair.certificate))


def shake_hands(port: int, cafile: Path | str, source: str = "127.0.0.1") -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=cafile)
    plain = socket.create_connection(("127.0.0.1", port), LIMIT_S, (source, 0))
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def read_all(connection: socket.socket) -> bytes:
    found = b""
    while part := connection.recv(65536):
        found += part
    return found


def test_rest_and_websocket_are_served_over_tls_to_clients_that_verify(server: Secure) -> None:
    assert server.url.startswith("https://127.0.0.1:")
    with Producer(server.url, ca=server.ca) as producer:
        producer.send("orders", b"1")
    with Client(server.url, ca=server.ca) as client:
        assert [m["body"] for m in client.messages.pull("orders", 0, 0)["messages"]] in (["1"], [])
    with Consumer("billing", "orders", server.url, ca=server.ca) as consumer:
        (message,) = (next(iter(consumer)),)
        assert message.body == b"1"
        message.ack()


def test_a_client_refuses_a_server_whose_certificate_it_does_not_know(server: Secure) -> None:
    with Client(server.url) as client, pytest.raises(Unreachable, match="certificate"):
        list(client.topics.list())
    with pytest.raises(Unreachable, match="certificate"), Producer(server.url):
        pass


def test_a_file_of_authorities_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    for name in ("ca.pem", "gone.pem"):
        with pytest.raises(Invalid, match=name) as caught:
            Client("https://127.0.0.1:1", ca=str(tmp_path / name))
        assert caught.value.field == "ca"


def test_the_command_line_verifies_with_a_given_authority(server: Secure) -> None:
    command = [sys.executable, "-m", "kitemq", "topics", "list", "--server", server.url]
    environ = {name: value for name, value in os.environ.items() if "KITEMQ" not in name}

    def run(*options: str) -> int:
        done = subprocess.run(
            [*command, *options],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            check=False,
            timeout=LIMIT_S,
        )
        return done.returncode

    assert run("--ca", server.ca) == 0
    assert run() == 4


def test_a_plain_request_to_the_tls_port_is_told_what_to_do(server: Secure) -> None:
    with socket.create_connection(("127.0.0.1", server.port), LIMIT_S) as connection:
        connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"requires TLS" in answer


def test_tls_before_1_2_is_not_spoken(server: Secure) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with (
        socket.create_connection(("127.0.0.1", server.port), LIMIT_S) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
        context.wrap_socket(plain),
    ):
        pass


@pytest.mark.parametrize(("host", "stays"), [(b"kite.example.org", True), (b"127.0.0.1", False)])
def test_browsers_are_told_to_stay_with_https_except_on_this_machine(
    server: Secure, host: bytes, stays: bool
) -> None:
    with shake_hands(server.port, server.ca) as connection:
        connection.sendall(
            b"GET /readyz HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
        )
        answer = read_all(connection).lower()
    assert answer.startswith(b"http/1.1 200")
    assert (b"strict-transport-security: max-age=" in answer) is stays


def test_handshakes_that_never_end_hold_few_places_and_none_of_another_address(
    server: Secure,
) -> None:
    silent = []
    try:
        for _ in range(ADDRESS_CONNECTIONS_MAX + 20):
            silent.append(socket.create_connection(("127.0.0.1", server.port), LIMIT_S))
        assert silent[-1].recv(1) == b"", "one too many is closed at once"
        with shake_hands(server.port, server.ca, source="127.0.0.2") as connection:
            assert connection.version() in ("TLSv1.2", "TLSv1.3")
    finally:
        for each in silent:
            each.close()


def wrong_pairs(folder: Path) -> dict[str, Pair]:
    good, other = made(folder / "good"), made(folder / "other")
    key = serialization.load_pem_private_key(good.key.read_bytes(), None)
    locked = folder / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    garbage = folder / "garbage.pem"
    garbage.write_bytes(b"garbage")
    return {
        "tls_certificate.*gone.pem": Pair(folder / "gone.pem", good.key),
        "tls_key.*gone.key": Pair(good.certificate, folder / "gone.key"),
        "garbage.pem": Pair(garbage, good.key),
        "belongs to it": Pair(good.certificate, other.key),
        "encrypted with a password": Pair(good.certificate, locked),
        "Is a directory": Pair(folder, good.key),
    }


def test_a_certificate_that_cannot_be_used_is_named_with_its_setting(tmp_path: Path) -> None:
    for told, wrong in wrong_pairs(tmp_path).items():
        with pytest.raises(TlsError, match="setting 'tls_") as caught:
            create_context(wrong)
        assert re.search(told, str(caught.value)), caught.value


def test_a_server_with_a_wrong_certificate_says_so_in_one_sentence_and_ends(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.pem").write_bytes(b"garbage")
    options = ["--tls-certificate", str(tmp_path / "a.pem"), "--tls-key", str(tmp_path / "b.pem")]
    done = subprocess.run(
        [sys.executable, "-m", "app.serve", "--data", str(tmp_path / "data"), "--port=0", *options],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "b.pem" in done.stderr
    assert not (tmp_path / "data").exists()


def known_to(context: ssl.SSLContext, cafile: Path) -> bool:
    """Whether a client that trusts `cafile` gets through a handshake."""

    async def run() -> bool:
        server = await asyncio.start_server(lambda _, w: w.close(), "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        try:
            client = ssl.create_default_context(cafile=cafile)
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
            writer.close()
        except ssl.SSLError:
            return False
        finally:
            server.close()
        return True

    return asyncio.run(run())


def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path) -> None:
    pair, newer = made(tmp_path / "now"), made(tmp_path / "newer")
    certificate = Certificate(pair)
    assert not certificate.refresh(), "nothing has changed"
    pair.key.write_bytes(newer.key.read_bytes())
    assert not certificate.refresh(), "half a pair is not used"
    pair.certificate.write_bytes(newer.certificate.read_bytes())
    assert certificate.refresh()
    assert known_to(certificate.context, newer.certificate)


def test_a_broken_renewal_is_logged_once_and_the_old_certificate_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = made(tmp_path / "now")
    kept = made(tmp_path / "kept").certificate
    kept.write_bytes(pair.certificate.read_bytes())
    certificate = Certificate(pair)
    pair.certificate.write_bytes(b"garbage")
    assert not certificate.refresh()
    assert not certificate.refresh()
    (record,) = caplog.records
    assert str(pair.certificate) in record.getMessage()
    assert known_to(certificate.context, kept)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tls_certificate": "a.pem"},
        {"tls_key": "a.pem"},
        {"tls_required": "true"},
        {
            "tls_certificate": "a.pem",
            "tls_key": "b.pem",
            "tls_required": "true",
            "grpc_tls": "false",
        },
    ],
)
def test_settings_of_tls_that_cannot_be_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="'tls_"):
        load(wrong, environ={})


def test_listening_on_a_network_without_tls_warns(caplog: pytest.LogCaptureFixture) -> None:
    given = {"tls_certificate": "a.pem", "tls_key": "b.pem"}
    assert plain_ports(Settings()) == ()
    classic = "RocketMQ's TCP protocol on 0.0.0.0"
    assert plain_ports(Settings(host="0.0.0.0")) == ("HTTP on 0.0.0.0", "gRPC on 0.0.0.0", classic)
    assert plain_ports(Settings(host="0.0.0.0", **given)) == ("gRPC on 0.0.0.0", classic)
    assert plain_ports(Settings(host="0.0.0.0", grpc_listen="off", **given)) == (classic,)
    off = {"grpc_listen": "off", "remoting_listen": "off"}
    assert plain_ports(Settings(host="0.0.0.0", **off, **given)) == ()
    assert plain_ports(Settings(host="0.0.0.0", tls_required=True, **given)) == ()
    assert plain_ports(Settings(grpc_listen="10.1.2.3:8081")) == ("gRPC on 10.1.2.3",)
    warn_of_plain(Settings())
    assert not caplog.records
    warn_of_plain(Settings(host="0.0.0.0"))
    assert "without TLS" in caplog.text
    assert "tls_certificate" in caplog.text


def test_bad_handshakes_write_one_line_into_the_log_at_most(pair: Pair, tmp_path: Path) -> None:
    options = ["--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key)]
    with serving(tmp_path / "data", *options, "--grpc-listen", "off") as (process, url):
        port = int(url.rpartition(":")[2])
        for sent in (b"\x16garbage" * 100, b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", b""):
            with socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection:
                connection.sendall(sent)
        with shake_hands(port, pair.certificate) as connection:
            plain = socket.socket(fileno=os.dup(connection.fileno()))
            with plain:
                plain.sendall(b"no record of TLS at all")
        with pytest.raises(ssl.SSLError):
            shake_hands(port, None)  # type: ignore[arg-type]  # hangs up at the certificate
        process.terminate()
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait(LIMIT_S) == 0
    told = [line for line in said.splitlines() if "stopping" not in line]
    assert len(told) <= 1
    assert all("(tls_handshake)" in line for line in told)
