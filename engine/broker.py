"""The broker: every operation that an endpoint may call, and the values of those operations.

One thread owns it. Every verb returns in microseconds and never waits: what takes the kernel's
time goes to the pool, what waits for messages is parked and woken by a callback. How the parts are
put together is in `container.py`; those that offer much of their own are attributes here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from engine.clock import Clock
from engine.config import EngineConfig
from engine.container import Container
from engine.delivery.changes import Reset
from engine.delivery.filter import parse_filter
from engine.delivery.group import GroupConfig, Mode
from engine.delivery.locks import LockedQueue, LockResult, QueueLock
from engine.delivery.long_polling import LongPoll
from engine.delivery.member import Assignment, Member
from engine.delivery.members import MemberConnection
from engine.delivery.policy import Exponential, Ladder, RetryPolicy, Steps
from engine.delivery.pull import PullAnswer, PullResult, PullStatus
from engine.delivery.rebalance import Strategy
from engine.delivery.reset_plan import (
    OffsetsMoved,
    QueueMove,
    ResetNote,
    ResetPlan,
    ResetPreview,
    ResetTarget,
    ResetTo,
)
from engine.delivery.resets import OffsetResets
from engine.delivery.start import StartAt
from engine.delivery.subscriptions import SubscriptionVariant, SubscriptionWarning
from engine.delivery.values import (
    AckResult,
    Delivery,
    ExtendResult,
    GroupLag,
    LagBasis,
    Nack,
    QueueLag,
    Receipt,
)
from engine.errors import EngineError, MessageNotFound, QueueNotFound, Stopping, unusable
from engine.message import Durability, Message, PutResult, StoredMessage
from engine.replay.dead_letters import (
    DeadLetter,
    DeadLetterArrivals,
    DeadLetterPage,
    DeadLetterTally,
)
from engine.replay.dismissal_snapshot import DismissalSnapshot, DismissalSummary
from engine.replay.dismissals import DismissalPlan
from engine.replay.dismissed_offsets import DismissNote
from engine.replay.job import ReplayState, ReplayTo
from engine.replay.values import NewReplay, OutcomeRow, ReplayJob, ReplayOutcomePage, RetryRequest
from engine.reply.pending_requests import PendingRequest
from engine.reply.requests import (
    FoundReply,
    ReplyMessage,
    ReplyOutcome,
    ReplyResult,
    RequestCounts,
    RequestReply,
)
from engine.retention.pins import ActivePin
from engine.retention.purge import Purge, QueuePurge
from engine.retention.retention import RetentionStatus
from engine.schedule.deliver import LevelWaiting
from engine.schedule.timers import Scheduled, ScheduledPage, TimerAnswer
from engine.search.lookup import Lookup
from engine.search.scan import FOREVER_MS, MessageScan, ScanPage, ScanQuery
from engine.search.search import ANYWHERE, oldest_first
from engine.service import ServiceRunner
from engine.statistics.latency_histogram import LatencySpreads, Spread
from engine.statistics.metric_series import Metric, MetricSeries
from engine.statistics.statistics import Statistics
from engine.statistics.values import (
    BrokerMetrics,
    GroupMetrics,
    LagHistoryPage,
    LagHistoryRetention,
    LagPoint,
    PutLatency,
    QueueMetrics,
    ReaderMetrics,
    TopicMetrics,
    TrafficRates,
)
from engine.statistics.windows import WindowRates
from engine.store.damage import Damage
from engine.store.encode import position_of_id
from engine.store.files import Files, OsFiles
from engine.store.pool import Pool
from engine.topic.catalog import TopicConfig, TopicType
from engine.topic.names import (
    DEAD_LETTER_PREFIX,
    GROUP_QUEUE,
    REPLY_TOPIC,
    RETRY_PREFIX,
    retry_topic,
)
from engine.trace.journey import (
    Branch,
    CheckedReason,
    GroupState,
    Journey,
    ReasonCode,
    Recent,
    Stage,
    StageName,
    StageOutcome,
)
from engine.trace.traces import TraceStatus
from engine.txn.check import TransactionCheck
from engine.txn.producers import Callback, Callbacks
from engine.txn.resolve import Decider, TransactionDecision
from engine.txn.transactions import (
    Transaction,
    TransactionPage,
    TransactionState,
    TransactionSubsystem,
)

__all__ = [
    "ANYWHERE",
    "DEAD_LETTER_PREFIX",
    "FOREVER_MS",
    "GROUP_QUEUE",
    "REPLY_TOPIC",
    "RETRY_PREFIX",
    "AckResult",
    "ActivePin",
    "Assignment",
    "Branch",
    "Broker",
    "BrokerMetrics",
    "Callback",
    "Callbacks",
    "CheckedReason",
    "DeadLetter",
    "DeadLetterArrivals",
    "DeadLetterPage",
    "DeadLetterTally",
    "Decider",
    "Delivery",
    "DismissNote",
    "DismissalPlan",
    "DismissalSnapshot",
    "DismissalSummary",
    "Exponential",
    "ExtendResult",
    "FoundReply",
    "GroupConfig",
    "GroupLag",
    "GroupMetrics",
    "GroupState",
    "Health",
    "Journey",
    "Ladder",
    "LagBasis",
    "LagHistoryPage",
    "LagHistoryRetention",
    "LagPoint",
    "LatencySpreads",
    "LevelWaiting",
    "LockResult",
    "LockedQueue",
    "LongPoll",
    "Lookup",
    "Member",
    "MemberConnection",
    "MessageScan",
    "Metric",
    "MetricSeries",
    "Mode",
    "Nack",
    "NewReplay",
    "OffsetResets",
    "OffsetsMoved",
    "OutcomeRow",
    "PendingRequest",
    "PullAnswer",
    "PullResult",
    "PullStatus",
    "Purge",
    "PutLatency",
    "QueueContent",
    "QueueLag",
    "QueueLock",
    "QueueMetrics",
    "QueueMove",
    "QueuePurge",
    "QueueStats",
    "ReaderMetrics",
    "ReasonCode",
    "Receipt",
    "Recent",
    "ReplayJob",
    "ReplayOutcomePage",
    "ReplayState",
    "ReplayTo",
    "ReplyMessage",
    "ReplyOutcome",
    "ReplyResult",
    "RequestCounts",
    "RequestReply",
    "Reset",
    "ResetNote",
    "ResetPlan",
    "ResetPreview",
    "ResetTarget",
    "ResetTo",
    "RetentionStatus",
    "RetryPolicy",
    "RetryRequest",
    "ScanPage",
    "ScanQuery",
    "Scheduled",
    "ScheduledPage",
    "Spread",
    "Stage",
    "StageName",
    "StageOutcome",
    "StartAt",
    "Statistics",
    "Steps",
    "Strategy",
    "SubscriptionVariant",
    "SubscriptionWarning",
    "TimerAnswer",
    "TopicConfig",
    "TopicMetrics",
    "TopicStats",
    "TopicType",
    "TraceStatus",
    "TrafficRates",
    "Transaction",
    "TransactionCheck",
    "TransactionDecision",
    "TransactionPage",
    "TransactionState",
    "TransactionSubsystem",
    "WindowRates",
]


NOTES_SHOWN = 10


class QueueStats(msgspec.Struct, frozen=True):
    """One queue: offsets `min_offset` up to `max_offset` - 1 can be read."""

    queue: int
    min_offset: int
    max_offset: int
    last_stored_ms: int | None


class QueueContent(msgspec.Struct, frozen=True):
    """Content of a queue: the time of its oldest message, and the bytes of some records.

    `bytes` are those of the newest `measured` messages.
    """

    first_stored_ms: int | None
    measured: int
    bytes: int


class TopicStats(msgspec.Struct, frozen=True):
    """All queues of a topic; `messages` is how many can be read."""

    queues: list[QueueStats]
    messages: int


class Health(msgspec.Struct, frozen=True):
    """Health of the engine; `failures` names the faults, empty when there are none.

    `warnings` names what a person should see to while everything still works.
    """

    is_ready: bool
    failures: dict[str, str]
    durability: Durability
    log_bytes: int
    unflushed_bytes: int
    disk_free_bytes: int | None
    disk_free_min_bytes: int
    damages: list[Damage]
    warnings: dict[str, str] = {}


class Broker:
    """Built, then `start`ed once, `tick`ed by its owner, `stop`ped once."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        clock: Clock,
        pool: Pool,
        files: Files | None = None,
        on_wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_wake` is called when `tick` is wanted sooner than it said."""
        self._config = config
        self._clock = clock
        self._is_running = False
        parts = Container(
            config,
            clock=clock,
            pool=pool,
            files=files or OsFiles(),
            check_running=self._check_running,
        )
        self._parts = parts
        self._store, self._catalog, self._intake = parts.store, parts.catalog, parts.intake
        self._delivery, self._timers = parts.delivery, parts.timers
        self._deliverer, self._timer_deliverer = parts.deliverer, parts.timer_deliverer
        self.events = parts.events
        self.transactions = parts.transactions
        self.requests = parts.requests
        self.members = parts.delivery.members
        self.locks = parts.locks
        self.resets = parts.delivery.resets
        self.replays = parts.replay.replays
        self.dead_letters = parts.replay.dead_letters
        self.search = parts.search
        self.traces = parts.traces
        self.statistics = parts.statistics
        self.retention = parts.retention
        self._runner = ServiceRunner(parts.services(), clock, on_wake)

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the data directory and recover what a crash left.

        Raises Busy when another process uses it, Corrupt when it does not fit the settings, and
        what `unusable` makes of an error of the operating system. A full disk is none of these
        where there is something to read: then writes are refused until there is room.
        """
        try:
            self._parts.start()
        except EngineError:
            raise
        except OSError as error:
            raise unusable(self._config.data, error) from error
        self._is_running = True

    def start_refusal(self) -> str:
        """Why this start found no room to write: then only reading goes on. "" where it did."""
        return self._store.refusal() or self._store.start_refusal

    def tick(self) -> float:
        """Do what is due; returns seconds until the next call is useful, at most 5."""
        return self._runner.tick()

    def stop(self) -> None:
        """Refuse new work, flush, and leave the clean mark. The pool must be idle by now."""
        self._is_running = False
        self._parts.stop()

    def health(self) -> Health:
        """Whether it runs, what fails, and how much room there is."""
        failures = self._runner.failures()
        refusal = self._store.refusal()
        if refusal:
            failures["store"] = refusal
        warnings = {
            "retention": self.retention.warning(),
            "damage": self._store.damage_warning(),
            "rocketmq": "; ".join(self._store.notes[:NOTES_SHOWN]),
        }
        return Health(
            is_ready=self._is_running and not failures,
            failures=failures,
            durability=self._config.durability,
            log_bytes=self._store.written - self._store.oldest,
            unflushed_bytes=self._store.written - self._store.flushed,
            disk_free_bytes=self._store.free_bytes,
            disk_free_min_bytes=self._config.disk_free_min_bytes,
            damages=self._store.damages,
            warnings={name: text for name, text in warnings.items() if text},
        )

    # -- producing ----------------------------------------------------------------------------

    def send(
        self, messages: Sequence[Message], *, durability: Durability | None = None
    ) -> PutResult:
        """Accept messages, all or none: at most 4,096 and 4 MiB of bodies at once.

        The messages get their ids, queues and times set. Raises Invalid (the field named as
        `messages[3].tag`), TopicNotFound, Forbidden, DiskFull, Stopping.
        """
        self._check_running()
        began_s = self._clock.monotonic_s()
        sent = self._intake.send(messages, durability=durability)
        waits_for = sent.flush_position if sent.durability is Durability.FLUSHED else 0
        self.statistics.sent(messages, began_s, waits_for)
        return sent

    @property
    def log_end(self) -> int:
        """The position in the log behind everything stored so far; perhaps not on disk yet."""
        return self._store.written

    def when_flushed(self, position: int, done: Callable[[Exception | None], None]) -> None:
        """Call `done` on the owner's thread once the log is on disk up to `position`."""
        self._store.when_flushed(position, self.statistics.timed(position, done))

    # -- topics -------------------------------------------------------------------------------

    def create_topic(self, config: TopicConfig) -> TopicConfig:
        """Add a topic. Raises Invalid, Conflict when the name is taken, Forbidden."""
        return self._catalog.create(config)

    def check_topic(self, config: TopicConfig) -> None:
        """Raise Invalid or Forbidden for what no topic of the users' can be; changes nothing."""
        self._catalog.check(config)

    def change_topic(self, name: str, /, **changes: Any) -> TopicConfig:
        """Change settings of a topic; None is the broker's default where TopicConfig allows it.

        Raises TopicNotFound, Invalid, and Forbidden for the engine's own topics.
        """
        return self._catalog.change(name, **changes)

    def delete_topic(self, name: str) -> None:
        """Take a topic away with its queues and all groups' progress in it."""
        self.traces.settle(writes_max=1)  # no trace of it may pass for one of its successor's
        self._catalog.delete(name, also=self._delivery.topic_deletion_entries(name))
        self._store.delete_topic(name)
        self._parts.router.forget(name)
        self._delivery.forget_topic(name)
        self.statistics.forget_topic(name)

    def topic(self, name: str) -> TopicConfig:
        """The configuration of a topic; TopicNotFound."""
        return self._catalog.get(name)

    def plan_topic(self, name: str) -> TopicConfig:
        """The topic as the next message to it would find it; nothing is created.

        Raises TopicNotFound where none would be created, Invalid for what is no name.
        """
        return self._catalog.plan(name)

    def topics(self, *, system: bool = False) -> list[TopicConfig]:
        """All topics by name; the engine's own only when asked for."""
        return self._catalog.all(system=system)

    def topic_stats(self, name: str) -> TopicStats:
        """Offsets and last times of a topic's queues; TopicNotFound."""
        config = self._catalog.get(name)
        queues = [
            self._queue_stats(name, queue)
            for queue in range(max(config.read_queues, config.write_queues))
        ]
        return TopicStats(queues, sum(queue.max_offset - queue.min_offset for queue in queues))

    def queue_bounds(self, topic: str, queue: int) -> tuple[int, int]:
        """The first offset of a topic's queue that is kept, and the next one to be stored."""
        return self._store.bounds(topic, queue)

    def queue_content(self, topic: str, queue: int, *, count_max: int) -> QueueContent:
        """The age of a queue's oldest message and the size of its newest, at most `count_max`.

        Reads their places in the log and one record's head; nothing of a queue that there is not.
        """
        first, end = self._store.bounds(topic, queue)
        oldest = self._store.entries(topic, queue, first, 1)
        newest = self._store.entries(topic, queue, max(first, end - count_max), count_max)
        sizes = [entry.size_bytes for entry in newest if entry.has_record]
        first_ms = self._store.stored_ms_at(oldest[0]) if oldest else None
        return QueueContent(first_ms, len(sizes), sum(sizes))

    def offset_at_time(self, topic: str, queue: int, at_ms: int) -> int:
        """The first offset of a queue stored at or after `at_ms`; its end where all are older.

        TopicNotFound, QueueNotFound.
        """
        count = self._catalog.get(topic).read_queues
        if not 0 <= queue < count:
            raise QueueNotFound(
                f"topic {topic!r} has no queue {queue}",
                field="queue",
                remedy=f"choose 0 to {count - 1}",
            )
        return self._store.offset_at_time(topic, queue, at_ms)

    def groups_of(self, topic: str) -> Sequence[str]:
        """Names of the groups that have consumed from a topic."""
        return self._delivery.groups_of(topic)

    # -- pulling ------------------------------------------------------------------------------

    def pull(
        self,
        topic: str,
        queue: int,
        offset: int,
        *,
        count_max: int = 32,
        bytes_max: int = 256 * 1024,
        filter: str = "*",
        group: str = "",
    ) -> PullResult:
        """Read from an offset of the caller's own keeping; see `engine.delivery.pull`."""
        return self._delivery.pulls.pull(
            topic,
            queue,
            offset,
            count_max=count_max,
            bytes_max=bytes_max,
            filter=filter,
            group=group,
        )

    def commit_offset(
        self, group: str, topic: str, queue: int, offset: int, client: str = ""
    ) -> bool:
        """Set a group's progress to any offset, also backwards; False where a reset forbids it.

        After a reset of the queue nothing counts until a client of the group has pulled there.
        `client` names whose progress it is where the group broadcasts.
        """
        return self._delivery.offsets.commit(group, topic, queue, offset, client)

    def advance_offset(
        self, group: str, topic: str, queue: int, offset: int, client: str = ""
    ) -> bool:
        """A pulling client is done with all before `offset`; False where a reset forbids it.

        Unlike `commit_offset`, what other clients were delivered from there on stays theirs.
        """
        return self._delivery.offsets.advance(group, topic, queue, offset, client)

    def committed_offset(self, group: str, topic: str, queue: int, client: str = "") -> int | None:
        """The offset before which everything is done; None where the group never consumed."""
        return self._delivery.offsets.committed(group, topic, queue, client)

    def start_offset(self, group: str, topic: str, queue: int) -> int:
        """The first offset of a pulling client without a committed one, by its group's settings."""
        return self._delivery.offsets.start(group, topic, queue)

    def is_young_queue(self, topic: str, queue: int) -> bool:
        """Whether a new group gets the whole queue by RocketMQ's rule; see `StartAt.ROCKETMQ`."""
        return self._delivery.offsets.is_young(topic, queue)

    def send_back(
        self,
        group: str,
        topic: str,
        queue: int,
        offset: int,
        *,
        delay_level: int = 0,
        retry_max: int | None = None,
        error: str = "",
        client: str = "",
    ) -> None:
        """A pulling client failed with a message: retry it later, or give it up."""
        self._check_running()
        self._delivery.failures.send_back(
            group,
            topic,
            queue,
            offset,
            delay_level=delay_level,
            retry_max=retry_max,
            error=error,
            client=client,
        )

    def check_filter(self, filter: str) -> None:
        """Raise Invalid for a filter that cannot be read."""
        parse_filter(filter)

    # -- receiving ----------------------------------------------------------------------------

    def receive(
        self,
        group: str,
        topics: Mapping[str, str],
        *,
        count_max: int = 1,
        invisible_s: float = 60.0,
        client: str = "",
    ) -> list[Delivery]:
        """Deliver messages of `topics` (name to tag expression) to one client of a group."""
        self._check_running()
        return self._delivery.receives.receive(
            group, topics, count_max=count_max, invisible_s=invisible_s, client=client
        )

    def ack(self, group: str, receipts: Sequence[Receipt]) -> list[AckResult]:
        """Mark messages as done."""
        return self._delivery.inflight.ack(group, receipts)

    def nack(self, group: str, nacks: Sequence[Nack], client: str = "") -> list[AckResult]:
        """Report failures: the messages come back later, or become dead letters."""
        return self._delivery.failures.nack(group, nacks, client)

    def extend(
        self, group: str, receipts: Sequence[Receipt], invisible_s: float
    ) -> list[ExtendResult]:
        """Keep messages for longer."""
        return self._delivery.inflight.extend(group, receipts, invisible_s)

    def renew(self, group: str, receipt: Receipt, invisible_s: float) -> Receipt | None:
        """Keep a message for another time under a new receipt; None where `receipt` is stale."""
        return self._delivery.inflight.renew(group, receipt, invisible_s)

    def release(self, group: str, receipts: Sequence[Receipt]) -> list[AckResult]:
        """Put messages back unused, without counting an attempt."""
        return self._delivery.inflight.release(group, receipts)

    def held(self, group: str, client: str) -> list[Receipt]:
        """Messages in flight with a client of a group."""
        return self._delivery.inflight.held(group, client)

    def receipt_until(
        self, group: str, topic: str, queue: int, offset: int, until_ms: int
    ) -> Receipt:
        """The receipt of the delivery whose invisible time ends then, else one not current."""
        return self._delivery.inflight.receipt_until(group, topic, queue, offset, until_ms)

    # -- waiting for their time ---------------------------------------------------------------

    def scheduled(
        self, *, topic: str = "", from_ms: int = 0, after: str = "", count_max: int = 50
    ) -> ScheduledPage:
        """Messages with a time of delivery that wait for it; see `engine.schedule.timers`."""
        return self._timers.scheduled(
            topic=topic, from_ms=from_ms, after=after, count_max=count_max
        )

    def find_scheduled(self, message_id: str) -> Scheduled | None:
        """The message with this message id or offset id, while it waits for its time."""
        return self._timers.find(message_id)

    def scheduled_counts(self, times_ms: Sequence[int]) -> list[int]:
        """How many of them, of all topics, are due before each of these times; costs next to none.

        The last message that waits is due within a year.
        """
        return self._timer_deliverer.counts_before(times_ms)

    def delay_levels(self) -> list[LevelWaiting]:
        """Each delay level with how many messages wait in it, retries included."""
        return self._deliverer.levels()

    def recall(self, message_id: str) -> TimerAnswer:
        """See to it that a waiting message is never delivered."""
        self._check_running()
        return self._timers.recall(message_id)

    def deliver_now(self, message_id: str) -> TimerAnswer:
        """Deliver a waiting message at once."""
        self._check_running()
        return self._timers.deliver_now(message_id)

    def reschedule(self, message_id: str, deliver_at_ms: int) -> TimerAnswer:
        """Let a waiting message wait for another time; Invalid for one over a year ahead."""
        self._check_running()
        return self._timers.reschedule(message_id, deliver_at_ms)

    # -- waiting ------------------------------------------------------------------------------

    def wait_to_receive(
        self,
        group: str,
        topics: Mapping[str, str],
        wake: Callable[[], None],
        client: str = "",
    ) -> LongPoll:
        """Call `wake` once when a receive of these may find something; Busy beyond the bounds."""
        return self._delivery.wait_to_receive(group, topics, wake, client)

    def wait_to_pull(
        self, topic: str, queue: int, offset: int, filter: str, wake: Callable[[], None]
    ) -> LongPoll:
        """Call `wake` once when a message at or past `offset` may match."""
        return self._delivery.wait_to_pull(topic, queue, offset, filter, wake)

    # -- groups -------------------------------------------------------------------------------

    def create_group(self, config: GroupConfig) -> GroupConfig:
        """Add a consumer group. Raises Invalid, Conflict when the name is taken."""
        return self._delivery.groups.create(config)

    def change_group(self, name: str, **changes: Any) -> GroupConfig:
        """Change settings of a group. Raises GroupNotFound, Invalid."""
        return self._delivery.change_group(name, **changes)

    def pause_group(self, name: str, topic: str = "") -> GroupConfig:
        """Deliver nothing more to a group, or nothing of one topic; what is in flight stays."""
        return self._delivery.pause(name, topic)

    def resume_group(self, name: str, topic: str = "") -> GroupConfig:
        """End a pause; raises GroupNotFound."""
        return self._delivery.resume(name, topic)

    def is_broadcast(self, group: str) -> bool:
        """Whether each client of a group has progress of its own; False where there is none."""
        config = self._delivery.groups.find(group)
        return config is not None and config.mode is Mode.BROADCAST

    def broadcast_clients(self, group: str) -> list[str]:
        """The clients of a broadcast group whose progress is kept, by name; GroupNotFound."""
        self._delivery.groups.get(group)
        return self._delivery.broadcasts.clients(group)

    def delete_group(self, name: str) -> None:
        """Delete a group, its progress and its retries; its dead letters stay."""
        self._delivery.delete_group(name)
        self.statistics.forget_group(name)
        if self._catalog.find(retry_topic(name)) is not None:
            self.delete_topic(retry_topic(name))

    def group(self, name: str) -> GroupConfig:
        """Settings of a group; GroupNotFound."""
        return self._delivery.groups.get(name)

    def groups(self) -> list[GroupConfig]:
        """All groups by name."""
        return self._delivery.groups.all()

    def lag(self, group: str) -> GroupLag:
        """The lag of a group; GroupNotFound."""
        lag = self._delivery.offsets.lag(group)
        dismissed = self.dead_letters.dismissed_count(group)
        return msgspec.structs.replace(lag, dismissed=dismissed) if dismissed else lag

    # -- finding ------------------------------------------------------------------------------

    def message(self, topic: str, queue: int, offset: int) -> StoredMessage:
        """One message by its place; MessageNotFound where there is none, or no longer."""
        self._catalog.get(topic)
        entries = self._store.entries(topic, queue, offset, 1) if offset >= 0 else []
        messages = self._store.read_entries(entries[:1], (topic, queue))
        if not messages or messages[0] is None or messages[0].offset != offset:
            raise MessageNotFound(
                f"queue {queue} of {topic!r} has no message at offset {offset}",
                field="offset",
                remedy="the queue's statistics say which offsets there are",
            )
        return messages[0]

    def message_by_offset_id(self, offset_id: str) -> StoredMessage:
        """The very record that an offset id names; MessageNotFound."""
        position = position_of_id(offset_id)
        message = None if position is None else self._find_at(position)
        if message is None or message.offset_id != offset_id.upper():
            raise MessageNotFound(f"no message has the offset id {offset_id!r}", field="id")
        return message

    def message_at(self, position: int) -> StoredMessage:
        """The record at a position of the log, while it is kept; MessageNotFound."""
        message = self._find_at(position) if position >= 0 else None
        if message is None:
            raise MessageNotFound(f"no message lies at position {position}", field="position")
        return message

    def messages_by_id(self, message_id: str) -> list[StoredMessage]:
        """Every record of a message, oldest first: as sent, retried, dead; at most 64.

        Takes a message id or an offset id; empty when nothing is found.
        """
        return oldest_first(self.search.finish(self.search.id_lookup(message_id)))

    def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = 32,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
    ) -> list[StoredMessage]:
        """The newest messages of a topic that carry `key`, newest first, at most 64.

        Those stored from `begin_ms` to before `end_ms` (ms since 1970 UTC).
        """
        return self.search.finish(
            self.search.key_lookup(
                topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms
            )
        )

    # -- inside -------------------------------------------------------------------------------

    def _find_at(self, position: int) -> StoredMessage | None:
        try:
            message = self._store.read_at(position)
        except MessageNotFound:
            return None
        if not self._catalog.is_current(message.topic, position):
            return None
        is_kept = message.offset >= self._store.bounds(message.topic, message.queue)[0]
        return message if is_kept else None

    def _queue_stats(self, topic: str, queue: int) -> QueueStats:
        first, end = self._store.bounds(topic, queue)
        return QueueStats(queue, first, end, self._store.last_stored_ms(topic, queue))

    def _check_running(self) -> None:
        if not self._is_running:
            raise Stopping("the broker is not running", retry_after_s=5.0)
