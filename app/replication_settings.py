"""Settings of replication: the port for standbys, and the leader that a standby follows.

`complaint` says what does not fit, before the server starts.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from app import listen_address
from app.listen_address import AUTO, OFF
from engine.config import ROCKETMQ_SCHEME, setting

SECRET_CHARS_MIN = 16
BROKER = re.compile(r"[%|a-zA-Z0-9_.-]{1,255}")


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
        "copies everything from there, answers reads, and refuses changes. Empty: it is a leader. "
        "`rocketmq://NAMESRV[;NAMESRV][/BROKER]` is a master of Apache RocketMQ.",
    )
    follow_access_key: str = setting(
        "", "Access key with which a RocketMQ master is asked for its tables."
    )
    follow_secret_key: str = setting("", "Secret key that belongs to it.", is_secret=True)
    follow_ca: str = setting(
        "",
        "File (PEM) of the certificates that the leader's is checked with; then it is followed "
        "over TLS. A leader uses it from a hand-over on.",
    )


def complaint(settings: ReplicationSettings) -> str:
    """What is wrong with these settings; "" where they will do."""
    listen, secret = settings.ha_listen, settings.ha_secret
    if listen == AUTO or not listen_address.is_listen(listen):
        return f"setting 'ha_listen' is {listen!r}; expected off, HOST:PORT or PORT"
    if secret and len(secret) < SECRET_CHARS_MIN:
        return f"setting 'ha_secret' is too short; expected {SECRET_CHARS_MIN} characters or more"
    if settings.follow.startswith(ROCKETMQ_SCHEME):
        return _complaint_of_rocketmq(settings)
    if settings.follow and not listen_address.is_advertised(settings.follow):
        return f"setting 'follow' is {settings.follow!r}; expected HOST:PORT"
    if settings.follow_ca and not settings.follow and listen == OFF:
        return "setting 'follow_ca' needs 'follow' or 'ha_listen'"
    return ""


def _complaint_of_rocketmq(settings: ReplicationSettings) -> str:
    if rocketmq_peer(settings.follow) is None:
        expected = f"{ROCKETMQ_SCHEME}HOST:PORT[;HOST:PORT][/BROKER]"
        return f"setting 'follow' is {settings.follow!r}; expected {expected}"
    if settings.follow_ca:
        return "setting 'follow_ca' is for a leader of KiteMQ; RocketMQ's HA port has no TLS"
    return ""


class RocketmqPeer(NamedTuple):
    """An Apache master that is followed; no `broker` where its cluster has one."""

    name_servers: str
    broker: str


def rocketmq_peer(follow: str) -> RocketmqPeer | None:
    """What the setting `follow` says of an Apache master; None where it names none."""
    scheme, _, rest = follow.partition(ROCKETMQ_SCHEME)
    name_servers, slash, broker = rest.partition("/")
    is_named = all(listen_address.is_advertised(each) for each in name_servers.split(";"))
    is_broker = BROKER.fullmatch(broker) is not None if slash else True
    return None if scheme or not is_named or not is_broker else RocketmqPeer(name_servers, broker)


def listen_at(settings: ReplicationSettings, host: str) -> tuple[str, int] | None:
    """Host and port for standbys; None where that is off, and of a standby."""
    return None if settings.follow else listen_address.parse(settings.ha_listen, host, 0)
