"""The certificate of the gRPC port: one's own by settings, else a self-signed one in the data
directory, made at the first start. RocketMQ's clients turn TLS on by default and do not verify it.

It is made by a process of its own, `python -m app.grpc.certificate FOLDER HOST`: the libraries for
it would stay in the server's memory, some 10 MiB, for as long as it runs.
"""

import datetime
import ipaddress
import os
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

from app.security.private_files import write_private

CERTIFICATE_FILE = "grpc_tls.crt"
KEY_FILE = "grpc_tls.key"
DAYS = 3650
RENEW_DAYS = 30
MAKING_LIMIT_S = 60


def context_of(folder: Path, certificate: str, key: str, host: str) -> ssl.SSLContext:
    """What encrypts connections: with the given files, else with those in `folder`.

    Reads and perhaps writes files. OSError or ssl.SSLError where they cannot be used.
    """
    paths = (Path(certificate), Path(key)) if certificate else ensure_own(folder, host)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(*paths)
    return context


def ensure_own(folder: Path, host: str) -> tuple[Path, Path]:
    """The self-signed certificate and its key, made where there is none or it has expired."""
    paths = folder / CERTIFICATE_FILE, folder / KEY_FILE
    if all(path.exists() for path in paths) and _is_fresh(paths[0]):
        return paths
    try:
        subprocess.run(
            (sys.executable, "-m", "app.grpc.certificate", str(folder), host),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            check=True,
            text=True,
            timeout=MAKING_LIMIT_S,
        )
    except subprocess.SubprocessError as error:
        said = str(getattr(error, "stderr", None) or error).strip().rpartition("\n")[2]
        raise OSError(f"no certificate could be made in {folder}: {said}") from error
    return paths


def make_own(folder: Path, host: str) -> None:
    """Write a new pair, the certificate last: a key without its certificate is made again."""
    certificate, key = _made(host)
    _write(folder / KEY_FILE, key)
    _write(folder / CERTIFICATE_FILE, certificate)


def _is_fresh(path: Path) -> bool:
    """By the file's age, as it is ours: to read it would take the libraries at each start."""
    age_s = time.time() - path.stat().st_mtime
    return age_s < (DAYS - RENEW_DAYS) * 86_400


def _made(host: str) -> tuple[bytes, bytes]:
    """A certificate of this machine's names, and its key, both as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "KiteMQ")])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    names += [x509.IPAddress(ipaddress.ip_address(each)) for each in ("127.0.0.1", "::1")]
    for each in {socket.gethostname(), host.strip("[]")}:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(each)))
        except ValueError:
            if each.isascii() and each:
                names.append(x509.DNSName(each))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName(list(dict.fromkeys(names))), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8
    return (
        certificate.public_bytes(pem),
        key.private_bytes(pem, form, serialization.NoEncryption()),
    )


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f"{path.name}.part")
    write_private(part, content)
    part.replace(path)


if __name__ == "__main__":
    make_own(Path(sys.argv[1]), sys.argv[2])
