"""Settings of TLS on the HTTP port, and of the addresses that the server may call.

`complaint` says what does not fit together, before the server starts.
"""

import ipaddress
from dataclasses import dataclass

from engine.config import setting

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """What others see of the server on the way to it, and what it sees of others."""

    tls_certificate: str = setting(
        "",
        "PEM file with the certificate chain of the HTTP port (console, REST, WebSocket), which "
        "then speaks https only, and of the gRPC port; empty serves plain http.",
    )
    tls_key: str = setting("", "PEM file with the key of `tls_certificate`, without a password.")
    tls_required: bool = setting(
        False, "Refuse every connection without TLS, on the gRPC port too; needs `tls_certificate`."
    )
    callback_allow: tuple[str, ...] = setting(
        (),
        "Hosts, addresses and networks that callbacks and webhooks may call although they are "
        "loopback, link-local or this machine's own, as `hooks.internal`, `127.0.0.0/8`; "
        "separated by commas. A server that listens on loopback only may call loopback anyway.",
    )


def complaint(settings: NetworkSettings, *, is_grpc_plain: bool) -> str:
    """What is wrong with these settings; "" where they will do."""
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        return "settings 'tls_certificate' and 'tls_key' go together; give both"
    if settings.tls_required and not settings.tls_certificate:
        return "setting 'tls_required' is true, but there is no 'tls_certificate' to serve TLS with"
    if settings.tls_required and is_grpc_plain:
        return (
            "setting 'tls_required' is true, but 'grpc_tls' is false; leave one out, or set "
            "grpc_listen to off"
        )
    for each in settings.callback_allow:
        if network_of(each) is None and not _is_name(each):
            return (
                f"setting 'callback_allow' holds {each!r}; expected a host name, an address or a "
                "network, as hooks.example.org or 127.0.0.0/8"
            )
    return ""


def network_of(text: str) -> Network | None:
    """The network or the single address that a text names; None where it is a host's name."""
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None


def _is_name(text: str) -> bool:
    return text.isascii() and text.replace(".", "").replace("-", "").replace("_", "").isalnum()
