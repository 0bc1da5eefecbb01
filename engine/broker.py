"""The broker: its life and sending, and the values of all operations that an endpoint may call.

One thread owns it. Every verb returns in microseconds and never waits: what takes the kernel's
time goes to the pool, what waits for messages is parked and woken by a callback. How the parts are
put together is in `container.py`; those that offer much of their own are attributes here. The
other verbs are in `engine.verbs`.
"""

from collections.abc import Callable, Sequence

import msgspec

from engine.clock import Clock
from engine.config import EngineConfig
from engine.container import Container
from engine.delivery.changes import OffsetMove, Reset
from engine.delivery.filter import Filter, parse_filter
from engine.delivery.group import (
    GroupConfig,
    Mode,
    changed_group,
    check_group,
    group_exists,
    group_missing,
)
from engine.delivery.locks import LockedQueue, LockResult, QueueLock, QueueLocks
from engine.delivery.long_polling import LongPoll
from engine.delivery.member import Assignment, Member
from engine.delivery.members import MemberConnection, Members
from engine.delivery.policy import Exponential, Ladder, RetryPolicy, Steps
from engine.delivery.pull import PullAnswer, PullResult, PullStatus
from engine.delivery.rebalance import Strategy
from engine.delivery.receive_targets import paused_error
from engine.delivery.reset_history import ResetHistory
from engine.delivery.reset_plan import (
    STAY,
    Goal,
    OffsetsMoved,
    QueueMove,
    ResetNote,
    ResetPlan,
    ResetPreview,
    ResetTarget,
    ResetTo,
    check_reset,
    check_reset_goals,
    reset_moves,
    reset_places,
    reset_token,
)
from engine.delivery.resets import OffsetResets
from engine.delivery.start import StartAt
from engine.delivery.subscriptions import SubscriptionVariant, SubscriptionWarning
from engine.delivery.values import (
    AckResult,
    Delivery,
    DeliveryColumns,
    DeliveryRun,
    ExtendResult,
    GroupLag,
    LagBasis,
    Nack,
    QueueLag,
    Receipt,
    ReceiptRun,
    Receipts,
    total,
)
from engine.errors import EngineError, unusable
from engine.message import Durability, Message, PutResult
from engine.message_checks import check_message
from engine.message_columns import MessageColumns, PutColumns
from engine.replay.conditions import (
    DeadLetterConditions,
    error_class_of,
    error_line_of,
    fits_error,
    origin_of,
)
from engine.replay.dead_letters import (
    DeadLetter,
    DeadLetterArrivals,
    DeadLetterPage,
    DeadLetters,
    DeadLetterSweep,
    DeadLetterTally,
    dead_letter_of,
)
from engine.replay.dismissal_snapshot import DismissalSnapshot, DismissalSummary
from engine.replay.dismissals import DismissalPlan
from engine.replay.dismissed_offsets import DismissNote
from engine.replay.job import ReplayState, ReplayTo
from engine.replay.replays import ReplayJobs
from engine.replay.states import DeadLetterState, LetterStates, StateCounts
from engine.replay.values import NewReplay, OutcomeRow, ReplayJob, ReplayOutcomePage, RetryRequest
from engine.replicas import Accepted
from engine.replication.cursor import LeaderCursor, LogCursor
from engine.replication.pieces import StandbyState
from engine.reply.pending_requests import PendingRequest
from engine.reply.requests import (
    FoundReply,
    ReplyMessage,
    ReplyOutcome,
    ReplyResult,
    RequestCounts,
    RequestReply,
    check_correlation_id,
    check_request,
)
from engine.retention.pins import ActivePin
from engine.retention.purge import Purge, QueuePurge
from engine.retention.retention import RetentionService, RetentionStatus
from engine.schedule.deliver import LevelWaiting
from engine.schedule.timer import check_due
from engine.schedule.timers import Scheduled, ScheduledPage, TimerAnswer
from engine.search.lookup import Lookup
from engine.search.scan import ANYWHERE, FOREVER_MS, MessageScan, ScanPage, ScanQuery
from engine.search.search import LogSearch
from engine.service import ServiceRunner
from engine.statistics.lag_statistics import LagStatistics
from engine.statistics.latency_histogram import LatencySpreads, Spread
from engine.statistics.metric_series import Metric, MetricSeries
from engine.statistics.statistics import Statistics
from engine.statistics.traffic_statistics import TrafficStatistics
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
from engine.store.files import Files, OsFiles
from engine.store.hashing import tag_hash
from engine.store.journal import JournalPlace
from engine.store.kernel import KERNEL, StoredColumns
from engine.store.pool import Pool
from engine.topic.catalog import (
    TopicConfig,
    TopicType,
    changed_topic,
    check_deletable,
    check_topic,
    topic_exists,
)
from engine.topic.names import (
    CLIENT_TRACE_TOPIC,
    DEAD_LETTER_PREFIX,
    GROUP_QUEUE,
    REPLY_TOPIC,
    RETRY_PREFIX,
    is_system_topic,
)
from engine.trace.assemble import JourneyContext
from engine.trace.client_traces import traces_of as client_traces_of
from engine.trace.finder import ClientReport, JourneyEvidence
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
from engine.trace.traces import Traces, TraceStatus, journey_of
from engine.txn.check import Asker, TransactionCheck
from engine.txn.half_messages import check_transaction_topic
from engine.txn.producers import Callback, CallbackTable
from engine.txn.resolve import Decider, TransactionDecision
from engine.txn.transactions import (
    CheckSettings,
    Transaction,
    TransactionPage,
    TransactionState,
    TransactionSubsystem,
)
from engine.verbs.consuming import ConsumeVerbs
from engine.verbs.groups import GroupVerbs
from engine.verbs.lone_sender import LoneSender
from engine.verbs.reading import ReadVerbs
from engine.verbs.scheduled import ScheduleVerbs
from engine.verbs.topics import QueueContent, QueueStats, TopicStats
from engine.verbs.verbs import stopping

__all__ = [
    "ANYWHERE",
    "CLIENT_TRACE_TOPIC",
    "DEAD_LETTER_PREFIX",
    "FOREVER_MS",
    "GROUP_QUEUE",
    "KERNEL",
    "REPLY_TOPIC",
    "RETRY_PREFIX",
    "STAY",
    "AckResult",
    "ActivePin",
    "Asker",
    "Assignment",
    "Branch",
    "Broker",
    "BrokerMetrics",
    "Callback",
    "CallbackTable",
    "CheckSettings",
    "CheckedReason",
    "ClientReport",
    "DeadLetter",
    "DeadLetterArrivals",
    "DeadLetterConditions",
    "DeadLetterPage",
    "DeadLetterState",
    "DeadLetterSweep",
    "DeadLetterTally",
    "DeadLetters",
    "Decider",
    "Delivery",
    "DeliveryColumns",
    "DeliveryRun",
    "DismissNote",
    "DismissalPlan",
    "DismissalSnapshot",
    "DismissalSummary",
    "Exponential",
    "ExtendResult",
    "Filter",
    "FoundReply",
    "Goal",
    "GroupConfig",
    "GroupLag",
    "GroupMetrics",
    "GroupState",
    "Health",
    "Journey",
    "JourneyContext",
    "JourneyEvidence",
    "Ladder",
    "LagBasis",
    "LagHistoryPage",
    "LagHistoryRetention",
    "LagPoint",
    "LagStatistics",
    "LatencySpreads",
    "LetterStates",
    "LevelWaiting",
    "LockResult",
    "LockedQueue",
    "LogSearch",
    "LoneSender",
    "LongPoll",
    "Lookup",
    "Member",
    "MemberConnection",
    "Members",
    "MessageScan",
    "Metric",
    "MetricSeries",
    "Mode",
    "Nack",
    "NewReplay",
    "OffsetMove",
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
    "QueueLocks",
    "QueueMetrics",
    "QueueMove",
    "QueuePurge",
    "QueueStats",
    "ReaderMetrics",
    "ReasonCode",
    "Receipt",
    "ReceiptRun",
    "Receipts",
    "Recent",
    "ReplayJob",
    "ReplayJobs",
    "ReplayOutcomePage",
    "ReplayState",
    "ReplayTo",
    "ReplyMessage",
    "ReplyOutcome",
    "ReplyResult",
    "RequestCounts",
    "RequestReply",
    "Reset",
    "ResetHistory",
    "ResetNote",
    "ResetPlan",
    "ResetPreview",
    "ResetTarget",
    "ResetTo",
    "RetentionService",
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
    "StateCounts",
    "Statistics",
    "Steps",
    "StoredColumns",
    "Strategy",
    "SubscriptionVariant",
    "SubscriptionWarning",
    "TimerAnswer",
    "TopicConfig",
    "TopicMetrics",
    "TopicStats",
    "TopicType",
    "TraceStatus",
    "Traces",
    "TrafficRates",
    "TrafficStatistics",
    "Transaction",
    "TransactionCheck",
    "TransactionDecision",
    "TransactionPage",
    "TransactionState",
    "TransactionSubsystem",
    "WindowRates",
    "changed_group",
    "changed_topic",
    "check_correlation_id",
    "check_deletable",
    "check_group",
    "check_request",
    "check_reset",
    "check_reset_goals",
    "check_topic",
    "check_transaction_topic",
    "client_traces_of",
    "dead_letter_of",
    "error_class_of",
    "error_line_of",
    "fits_error",
    "group_exists",
    "group_missing",
    "is_system_topic",
    "journey_of",
    "origin_of",
    "parse_filter",
    "paused_error",
    "reset_moves",
    "reset_places",
    "reset_token",
    "tag_hash",
    "topic_exists",
    "total",
]


NOTES_SHOWN = 10


class Health(msgspec.Struct, frozen=True):
    """Health of the engine; `failures` names the faults, empty when there are none.

    `warnings` names what a person should see to while everything still works. `kernel` is
    "compiled" or "pure": how the engine's loops over batches run. None is what the
    engine cannot tell.
    """

    is_ready: bool
    failures: dict[str, str]
    durability: Durability
    log_bytes: int | None
    unflushed_bytes: int | None
    disk_free_bytes: int | None
    disk_free_min_bytes: int | None
    damages: list[Damage]
    warnings: dict[str, str] = {}
    kernel: str = KERNEL


class Broker(ConsumeVerbs, GroupVerbs, ReadVerbs, ScheduleVerbs):
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
        self._is_running, self._refusal = False, stopping
        self._files = files or OsFiles()
        parts = Container(
            config,
            clock=clock,
            pool=pool,
            files=self._files,
            check_running=self._check_running,
        )
        self._use(parts)
        self._runner, self._on_wake = ServiceRunner(parts.services(), clock, on_wake), on_wake
        self._working = self._runner  # the one of all services, also while another runs

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

    def refuse_changes(self) -> None:
        """Refuse every change from now on: another server leads."""
        self._is_running, self._refusal = False, stopping

    def suspend(self, refusal: Callable[[], EngineError]) -> None:
        """Refuse every change with `refusal`, and make none, until `resume`.

        What was accepted is flushed, copied and answered as ever. Log and journal end where they
        end, but for what the pool was doing.
        """
        self.traces.settle()
        self._is_running, self._refusal = False, refusal
        self._store.journal.refusal = refusal
        services = (self.replicas, self._store.flush_service, *self.statistics.services())
        self._runner = ServiceRunner(services, self._clock, self._on_wake)

    def resume(self) -> None:
        """Take changes again after `suspend`."""
        self._is_running, self._refusal = True, stopping
        self._store.journal.refusal = None
        self._runner = self._working
        self._on_wake()

    @property
    def is_settled(self) -> bool:
        """Whether everything that was accepted is on the disk, and nothing waits for room there."""
        store = self._store
        return store.flushed == store.written and not (store.journal.is_behind or store.refusal())

    @property
    def end(self) -> tuple[int, JournalPlace]:
        """Where log and journal end."""
        return self._store.written, self._store.journal.place

    def begin_epoch(self) -> None:
        """This was a standby until now: pulls from beyond what it had begin where that ended."""
        self._delivery.pulls.begin_epoch(self._store.written)

    def cursor_for(self, standby: StandbyState) -> LeaderCursor:
        """What a standby lacks, piece by piece; its `check` is to be called first."""
        return LeaderCursor(self._store, self._files, self._config.data, standby)

    def log_cursor(self, position: int) -> LogCursor:
        """What a slave of RocketMQ lacks of the log; Conflict where it has more than this."""
        return LogCursor(self._store, self._files, self._config.data, position)

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
        self,
        messages: Sequence[Message],
        *,
        durability: Durability | None = None,
        is_joined: bool = False,
    ) -> PutResult:
        """Accept messages, all or none: at most 4,096 and 4 MiB of bodies at once.

        The messages get their ids, queues and times set. Raises Invalid (the field named as
        `messages[3].tag`), TopicNotFound, Forbidden, DiskFull, Stopping. Those of several sends
        (`is_joined`) are sent by parts after a refusal, which is therefore no event.
        """
        self._check_running()
        began_s = self._clock.monotonic_s()
        sent = self._intake.send(messages, durability=durability, is_joined=is_joined)
        waits_for = sent.flush_position if sent.durability is not Durability.STORED else 0
        self.statistics.sent(
            len(messages), lambda index: len(messages[index].body), began_s, waits_for
        )
        return sent

    def check_message(self, message: Message) -> None:
        """Raise what is wrong with a message, as `send` would; stores nothing."""
        check_message(message, self._catalog.get(message.topic))
        if message.deliver_at_ms:
            check_due(message.deliver_at_ms, self._clock.now_ms())

    def send_columns(
        self,
        batches: Sequence[MessageColumns],
        *,
        durability: Durability | None = None,
        is_joined: bool = False,
    ) -> PutColumns | None:
        """Accept batches of one topic, all or none, within the limits of `send` taken together.

        None, and nothing is done, where one of them is not plain or may not be stored: then `send`
        their messages, which says what is wrong. Raises DiskFull, Corrupt, Stopping.
        """
        self._check_running()
        began_s = self._clock.monotonic_s()
        sent = self._intake.send_columns(batches, durability=durability, is_joined=is_joined)
        if sent is not None:
            waits_for = sent.flush_position if sent.durability is not Durability.STORED else 0
            first, count = batches[0], sum([batch.count for batch in batches])
            self.statistics.sent(
                count, lambda index: first.body_size(index % first.count), began_s, waits_for
            )
        return sent

    def lone_sender(
        self, columns: MessageColumns, durability: Durability | None = None
    ) -> LoneSender | None:
        """Prepare to send messages one at a time which differ from this one in little.

        That has been accepted, and of columns only that of the bodies. All of them have their ids
        from their sender, or none has. None where each has to be looked at.
        """
        level = self._intake.lone_durability(columns, durability)
        if level is None:
            return None
        return LoneSender(self._parts, self._clock, self._check_running, columns, level)

    @property
    def log_end(self) -> int:
        """The position in the log behind everything stored so far; perhaps not on disk yet."""
        return self._store.written

    def when_flushed(self, position: int, done: Callable[[Exception | None], None]) -> None:
        """Call `done` on the owner's thread once the log is on disk up to `position`."""
        self._store.when_flushed(position, self.statistics.timed(position, done))

    def durability_of(self, topic: str) -> Durability:
        """What a send to this topic gets that does not ask for more."""
        config = self._catalog.find(topic)
        return (config and config.durability) or self._config.durability

    def when_accepted(self, position: int, durability: Durability, done: Accepted) -> None:
        """Call `done` on the owner's thread with the durability that what ends there has got.

        That is `durability`, or less where a standby was too late and the settings permit it. With
        an error, such as Busy, it has not what it was to have.
        """

        def flushed(error: Exception | None) -> None:
            if error is None and durability is Durability.REPLICATED:
                self.replicas.request(position, done)
            else:
                done(durability, error)

        self.when_flushed(position, flushed)
