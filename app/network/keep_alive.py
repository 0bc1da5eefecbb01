"""TCP keep-alive: detects within a minute that a peer has vanished."""

import socket

PROBES = (
    ("TCP_KEEPIDLE", 20),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 3),
)  # seconds, seconds, count


def keep_alive(accepted: socket.socket, *, user_timeout_ms: int = 0) -> None:
    """Probe the peer of an idle connection.

    With `user_timeout_ms`, also end the connection if data is not acknowledged for so long.
    """
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    timeout = (("TCP_USER_TIMEOUT", user_timeout_ms),) if user_timeout_ms else ()
    for name, value in (*PROBES, *timeout):
        if option := getattr(socket, name, None):  # not every system has all of them
            accepted.setsockopt(socket.IPPROTO_TCP, option, value)
