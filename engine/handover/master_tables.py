"""An Apache master's tables on a standby: in topics, groups and offsets, and as RocketMQ's files.

While it follows, topics, groups and offsets are what the master said last. How far delays, exact
times and transactions are lies in files alone, as a slave of RocketMQ keeps it: the start that
makes the standby a leader adopts it (`engine.handover.adopt`).

Tables may be taken once the log has all that the master had when it gave them: what they call done
has left its records there.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engine.delivery.changes import OffsetCommitted
from engine.delivery.group import GroupConfig, Mode
from engine.delivery.subsystem import DeliverySubsystem
from engine.errors import Conflict
from engine.handover.adopt import create_group, group_of, topic_of
from engine.handover.tables import (
    DELAYS,
    GROUPS,
    OFFSETS,
    TOPICS,
    RocketmqTable,
    UnreadableTable,
    is_own_group,
    numbered,
    table_of,
)
from engine.handover.timer_files import CHECK, CHECK_BYTES
from engine.message import StoredMessage
from engine.store.files import Files, make_lasting_directory, write_atomic
from engine.store.store import Store
from engine.topic.catalog import Catalog, TopicConfig

TIMERS = "timercheck"
STEP_COUNT = 500  # entries between two pauses

Place = tuple[str, str, int]  # group, topic, queue


class MasterTables(msgspec.Struct, frozen=True):
    """By file name what the master gave, and where its log ended before it did.

    A master whose timers are off gives no `timercheck`.
    """

    bodies: Mapping[str, bytes]
    log_end: int


class MasterState(NamedTuple):
    """What the tables say of topics, groups and offsets."""

    names: frozenset[str]  # of all topics
    topics: dict[str, TopicConfig]  # those that are not RocketMQ's own
    groups: dict[str, GroupConfig]
    offsets: dict[Place, int]
    log_end: int


def parse(tables: MasterTables) -> MasterState:
    """Read the tables, on any thread; Conflict where one is none."""
    try:
        read = {name: table_of(tables.bodies[name], name) for name in (TOPICS, GROUPS, OFFSETS)}
    except UnreadableTable as error:
        raise Conflict(f"the master's {error}") from None
    listed = dict(_entries(read[TOPICS], "topicConfigTable"))
    topics = {
        name: config
        for name, entry in listed.items()
        if (config := topic_of(name, entry, ())) is not None
    }
    groups = {
        name: group_of(name, entry)
        for name, entry in _entries(read[GROUPS], "subscriptionGroupTable")
        if not is_own_group(name)
    }
    offsets: dict[Place, int] = {}
    for place, queues in _entries(read[OFFSETS], "offsetTable"):
        topic, _, group = place.partition("@")
        if group and not is_own_group(group):
            groups.setdefault(group, group_of(group, {}))
            for queue, offset in numbered(queues).items():
                offsets[group, topic, queue] = offset
    return MasterState(frozenset(listed), topics, groups, offsets, tables.log_end)


def _entries(table: RocketmqTable, section: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, entry in table.section(section).items():
        yield name, entry if isinstance(entry, dict) else {}


class TableFiles:
    """The tables as files in the folder `config`, where RocketMQ's own slave has them."""

    def __init__(self, files: Files, root: Path) -> None:
        self._files, self._directory = files, root / "config"
        self._written: dict[str, bytes] = {}

    def write(self, tables: MasterTables) -> None:
        """Write those that changed, on any thread; on the disk when it returns. OSError."""
        make_lasting_directory(self._files, self._directory)
        for name in (TOPICS, GROUPS, OFFSETS, DELAYS, TIMERS):
            body = tables.bodies.get(name, b"")
            if name == TIMERS:
                body = body.ljust(CHECK_BYTES, b"\0") if len(body) >= CHECK.size else b""
            if body and self._written.get(name) != body:
                write_atomic(self._files, self._directory / name, body)
                self._written[name] = body


class MasterMatch:
    """Makes the parts of a standby equal to its master's tables; for the owner's thread."""

    def __init__(self, store: Store, catalog: Catalog, delivery: DeliverySubsystem) -> None:
        self._store, self._catalog, self._delivery = store, catalog, delivery
        self._matched: dict[Place, int] = {}
        self._made_anew: tuple[str, int] | None = None  # a topic, and its first record

    def owns(self, message: StoredMessage) -> bool:
        """Whether a record can be read; of a topic that no table has named yet, it makes that."""
        topic, queue, offset = message.topic, message.queue, message.offset
        if not self._catalog.owns(message):
            return False
        if offset < self._store.bounds(topic, queue)[1]:
            entries = self._store.entries(topic, queue, offset, 1)
            if entries and entries[0].offset == offset and entries[0].position < message.position:
                # Its offsets begin again: it was deleted and made anew between two tables.
                self._made_anew = self._made_anew or (topic, message.position)
                return False
        return True

    def settle(self) -> bool:
        """Part a topic that was made anew from its predecessor; whether there was one."""
        if self._made_anew is None:
            return False
        topic, position = self._made_anew
        self._made_anew = None
        config = self._catalog.get(topic)
        self._delete_topic(topic, position)
        self._catalog.match(config)
        return True

    def steps(self, state: MasterState) -> Iterator[None]:
        """Take over what changed, with pauses; DiskFull stops it anywhere."""
        changes = (self._topics(state), self._groups(state.groups), self._offsets(state.offsets))
        count = 0
        for change in changes:
            for _ in change:
                count += 1
                if not count % STEP_COUNT:
                    yield

    def _topics(self, state: MasterState) -> Iterator[None]:
        for config in state.topics.values():
            self._catalog.match(config)
            yield
        for config in self._catalog.all():
            name = config.name
            if name not in state.names and self._end_of(config) <= state.log_end:
                self._delete_topic(name, state.log_end)
            yield

    def _end_of(self, config: TopicConfig) -> int:
        """Where its last record lies, or where the topic begins."""
        positions = [config.since_position]
        for queue in range(config.read_queues):
            end = self._store.bounds(config.name, queue)[1]
            entries = self._store.entries(config.name, queue, max(0, end - 1), 1)
            positions += [entry.position for entry in entries]
        return max(positions)

    def _delete_topic(self, name: str, position: int) -> None:
        """The records before `position` are of no topic; those behind it are looked at again."""
        self._catalog.delete(
            name, also=self._delivery.topic_deletion_entries(name), position=position
        )
        self._store.delete_topic(name)
        self._delivery.forget_topic(name)
        self._matched = {place: at for place, at in self._matched.items() if place[1] != name}
        self._store.hold_copies()

    def _groups(self, listed: dict[str, GroupConfig]) -> Iterator[None]:
        groups = self._delivery.groups
        for name, config in listed.items():
            current = groups.find(name)
            if current is None:
                create_group(self._delivery, config)
            else:
                groups.change(
                    name,
                    retry_max=config.retry_max,
                    consume_enabled=config.consume_enabled,
                    ordered=config.ordered,
                )
            yield
        for current in groups.all():
            if current.name not in listed:
                self._delivery.delete_group(current.name)
                self._matched = {p: at for p, at in self._matched.items() if p[0] != current.name}
            yield

    def _offsets(self, offsets: dict[Place, int]) -> Iterator[None]:
        for place, offset in offsets.items():
            if self._matched.get(place) != offset and self._commit(place, offset):
                self._matched[place] = offset
            yield

    def _commit(self, place: Place, offset: int) -> bool:
        """Let the group go on there, backwards too; False where that cannot be yet."""
        group, topic, queue = place
        config, owner = self._catalog.find(topic), self._delivery.groups.find(group)
        if config is None or owner is None or queue >= config.read_queues:
            return False
        if owner.mode is not Mode.CLUSTERING:
            return True
        cursor = min(offset, self._store.bounds(topic, queue)[1])
        progress = self._delivery.progress_store.find(group, topic, queue)
        if progress is None or progress.floor != cursor:
            self._delivery.progress_store.write(OffsetCommitted(group, topic, queue, cursor))
        return cursor == offset
