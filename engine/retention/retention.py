"""The retention service: deletes old messages, and reports what it does and what pins them.

It looks every `retention_interval_s`, each second while the disk is too full; there is no hour of
the day for it (RocketMQ's deleteWhen), as there is never much to do at once. What still waits in
the log for its time is never deleted, however full the disk: the segments behind it stay.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from engine.config import EngineConfig
from engine.context import EngineContext
from engine.errors import Invalid
from engine.events import Expired
from engine.retention.ages import Ages
from engine.retention.pins import ActivePin, RetentionPin, active_pins
from engine.retention.policy import Cause, LogExtent, by_age, by_room, by_size
from engine.retention.purge import Purge, Purger
from engine.retention.queue_file_cleaner import QueueFileCleaner
from engine.retention.trims import Trims
from engine.service import Service

HOUR_MS = 3_600_000
PRESSED_INTERVAL_S = 1.0
PERCENT_MAX = 100


class RetentionStatus(msgspec.Struct, frozen=True):
    """The policy in force, and where the log stands.

    `oldest_ms` is when the oldest message was stored. `next_due_ms` is when the oldest segment
    will be old enough, None where there is only one or none ever is. `held_by` is empty unless
    segments that could go are kept by what waits in them. `disk_percent` is 0 while enough is free.
    """

    retention_ms: int
    retention_bytes: int
    disk_expire_percent: int
    disk_force_percent: int
    disk_refuse_percent: int
    disk_enough_bytes: int
    disk_percent: float
    disk_free_bytes: int | None
    disk_bytes: int
    log_bytes: int
    segments: int
    segment_bytes: int
    oldest_position: int
    oldest_ms: int | None
    next_due_ms: int | None
    held_by: list[ActivePin]
    refusal: str
    warning: str


class RetentionService(Service):
    """At most ten segments in one look, and 50 queues of topics with an age of their own in a tick.

    `services` are to be ticked, this one among them.
    """

    name = "retention"

    def __init__(
        self,
        config: EngineConfig,
        context: EngineContext,
        *,
        pins: Sequence[RetentionPin],
    ) -> None:
        """`pins` are asked, before anything goes, what still waits in the log."""
        super().__init__()
        for name in ("disk_expire_percent", "disk_force_percent", "disk_refuse_percent"):
            if not 0 <= getattr(config, name) <= PERCENT_MAX:
                raise Invalid(
                    f"{name} is {getattr(config, name)}", field=name, remedy="choose 0 to 100"
                )
        self._config = config
        self._store = context.store
        self._catalog = context.catalog
        self._clock = context.clock
        self._events = context.events
        self._pins = list(pins)
        self._trims = Trims(context.store, context.catalog)
        self._ages = Ages(context.store, context.catalog, self._trims, context.clock)
        self._purger = Purger(
            context.store, context.catalog, self._trims, context.clock, context.events
        )
        self._start_ms: dict[int, int | None] = {}  # by segment: when its first record was stored
        self._due_s = 0.0
        self._sweeper = QueueFileCleaner(context.store, context.clock)
        self._holders: list[ActivePin] = []
        self.on_moved: Callable[[], None] = _nobody
        context.store.expiry.on_deleted = self._on_deleted

    def start(self) -> None:
        """After recovery, before the first read: queues begin where they did."""
        self._trims.start()

    def show_trims(self) -> None:
        """In a standby, which keeps nothing of its own: queues begin where its leader's do."""
        self._trims.show()

    def services(self) -> list[Service]:
        """The services to tick."""
        return [self, self._sweeper]

    # -- verbs --------------------------------------------------------------------------------

    def purge(
        self,
        topic: str,
        *,
        before_offset: Mapping[int, int] | None = None,
        before_ms: int | None = None,
        everything: bool = False,
        dry_run: bool = False,
    ) -> Purge:
        """Make messages of a topic unreadable for good, by every way of reading, for all groups.

        Exactly one says which: those before an offset, by queue; those stored before a time (ms
        since 1970 UTC); or all that can be read now. With `dry_run` they are only counted. Groups
        that had not come so far go on where the queue begins now. Raises TopicNotFound,
        QueueNotFound, Invalid, Forbidden, DiskFull; then nothing has changed.
        """
        done = self._purger.purge(
            topic,
            before_offset=before_offset,
            before_ms=before_ms,
            everything=everything,
            dry_run=dry_run,
        )
        if done.queues and not dry_run:
            self.on_moved()
        return done

    def status(self) -> RetentionStatus:
        """Policy in force, size of log and disk, and the next deletion."""
        config, store = self._config, self._store
        bases = store.segments()
        next_due_ms = None
        if self._age_ms and len(bases) > 1:
            begun_ms = self._segment_start_ms(bases[1])
            next_due_ms = None if begun_ms is None else begun_ms + self._age_ms
        return RetentionStatus(
            retention_ms=self._age_ms,
            retention_bytes=config.retention_bytes,
            disk_expire_percent=config.disk_expire_percent,
            disk_force_percent=config.disk_force_percent,
            disk_refuse_percent=config.disk_refuse_percent,
            disk_enough_bytes=config.disk_enough_bytes,
            disk_percent=store.disk_percent,
            disk_free_bytes=store.free_bytes,
            disk_bytes=store.disk_bytes,
            log_bytes=store.written - store.oldest,
            segments=len(bases),
            segment_bytes=config.segment_bytes,
            oldest_position=store.oldest,
            oldest_ms=store.stored_ms_of(store.oldest),
            next_due_ms=next_due_ms,
            held_by=list(self._holders),
            refusal=store.refusal(),
            warning=self.warning(),
        )

    def warning(self) -> str:
        """A warning for the operator, though the broker works; empty when there is none."""
        if self._store.expiry.failure:
            return self._store.expiry.failure
        if self._is_pressed and self._holders:
            names = ", ".join(holder.name for holder in self._holders)
            return (
                f"the disk is {self._store.disk_percent:.1f} % full and the oldest log files "
                f"cannot go: they hold {names}"
            )
        return ""

    # -- the service --------------------------------------------------------------------------

    def tick(self) -> float:
        """Take one bounded step; 0 while the round is not over, else seconds until the next."""
        now_s = self._clock.monotonic_s()
        if now_s < self._due_s:
            return self._due_s - now_s
        self._let_topics_age()
        if not self._ages.is_over:
            return 0.0
        wait_s = PRESSED_INTERVAL_S if self._is_pressed else self._config.retention_interval_s
        self._due_s = now_s + wait_s
        if not self._store.expiry.is_busy:
            self._let_segments_go()
        return max(0.0, self._due_s - now_s)

    def _let_topics_age(self) -> None:
        begins = self._ages.step()
        if begins:
            self.on_moved()
        if self._events.has_subscribers:
            for topic, count in begins.items():
                self._events.emit(Expired(self._clock.now_ms(), Cause.TOPIC_AGE, topic, count, 0))

    def _let_segments_go(self) -> None:
        target, cause = self._target()
        before = self._store.oldest
        self._holders = active_pins(self._pins, target) if target > before else []
        limit = min([target, *(holder.position for holder in self._holders)])
        count = self._store.expire(limit)
        if not count:
            return
        for base in [base for base in self._start_ms if base <= self._store.oldest]:
            del self._start_ms[base]
        self.on_moved()
        if self._events.has_subscribers:
            size = self._store.oldest - before
            self._events.emit(Expired(self._clock.now_ms(), cause, "", 0, size))

    def _target(self) -> tuple[int, Cause]:
        """Up to which position the log may go, and by which rule: the one that takes most."""
        store, config = self._store, self._config
        extent = LogExtent(store.segments(), store.written, config.segment_bytes)
        if len(extent.bases) < 2:
            return store.oldest, Cause.AGE
        targets = [(self._by_age(extent), Cause.AGE)]
        if config.retention_bytes:
            targets.append((by_size(extent, config.retention_bytes), Cause.SIZE))
        if self._is_pressed:
            excess = (store.disk_percent - config.disk_force_percent) / PERCENT_MAX
            targets.append((by_room(extent, excess * store.disk_bytes), Cause.DISK))
        return max(targets, key=lambda each: each[0])

    def _by_age(self, extent: LogExtent) -> int:
        if not self._age_ms:
            return extent.bases[0]
        before_ms = self._clock.now_ms() - self._age_ms
        target = by_age(extent, self._segment_start_ms, before_ms)
        if self._passes(self._config.disk_expire_percent):
            return target  # no room for topics that ask for more than the broker's retention
        return min([target, *self._ages.held.values()])

    def _segment_start_ms(self, base: int) -> int | None:
        begun_ms = self._start_ms.get(base)
        if begun_ms is None:
            begun_ms = self._start_ms[base] = self._store.stored_ms_of(base)
        return begun_ms

    def _on_deleted(self) -> None:
        """The files of expired segments are deleted: there may be more that can go.

        Not at once where it is for the disk's sake: a file system may take its time to tell how
        much room that made.
        """
        self._store.watch_disk()
        self._sweeper.ask()
        if not self._is_pressed:
            self._due_s = 0.0
            self.wake()

    @property
    def _age_ms(self) -> int:
        return round(self._config.retention_h * HOUR_MS)

    @property
    def _is_pressed(self) -> bool:
        return self._passes(self._config.disk_force_percent)

    def _passes(self, percent: int) -> bool:
        return 0 < percent <= self._store.disk_percent


def _nobody() -> None:
    """Does nothing, until a callback is set."""
