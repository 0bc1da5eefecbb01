"""Settings of the endpoint for RocketMQ 5 clients: where it listens, TLS, limits.

`complaint` says what does not fit together, before the server starts.
"""

from dataclasses import dataclass

from app import listen_address
from app.listen_address import AUTO
from engine.config import setting


@dataclass(frozen=True, kw_only=True)
class GrpcSettings:
    """The settings of the gRPC endpoint."""

    grpc_listen: str = setting(
        AUTO,
        "Where RocketMQ 5 clients (gRPC) are served: `auto` is the port after `port` on the same "
        "address, 8081 beside 8080 and a free one where `port` is 0; `HOST:PORT`, or `PORT` on "
        "the same address; `off` for nowhere.",
    )
    grpc_advertised: tuple[str, ...] = setting(
        (),
        "Addresses (`HOST:PORT`) that gRPC clients are told to call, separated by commas; empty "
        "tells each the address that it called.",
    )
    grpc_tls: bool = setting(True, "Serve TLS beside plain text on the gRPC port.")
    grpc_tls_certificate: str = setting(
        "",
        "PEM file with the certificate chain of the gRPC port; empty takes `tls_certificate`, and "
        "without that makes a self-signed one in the data directory (`grpc_tls.crt`).",
    )
    grpc_tls_key: str = setting("", "PEM file with the key of `grpc_tls_certificate`.")
    grpc_check_automatic_topics: bool = setting(
        False,
        "Refuse FIFO, delayed and transactional messages also to topics that were made at their "
        "first use, as RocketMQ does; topics made by hand always take only their own type.",
    )
    grpc_connections_max: int = setting(
        4096, "gRPC connections at once; further ones are closed at once."
    )
    grpc_address_connections_max: int = setting(
        1024, "gRPC connections of one client address at once; further ones are closed at once."
    )
    grpc_address_clients_max: int = setting(
        2500,
        "gRPC clients of one address, each with its telemetry stream; more are TOO_MANY_REQUESTS.",
    )
    grpc_address_polls_max: int = setting(
        2500, "Receives and pulls open from one address over gRPC; more are TOO_MANY_REQUESTS."
    )
    grpc_connection_calls_max: int = setting(
        1024, "Calls under way at once on one gRPC connection; further ones wait in the client."
    )
    grpc_client_polls_max: int = setting(
        256, "Receives and pulls that one gRPC client may hold open; more are TOO_MANY_REQUESTS."
    )
    grpc_polls_max: int = setting(
        10_000, "Receives and pulls of all gRPC clients together; more are TOO_MANY_REQUESTS."
    )
    grpc_idle_s: float = setting(
        300.0, "A gRPC connection without a call under way is closed after so long."
    )


def complaint(settings: GrpcSettings) -> str:
    """What is wrong with the settings of the gRPC endpoint; "" where they will do."""
    if not listen_address.is_listen(settings.grpc_listen):
        return f"setting 'grpc_listen' is {settings.grpc_listen!r}; expected auto, off or HOST:PORT"
    for address in settings.grpc_advertised:
        if not listen_address.is_advertised(address):
            return f"setting 'grpc_advertised' holds {address!r}; expected HOST:PORT"
    if bool(settings.grpc_tls_certificate) != bool(settings.grpc_tls_key):
        return "settings 'grpc_tls_certificate' and 'grpc_tls_key' go together; give both"
    return ""


def listen_at(settings: GrpcSettings, host: str, port: int) -> tuple[str, int] | None:
    """Host and port of the gRPC endpoint beside the HTTP server's; None where it is off."""
    beside = port + 1 if 0 < port < 65535 else 0
    return listen_address.parse(settings.grpc_listen, host, beside)
