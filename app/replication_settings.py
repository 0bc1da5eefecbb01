"""Settings of replication: the port for standbys, and the leader that a standby follows.

`complaint` says what does not fit, before the server starts.
"""

from dataclasses import dataclass

from app import listen_address
from app.listen_address import AUTO, OFF
from engine.config import setting

SECRET_CHARS_MIN = 16


@dataclass(frozen=True, kw_only=True)
class ReplicationSettings:
    """Who may copy this server's log, and whose it copies."""

    ha_listen: str = setting(
        OFF,
        "Where standbys and RocketMQ slaves copy the log, as `127.0.0.1:10912`; a `PORT` is one of "
        "the same address as `port`; `off` for nowhere. Other than loopback needs `ha_secret`.",
    )
    ha_secret: str = setting(
        "",
        "What a standby and its leader prove to each other that they know, of 16 characters or "
        "more. RocketMQ's slaves cannot: they are served only where it is empty.",
        is_secret=True,
    )
    ha_standbys_max: int = setting(8, "Standbys and slaves connected at once.", least=1)
    replicated_flush: bool = setting(
        False,
        "A standby says that it has a `replicated` message only once that is flushed there; else "
        "as soon as it is written.",
    )
    follow: str = setting(
        "",
        "`HOST:PORT` of the `ha_listen` of a leader, of which this server is a standby then: it "
        "copies everything from there, answers reads, and refuses changes. Empty: it is a leader.",
    )
    follow_ca: str = setting(
        "",
        "File (PEM) of the certificates that the leader's is checked with; then it is followed "
        "over TLS.",
    )


def complaint(settings: ReplicationSettings) -> str:
    """What is wrong with these settings; "" where they will do."""
    listen, secret = settings.ha_listen, settings.ha_secret
    if listen == AUTO or not listen_address.is_listen(listen):
        return f"setting 'ha_listen' is {listen!r}; expected off, HOST:PORT or PORT"
    if secret and len(secret) < SECRET_CHARS_MIN:
        return f"setting 'ha_secret' is too short; expected {SECRET_CHARS_MIN} characters or more"
    if settings.follow and not listen_address.is_advertised(settings.follow):
        return f"setting 'follow' is {settings.follow!r}; expected HOST:PORT"
    if settings.follow_ca and not settings.follow:
        return "setting 'follow_ca' needs 'follow'"
    return ""


def listen_at(settings: ReplicationSettings, host: str) -> tuple[str, int] | None:
    """Host and port for standbys; None where that is off, and of a standby."""
    return None if settings.follow else listen_address.parse(settings.ha_listen, host, 0)
