"""Builds the engine's parts and connects them; the only module that imports every one of them.

The order in which parts start and services run is written here with its reasons. `engine.broker`
offers what the parts can do.
"""

from collections.abc import Callable
from functools import partial

from engine.clock import Clock
from engine.config import EngineConfig
from engine.context import EngineContext
from engine.delivery.delivery_state import delivery_state_of
from engine.delivery.filter import parse_filter
from engine.delivery.group import GroupCatalog
from engine.delivery.locks import QueueLocks
from engine.delivery.retry import RetryRule
from engine.delivery.subsystem import DeliverySubsystem
from engine.errors import EngineError
from engine.events import EventBus
from engine.handover.adopt import Adoption
from engine.handover.export import Exporter
from engine.intake import AdmissionRule, Intake
from engine.message import SOURCE, StoredMessage
from engine.replay.subsystem import ReplaySubsystem
from engine.replicas import Replicas
from engine.reply.requests import RequestReply
from engine.retention.pins import RetentionPin
from engine.retention.retention import RetentionService
from engine.schedule.delay import DelayRule
from engine.schedule.deliver import LevelDeliverer
from engine.schedule.levels import DelayLevels
from engine.schedule.timer import TimerRule, due_ms_of
from engine.schedule.timer_agenda import Pending, TimerAgenda
from engine.schedule.timer_deliver import TimerDeliverer
from engine.schedule.timers import Timers
from engine.search.search import LogSearch, oldest_first
from engine.service import Service
from engine.statistics.lag_sampler import LagSources
from engine.statistics.statistics import Statistics
from engine.store.damage import Damage
from engine.store.entry_codes import CodeCheck, TagCode
from engine.store.files import Files
from engine.store.pool import Pool
from engine.store.store import Store
from engine.topic.catalog import Catalog
from engine.topic.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from engine.topic.route import Router
from engine.trace.traces import Traces
from engine.txn.half_messages import FirstCheck, HalfRule
from engine.txn.pending_transactions import PendingTransactions
from engine.txn.transactions import TransactionSubsystem

CODE_CHECKS: dict[str, CodeCheck] = {HALF_TOPIC: FirstCheck.may_be}


def tag_codes(config: EngineConfig, levels: DelayLevels) -> dict[str, TagCode]:
    """By topic: the third field of its queue entries, where that is not the hash of the tag."""
    return {
        SCHEDULE_TOPIC: levels.due_ms_of,
        TIMER_TOPIC: due_ms_of,
        HALF_TOPIC: FirstCheck(config.transaction_timeout_s).due_ms,
    }


class Container:
    """The parts by name, from the log up; `start` and `stop` once each."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        clock: Clock,
        pool: Pool,
        files: Files,
        check_running: Callable[[], None],
    ) -> None:
        """`check_running` raises Stopping while nothing may be changed."""
        self._config = config
        self._clock = clock
        self._pool = pool
        self._files = files
        self._check_running = check_running
        self.events = EventBus()
        levels = DelayLevels()
        self.store = self._build_store(levels)
        self.catalog = Catalog(
            self.store.journal,
            self.store,
            clock.now_ms,
            default_queues=config.default_queues,
            auto_create=config.auto_create_topics,
            topics_max=config.topics_max,
        )
        self.groups = GroupCatalog(
            self.store.journal,
            auto_create=config.auto_create_groups,
            groups_max=config.groups_max,
            retry_max=config.retry_max,
        )
        self.locks = QueueLocks(
            self.store.journal, self.groups, self.catalog, clock, lease_s=config.queue_lock_lease_s
        )
        self.router = Router()
        self.replicas = Replicas(
            clock,
            timeout_s=config.replicated_timeout_s,
            falls_back=config.replicated_fallback == "flushed",
            show=self.store.show_copied,
        )
        self.intake = Intake(
            self.store,
            self.catalog,
            self.router,
            clock,
            self.events,
            durability=config.durability,
            replicas=self.replicas,
            rules=self._rules(levels),
        )
        self._context = context = EngineContext(
            self.store, self.intake, self.catalog, clock, self.events
        )
        self.delivery = DeliverySubsystem(
            config, context, groups=self.groups, locks=self.locks, levels=levels
        )
        self.search = LogSearch(self.store, self.catalog, pool, parse_filter)
        self.timer_deliverer = TimerDeliverer(context)
        self.deliverer = LevelDeliverer(context, levels, put=self.timer_deliverer.put)
        self.timers = Timers(self.store, self.timer_deliverer, self.deliverer, clock, self.events)
        self.pending_transactions = PendingTransactions(
            self.store,
            clock,
            agenda=TimerAgenda(),
            pending=Pending,
            interval_s=config.transaction_check_interval_s,
        )
        self.transactions = self._build_transactions()
        self.requests = self._build_requests()
        self.replay = ReplaySubsystem(
            context,
            has_group=lambda name: self.groups.find(name) is not None,
            settles=self.groups.dismisses_resent,
            check_running=check_running,
        )
        self.retention = self._build_retention()
        self.statistics = self._build_statistics()
        self.traces = self._build_traces()
        self.exporter = Exporter(
            config,
            context,
            files=files,
            pool=pool,
            delivery=self.delivery,
            deliverer=self.deliverer,
            timers=self.timer_deliverer,
            pending_transactions=self.pending_transactions,
        )

    def services(self) -> list[Service]:
        """Time first, so that what falls due is there for the receives woken in the same round.

        Upkeep comes last.
        """
        return [
            self.deliverer,
            self.timer_deliverer,
            *self.transactions.services(),
            *self.delivery.services(),
            *self.replay.services(),
            *self.requests.services(),
            self.replicas,
            *self.traces.services(),
            *self.store.services(),
            *self.retention.services(),
            *self.statistics.services(),
            self.exporter,
        ]

    def start(self) -> None:
        """Open the data directory and recover what a crash left; see `Broker.start`."""
        self.store.open()
        try:
            self.store.journal.load()
        except EngineError:
            self.store.close()  # so that what it refuses may be repaired
            raise
        adoption = Adoption(self._files, self._config.data, self.store, self.catalog)
        adoption.topics()
        self.store.recover(
            begin_of=self.catalog.begin_of,
            is_wanted=self.catalog.owns,
            on_replayed=self._replayed,
            on_foreign=adoption.note,
            is_deleted=self.catalog.is_deleted,
        )
        self.catalog.settle()
        self.catalog.ensure_system(SCHEDULE_TOPIC)
        self.catalog.ensure_system(TIMER_TOPIC)
        self.retention.start()  # before anybody asks where queues begin
        adoption.progress(self.deliverer, self.timer_deliverer)
        self.deliverer.start()
        self.timer_deliverer.start()
        self.transactions.start()
        adoption.transactions(self.pending_transactions)
        self.delivery.start()
        adoption.groups(self.delivery)
        self.exporter.start()
        self.replay.start()
        # What was corrected for a power loss must not be lost in the next one, when others have
        # got the offsets that were taken back.
        self.store.journal.sync()
        self.store.end_rocketmq_copy()
        self.traces.start()
        self.statistics.load()
        self.events.subscribe(self.statistics.hear, self.statistics.kinds)

    def follow(self, *, is_rocketmq: bool = False) -> None:
        """Open the data directory as a standby's: what is there is read, nothing is decided.

        Of the parts only the store's services may be ticked, and no verb may be called that
        changes anything: every change comes from the leader (`engine.replication`). Progress that
        parts derive at their start is not there. Of an Apache master only the log is a copy: the
        journal is the standby's own.
        """
        self.store.is_copy, self.store.is_rocketmq_copy = True, is_rocketmq
        self.store.journal.is_copy = not is_rocketmq
        self.store.journal.before_reread = self.store.reread_from
        self.store.open()
        try:
            if is_rocketmq:
                self.store.mark_rocketmq_copy()
            self.store.journal.load()
            self.store.recover(
                begin_of=self.catalog.begin_of,
                is_wanted=self.catalog.has,
                on_replayed=lambda message: None,
                is_deleted=self.catalog.is_deleted,
            )
        except EngineError:
            self.store.close()
            raise
        self.store.hold_copies()
        self.retention.show_trims()

    def stop(self) -> None:
        """Write what waits and leave the clean mark; the pool must be idle by now."""
        self.statistics.close()
        self.traces.settle()
        self.exporter.stop()
        self.store.stop()

    # -- building --------------------------------------------------------------------------------

    def _build_store(self, levels: DelayLevels) -> Store:
        return Store(
            self._config,
            clock=self._clock,
            pool=self._pool,
            files=self._files,
            events=self.events,
            tag_codes=tag_codes(self._config, levels),
            code_checks=CODE_CHECKS,
        )

    def _rules(self, levels: DelayLevels) -> tuple[AdmissionRule, ...]:
        """Routing rules run before delay rules.

        A half message is neither retried nor delayed.
        """
        return (
            HalfRule(
                self.catalog,
                store_host=self._config.store_host,
                clock=self._clock,
                written=lambda: self.store.written,
                count=lambda: self.transactions.count,
                count_max=self._config.transactions_max,
            ),
            RetryRule(self.groups, self.catalog, self.locks),
            DelayRule(levels),
            TimerRule(),
        )

    def _build_transactions(self) -> TransactionSubsystem:
        return TransactionSubsystem(
            self._config,
            self._context,
            pending_transactions=self.pending_transactions,
            check_running=self._check_running,
        )

    def _build_requests(self) -> RequestReply:
        return RequestReply(
            self._context,
            waiting_max=self._config.requests_waiting_max,
            keep_s=self._config.reply_keep_s,
            check_running=self._check_running,
        )

    def _build_retention(self) -> RetentionService:
        timers = self.timer_deliverer
        retention = RetentionService(
            self._config,
            self._context,
            pins=(
                RetentionPin(
                    "messages with a time of delivery", timers.oldest_position, timers.move_before
                ),
                RetentionPin("messages in a delay level", self.deliverer.oldest_position),
                RetentionPin("undecided transactions", self.transactions.oldest_position),
            ),
        )
        retention.on_moved = self.delivery.min_offset_corrector.ask
        return retention

    def _build_statistics(self) -> Statistics:
        config = self._config
        return Statistics(
            config,
            clock=self._clock,
            pool=self._pool,
            files=self._files,
            damage_log=self.store.damage_log,
            lags=LagSources(
                groups=lambda: [group.name for group in self.groups.all()],
                lag_of=self.delivery.offsets.lag,
                members_of=self.delivery.members.count,
                resets_of=self.delivery.progress_store.resets.last_number,
            ),
            has_room=lambda: not self.store.refusal(),
            born_ms_of=self.store.born_ms,
        )

    def _build_traces(self) -> Traces:
        search = self.search
        return Traces(
            self._context,
            sample=self._config.trace_sample,
            segment_bytes=self._config.segment_bytes,
            records_of=lambda name: oldest_first(search.finish(search.id_lookup(name))),
            groups_of=self.delivery.groups_of,
            delivery_states=partial(delivery_state_of, self.delivery.progress_store),
        )

    def _replayed(self, message: StoredMessage) -> None:
        """Recovery found a record that names where it comes from.

        No checksum lies over that: where it is damaged the record proves nothing.
        """
        try:
            self.deliverer.replayed(message)
            self.timer_deliverer.replayed(message)
            self.transactions.replayed(message)
            self.delivery.replayed(message)
            self.replay.replayed(message)
        except ValueError:
            end = message.position + message.size_bytes
            detail = f"the record does not say where it came from: {message.properties[SOURCE]!r}"
            self.store.damage_log.add(Damage(message.position, end, detail[:500]))
