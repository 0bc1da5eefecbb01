"""Finds the ports that a network reaches without TLS, for the start and the self-checks."""

import logging

from app.listeners import GRPC, HA, HTTP, REMOTING, REMOTING_BROKER, addresses
from app.settings import Settings, is_loopback

log = logging.getLogger("kitemq")

CLASSIC = "RocketMQ's TCP protocol"
NAMES = {HTTP: "HTTP", GRPC: "gRPC", REMOTING: CLASSIC, REMOTING_BROKER: CLASSIC, HA: "replication"}


def plain_ports(settings: Settings) -> tuple[str, ...]:
    """The ports that other machines reach, and on which a client may speak without TLS."""
    ports = []
    for (host, _), option in addresses(settings):
        has_tls = bool(settings.tls_certificate) if option == HTTP else settings.tls_required
        if not has_tls and not is_loopback(host):
            ports.append(f"{NAMES[option]} on {host}")
    return tuple(dict.fromkeys(ports))


def warn_of_plain(settings: Settings) -> None:
    """Say in the log what `plain_ports` finds, and which settings mend it."""
    ports = plain_ports(settings)
    if ports:
        log.warning(
            "a network reaches %s without TLS: passwords, tokens and messages can be read on the "
            "way; set tls_certificate and tls_key, and tls_required",
            " and ".join(ports),
        )
