"""Settings of who reaches the server and what is kept of it: proxies, forms, the audit trail.

`complaint` says what does not fit, before the server starts.
"""

import ipaddress
from dataclasses import dataclass

from engine.config import setting

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, kw_only=True)
class AccessSettings:
    """Which proxies are believed, and how much the audit trail holds."""

    trusted_proxies: tuple[str, ...] = setting(
        (),
        "Addresses or networks of reverse proxies, as `127.0.0.1` or `10.0.0.0/8`; separated by "
        "commas. Only their `X-Forwarded-For` is believed: the client is its right-most address "
        "that is no trusted proxy. Empty believes nobody.",
    )
    audit_days: int = setting(
        730, "Days that entries of the audit trail are kept; 0 keeps them whatever their age."
    )
    audit_entries_max: int = setting(
        1_000_000,
        "Entries that the audit trail keeps. Beyond it the oldest refused attempts go first, then "
        "the oldest of all; 0 keeps any number.",
    )


def networks_of(texts: tuple[str, ...]) -> tuple[Network, ...]:
    """The setting `trusted_proxies` as networks; ValueError names the first that is none."""
    networks: list[Network] = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text.strip("[]")))
        except ValueError:
            raise ValueError(text) from None
    return tuple(networks)


def complaint(settings: AccessSettings) -> str:
    """What is wrong about these settings, as a sentence that names one; "" where nothing is."""
    try:
        networks_of(settings.trusted_proxies)
    except ValueError as error:
        return (
            f"setting 'trusted_proxies' holds {str(error)!r}; expected an address or a network "
            "without host bits, as 127.0.0.1 or 10.0.0.0/8"
        )
    return ""
