"""One consumer of a group: its public description, and the entry kept while it is alive."""

import msgspec

from engine.delivery.group import Mode
from engine.delivery.rebalance import Strategy
from engine.delivery.subscriptions import Subscription, merged
from engine.errors import Invalid

TEXT_CHARS_MAX = 255


class Member(msgspec.Struct, frozen=True):
    """A consumer of a group; times are ms since 1970 UTC.

    `is_pulling`: it sends heartbeats and takes part in the sharing of queues. `is_connected`: it
    has a subscription on an open connection. None is what the engine cannot tell.
    """

    client: str
    version: str
    language: str
    address: str
    topics: Subscription
    is_pulling: bool
    is_connected: bool
    joined_ms: int | None
    seen_ms: int | None


class Assignment(msgspec.Struct, frozen=True):
    """The queues of one topic that are `client`'s; none unless it `is_member` by heartbeats."""

    group: str
    topic: str
    client: str
    strategy: Strategy
    mode: Mode
    is_member: bool
    queues: list[int]
    clients: list[str]


class MemberEntry:
    """The entry of one member in members.py; readings of the steady clock end in `_s`."""

    __slots__ = (
        "address",
        "beat_s",
        "connected",
        "joined_ms",
        "language",
        "received",
        "seen_ms",
        "seen_s",
        "stated",
        "version",
    )

    def __init__(self, now_ms: int, now_s: float) -> None:
        self.version = ""
        self.language = ""
        self.address = ""
        self.stated: Subscription = {}
        self.received: dict[str, str] = {}  # `stated` as the last receive wrote it
        self.connected: dict[object, Subscription] = {}
        self.joined_ms = self.seen_ms = now_ms
        self.seen_s = now_s
        self.beat_s: float | None = None  # of the last heartbeat

    @property
    def topics(self) -> Subscription:
        return merged([self.stated, *self.connected.values()])


def check_text(field: str, text: str) -> None:
    """Invalid for a text of a heartbeat that is too long, or not printable."""
    if len(text) > TEXT_CHARS_MAX or not text.isprintable():
        raise Invalid(
            f"{field} has at most {TEXT_CHARS_MAX} printable characters",
            field=field,
            remedy="shorten it, or leave it out",
        )
