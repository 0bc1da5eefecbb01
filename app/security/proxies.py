"""Finds the client's address of a request that came through reverse proxies.

Any client can send `X-Forwarded-For`, so it is read only if the peer is in `trusted_proxies`. Each
proxy appends the address of its own peer: from the right, the first address that is no trusted
proxy is the client's. Addresses to the left of it may be forged.
"""

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

from starlette.types import Scope

from app.access_settings import AccessSettings, networks_of

FORWARDED_FOR = b"x-forwarded-for"
HOPS_MAX = 32  # of one request, from the right
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class TrustedProxies:
    """The trusted proxies, and the clients that they name."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        """`texts` is the setting `trusted_proxies`; raises ValueError for an invalid network."""
        self._networks = networks_of(texts)
        self.are_any = bool(self._networks)

    def trusts(self, peer: str) -> bool:
        """Whether a connection from the address `peer` comes from a trusted proxy."""
        address = _address(peer) if self._networks else None
        return address is not None and self._holds(address)

    def client_of(self, peer: str, forwarded: Iterable[bytes]) -> str:
        """The client of a request from `peer`; `forwarded` are its `X-Forwarded-For` headers.

        This is the peer itself if it is not trusted. A hop that is no address ends the search: the
        last address that a trusted proxy named counts.
        """
        if not self.trusts(peer):
            return peer
        client = peer
        hops = b",".join(forwarded).rsplit(b",", HOPS_MAX)[-HOPS_MAX:]
        for hop in reversed(hops):
            address = _hop(hop)
            if address is None:
                break
            client = str(address)
            if not self._holds(address):
                break
        return client

    def _holds(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def client_address(scope: Scope, proxies: TrustedProxies) -> str:
    """The address of the client that sent a request, without port; "" if unknown."""
    peer = scope.get("client")
    if not peer:
        return ""
    forwarded = (value for name, value in scope["headers"] if name == FORWARDED_FOR)
    return proxies.client_of(peer[0], forwarded)


def proxies_of(settings: AccessSettings) -> TrustedProxies:
    """The proxies that the settings name."""
    return TrustedProxies(settings.trusted_proxies)


def _hop(text: bytes) -> Address | None:
    """The address in one hop, which some proxies write with a port."""
    hop = text.strip().decode("latin-1")
    if hop.startswith("["):
        hop = hop[1:].partition("]")[0]
    elif hop.count(":") == 1:
        hop = hop.partition(":")[0]
    return _address(hop)


@lru_cache(maxsize=4096)
def _address(text: str) -> Address | None:
    """The parsed address, IPv4-mapped ones as IPv4; None if it is none."""
    if len(text) > 64:
        return None
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        return address.ipv4_mapped or address
    return address
