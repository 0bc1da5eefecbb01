"""The certificate of the gRPC port: the configured one, or a self-signed one in the data directory.

RocketMQ's clients use TLS by default and do not verify it, so a certificate is created at the first
start. It is a leaf certificate, because some clients refuse an authority as a server's certificate;
authorities created by earlier versions are replaced.

A process of its own creates it, `python -m app.grpc.certificate FOLDER HOST...`, as the libraries
would take some 10 MiB of the server's memory.
"""

import datetime
import ipaddress
import itertools
import logging
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.listen_address import ADDRESS
from app.private_data import DIRECTORY_MODE, SET_ASIDE
from app.security.private_files import write_private
from app.settings import Settings
from app.tls import Certificate, Pair, TlsError

if TYPE_CHECKING:
    from cryptography import x509

log = logging.getLogger("kitemq.grpc")

CERTIFICATE_FILE = "grpc_tls.crt"
KEY_FILE = "grpc_tls.key"
DAYS = 3650
RENEW_DAYS = 30
MAKING_LIMIT_S = 60
PROTOCOLS = ("h2",)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
# What the certificates of earlier versions have in them, in DER: the extension that makes them an
# authority (2.5.29.19, critical, cA, pathLen 0), and the name that is both issuer and subject.
AUTHORITY = bytes.fromhex("0603551d13 0101ff 0408 3006 0101ff 020100")
OWN_NAME = bytes.fromhex("310f 300d 0603550403 0c06") + b"KiteMQ"
NAMES = 2


def certificate_of(settings: Settings) -> Certificate:
    """The certificate by `grpc_tls_certificate`, else `tls_certificate`, else a self-signed one.

    Reads and may write files. Raises OSError if none can be created, TlsError if a configured one
    is unusable; unusable self-signed ones are replaced.
    """
    if settings.grpc_tls_certificate:
        paths = (settings.grpc_tls_certificate, settings.grpc_tls_key)
        settings_named = ("grpc_tls_certificate", "grpc_tls_key")
    elif settings.tls_certificate:
        paths = (settings.tls_certificate, settings.tls_key)
        settings_named = ("tls_certificate", "tls_key")
    else:
        return own_certificate(settings.data, *_hosts(settings))
    return Certificate(Pair(Path(paths[0]), Path(paths[1]), *settings_named), protocols=PROTOCOLS)


def own_certificate(folder: Path, *hosts: str) -> Certificate:
    """The self-signed certificate in `folder`, for `hosts`.

    An unusable one, or an authority of an earlier version, is moved aside and replaced.
    """
    if _is_own_authority(folder / CERTIFICATE_FILE):
        _give_up(folder, "is an authority, which some clients refuse in a server's place")
    try:
        return Certificate(_pair(*ensure_own(folder, *hosts)), protocols=PROTOCOLS)
    except TlsError as error:
        _give_up(folder, f"cannot be used ({error})")
    return Certificate(_pair(*ensure_own(folder, *hosts)), protocols=PROTOCOLS)


def ensure_own(folder: Path, *hosts: str) -> tuple[Path, Path]:
    """Paths of the self-signed certificate and its key, created if missing or expired."""
    paths = folder / CERTIFICATE_FILE, folder / KEY_FILE
    if all(path.is_file() for path in paths) and _is_fresh(paths[0]):
        return paths
    for path in paths:
        if path.exists() and not path.is_file():
            _move_aside(path)
    try:
        subprocess.run(
            (sys.executable, "-m", "app.grpc.certificate", str(folder), *hosts),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            check=True,
            text=True,
            timeout=MAKING_LIMIT_S,
        )
    except subprocess.SubprocessError as error:
        reason = str(getattr(error, "stderr", None) or error).strip().rpartition("\n")[2]
        raise OSError(f"no certificate could be made in {folder}: {reason}") from error
    return paths


def _pair(certificate: Path, key: Path) -> Pair:
    return Pair(certificate, key, "grpc_tls_certificate", "grpc_tls_key")


def _hosts(settings: Settings) -> list[str]:
    """The names by which clients may call: listening and advertised addresses."""
    listens = ADDRESS.match(settings.grpc_listen)
    hosts = [settings.host, (listens and listens["host"]) or ""]
    return hosts + [address.rpartition(":")[0] for address in settings.grpc_advertised]


def _is_own_authority(path: Path) -> bool:
    """Whether an earlier version created this certificate.

    It is recognised by its bytes, as parsing it would load the libraries at each start.
    """
    try:
        content = ssl.PEM_cert_to_DER_cert(path.read_text("ascii"))
    except (OSError, ValueError):
        return False
    return AUTHORITY in content and content.count(OWN_NAME) == NAMES


def _give_up(folder: Path, why: str) -> None:
    """Move the certificate and its key aside, and log it."""
    paths = (folder / CERTIFICATE_FILE, folder / KEY_FILE)
    aside = [_move_aside(path) for path in paths if path.exists()]
    log.warning(
        "the self-signed certificate %s and is made again; clients that know it need the new one "
        "(%s); the old files are kept as %s",
        why,
        folder / CERTIFICATE_FILE,
        " and ".join(aside) or "nothing",
    )


def _move_aside(path: Path) -> str:
    """Move a file into the folder `set-aside`, under a name that is not taken there."""
    aside = path.parent / SET_ASIDE
    aside.mkdir(DIRECTORY_MODE, exist_ok=True)
    target = next(
        target_path
        for number in itertools.count()
        if not (target_path := aside / (f"{path.name}-{number}" if number else path.name)).exists()
    )
    path.replace(target)
    return f"{SET_ASIDE}/{target.name}"


def make_own(folder: Path, *hosts: str) -> None:
    """Write a new pair, the certificate last: a key alone is replaced at the next start."""
    certificate, key = _create(hosts)
    _write(folder / KEY_FILE, key)
    _write(folder / CERTIFICATE_FILE, certificate)


def _is_fresh(path: Path) -> bool:
    """Whether it is young enough, by the file's age, without parsing it."""
    age_s = time.time() - path.stat().st_mtime
    return age_s < (DAYS - RENEW_DAYS) * 86_400


def _create(hosts: Sequence[str]) -> tuple[bytes, bytes]:
    """A certificate of this machine's names and of `hosts`, and its key, both as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "KiteMQ")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName(_names(hosts)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        # No key usage: without the right to sign certificates, OpenSSL and its kin do not see that
        # it signed itself, and look for its issuer among the roots in vain.
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8
    return (
        certificate.public_bytes(pem),
        key.private_bytes(pem, form, serialization.NoEncryption()),
    )


def _names(hosts: Sequence[str]) -> "list[x509.GeneralName]":
    """Loopback, this machine's name and `hosts`, each once, without unspecified addresses."""
    from cryptography import x509

    names: list[x509.GeneralName] = []
    for each in (*LOOPBACK, socket.gethostname(), *hosts):
        host = each.strip("[]")
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            if host.isascii() and host:
                names.append(x509.DNSName(host))
        else:
            if not address.is_unspecified:
                names.append(x509.IPAddress(address))
    return list(dict.fromkeys(names))


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f"{path.name}.part")
    write_private(part, content)
    part.replace(path)


if __name__ == "__main__":
    make_own(Path(sys.argv[1]), *sys.argv[2:])
