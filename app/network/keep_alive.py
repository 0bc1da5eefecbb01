"""Lets the system find out that a peer vanished without a word, within a minute."""

import socket

PROBES = (
    ("TCP_KEEPIDLE", 20),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 3),
)  # seconds, seconds, count


def keep_alive(accepted: socket.socket, *, user_timeout_ms: int = 0) -> None:
    """Probe the peer of a silent connection.

    With `user_timeout_ms`, also give up after that time what it does not acknowledge.
    """
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    timeout = (("TCP_USER_TIMEOUT", user_timeout_ms),) if user_timeout_ms else ()
    for name, value in (*PROBES, *timeout):
        if option := getattr(socket, name, None):  # each system has some of them
            accepted.setsockopt(socket.IPPROTO_TCP, option, value)
