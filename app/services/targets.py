"""Where the server may call: callbacks of producer groups, and receivers of alerts.

Who may register an address could make the server call what only the server reaches: itself, other
programs of its machine, or the metadata service of a cloud. So the name is resolved here, every
address that it has is checked, and the connection is made to one that was checked; what the name
resolves to a moment later changes nothing. Proxies of the environment are not used, and
redirects are not followed.

Refused are link-local and metadata addresses, multicast, unspecified and reserved ones, loopback
and every other address of this machine. Networks and names of the setting `callback_allow` are
allowed all the same. While the server itself listens on loopback only, loopback is allowed: who
reaches the server is on this machine already. The server's own ports are never called.
"""

import asyncio
import ipaddress
import socket
import sys
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from app.addresses import quiet_clients, redacted_url
from app.listeners import addresses as listen_addresses
from app.network_settings import network_of
from app.settings import Settings, is_loopback
from engine.errors import Invalid

if TYPE_CHECKING:
    import httpx

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

RESOLVE_S = 5.0
ADDRESSES_MAX = 16  # of one name; further ones are not tried
PORTS = {"http": 80, "https": 443}
METADATA = frozenset(map(ipaddress.ip_address, ("100.100.100.200", "fd00:ec2::254")))
TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")  # an IPv4 address in its last four bytes
LOCALHOST = ipaddress.IPv4Address("127.0.0.1")
REMEDY = "choose another address, or name its host or network in the setting callback_allow"


class TargetRefused(Exception):
    """An address is none that the server calls; the text says why."""


class Targets:
    """The addresses that the settings allow; `own_ports` are those on which the server listens."""

    def __init__(self, settings: Settings, *, loopback_only: bool | None = None) -> None:
        self._networks = [
            network for each in settings.callback_allow if (network := network_of(each))
        ]
        names = (each.lower().rstrip(".") for each in settings.callback_allow)
        self._names = frozenset(name for name in names if network_of(name) is None)
        is_local = all(is_loopback(host) for (host, _), __ in listen_addresses(settings))
        self._takes_loopback = is_local if loopback_only is None else loopback_only
        self.own_ports: set[int] = {settings.port} - {0}

    def check(self, host: str, port: int, address: Address) -> None:
        """Raise TargetRefused unless a connection to `address` may be made, for `host`."""
        address = _plain(address)
        if port in self.own_ports and _is_of_this_machine(address):
            raise TargetRefused(f"{address} port {port} is this server itself")
        if address.is_unspecified or address.is_multicast:
            raise TargetRefused(f"{address} is no address of a server")
        if self._is_allowed(host, address):
            return
        if address.is_link_local or address in METADATA:
            raise TargetRefused(f"{address} is link-local, where clouds keep their credentials")
        if address.is_loopback:
            if self._takes_loopback:
                return
            raise TargetRefused(f"{address} is loopback, where only this machine's programs are")
        if address.is_reserved or getattr(address, "is_site_local", False):
            raise TargetRefused(f"{address} is reserved")
        if _is_of_this_machine(address):
            raise TargetRefused(f"{address} is this machine itself")

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of a host, all of which may be called.

        TargetRefused where one may not be, OSError where there is none within `RESOLVE_S`.
        """
        name = host.strip("[]")
        literal = _literal(name)
        addresses = [literal] if literal is not None else await _look_up(name, port)
        for address in addresses:
            self.check(name, port, address)
        return [str(address) for address in addresses[:ADDRESSES_MAX]]

    def check_url(self, url: str) -> None:
        """Raise Invalid (`url`) unless it is an http or https address without credentials.

        Also for one that is refused whatever its name resolves to.
        """
        host, port = "", 0
        try:
            parts = urlsplit(url)
            if parts.scheme in PORTS and parts.username is None and parts.port != 0:
                host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
        except ValueError:
            host = ""
        if not (host and url.isascii() and url.isprintable()) or " " in url:
            raise Invalid(
                f"{redacted_url(url)[:200]!r} cannot be called",
                field="url",
                remedy="give an http or https address without user and password",
            )
        self.check_host(host, port, field="url")

    def check_host(self, host: str, port: int, *, field: str) -> None:
        """Raise Invalid (`field`) for a host that is refused whatever its name resolves to.

        Names are resolved when they are called, each time anew.
        """
        address = LOCALHOST if host.rstrip(".") == "localhost" else _literal(host.strip("[]"))
        if address is None:
            return
        try:
            self.check(host, port, address)
        except TargetRefused as error:
            raise Invalid(f"{host} cannot be called: {error}", field=field, remedy=REMEDY) from None

    def _is_allowed(self, host: str, address: Address) -> bool:
        if host.lower().rstrip(".") in self._names:
            return True
        return any(address in each for each in self._networks if each.version == address.version)


class TargetClient:
    """An HTTP client for these targets, made at its first use."""

    def __init__(self, targets: Targets, *, connections_max: int) -> None:
        self._targets = targets
        self._connections_max = connections_max
        self._client: httpx.AsyncClient | None = None

    async def opened(self) -> "httpx.AsyncClient":
        """The client; loading it takes longer than a turn of the event loop may."""
        if "httpx" not in sys.modules:
            await asyncio.to_thread(import_module, "httpx")
        if self._client is None:
            self._client = create_client(self._targets, connections_max=self._connections_max)
        return self._client

    async def close(self) -> None:
        """Close the connections, if there are any."""
        if self._client is not None:
            await self._client.aclose()


def create_client(targets: Targets, *, connections_max: int) -> "httpx.AsyncClient":
    """An HTTP client that calls nothing else; httpx must be loaded by now.

    It has no time-outs of its own: the caller limits the whole call.
    """
    import httpx

    class Transport(httpx.AsyncBaseTransport):
        """Connects to checked addresses, under the original name."""

        def __init__(self) -> None:
            # Connections are not kept: the library would take one for another name of its address.
            limits = httpx.Limits(max_connections=connections_max, max_keepalive_connections=0)
            self._inner = httpx.AsyncHTTPTransport(trust_env=False, limits=limits)

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            url = request.url
            port = url.port or PORTS[url.scheme]
            addresses = await targets.resolve(url.host, port)
            request.extensions = {**request.extensions, "sni_hostname": url.host}
            for last, address in enumerate(addresses, start=1 - len(addresses)):
                request.url = url.copy_with(host=address)
                try:
                    return await self._inner.handle_async_request(request)
                except (httpx.ConnectError, httpx.ConnectTimeout):
                    if not last:
                        raise
            raise httpx.ConnectError("the name has no address")

        async def aclose(self) -> None:
            await self._inner.aclose()

    quiet_clients()
    return httpx.AsyncClient(
        transport=Transport(),
        trust_env=False,
        follow_redirects=False,
        timeout=None,  # noqa: S113 - each caller bounds the whole call
        headers={"Accept-Encoding": "identity"},  # so that what is counted is what is held
    )


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _plain(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one that stands for it."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inside = address.ipv4_mapped or address.sixtofour
    if inside is None and address.teredo is not None:
        inside = address.teredo[1]
    if inside is None and address in TRANSLATED:
        inside = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return inside or address


async def _look_up(name: str, port: int) -> list[Address]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RESOLVE_S):
            infos = await loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (TimeoutError, UnicodeError) as error:
        raise OSError(f"the name {name} could not be resolved") from error
    # A link-local IPv6 address comes with its interface behind a percent sign.
    texts = dict.fromkeys(str(each[4][0]).partition("%")[0] for each in infos)
    return [ipaddress.ip_address(text) for text in texts]


def _is_of_this_machine(address: Address) -> bool:
    """Whether a program of this machine could listen there; nothing is sent to find out."""
    if address.is_loopback or address.is_unspecified:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))  # the way to an own address begins at that address
            return ipaddress.ip_address(probe.getsockname()[0].partition("%")[0]) == address
    except OSError:
        return False
