"""Writes the files that Apache RocketMQ's broker reads at its start beside the log.

Topics, groups, offsets, delay levels, transactions and exact times are written every five seconds
where they changed, once the log is on disk as far as they speak of it, and at a clean stop. So
RocketMQ goes on where KiteMQ stopped; after a kill, where it was at most five seconds before.

Of exact times that wait a running server writes down at most 5,000 one by one: with more of them
RocketMQ looks at all from the oldest that waits. A clean stop writes down two million, or what fits
`timer_log_bytes`.
"""

import logging
import math
from bisect import bisect_left
from collections.abc import Generator, Iterable
from typing import Any, NamedTuple

from engine.config import EngineConfig
from engine.context import EngineContext
from engine.delivery.group import GroupConfig, Mode
from engine.delivery.subsystem import DeliverySubsystem
from engine.errors import EngineError
from engine.handover.tables import (
    DELAYS,
    GROUPS,
    HALF_GROUP,
    KITEMQ,
    OFFSETS,
    TOPICS,
    WRITER,
    RocketmqTable,
    UnreadableTable,
    is_own_group,
    read_table,
)
from engine.handover.timer_files import Unit, units_max, write_timers
from engine.schedule.deliver import LevelDeliverer
from engine.schedule.timer_deliver import TimerDeliverer
from engine.service import Service
from engine.store.files import Files
from engine.store.pool import Pool
from engine.topic.catalog import TopicConfig
from engine.topic.names import HALF_TOPIC, OP_TOPIC, TIMER_TOPIC, is_group_topic, is_system_topic
from engine.txn.half_messages import QUEUE
from engine.txn.journal import HALVES
from engine.txn.pending_transactions import PendingTransactions

log = logging.getLogger("kitemq.handover")

INTERVAL_S = 5.0
REFUSED = "what Apache RocketMQ would read could not be written"
SLICE_S = 0.002  # of one tick; tables of thousands of groups take ten of them
PAUSE_S = 0.01  # between two slices
EACH_STEP = 20  # entries of a table between two looks at the clock
SHARE = 200  # of the owner's time, one part at most goes into this
TIMERS_MAX = 5_000  # while the server runs
SPAN_PER_TIMER = 4  # so many entries of the timer queue are looked at for each of them


class TimerState(NamedTuple):
    """The exact times as RocketMQ's files hold them; `place` differs after every change."""

    place: tuple[int, int, int]
    now_ms: int
    offset: int
    units: list[Unit]
    last: Unit | None


class Exporter(Service):
    """Builds the tables on the owner's thread and writes them in the pool."""

    name = "tables for Apache RocketMQ"

    def __init__(
        self,
        config: EngineConfig,
        context: EngineContext,
        *,
        files: Files,
        pool: Pool,
        delivery: DeliverySubsystem,
        deliverer: LevelDeliverer,
        timers: TimerDeliverer,
        pending_transactions: PendingTransactions,
    ) -> None:
        super().__init__()
        self._files = files
        self._root = config.data
        self._store = context.store
        self._catalog = context.catalog
        self._delivery = delivery
        self._deliverer = deliverer
        self._timers = timers
        self._pending_transactions = pending_transactions
        self._pool = pool
        self._clock = context.clock
        self._timer_log_bytes = config.timer_log_bytes
        self._is_writing = False
        self._build: Generator[None, None, dict[str, object]] | None = None
        self._build_s = 0.0  # what it took of the owner's time so far
        self._before: dict[str, RocketmqTable] = {}
        self._topics_built: tuple[int, dict[str, object]] = (-1, {})  # of a catalog's version
        self._written: dict[str, object] = {}  # by file name: what it says, but for its version
        self._next_export_s = 0.0
        self._keys_end = 0  # where the log ended when keys were shown last

    def start(self) -> None:
        """After recovery: keep what RocketMQ wrote of its own beside what is KiteMQ's."""
        for name in (TOPICS, GROUPS, OFFSETS):
            try:
                self._before[name] = read_table(self._files, self._root / "config" / name)
            except UnreadableTable:
                self._before[name] = RocketmqTable()

    def tick(self) -> float:
        """Build the tables slice by slice and write what changed; seconds until the next time."""
        now_s = self._clock.monotonic_s()
        if self._is_writing or (self._build is None and now_s < self._next_export_s):
            return max(0.1, self._next_export_s - now_s)
        if self._build is None:
            self._next_export_s = now_s + INTERVAL_S
            self._build = self._changed(min(TIMERS_MAX, units_max(self._timer_log_bytes)))
            self._build_s = 0.0
        try:
            changed = self._carry_on(self._build, now_s + SLICE_S)
            self._build_s += self._clock.monotonic_s() - now_s
            if changed is None:
                return PAUSE_S
            self._build = None
            if self._keys_end != self._store.written:
                self._store.show_keys()
                self._keys_end = self._store.written
        except (OSError, EngineError) as error:  # KiteMQ can do without
            self._build = None
            log.warning("%s: %s", REFUSED, error)
            return INTERVAL_S
        self._next_export_s = max(self._next_export_s, now_s + SHARE * self._build_s)
        if changed:
            self._is_writing = True
            self._store.when_flushed(
                self._store.written, lambda error: self._flushed(error, changed)
            )
        return self._next_export_s - now_s

    def _carry_on(
        self, build: Generator[None, None, dict[str, object]], end_s: float
    ) -> dict[str, object] | None:
        """What changed, once all is built; None where the time is up before."""
        try:
            while self._clock.monotonic_s() < end_s:
                next(build)
        except StopIteration as end:
            changed: dict[str, object] = end.value
            return changed
        return None

    def stop(self) -> None:
        """Write everything, the pool being idle; what the disk refuses is logged."""
        try:
            build = self._changed(units_max(self._timer_log_bytes), is_last=True)
            changed = self._carry_on(build, math.inf) or {}
        except (OSError, EngineError) as error:
            log.warning("%s: %s", REFUSED, error)
        else:
            self._write(changed)

    def _flushed(self, error: Exception | None, changed: dict[str, object]) -> None:
        if error is None:
            self._pool.submit(lambda: self._write(changed), self._finish)
        else:
            self._finish(None, error)

    def _finish(self, _: None, error: Exception | None) -> None:
        self._is_writing = False
        if error is not None:
            self._written.clear()

    def _changed(
        self, timers_max: int, *, is_last: bool = False
    ) -> Generator[None, None, dict[str, object]]:
        """By file name what is to be written; nothing that was written so before."""
        tables: dict[str, object] = {
            TOPICS: (yield from self._topics()),
            GROUPS: (yield from self._groups()),
            OFFSETS: (yield from self._offsets()),
            DELAYS: {"offsetTable": self._deliverer.passed()},
        }
        changed: dict[str, object] = {}
        for name, each in tables.items():
            yield
            if self._written.get(name) != each:
                changed[name] = each
        if is_last or self._written.get(TIMER_TOPIC) != self._timer_place():
            changed[TIMER_TOPIC] = self._timer_state(timers_max)
        return changed

    def _write(self, changed: dict[str, object]) -> None:
        try:
            for name, content in changed.items():
                if isinstance(content, TimerState):
                    self._write_timers(content)
                    self._written[name] = content.place
                elif isinstance(content, dict):
                    self._store.export(name, {**content, **self._stamp()})
                    self._written[name] = content
        except OSError as error:
            log.warning("%s: %s", REFUSED, error)

    def _write_timers(self, state: TimerState) -> None:
        write_timers(
            self._files,
            self._root,
            log_bytes=self._timer_log_bytes,
            now_ms=state.now_ms,
            offset=state.offset,
            units=state.units,
            last=state.last,
        )

    def _stamp(self) -> dict[str, object]:
        now_ms = self._clock.now_ms()
        version = {"counter": self._catalog.version, "timestamp": now_ms, "stateVersion": 0}
        return {"dataVersion": version, WRITER: KITEMQ}

    # -- the tables ------------------------------------------------------------------------------

    def _topics(self) -> Generator[None, None, dict[str, object]]:
        """Built once for each change."""
        version = self._catalog.version
        if self._topics_built[0] != version:
            before = self._before[TOPICS].section("topicConfigTable")
            ours = yield from _merged(before, self._catalog.all(system=True))
            own = {
                name: entry
                for name, entry in before.items()
                if name not in ours and _is_internal(name, entry)
            }
            self._topics_built = version, {"topicConfigTable": {**own, **ours}}
        return self._topics_built[1]

    def _groups(self) -> Generator[None, None, dict[str, object]]:
        before = self._before[GROUPS].section("subscriptionGroupTable")
        ours = yield from _merged(before, self._delivery.groups.all())
        own = {name: entry for name, entry in before.items() if is_own_group(name)}
        return {"subscriptionGroupTable": {**own, **ours}}

    def _offsets(self) -> Generator[None, None, dict[str, object]]:
        before = self._before[OFFSETS].section("offsetTable")
        tables: dict[str, object] = {
            place: queues
            for place, queues in before.items()
            if is_own_group(place.partition("@")[2])
        }
        for number, group in enumerate(self._delivery.groups.all()):
            if not number % EACH_STEP:
                yield
            if group.mode is not Mode.CLUSTERING:
                continue
            places: dict[str, dict[str, int]] = {}
            for each in self._delivery.progress_store.of_group(group.name):
                queues = places.setdefault(f"{each.topic}@{group.name}", {})
                queues[str(each.queue)] = each.floor
            tables |= places
        return {"offsetTable": {**tables, **self._half_offsets()}}

    def _half_offsets(self) -> dict[str, object]:
        """Where RocketMQ's check of transactions goes on: at the oldest that is undecided."""
        end = self._store.bounds(HALF_TOPIC, QUEUE)[1]
        first, ops = self._store.bounds(OP_TOPIC, QUEUE)
        undecided = self._pending_transactions.undecided(HALVES, 0, 1)
        if undecided:
            entries = self._store.entries(HALF_TOPIC, QUEUE, undecided[0], 1)
            position = entries[0].position if entries else 0
            ops = bisect_left(range(ops), position, lo=first, key=self._op_position)
        places = ((HALF_TOPIC, undecided[0] if undecided else end), (OP_TOPIC, ops))
        return {f"{topic}@{HALF_GROUP}": {str(QUEUE): offset} for topic, offset in places if end}

    def _op_position(self, offset: int) -> int:
        entries = self._store.entries(OP_TOPIC, QUEUE, offset, 1)
        return entries[0].position if entries else 0

    def _timer_place(self) -> tuple[int, int, int]:
        return self._timers.count, self._timers.floor, self._timers.end

    def _timer_state(self, count_max: int) -> TimerState:
        now_ms, place = self._clock.now_ms(), self._timer_place()
        count, floor, end = place
        if count > count_max or end - floor > SPAN_PER_TIMER * count_max:
            return TimerState(place, now_ms, floor, [], None)
        units: list[Unit] = []
        last: Unit | None = None
        for entry, is_waiting in self._timers.entries_with_state():
            last = Unit(entry.tag_code, entry.position, entry.size_bytes)
            if is_waiting:
                units.append(last)
        if not units or units[-1] is last:
            last = None
        return TimerState(place, now_ms, end, units, last)


def _merged(
    before: dict[str, Any], ours: Iterable[TopicConfig | GroupConfig]
) -> Generator[None, None, dict[str, object]]:
    """Our entries, with the fields of RocketMQ's that KiteMQ does not know."""
    merged: dict[str, object] = {}
    for number, config in enumerate(ours):
        if not number % EACH_STEP:
            yield
        known = before.get(config.name)
        entry = config.rocketmq_entry()
        merged[config.name] = {**known, **entry} if isinstance(known, dict) else entry
    return merged


def _is_internal(name: str, entry: object) -> bool:
    """Whether a topic is one that RocketMQ made for itself."""
    permission = entry.get("perm") if isinstance(entry, dict) else 0
    is_own = is_system_topic(name) and not is_group_topic(name)
    is_inherited = isinstance(permission, int) and bool(permission & 1)
    return is_own or name.startswith("RMQ_SYS_") or is_inherited
