"""The certificate of the gRPC port: self-made and broken, an operator's, renewed, required."""

import asyncio
import contextlib
import datetime
import errno
import os
import socket
import ssl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.grpc import port as port_module
from app.grpc.certificate import CERTIFICATE_FILE, KEY_FILE, make_own, own_certificate
from app.grpc.port import GrpcPort
from app.main import create_app
from app.security.access_keys import AccessKeys
from app.settings import Settings
from app.tls import TlsError
from protocol.rocketmq.numbers import Code
from tests.grpc.endpoint import OPTIONS, Stub, listening, monitor_of

pytestmark = pytest.mark.anyio


def made_by_an_earlier_start(folder: Path, *, common_name: str = "KiteMQ") -> None:
    """A pair as versions before this one made it: its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / CERTIFICATE_FILE).write_bytes(certificate.public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    (folder / KEY_FILE).write_bytes(private)


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def made(folder: Path) -> tuple[Path, Path]:
    folder.mkdir()
    make_own(folder, "kite.example.org")
    return folder / CERTIFICATE_FILE, folder / KEY_FILE


async def sends_over_tls(address: str, root: Path) -> bool:
    credentials = grpc.ssl_channel_credentials(root.read_bytes())  # noqa: ASYNC240
    async with grpc.aio.secure_channel(address, credentials, options=OPTIONS) as channel:
        answer = await Stub(channel, "tls").send("orders", b"1", number=7)
        return bool(answer.status.code == Code.OK)


@pytest.mark.parametrize("broken", [CERTIFICATE_FILE, KEY_FILE])
@pytest.mark.parametrize("content", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
async def test_a_broken_self_made_certificate_is_made_again_and_the_old_one_kept(
    tmp_path: Path, broken: str, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    make_own(tmp_path, "kite.example.org")
    (tmp_path / broken).write_bytes(content)
    own_certificate(tmp_path, "kite.example.org")
    own_certificate(tmp_path, "kite.example.org")  # what was made is sound
    assert (tmp_path / "set-aside" / broken).read_bytes() == content
    (record,) = caplog.records
    assert f"set-aside/{broken}" in record.getMessage()


async def test_a_certificate_and_a_key_that_do_not_belong_together_are_made_again(
    tmp_path: Path,
) -> None:
    made(tmp_path / "other")
    make_own(tmp_path, "kite.example.org")
    (tmp_path / "other" / KEY_FILE).replace(tmp_path / KEY_FILE)
    own_certificate(tmp_path, "kite.example.org")
    (tmp_path / KEY_FILE).write_bytes(b"broken once more")
    own_certificate(tmp_path, "kite.example.org")
    kept = sorted(path.name for path in (tmp_path / "set-aside").iterdir())
    assert kept == [CERTIFICATE_FILE, f"{CERTIFICATE_FILE}-1", KEY_FILE, f"{KEY_FILE}-1"]


async def test_the_self_made_certificate_is_a_leaf_that_is_no_authority(tmp_path: Path) -> None:
    make_own(tmp_path, "kite.example.org", "10.0.0.7", "0.0.0.0", "[fe80::1]", "")
    extensions = read(tmp_path / CERTIFICATE_FILE).extensions
    basic = extensions.get_extension_for_class(x509.BasicConstraints)
    assert basic.critical
    assert not basic.value.ca
    with pytest.raises(x509.ExtensionNotFound):
        extensions.get_extension_for_class(x509.KeyUsage)
    extended = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(extended) == [ExtendedKeyUsageOID.SERVER_AUTH]
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = set(names.get_values_for_type(x509.DNSName))
    assert hosts == {"localhost", "kite.example.org", socket.gethostname()}
    addresses = {str(each) for each in names.get_values_for_type(x509.IPAddress)}
    assert addresses == {"127.0.0.1", "::1", "10.0.0.7", "fe80::1"}


def test_grpcs_own_library_trusts_the_self_made_certificate_as_its_default_root(
    tmp_path: Path,
) -> None:
    """It finds no issuer there where a key usage forbids to sign certificates."""
    certificate, key = made(tmp_path / "made")
    server = grpc.server(ThreadPoolExecutor(1))
    pair = key.read_bytes(), certificate.read_bytes()
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    server.start()
    try:
        subprocess.run(
            [sys.executable, "-c", CONNECTS, f"127.0.0.1:{port}"],
            env=os.environ | {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(certificate)},
            timeout=60,
            check=True,
        )
    finally:
        server.stop(None).wait()


CONNECTS = """
import grpc, sys
channel = grpc.secure_channel(sys.argv[1], grpc.ssl_channel_credentials())
grpc.channel_ready_future(channel).result(timeout=10)
"""


async def test_a_strict_client_trusts_the_self_made_certificate_by_itself(tmp_path: Path) -> None:
    """As Python 3.13 checks by default, and with the certificate as the only root."""
    certificate, key = made(tmp_path / "made")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cafile=certificate)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    for host in ("localhost", "127.0.0.1", "kite.example.org"):
        shake_hands(client, server, host)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(client, server, "other.example.org")


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> None:
    """Both sides of a handshake, in memory."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    caller = client.wrap_bio(down, up, server_hostname=host)
    called = server.wrap_bio(up, down, server_side=True)
    for side in (caller, called, caller, called):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert caller.getpeercert()


async def test_the_hosts_that_clients_are_told_to_call_are_names_of_the_certificate(
    open_endpoint: Any, tmp_path: Path
) -> None:
    advertised = ("kite-1.example.org:80", "[fe80::7]:81")
    async with open_endpoint(grpc_tls=True, grpc_advertised=advertised, grpc_listen="127.0.0.9:0"):
        extensions = read(tmp_path / "data" / CERTIFICATE_FILE).extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "kite-1.example.org" in names.get_values_for_type(x509.DNSName)
    addresses = {str(each) for each in names.get_values_for_type(x509.IPAddress)}
    assert {"fe80::7", "127.0.0.9"} <= addresses


async def test_a_self_made_authority_of_an_earlier_start_is_replaced_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made_by_an_earlier_start(tmp_path)
    old = (tmp_path / CERTIFICATE_FILE).read_bytes(), (tmp_path / KEY_FILE).read_bytes()
    own_certificate(tmp_path, "kite.example.org")
    new = (tmp_path / CERTIFICATE_FILE).read_bytes()
    assert new != old[0]
    own_certificate(tmp_path, "kite.example.org")
    assert (tmp_path / CERTIFICATE_FILE).read_bytes() == new
    aside = tmp_path / "set-aside"
    assert ((aside / CERTIFICATE_FILE).read_bytes(), (aside / KEY_FILE).read_bytes()) == old
    (record,) = caplog.records
    assert "clients that know it need the new one" in record.getMessage()
    assert f"set-aside/{CERTIFICATE_FILE}" in record.getMessage()


async def test_an_authority_that_an_operator_put_there_is_left_alone(tmp_path: Path) -> None:
    made_by_an_earlier_start(tmp_path, common_name="Tea Shop")
    before = (tmp_path / CERTIFICATE_FILE).read_bytes()
    own_certificate(tmp_path, "kite.example.org")
    assert (tmp_path / CERTIFICATE_FILE).read_bytes() == before
    assert not (tmp_path / "set-aside").exists()


async def test_a_folder_in_the_place_of_the_certificate_is_moved_aside(tmp_path: Path) -> None:
    (tmp_path / CERTIFICATE_FILE).mkdir()
    own_certificate(tmp_path, "kite.example.org")
    assert (tmp_path / "set-aside" / CERTIFICATE_FILE).is_dir()


async def test_a_server_with_a_broken_self_made_certificate_serves_tls(
    open_endpoint: Any, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / CERTIFICATE_FILE).write_bytes(b"half a certif")
    (data / KEY_FILE).write_bytes(b"")
    async with open_endpoint(grpc_tls=True) as running:
        assert await sends_over_tls(running.port.address, data / CERTIFICATE_FILE)


async def test_an_operators_broken_certificate_is_an_error_that_names_setting_and_file(
    tmp_path: Path,
) -> None:
    certificate, key = made(tmp_path / "given")
    certificate.write_bytes(b"garbage")
    given = {"grpc_tls_certificate": str(certificate), "grpc_tls_key": str(key)}
    app = create_app(Settings(data=tmp_path / "data", disk_free_min_bytes=0, **given))
    async with app.router.lifespan_context(app):
        port = GrpcPort(app.services, listening(), monitor_of(app))
        with pytest.raises(TlsError, match=r"grpc_tls\.crt .setting 'grpc_tls_certificate'"):
            await port.start()
        await port.stop()
    assert certificate.read_bytes() == b"garbage"
    assert not (tmp_path / "data" / CERTIFICATE_FILE).exists()


async def test_the_certificate_of_the_http_port_is_that_of_the_grpc_port_as_well(
    open_endpoint: Any, tmp_path: Path
) -> None:
    certificate, key = made(tmp_path / "given")
    given = {"tls_certificate": str(certificate), "tls_key": str(key)}
    async with open_endpoint(grpc_tls=True, **given) as running:
        assert await sends_over_tls(running.port.address, certificate)
    assert not (tmp_path / "data" / CERTIFICATE_FILE).exists()


async def test_where_tls_is_required_a_plain_client_is_told_so(tmp_path: Path) -> None:
    certificate, key = made(tmp_path / "given")
    settings = Settings(
        data=tmp_path / "data",
        disk_free_min_bytes=0,
        tls_certificate=str(certificate),
        tls_key=str(key),
        tls_required=True,
    )
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        port = GrpcPort(app.services, listening(), monitor_of(app))
        await port.start()
        assert await sends_over_tls(port.address, certificate)
        async with grpc.aio.insecure_channel(port.address, options=OPTIONS) as channel:
            with pytest.raises(grpc.aio.AioRpcError):
                await Stub(channel).send("orders", b"1")
        host, _, number = port.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(number))
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert b"requires TLS" in await reader.read()
        writer.close()
        await port.stop()


async def test_a_port_whose_files_the_disk_refuses_serves_plain_text_until_it_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made_key, is_full = AccessKeys._create_key, True

    def refuse(keys: AccessKeys) -> bytes:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return made_key(keys)

    monkeypatch.setattr(AccessKeys, "_create_key", refuse)
    monkeypatch.setattr(port_module, "AGAIN_S", 0.01)
    app = create_app(Settings(data=tmp_path / "data", disk_free_min_bytes=0))
    async with app.router.lifespan_context(app):
        port = GrpcPort(app.services, listening(), monitor_of(app))
        await port.start()
        async with grpc.aio.insecure_channel(port.address, options=OPTIONS) as channel:
            assert (await Stub(channel).send("orders", b"1")).status.code == Code.OK
        assert "No space left on device" in caplog.text
        assert not (tmp_path / "data" / CERTIFICATE_FILE).exists()
        is_full = False
        async with asyncio.timeout(30):
            while port._acceptor is None or not port._acceptor.has_certificate:
                await asyncio.sleep(0.01)
        assert await sends_over_tls(port.address, tmp_path / "data" / CERTIFICATE_FILE)
        await port.stop()
