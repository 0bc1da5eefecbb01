"""The server's address: one text for all parts, from an argument or `KITEMQ_SERVER`."""

import os
import ssl
from collections.abc import Sequence
from urllib.parse import urlsplit

from kitemq.errors import Invalid

VARIABLE = "KITEMQ_SERVER"
TOKEN_VARIABLE = "KITEMQ_TOKEN"
CA_VARIABLE = "KITEMQ_CA"
DEFAULT_SERVER = "http://127.0.0.1:8080"
SOCKET_PATH = "/ws/v1"
ADDRESSES_MAX = 8
SECURE = {"http": "http", "https": "https", "ws": "http", "wss": "https"}


def server_urls(server: str = "") -> list[str]:
    """The addresses of a leader and its standbys: those of `server`, else of KITEMQ_SERVER.

    Commas separate them; at most 8. Without any it is this machine. See `url_of`.
    """
    text = server or os.environ.get(VARIABLE, "") or DEFAULT_SERVER
    urls = [url_of(each.strip()) for each in text.split(",")]
    if len(urls) > ADDRESSES_MAX:
        raise Invalid(
            f"{len(urls)} addresses, {ADDRESSES_MAX} is the most",
            field="server",
            remedy="name the leader and its standbys only",
        )
    return urls


def url_of(text: str) -> str:
    """`http(s)://host:port` of an address; a bare `host:port` is taken as http.

    Raises Invalid for what is no address.
    """
    if "://" not in text:
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
        scheme, name, port = SECURE[parts.scheme], parts.hostname, parts.port
    except (ValueError, KeyError):
        scheme, name, port = "", None, None
    if not name or parts_of_path(text):
        raise Invalid(
            f"{text!r} is no address of a server",
            field="server",
            remedy=f"give one like {DEFAULT_SERVER}",
        )
    host = f"[{name}]" if ":" in name else name
    return f"{scheme}://{host}:{port or (443 if scheme == 'https' else 80)}"


def token_headers() -> dict[str, str]:
    """The headers that authenticate the caller: the token in KITEMQ_TOKEN, if there is one."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        return {}
    if not token.isascii() or not token.isprintable():
        raise Invalid(f"{TOKEN_VARIABLE} holds no token", field="token", remedy="make another one")
    return {"Authorization": f"Bearer {token}"}


def tls_contexts(urls: Sequence[str], ca: str = "") -> ssl.SSLContext | None:
    """The context of `tls_context` for several addresses; None where all of them are plain."""
    secure = [url for url in urls if url.startswith("https:")]
    return tls_context(secure[0], ca) if secure else None


def tls_context(url: str, ca: str = "") -> ssl.SSLContext | None:
    """What verifies the server of an `https://…` or `wss://…`; None for a plain address.

    `ca`, else KITEMQ_CA, is a PEM file: only certificates of the authorities in it are trusted, or
    the server's own self-signed one. Without either, those of the system are. TLS 1.2 or newer.
    Raises Invalid where the file cannot be used. Reads files.
    """
    if not url.startswith(("https:", "wss:")):
        return None
    path = ca or os.environ.get(CA_VARIABLE, "")
    try:
        context = ssl.create_default_context(cafile=path or None)
    except (OSError, ssl.SSLError) as error:
        raise Invalid(
            f"the authorities in {path!r} cannot be used: {error}",
            field="ca",
            remedy=f"give a PEM file as ca, --ca or {CA_VARIABLE}",
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def parts_of_path(url: str) -> str:
    """What follows host and port, a single slash aside."""
    parts = urlsplit(url)
    return parts.path.strip("/") + parts.query + parts.fragment


def socket_url(url: str) -> str:
    """The WebSocket address of a server's `http(s)://…`."""
    return "ws" + url.removeprefix("http") + SOCKET_PATH
