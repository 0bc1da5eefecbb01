"""Takes over from Apache RocketMQ's broker where it used the directory after KiteMQ.

In three steps of a start: topics before the log is read, so that no queue counts as unowned;
progress in delays, exact times and transactions before those parts begin; groups and their offsets
at the end. What KiteMQ's own journal knows better stays: progress only ever goes forward.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.delivery.changes import OffsetCommitted
from engine.delivery.group import RETRY_MAX_LIMIT, GroupConfig, Mode
from engine.delivery.subsystem import DeliverySubsystem
from engine.errors import EngineError
from engine.handover.log_findings import DELETED, LogFindings, timed_message
from engine.handover.tables import (
    DELAYS,
    GROUPS,
    HALF_GROUP,
    INHERITED,
    OFFSETS,
    TOPICS,
    RocketmqTable,
    UnreadableTable,
    is_own_group,
    number,
    numbered,
    read_backup,
    read_table,
)
from engine.handover.timer_files import SECOND_MS, TimerCheck, read_check
from engine.message import REAL_TOPIC, StoredMessage
from engine.schedule.deliver import LevelDeliverer
from engine.schedule.timer import due_ms_of
from engine.schedule.timer_deliver import TimerDeliverer
from engine.store.files import Files, read_whole
from engine.store.store import Store
from engine.topic.catalog import PERMISSION_BOTH, QUEUES_MAX, Catalog, TopicConfig, TopicType
from engine.topic.names import (
    HALF_TOPIC,
    RETRY_PREFIX,
    check_group_name,
    is_system_topic,
    is_topic_name,
)
from engine.txn.half_messages import QUEUE
from engine.txn.journal import HALVES
from engine.txn.pending_transactions import PendingTransactions

HALVES_AT_ONCE = 10_000
NAMED_MAX = 10


class Adoption:
    """Built for one start; `note` is shown what recovery reads of others."""

    def __init__(self, files: Files, root: Path, store: Store, catalog: Catalog) -> None:
        self._files = files
        self._root = root
        self._store = store
        self._catalog = catalog
        self._findings = LogFindings()
        self._check = TimerCheck()
        self._offsets = self._delays = RocketmqTable()

    def note(self, message: StoredMessage) -> None:
        """A record that another broker wrote."""
        self._findings.note(message)

    # -- topics ----------------------------------------------------------------------------------

    def topics(self) -> None:
        """Before recovery: adopt unknown topics that have queues or are in RocketMQ's table.

        Not where the journal is damaged: then the log says which topics there are.
        """
        self._check = read_check(self._files, self._root)
        self._offsets, self._delays = self._read(OFFSETS), self._read(DELAYS)
        self._findings.read_ms = 0 if self._check.is_ours else self._check.read_ms
        self._findings.half_floor = self._half_offset()
        if self._store.journal.is_damaged:
            return
        table = self._read(TOPICS)
        is_theirs = self._store.is_foreign and not table.is_ours
        listed = table.section("topicConfigTable") if is_theirs else {}
        queues = self._root / "consumequeue"
        lying = {name: self._files.names(queues / name) for name in self._files.names(queues)}
        adopted = []
        for name in sorted({*listed, *lying}):
            if self._catalog.find(name) is not None or self._catalog.is_deleted(name):
                continue
            entry = listed.get(name)
            config = topic_of(name, entry if isinstance(entry, dict) else {}, lying.get(name, ()))
            if config is not None and self._adopt(config):
                adopted.append(name)
        if adopted:
            self._store.note(f"topics of another broker were taken over: {_some(adopted)}")

    def _adopt(self, config: TopicConfig) -> bool:
        try:
            self._catalog.adopt(config)
        except EngineError as error:
            self._store.note(f"the topic {config.name!r} was not taken over: {error.detail}")
            return False
        return True

    # -- what waits ------------------------------------------------------------------------------

    def progress(self, deliverer: LevelDeliverer, timers: TimerDeliverer) -> None:
        """After recovery: what RocketMQ delivered of delayed messages is not delivered again."""
        if not self._store.is_foreign:
            return
        self._store.note("Apache RocketMQ's broker has written to this directory")
        levels = {} if self._delays.is_ours else numbered(self._delays.section("offsetTable"))
        count = deliverer.adopt(levels, self._left_level)
        count += timers.adopt(self._left_timer)
        if count:
            self._store.note(f"{count} delayed messages had been delivered there")
        if self._findings.is_full:
            self._store.note("too many were delivered to remember all: some may come again")

    def _left_level(self, stored: StoredMessage) -> int:
        """Where the record ends that this waiting one became, if it was the last of its level."""
        last = self._findings.levels.get(stored.queue + 1)
        if last is None or stored.position >= last.position:
            return 0
        place = (stored.properties.get(REAL_TOPIC, ""), stored.message_id, stored.attempt)
        return last.end if place == (last.topic, last.message_id, last.attempt) else 0

    def _left_timer(self, stored: StoredMessage) -> int | None:
        """Where the record ends that this waiting one became, 0 for none; None while it waits."""
        findings, check = self._findings, self._check
        place = timed_message(stored, stored.properties.get(REAL_TOPIC, ""))
        end = findings.timers.get(place)
        if end is not None and stored.position < end:
            return end
        if findings.is_recalled(place.topic, place.message_id) or DELETED in stored.properties:
            return 0
        # Those that RocketMQ's wheel could not reach were moved, and are known by that alone.
        second_ms = due_ms_of(stored, stored.stored_ms) // SECOND_MS * SECOND_MS
        is_past = not check.is_ours and stored.offset < check.offset and second_ms < check.read_ms
        return 0 if is_past else None

    def transactions(self, pending_transactions: PendingTransactions) -> None:
        """After the board's start: half messages that RocketMQ has decided, or moved on."""
        if not self._store.is_foreign:
            return
        findings = self._findings
        start, decided = 0, []
        while half_offsets := pending_transactions.undecided(HALVES, start, HALVES_AT_ONCE):
            start = half_offsets[-1] + 1
            for entry in pending_transactions.entries(HALVES, half_offsets):
                is_decided = (
                    entry.offset < findings.half_floor or entry.offset in findings.half_offsets
                )
                if is_decided or entry.position in findings.prepared:
                    decided.append(entry.offset)
        if decided:
            pending_transactions.finish(half_offsets=decided)
            self._store.note(f"{len(decided)} transactions had been decided there")

    def _half_offset(self) -> int:
        if self._offsets.is_ours:
            return 0
        places = self._offsets.section("offsetTable").get(f"{HALF_TOPIC}@{HALF_GROUP}")
        return number(places.get(str(QUEUE)), 0) if isinstance(places, dict) else 0

    # -- groups ----------------------------------------------------------------------------------

    def groups(self, delivery: DeliverySubsystem) -> None:
        """After the start of delivery: adopt unknown groups and their offsets."""
        if not self._store.is_foreign:
            return
        adopted = [
            config.name for config in self._new_groups(delivery) if create_group(delivery, config)
        ]
        if adopted:
            self._store.note(f"consumer groups were taken over: {_some(adopted)}")
        moved = sum(self._commit(delivery, *place) for place in self._committed())
        if moved:
            self._store.note(f"offsets were taken over, in {moved} queues of groups")

    def _new_groups(self, delivery: DeliverySubsystem) -> Iterator[GroupConfig]:
        table = self._read(GROUPS)
        listed = {} if table.is_ours else table.section("subscriptionGroupTable")
        for name, entry in sorted(listed.items()):
            if delivery.groups.find(name) is None and not is_own_group(name):
                yield group_of(name, entry if isinstance(entry, dict) else {})
        retried = {name for name in self._catalog.names() if name.startswith(RETRY_PREFIX)}
        known = {
            *listed,
            *(group for _, group, _, _ in self._committed()),
            *(name.removeprefix(RETRY_PREFIX) for name in retried),
        }
        for name in sorted(known.difference(listed)):
            if delivery.groups.find(name) is None:
                yield group_of(name, {})

    def _committed(self) -> Iterator[tuple[str, str, int, int]]:
        """Topic, group, queue and offset."""
        if self._offsets.is_ours:
            return
        for place, queues in sorted(self._offsets.section("offsetTable").items()):
            topic, _, group = place.partition("@")
            if is_own_group(group) or not group or not isinstance(queues, dict):
                continue
            for queue, offset in numbered(queues).items():
                yield topic, group, queue, offset

    def _commit(
        self, delivery: DeliverySubsystem, topic: str, group: str, queue: int, offset: int
    ) -> bool:
        """Go on where RocketMQ's consumers are, if that is further; whether it is."""
        config, owner = self._catalog.find(topic), delivery.groups.find(group)
        if config is None or owner is None or owner.mode is not Mode.CLUSTERING:
            return False
        if queue >= config.read_queues:
            return False
        offset = min(offset, self._store.bounds(topic, queue)[1])
        progress = delivery.progress_store.find(group, topic, queue)
        if progress is not None and progress.floor >= offset:
            return False
        delivery.progress_store.write(OffsetCommitted(group, topic, queue, offset))
        return True

    # -- inside ----------------------------------------------------------------------------------

    def _read(self, name: str) -> RocketmqTable:
        path = self._root / "config" / name
        try:
            return read_table(self._files, path)
        except UnreadableTable as error:
            with suppress(OSError):  # KiteMQ writes another in its place
                self._store.damage_log.keep_copy(name, read_whole(self._files, path))
            self._store.note(f"config/{name} was passed over, its backup read: {error}")
        try:
            return read_backup(self._files, path)
        except UnreadableTable as error:
            self._store.note(f"config/{name}.bak was passed over: {error}")
            return RocketmqTable()


def topic_of(name: str, entry: Mapping[str, Any], queues: Sequence[str]) -> TopicConfig | None:
    """The topic as RocketMQ had it; None for its own that have no messages, and for no name."""
    permission = number(entry.get("perm"), PERMISSION_BOTH)
    is_internal = is_system_topic(name) or permission & INHERITED or name.startswith("RMQ_SYS_")
    if not is_topic_name(name) or (is_internal and not queues):
        return None
    lying = max((int(each) + 1 for each in queues if each.isdigit() and len(each) < 9), default=1)
    readable = max(number(entry.get("readQueueNums"), 1), lying)
    writable = number(entry.get("writeQueueNums"), lying)
    return TopicConfig(
        name,
        _type(entry.get("attributes")),
        read_queues=min(readable, QUEUES_MAX),
        write_queues=min(max(writable, 1), QUEUES_MAX),
        permission=permission & PERMISSION_BOTH,
        is_automatic=not entry or not entry.get("attributes"),
    )


def _type(attributes: object) -> TopicType:
    """The message type that the topic's attributes name; NORMAL for those that KiteMQ has not."""
    name = attributes.get("message.type", "") if isinstance(attributes, dict) else ""
    return TopicType(name) if name in TopicType.__members__ else TopicType.NORMAL


def group_of(name: str, entry: Mapping[str, Any]) -> GroupConfig:
    """The group as RocketMQ had it."""
    retries = min(number(entry.get("retryMaxTimes"), 16), RETRY_MAX_LIMIT)
    return GroupConfig(
        name,
        retry_max=retries,
        consume_enabled=entry.get("consumeEnable") is not False,
        ordered=entry.get("consumeMessageOrderly") is True,
    )


def create_group(delivery: DeliverySubsystem, config: GroupConfig) -> bool:
    """Add a group; whether it could be."""
    try:
        check_group_name(config.name)
        delivery.groups.create(config)
    except EngineError:
        return False
    return True


def _some(names: Sequence[str]) -> str:
    text = ", ".join(names[:NAMED_MAX])
    return text if len(names) <= NAMED_MAX else f"{text} and {len(names) - NAMED_MAX} more"
