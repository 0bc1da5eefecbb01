"""The brokers of a RocketMQ cluster: who is there, and how much each has."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta


class BrokerRole(StrEnum):
    """What a member of a broker is."""

    MASTER = "master"
    SLAVE = "slave"


class BrokerMember(msgspec.Struct, frozen=True):
    """A process of a broker: its master, or one of its slaves."""

    id: Annotated[int, Meta(description="0 is the master.")]
    role: BrokerRole
    address: str
    version: Annotated[str, Meta(description="Empty while it is unknown.")]
    reachable: bool
    away_since_ms: Annotated[
        int | None,
        Meta(description="Since when it is away; null if it is there, or away since the start."),
    ]
    behind_bytes: Annotated[
        int | None, Meta(description="Of a slave: how much of its master's log it lacks.")
    ]


class BrokerItem(msgspec.Struct, frozen=True):
    """A broker; figures are those of its master, null while that is away.

    Days begin at midnight in the broker's zone, and count from its start if that was later.
    """

    name: str
    cluster: str
    place: Annotated[
        int | None,
        Meta(description="Its place in the order that numbers queues; null: they have no numbers."),
    ]
    reachable: Annotated[bool, Meta(description="Whether its master is.")]
    members: list[BrokerMember]
    topics: Annotated[int | None, Meta(description="Topics of users that have queues on it.")]
    queues: Annotated[int | None, Meta(description="Queues for writing of these.")]
    stored_today: int | None
    stored_yesterday: int | None
    read_today: int | None
    read_yesterday: int | None
    in_per_s: Annotated[float | None, Meta(description="Stored over the last minute.")]
    out_per_s: Annotated[float | None, Meta(description="Read over the last minute.")]
    disk_ratio: Annotated[float | None, Meta(description="How full its log's disk is, 0 to 1.")]
    log_bytes: int | None
    unnumbered_topics: Annotated[
        list[str],
        Meta(description="Topics with queues on it that have no number, and are not reached."),
    ] = []
    remedy: Annotated[str, Meta(description="How to number them; empty where all are.")] = ""


class BrokerList(msgspec.Struct, frozen=True):
    """All brokers by name."""

    items: list[BrokerItem]
