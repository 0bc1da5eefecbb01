"""Settings of connections: how many there may be, how long they may take, how much they may hold.

They hold for HTTP and WebSocket; the counts for gRPC as well.
"""

from dataclasses import dataclass

from engine.config import MIB, setting

KIB = 1024
HEADER_BYTES_MIN = 4 * KIB


@dataclass(frozen=True, kw_only=True)
class ConnectionSettings:
    """The limits below the application."""

    connections_max: int = setting(
        8192,
        "Connections at once: HTTP, WebSocket and gRPC together; further ones are closed at once. "
        "Where the system permits fewer open files, fewer connections are taken.",
        least=1,
    )
    address_connections_max: int = setting(
        1024,
        "Connections of one client address at once, and at most half of what the open files "
        "permit; further ones are closed at once. `trusted_proxies` have no limit of their own.",
        least=1,
    )
    reserved_files: int = setting(
        160,
        "Open files that no connection may take, besides `open_files_max`: for the log "
        "(`log_files_max`), the database, reports and whatever else the server opens.",
    )
    header_bytes_max: int = setting(
        32 * KIB,
        "Largest head of an HTTP request, URL and headers; more is a 431 or a 414.",
        least=HEADER_BYTES_MIN,
    )
    header_timeout_s: float = setting(
        10.0,
        "An HTTP connection is closed where the head of a request is not complete so long after "
        "it began, the first one after connecting; also how long a TLS handshake may take.",
        above=0,
    )
    keep_alive_s: float = setting(
        75.0, "An HTTP connection without a request under way is closed after so long.", above=0
    )
    body_timeout_s: float = setting(
        10.0,
        "Over each span of so long the body of an HTTP request has to arrive with at least "
        "`transfer_bytes_per_s_min`; else it is a 408.",
        above=0,
    )
    write_timeout_s: float = setting(
        30.0,
        "Over each span of so long a client has to read what waits for it with at least "
        "`transfer_bytes_per_s_min`; else its connection is closed.",
        above=0,
    )
    transfer_bytes_per_s_min: int = setting(
        512, "The slowest transfer of a body or an answer that is put up with, in bytes a second."
    )
    unread_bytes_max: int = setting(
        128 * MIB,
        "Bytes of answers and WebSocket frames that wait for slow clients, all together; beyond "
        "that the address that holds most of them loses its oldest connection.",
    )
