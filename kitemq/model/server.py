"""The server itself: whether it lives and is ready, its self-checks, switches, and audit trail."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from kitemq.model.values import Int64

KERNEL = "How the engine's loops over batches run: compiled, or pure (in Python)."


class Alive(msgspec.Struct, frozen=True):
    """The process answers."""

    status: str


class Readiness(msgspec.Struct, frozen=True):
    """Whether requests can be served; `problems` names what fails and why.

    `warnings` names what somebody should see to while everything still works.
    """

    status: Annotated[str, Meta(description="ready, degraded or starting")]
    problems: dict[str, str]
    warnings: dict[str, str] = {}
    kernel: Annotated[str, Meta(description=KERNEL)] = ""


class StandbyItem(msgspec.Struct, frozen=True):
    """A standby that is connected to this server, and how much of the log it has not reported."""

    address: str
    kind: Annotated[str, Meta(description="`kitemq`, or `rocketmq` for a slave.")]
    since_ms: int
    lag_bytes: int
    ha_listen: Annotated[
        str, Meta(description="Where a standby serves standbys once it leads; may be empty.")
    ] = ""
    in_step: Annotated[bool, Meta(description="Whether it has had everything once.")] = False


class LogTailItem(msgspec.Struct, frozen=True):
    """What this directory alone had, written in `epoch`, when it began to follow a later leader."""

    file: Annotated[str, Meta(description="In the data directory; `kitemq store tail` reads it.")]
    epoch: int
    messages: int
    size_bytes: int
    set_aside_ms: int


class Replication(msgspec.Struct, frozen=True):
    """Whom this server follows, and who copies it."""

    leader: Annotated[str, Meta(description="Empty where this server is a leader itself.")]
    is_connected: Annotated[bool, Meta(description="Whether a standby reaches its leader.")]
    lag_bytes: Annotated[
        int | None, Meta(description="Of a standby, null until its leader was heard.")
    ]
    failure: Annotated[str, Meta(description="Why a standby does not get on.")]
    standbys: list[StandbyItem]
    refusal: Annotated[str, Meta(description="Why the last standby that was refused was.")]
    epoch: Annotated[int, Meta(description="Every promotion begins one.")] = 1
    tails: Annotated[list[LogTailItem], Meta(description="Set aside, the newest first.")] = []
    heir: Annotated[
        str, Meta(description="A standby that was told to take over, until that is known.")
    ] = ""
    database_copied_ms: Annotated[
        int | None,
        Meta(
            description="Of a standby: when the copy of its leader's SQLite database came that is "
            "its own once it leads. Null where it has none."
        ),
    ] = None


class NewPromotion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A promotion as it is wanted."""

    force: Annotated[
        bool,
        Meta(
            description="Although the leader is connected, of which something may be lost; or a "
            "leader once more, where two standbys were promoted apart from each other."
        ),
    ] = False


class Promotion(msgspec.Struct, frozen=True):
    """The epoch in which this server leads, once it has started anew."""

    epoch: int


class NewHandover(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A hand-over as it is wanted."""

    to: Annotated[
        str, Meta(description="The standby's `ha_listen`, or its host; empty for the only one.")
    ] = ""
    timeout_s: Annotated[
        float, Meta(gt=0, le=60, description="How long the standby has, at most 60.")
    ] = 5.0


class HandoverDone(msgspec.Struct, frozen=True):
    """The epoch in which the standby leads, and its `ha_listen`, which this server follows."""

    epoch: int
    leader: str


class Capabilities(msgspec.Struct, frozen=True):
    """What the engine behind a server can do; where false, such a request is refused."""

    exact_timers: Annotated[bool, Meta(description="Deliver at an exact time.")]
    timer_changes: Annotated[
        bool,
        Meta(
            description="Deliver waiting messages early, reschedule them, and recall those of "
            "delay levels."
        ),
    ]
    message_acks: Annotated[bool, Meta(description="Acknowledge single messages.")]
    sql_filters: Annotated[bool, Meta(description="Filter by SQL92 expressions.")]
    transaction_queries: Annotated[bool, Meta(description="List and look up transactions.")]
    dead_letter_replays: Annotated[bool, Meta(description="Replay dead letters by jobs.")]
    # Of these an older server says nothing, which can do them all.
    uncounted_releases: Annotated[
        bool, Meta(description="Put messages back without counting the attempt.")
    ] = True
    member_shares: Annotated[
        bool, Meta(description="Share the queues of a topic out among the members of a group.")
    ] = True
    member_queues: Annotated[
        bool, Meta(description="Tell which queues the members of a group read.")
    ] = False
    dismissals: Annotated[bool, Meta(description="Dismiss dead letters, and restore them.")] = True
    reset_history: Annotated[bool, Meta(description="Remember and undo offset resets.")] = True
    purges: Annotated[bool, Meta(description="Delete messages before their time.")] = True
    content_search: Annotated[
        bool, Meta(description="Look through a topic for what its messages say.")
    ] = True
    journeys: Annotated[bool, Meta(description="Tell what happened to a message.")] = True
    traffic_figures: Annotated[bool, Meta(description="Count messages and rates.")] = True
    delivery_figures: Annotated[
        bool,
        Meta(description="Count bytes, refusals, and what becomes of deliveries, and take times."),
    ] = True
    lag_history: Annotated[bool, Meta(description="Keep the lag of groups over time.")] = True
    log_figures: Annotated[bool, Meta(description="Tell of its log, its disk and services.")] = True
    reports: Annotated[bool, Meta(description="Compute reports, of lag at least.")] = True
    trace_reports: Annotated[
        bool, Meta(description="Compute reports of messages, and of deliveries that were traced.")
    ] = True
    delivery_records: Annotated[
        bool, Meta(description="Record every delivery; else clients trace theirs, or do not.")
    ] = True
    delay_reports: Annotated[
        bool, Meta(description="Compute how late messages with a delay were released.")
    ] = True
    transaction_reports: Annotated[
        bool, Meta(description="Compute what became of transactions, and how long they took.")
    ] = True
    transaction_callbacks: Annotated[
        bool, Meta(description="Ask callbacks of producer groups what became of a transaction.")
    ] = True
    topic_overrides: Annotated[
        bool, Meta(description="Give a topic its own durability, retention and traces.")
    ] = True
    group_policies: Annotated[
        bool,
        Meta(
            description="Give a group more settings than its retries, its order and a pause of "
            "all its topics."
        ),
    ] = True
    brokers: Annotated[
        bool, Meta(description="Have several brokers, which are listed with their figures.")
    ] = False
    offset_resets: Annotated[
        bool, Meta(description="Move a group to another place, after a preview.")
    ] = True
    request_replies: Annotated[bool, Meta(description="Send requests, and wait for replies.")] = (
        True
    )
    inflight_figures: Annotated[bool, Meta(description="Count what is with consumers.")] = True
    scheduled_list: Annotated[bool, Meta(description="List messages that wait for their time.")] = (
        True
    )
    timer_recalls: Annotated[
        bool, Meta(description="Recall messages that wait for an exact time.")
    ] = True


class ServerInfo(msgspec.Struct, frozen=True):
    """Version and identity of this server."""

    version: str
    environment: str
    started_ms: int
    uptime_s: float
    topics: int
    groups: int
    data: Annotated[str, Meta(description="Data directory, on the server's own machine.")]
    data_mark: Annotated[
        str,
        Meta(
            description="Tells it from every other directory of that machine; empty where the "
            "messages are elsewhere, in a RocketMQ cluster."
        ),
    ]
    capabilities: Capabilities
    kernel: Annotated[str, Meta(description=KERNEL)] = ""


class AuditItem(msgspec.Struct, frozen=True):
    """One change: `result` is done, started (its end is unknown), failed, or an error's code."""

    id: Int64
    at_ms: int
    actor: str
    action: str
    object_kind: str
    object_name: str
    before_json: str
    after_json: str
    result: str
    request_id: Int64
    address: Annotated[
        str, Meta(description="Where it was asked for; empty where nobody asked, or not known.")
    ]


class AuditPage(msgspec.Struct, frozen=True):
    """A page of changes, the newest first."""

    items: list[AuditItem]
    next_cursor: str | None


class CheckOutcome(StrEnum):
    """The outcome of a self-check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNKNOWN = "unknown"


class SelfCheck(msgspec.Struct, frozen=True):
    """One check: its result, how long it took and when it was made."""

    code: Annotated[str, Meta(description="It never changes.")]
    outcome: CheckOutcome
    detail: str
    took_ms: float
    at_ms: int


class SelfCheckList(msgspec.Struct, frozen=True):
    items: list[SelfCheck]


class ReadOnlyMode(msgspec.Struct, frozen=True):
    """Whether changes are refused: by the setting, or by a user, with time and reason."""

    read_only: bool
    by_setting: bool
    by: str
    since_ms: int | None
    reason: str


class NewReadOnlyMode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The switch as it should be."""

    read_only: bool
    reason: Annotated[
        str, Meta(description="At most 200 characters, needed to switch on; every page shows it.")
    ] = ""


class LoggerLevel(msgspec.Struct, frozen=True):
    """A part of the server with its log level, and whether that was changed here."""

    name: str
    level: str
    own: Annotated[str, Meta(description="Its own level; empty: that of the logger above.")]
    changed: bool


class LoggerList(msgspec.Struct, frozen=True):
    items: list[LoggerLevel]


class NewLoggerLevel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: Annotated[
        str, Meta(description="debug, info, warning or error; empty: that of the logger above.")
    ]
