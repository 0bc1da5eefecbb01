"""Retention: its limits and state; and purging a topic."""

from typing import Annotated

import msgspec
from msgspec import Meta

from kitemq.model.values import Int64, Milliseconds


class RetentionHolder(msgspec.Struct, frozen=True):
    """What keeps old files from going; its oldest message lies at `position` of the log."""

    name: str
    position: Int64


class Retention(msgspec.Struct, frozen=True):
    """The policy in force, and where log and disk stand."""

    retention_ms: Annotated[int, Meta(description="How long messages are kept; 0 for good.")]
    retention_bytes: Annotated[int, Meta(description="The most the log may take; 0 no limit.")]
    disk_expire_percent: int
    disk_force_percent: int
    disk_refuse_percent: int
    disk_enough_bytes: int
    disk_percent: Annotated[
        float, Meta(description="How full the disk is; 0 while disk_enough_bytes are free.")
    ]
    disk_free_bytes: int | None
    disk_bytes: int
    log_bytes: int
    segments: Annotated[int, Meta(description="Log files; they go whole, the last one never.")]
    segment_bytes: int
    oldest_position: Int64
    oldest_ms: Annotated[
        int | None, Meta(description="When the oldest message was stored, ms since 1970 UTC.")
    ]
    next_due_ms: Annotated[
        int | None, Meta(description="When the oldest file is old enough to go; null if never.")
    ]
    held_by: Annotated[list[RetentionHolder], Meta(description="What keeps files that could go.")]
    refusal: Annotated[str, Meta(description="Why sends are refused; empty if they are not.")]
    warning: Annotated[str, Meta(description="What somebody should see to; empty if nothing.")]


class PurgeOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The extent of a purge: one of `before_offset`, `before_ms` and `all`."""

    before_offset: Annotated[
        dict[str, str | int] | None,
        Meta(description="By queue number: the first offset that stays."),
    ] = None
    before_ms: Annotated[Milliseconds | None, Meta(description="Older messages go.")] = None
    all: Annotated[bool, Meta(description="Everything that can be read now.")] = False
    dry_run: Annotated[bool, Meta(description="Only count what would go.")] = False


class PurgedQueue(msgspec.Struct, frozen=True):
    """`count` messages from `from_offset` on; the queue begins at `to_offset`."""

    queue: int
    from_offset: Int64
    to_offset: Int64
    count: int


class Purged(msgspec.Struct, frozen=True):
    """The purged messages, or with `dry_run` those to purge; lists only queues that lose some."""

    topic: str
    count: int
    dry_run: bool
    queues: list[PurgedQueue]
