"""Finds the ports that a network reaches without TLS, for the start and the self-checks."""

import logging

from app import grpc_settings, remoting_settings
from app.settings import Settings, is_loopback

log = logging.getLogger("kitemq")


def plain_ports(settings: Settings) -> tuple[str, ...]:
    """The ports that other machines reach, and on which a client may speak without TLS."""
    ports = []
    if not is_loopback(settings.host) and not settings.tls_certificate:
        ports.append(f"HTTP on {settings.host}")
    place = (settings.host, settings.port)
    others = (
        ("gRPC", grpc_settings.listen_at(settings, *place)),
        ("RocketMQ's TCP protocol", remoting_settings.listen_at(settings, *place)),
        ("RocketMQ's TCP protocol", remoting_settings.broker_at(settings, settings.host)),
    )
    for name, address in others:
        if address is not None and not is_loopback(address[0]) and not settings.tls_required:
            ports.append(f"{name} on {address[0]}")
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
