"""Settings of the port for classic RocketMQ clients (the TCP protocol "remoting").

`complaint` says what does not fit together, before the server starts.
"""

from dataclasses import dataclass

from app import listen_address
from app.listen_address import AUTO
from engine.config import setting

HTTP_PORT = 8080
NAME_SERVER_PORT = 9876
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
    remoting_advertised: str = setting(
        "",
        "Address (`HOST:PORT`) that classic clients are told to call for every topic; empty tells "
        "each the address that it called.",
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
    advertised = settings.remoting_advertised
    if advertised and not listen_address.is_advertised(advertised):
        return f"setting 'remoting_advertised' is {advertised!r}; expected HOST:PORT"
    return ""


def listen_at(settings: RemotingSettings, host: str, port: int) -> tuple[str, int] | None:
    """Host and port for classic clients beside the HTTP server's; None where that is off."""
    return listen_address.parse(settings.remoting_listen, host, _beside(port))


def _beside(port: int) -> int:
    if port == HTTP_PORT:
        return NAME_SERVER_PORT
    return port + BESIDE if 0 < port <= 65535 - BESIDE else 0
