"""Settings of the port for classic RocketMQ clients (the TCP protocol "remoting").

`complaint` says what does not fit together, before the server starts.
"""

from dataclasses import dataclass

from app import listen_address
from app.listen_address import AUTO, OFF
from engine.config import setting

HTTP_PORT = 8080
NAME_SERVER_PORT = 9876
VIP_BELOW = 2  # the port for sends of clients with `vipChannelEnabled`, counted from the broker's
BESIDE = 2  # ports after an HTTP port that is not the usual one


@dataclass(frozen=True, kw_only=True)
class RemotingSettings:
    """What the port for classic clients can be told."""

    remoting_listen: str = setting(
        AUTO,
        "Where classic RocketMQ clients (TCP, 4.x and 5.x) are served, name server and broker in "
        "one: `auto` is port 9876 on the same address where `port` is 8080, else the second port "
        "after `port`, and a free one where `port` is 0; `HOST:PORT`, or `PORT` on the same "
        "address; `off` for nowhere.",
    )
    remoting_broker_listen: str = setting(
        "",
        "A second port (`10911`, or `HOST:10911`) that classic clients are told as the broker's, "
        "as with Apache; the port two below it (10909) is served too. Set it for clients with "
        "`vipChannelEnabled`, which send there, and where name server and broker must have "
        "addresses of their own. Empty: the broker has the name server's port, and no other.",
    )
    remoting_advertised: str = setting(
        "",
        "Address (`HOST:PORT`) that classic clients are told to call for every topic; empty tells "
        "each the address that it called, but the port of `remoting_broker_listen` where that is "
        "set.",
    )
    remoting_tls: bool = setting(
        True,
        "Serve TLS beside plain text on the port for classic clients, where there is a "
        "`tls_certificate`.",
    )
    remoting_idle_s: float = setting(
        120.0, "A connection of a classic client that sends nothing for so long is closed.", above=0
    )
    remoting_client_polls_max: int = setting(
        1024, "Pulls that one connection of a classic client may hold open; more answer at once."
    )
    remoting_polls_max: int = setting(
        20_000, "Pulls of all classic clients held open at once; more answer at once."
    )


def complaint(settings: RemotingSettings) -> str:
    """What is wrong with these settings; "" where they will do."""
    listen = settings.remoting_listen
    if not listen_address.is_listen(listen):
        return f"setting 'remoting_listen' is {listen!r}; expected auto, off or HOST:PORT"
    if reason := _broker_complaint(settings):
        return reason
    advertised = settings.remoting_advertised
    if advertised and not listen_address.is_advertised(advertised):
        return f"setting 'remoting_advertised' is {advertised!r}; expected HOST:PORT"
    return ""


def listen_at(settings: RemotingSettings, host: str, port: int) -> tuple[str, int] | None:
    """Host and port for classic clients beside the HTTP server's; None where that is off."""
    return listen_address.parse(settings.remoting_listen, host, _beside(port))


def broker_at(settings: RemotingSettings, host: str) -> tuple[str, int] | None:
    """Host and port of the broker where it is apart from the name server; None where it is not."""
    return listen_address.host_and_port(settings.remoting_broker_listen, host)


def _broker_complaint(settings: RemotingSettings) -> str:
    text = settings.remoting_broker_listen
    if not text:
        return ""
    address = listen_address.host_and_port(text, "")
    if address is None or address[1] in (1, 2):
        return (
            f"setting 'remoting_broker_listen' is {text!r}; expected HOST:PORT or PORT, 3 at least"
        )
    if settings.remoting_listen == OFF:
        return "setting 'remoting_broker_listen' needs 'remoting_listen', which is off"
    return ""


def _beside(port: int) -> int:
    if port == HTTP_PORT:
        return NAME_SERVER_PORT
    return port + BESIDE if 0 < port <= 65535 - BESIDE else 0
