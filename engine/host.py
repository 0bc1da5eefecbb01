"""Encodes an address as RocketMQ does: 4 or 16 bytes of IP, then the port as a 4-byte integer."""

import socket
import struct
from functools import lru_cache
from typing import Any

PORT = struct.Struct(">i")
IPV4_BYTES = 8
IPV6_BYTES = 20
UNKNOWN = "127.0.0.1:0"


def host_text(host: str, port: int) -> str:
    """ "1.2.3.4:5", "[::1]:5": an address of a socket as messages keep it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def socket_text(address: Any) -> str:
    """The same of a socket's own address or its peer's; "" where a transport knows none."""
    return host_text(*address[:2]) if address else ""


@lru_cache(maxsize=4096)
def pack_host(host: str) -> bytes:
    """ "1.2.3.4:5" in 8 bytes, "[::1]:5" in 20; what is no numeric address packs as 127.0.0.1:0."""
    address, _, port = (host or UNKNOWN).rpartition(":")
    try:
        if address.startswith("["):
            return socket.inet_pton(socket.AF_INET6, address[1:-1]) + PORT.pack(int(port))
        return socket.inet_pton(socket.AF_INET, address) + PORT.pack(int(port))
    except (OSError, ValueError, struct.error):
        return pack_host(UNKNOWN)


@lru_cache(maxsize=4096)
def unpack_host(packed: bytes) -> str:
    """The text form of `pack_host`'s bytes."""
    port = PORT.unpack_from(packed, len(packed) - PORT.size)[0]
    if len(packed) == IPV6_BYTES:
        return f"[{socket.inet_ntop(socket.AF_INET6, packed[:16])}]:{port}"
    return f"{socket.inet_ntop(socket.AF_INET, packed[:4])}:{port}"
