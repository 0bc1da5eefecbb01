"""Settings of replication: the port for standbys.

`complaint` says what does not fit, before the server starts.
"""

from dataclasses import dataclass

from app import listen_address
from app.listen_address import AUTO, OFF
from engine.config import setting

SECRET_CHARS_MIN = 16


@dataclass(frozen=True, kw_only=True)
class ReplicationSettings:
    """Who may copy this server's log."""

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


def complaint(settings: ReplicationSettings) -> str:
    """What is wrong with these settings; "" where they will do."""
    listen, secret = settings.ha_listen, settings.ha_secret
    if listen == AUTO or not listen_address.is_listen(listen):
        return f"setting 'ha_listen' is {listen!r}; expected off, HOST:PORT or PORT"
    if secret and len(secret) < SECRET_CHARS_MIN:
        return f"setting 'ha_secret' is too short; expected {SECRET_CHARS_MIN} characters or more"
    return ""


def listen_at(settings: ReplicationSettings, host: str) -> tuple[str, int] | None:
    """Host and port for standbys; None where that is off."""
    return listen_address.parse(settings.ha_listen, host, 0)
