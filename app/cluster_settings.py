"""Settings of a server before a RocketMQ cluster, instead of the embedded engine.

`complaint` says what does not fit, before the server starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.config import setting

NAME_SERVERS_MAX = 16
# They would have no effect; each is refused where it is given.
OF_THE_ENGINE = frozenset(
    (
        *("durability", "replicated_flush", "replicated_fallback", "retention_h"),
        *("retention_bytes", "trace_sample", "ha_listen", "grpc_listen", "remoting_listen"),
        *("remoting_broker_listen", "follow"),
    )
)


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """Which cluster has the messages, and as whom the server speaks to it."""

    rocketmq: str = setting(
        "",
        "Name servers of an Apache RocketMQ cluster, as `10.0.0.1:9876;10.0.0.2:9876`: messages, "
        "offsets and groups live there, and no embedded engine runs. Empty: the embedded engine.",
    )
    rocketmq_access_key: str = setting("", "Access key of the server in the cluster, if it asks.")
    rocketmq_secret_key: str = setting("", "The secret to that access key.", is_secret=True)


def complaint(settings: ClusterSettings, *, others: Sequence[str]) -> str:
    """What is wrong with these settings; "" where they will do.

    `others` are the settings OF_THE_ENGINE that were changed.
    """
    if bool(settings.rocketmq_access_key) != bool(settings.rocketmq_secret_key):
        return "settings 'rocketmq_access_key' and 'rocketmq_secret_key' need each other"
    if not settings.rocketmq:
        return "setting 'rocketmq_access_key' needs 'rocketmq'" * bool(settings.rocketmq_access_key)
    if others:
        return (
            f"setting {others[0]!r} is one of the embedded engine, and 'rocketmq' puts a cluster "
            "in its place: leave one of the two out"
        )
    names = [each.strip() for each in settings.rocketmq.split(";")]
    if len(names) > NAME_SERVERS_MAX or not all(map(_is_address, names)):
        return (
            f"setting 'rocketmq' is {settings.rocketmq!r}; expected HOST:PORT, up to "
            f"{NAME_SERVERS_MAX} with semicolons between them"
        )
    return ""


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isascii() and port.isdigit() and 0 < int(port) < 65_536
