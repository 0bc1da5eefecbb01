"""TLS of every port: certificates that are checked at the start and read again after a change.

`create_context` names setting and file of a certificate that cannot be used. A `Certificate` keeps
the context that connections are made with; `refresh` brings a renewed certificate into it, for
handshakes from then on, and keeps the old one where the new one is broken.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.tasks import settle

log = logging.getLogger("kitemq.tls")

LOOK_S = 30.0  # between two looks at whether the files have changed
HANDSHAKE_S = 10.0
LINGER_S = 2.0
PLAIN_TEXT = b"this port requires TLS: connect to it by https\n"
PLAIN_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(PLAIN_TEXT), PLAIN_TEXT)
)
TLS_FIRST = b"\x16"  # the first byte of a TLS client; a plain HTTP request begins with a letter

Stamp = tuple[tuple[int, int, int], ...]


class TlsError(ValueError):
    """A certificate or key cannot be used; the text names setting, file and remedy."""


@dataclass(frozen=True)
class Pair:
    """The files of a certificate chain and its key, and the settings that named them."""

    certificate: Path
    key: Path
    certificate_setting: str = "tls_certificate"
    key_setting: str = "tls_key"


def create_context(pair: Pair, *, protocols: Sequence[str] = ()) -> ssl.SSLContext:
    """What encrypts a server's connections, TLS 1.2 or newer; raises TlsError. Reads files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if protocols:
        context.set_alpn_protocols(list(protocols))
    _load(context, pair)
    return context


class Certificate:
    """A context with the files that it was made from; for one event loop."""

    def __init__(self, pair: Pair, *, protocols: Sequence[str] = ()) -> None:
        """Reads the files; raises TlsError."""
        self._pair = pair
        self._protocols = tuple(protocols)
        self._last_stamp = _stamp(pair)
        self.context = create_context(pair, protocols=protocols)

    def refresh(self) -> bool:
        """Read the files again where they have changed; whether others are used from now on.

        May wait for the disk. A pair that cannot be used is named in the log, once, and the one
        before it stays in use.
        """
        stamp = _stamp(self._pair)
        if stamp == self._last_stamp:
            return False
        self._last_stamp = stamp
        try:
            create_context(self._pair, protocols=self._protocols)  # half a pair must not get in
            _load(self.context, self._pair)
        except TlsError as error:
            log.error("the certificate stays as it was: %s", error)
            return False
        log.info("%s is read again, as it has changed", self._pair.certificate)
        return True

    async def keep_fresh(self) -> None:
        """Look at the files now and then, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await asyncio.to_thread(self.refresh)


async def refuse_plain(accepted: socket.socket) -> None:
    """Tell a client that speaks without TLS what it should do, and close; at most `LINGER_S`.

    A gRPC client gets the same HTTP/1.1 answer: after HTTP/2's GOAWAY it would try again at once,
    for ever.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LINGER_S):
            await loop.sock_sendall(accepted, PLAIN_ANSWER)
            accepted.shutdown(socket.SHUT_WR)
            await loop.sock_recv(accepted, 4096)  # unread bytes would turn the close into a reset
    finally:
        accepted.close()


async def speaks_tls(accepted: socket.socket, limit_s: float) -> bool:
    """Whether the peer of a non-blocking socket begins with TLS; TimeoutError where it is silent.

    What it sent stays to be read.
    """
    return await _first_byte(accepted, limit_s) == TLS_FIRST


async def _first_byte(accepted: socket.socket, limit_s: float) -> bytes:
    """The first byte, which stays to be read; TimeoutError where none comes."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(accepted, settle, ready, None)
    try:
        async with asyncio.timeout(limit_s):
            await ready
    finally:
        loop.remove_reader(accepted)
    return accepted.recv(1, socket.MSG_PEEK)


def _load(context: ssl.SSLContext, pair: Pair) -> None:
    for setting, path in (
        (pair.certificate_setting, pair.certificate),
        (pair.key_setting, pair.key),
    ):
        try:
            with path.open("rb"):
                pass
        except OSError as error:
            raise TlsError(
                f"setting {setting!r} names {path}, which cannot be read: {error.strerror or error}"
            ) from None
    try:
        # A password would be asked for at the terminal, and nobody might ever see it.
        context.load_cert_chain(pair.certificate, pair.key, password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise TlsError(
            f"the certificate {pair.certificate} (setting {pair.certificate_setting!r}) and the "
            f"key {pair.key} (setting {pair.key_setting!r}) cannot be used: {_reason(error)}. "
            "Give a PEM chain and the PEM key that belongs to it, without a password"
        ) from None


def _no_password() -> str:
    raise ValueError("the key is encrypted with a password")


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else str(error) or type(error).__name__


def _stamp(pair: Pair) -> Stamp:
    """What changes when the files do; zeros for one that is not there."""
    stamps = []
    for path in (pair.certificate, pair.key):
        try:
            status = path.stat()
        except OSError:
            stamps.append((0, 0, 0))
        else:
            stamps.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(stamps)
