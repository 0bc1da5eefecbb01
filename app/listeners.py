"""The sockets that the server listens on, by the options that name them."""

import errno
import socket
from itertools import chain

from app import grpc_settings, remoting_settings, replication_settings
from app.settings import Settings, is_loopback

HTTP, GRPC, REMOTING = "--port", "--grpc-listen", "--remoting-listen"
REMOTING_BROKER = "--remoting-broker-listen"
HA = "--ha-listen"
BACKLOG = 2048
PAIR_TRIES = 16  # to find two free ports
Address = tuple[str, int]
Listeners = dict[str, list[socket.socket]]


class CannotListen(Exception):
    """An address cannot be listened on; the text says why."""

    def __init__(self, address: Address, option: str, error: OSError) -> None:
        where = f"{address[0]}:{address[1]}"
        if error.errno == errno.EADDRINUSE:
            text = f"{where} is in use by another process; stop it, or choose another {option}"
        else:
            text = f"cannot listen on {where}: {error.strerror or error}"
        super().__init__(text)


def open_listeners(settings: Settings) -> Listeners:
    """Listen on all addresses of the settings; raises CannotListen, and then on none.

    The list of an option has one socket; that of REMOTING_BROKER a second one, two ports below it.
    """
    listeners: Listeners = {}
    for address, option in addresses(settings):
        try:
            make = _listen_twice if option == REMOTING_BROKER else _listen_once
            listeners[option] = make(address, option)
        except CannotListen:
            close(listeners)
            raise
    return listeners


def close(listeners: Listeners) -> None:
    for each in chain.from_iterable(listeners.values()):
        each.close()


def addresses(settings: Settings) -> list[tuple[Address, str]]:
    """Where to listen, HTTP first, each with the option that names it."""
    http = (settings.host, settings.port)
    others = (
        (grpc_settings.listen_at(settings, *http), GRPC),
        (remoting_settings.listen_at(settings, *http), REMOTING),
        (remoting_settings.broker_at(settings, settings.host), REMOTING_BROKER),
        (replication_settings.listen_at(settings, settings.host), HA),
    )
    return [(http, HTTP), *((address, option) for address, option in others if address)]


def open_host(settings: Settings) -> str:
    """Of the hosts that are listened on, one that others can reach, where there is one.

    That of standbys has its own secret.
    """
    hosts = [address[0] for address, option in addresses(settings) if option != HA]
    return next((host for host in hosts if not is_loopback(host)), hosts[0])


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """The URL under which a listening socket is reached."""
    address, port = listener.getsockname()[:2]
    return f"{scheme}://[{address}]:{port}" if ":" in address else f"{scheme}://{address}:{port}"


def _listen_once(address: Address, option: str) -> list[socket.socket]:
    return [_listen(address, option)]


def _listen_twice(address: Address, option: str) -> list[socket.socket]:
    """The address, and the port two below it; port 0 takes two free ones."""
    tries = 1 if address[1] else PAIR_TRIES
    while True:
        first = _listen(address, option)
        below = (address[0], first.getsockname()[1] - remoting_settings.VIP_BELOW)
        try:
            return [first, _listen(below, option)]
        except CannotListen:
            first.close()
            tries -= 1
            if not tries:
                raise


def _listen(address: Address, option: str) -> socket.socket:
    try:
        host, port = address
        infos = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, place = infos[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CannotListen(address, option, error) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise CannotListen(address, option, error) from error
    return listener
