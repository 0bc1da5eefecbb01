"""The topics that exist and how each is set up, kept in the progress journal.

`engine.handover` writes RocketMQ's form of it beside it, so that the directory can be carried to
Apache RocketMQ.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from engine.errors import Busy, Conflict, Forbidden, Invalid, TopicNotFound
from engine.legality import check_by, check_number
from engine.message import Durability, StoredMessage
from engine.store.journal import Journal, JournalEntry
from engine.topic.names import (
    CLOSED_TOPICS,
    SCHEDULE_TOPIC,
    check_topic_name,
    is_group_topic,
    is_system_topic,
    is_topic_name,
)

QUEUES_MAX = 1024
RETENTION_MS_MIN = 1000
RETENTION_MS_MAX = 10 * 365 * 86_400_000
PERMISSION_READ = 4
PERMISSION_WRITE = 2
PERMISSION_BOTH = 6
SCHEDULE_QUEUES = 18


class TopicType(StrEnum):
    """Type of a topic's messages: RocketMQ's `message.type` attribute."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"


class TopicConfig(msgspec.Struct, frozen=True, array_like=True):
    """Configuration of a topic. `permission` is 6 (both), 4 (read only), 2 (write only) or 0."""

    name: str
    type: TopicType = TopicType.NORMAL
    read_queues: int = 4
    write_queues: int = 4
    permission: int = PERMISSION_BOTH
    durability: Durability | None = None  # None: the broker's default
    created_ms: int = 0
    since_position: int = 0  # records before it belong to an earlier topic of this name
    is_automatic: bool = False  # made at first use: message types are not enforced
    trace_sample: float | None = None  # None: the broker's default
    retention_ms: int | None = None  # None: the broker's; 0: never too old

    def rocketmq_entry(self) -> dict[str, object]:
        """As an entry of RocketMQ's `topics.json`."""
        return {
            "topicName": self.name,
            "readQueueNums": self.read_queues,
            "writeQueueNums": self.write_queues,
            "perm": self.permission,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
            "attributes": {"message.type": self.type.value},
        }

    @property
    def is_readable(self) -> bool:
        return bool(self.permission & PERMISSION_READ)

    @property
    def is_writable(self) -> bool:
        return bool(self.permission & PERMISSION_WRITE)

    @property
    def is_system(self) -> bool:
        return is_system_topic(self.name)


# What is not for users to change: the engine sets it once, or knows it.
CHANGEABLE = frozenset(TopicConfig.__struct_fields__) - {
    "name", "type", "created_ms", "since_position", "is_automatic",
}  # fmt: skip


class TopicSet(JournalEntry, frozen=True, tag="topic-set", array_like=True):
    """A topic was created or changed."""

    config: TopicConfig


class TopicDeleted(JournalEntry, frozen=True, tag="topic-deleted", array_like=True):
    """A topic was deleted; its records before `position` belong to no topic."""

    name: str
    position: int


class Positions(Protocol):
    """Positions of the log that the catalog needs."""

    @property
    def written(self) -> int: ...

    @property
    def oldest(self) -> int: ...


class Catalog:
    """`get` raises, `find` may give None, `ensure` may create."""

    def __init__(
        self,
        journal: Journal,
        log: Positions,
        now_ms: Callable[[], int],
        *,
        default_queues: int = 4,
        auto_create: bool = True,
        topics_max: int = 100_000,
    ) -> None:
        self._journal = journal
        self._log = log
        self._now_ms = now_ms
        self._default_queues = default_queues
        self._auto_create = auto_create
        self._topics_max = topics_max
        self._topics: dict[str, TopicConfig] = {}
        self._deleted: dict[str, int] = {}
        self._aged: dict[str, None] = {}  # topics with a retention of their own
        self._sorted: dict[bool, list[TopicConfig]] = {}
        self._sorted_version = -1
        self.version = 0  # counts changes, so that a projection knows when it is stale
        journal.register((TopicSet, TopicDeleted), self._apply, self._snapshot, _check_entry)

    def find(self, name: str) -> TopicConfig | None:
        return self._topics.get(name)

    def get(self, name: str) -> TopicConfig:
        config = self._topics.get(name)
        if config is None:
            raise TopicNotFound(
                f"there is no topic {name!r}",
                field="topic",
                remedy="create it, or check the name",
            )
        return config

    def all(self, *, system: bool = False) -> list[TopicConfig]:
        """Topics by name; the engine's own only when asked for."""
        if self._sorted_version != self.version:
            # Sorted once for each change: ten thousand names hold up the owner for 3 ms.
            everything = [self._topics[name] for name in sorted(self._topics)]
            others = [topic for topic in everything if not is_system_topic(topic.name)]
            self._sorted = {True: everything, False: others}
            self._sorted_version = self.version
        return self._sorted[system].copy()

    def names(self) -> list[str]:
        """Of all topics, the engine's own too, in no order."""
        return list(self._topics)

    def with_own_age(self) -> list[TopicConfig]:
        """Topics that say for themselves how long their messages are kept."""
        return [self._topics[name] for name in self._aged]

    def create(self, config: TopicConfig) -> TopicConfig:
        """Add a topic; Conflict when the name is taken, Forbidden for the engine's own names."""
        check_topic(config)
        if config.name in self._topics:
            raise topic_exists(config.name)
        return self._add(config)

    def change(self, name: str, /, **changes: Any) -> TopicConfig:
        """Replace settings of a topic. Shrink write queues first, drain, then read queues.

        Raises TopicNotFound, Forbidden for the engine's own, and Invalid for a setting that is
        unknown or has a wrong value.
        """
        config = self.get(name)
        changed = changed_topic(config, changes)
        if changed != config:
            self._set(changed)
        return changed

    def delete(
        self, name: str, also: Sequence[JournalEntry] = (), *, position: int | None = None
    ) -> None:
        """Take a topic away; the caller forgets its queues and its progress.

        What it has to journal for that comes along as `also`: all is kept, or nothing. Records
        before `position`, or all there are, belong to it.
        """
        self.get(name)
        check_deletable(name)
        entry = TopicDeleted(name, self._log.written if position is None else position)
        self._journal.append_all([entry, *also], is_lasting=True)
        self._apply(entry)

    def plan(self, name: str) -> TopicConfig:
        """The topic as `ensure` would give it, without creating it."""
        config = self._topics.get(name)
        if config is not None:
            return config
        check_topic_name(name)
        if not self._auto_create or is_system_topic(name):
            return self.get(name)
        return self._default(name)

    def ensure(self, name: str) -> TopicConfig:
        """The topic, created with the defaults if the settings allow it; else TopicNotFound."""
        return self._topics.get(name) or self._add(self.plan(name))

    def ensure_system(self, name: str) -> TopicConfig:
        """A topic of the engine's own: the delay levels', a group's retries or dead letters."""
        return self._topics.get(name) or self._add(self._system_config(name))

    def adopt(self, config: TopicConfig) -> TopicConfig:
        """Before recovery: a topic that another broker made; its records in the log count.

        Raises Invalid for a name that no topic can have.
        """
        check_topic_name(config.name)
        if is_system_topic(config.name):
            config = self._system_config(config.name)
        begin = self._deleted.get(config.name, 0)
        config = msgspec.structs.replace(config, created_ms=self._now_ms(), since_position=begin)
        _check(config)
        self._set(config)
        return config

    def match(self, config: TopicConfig) -> None:
        """A topic as another broker has it: taken over, or changed in what that one knows."""
        current = self._topics.get(config.name)
        if current is None:
            self.adopt(config)
            return
        changed = msgspec.structs.replace(
            current,
            type=config.type,
            read_queues=config.read_queues,
            write_queues=config.write_queues,
            permission=config.permission,
            is_automatic=config.is_automatic,
        )
        if changed != current:
            _check(changed)
            self._set(changed)

    def is_deleted(self, name: str) -> bool:
        """Whether the journal has the topic's end, and no later beginning."""
        return name in self._deleted

    def is_current(self, topic: str, position: int) -> bool:
        """Whether a record of `topic` at `position` belongs to the topic that exists now."""
        config = self._topics.get(topic)
        return config is not None and position >= config.since_position

    def begin_of(self, topic: str) -> int | None:
        """The position from which on records count as this topic's; None when there is none."""
        config = self._topics.get(topic)
        return None if config is None else config.since_position

    def owns(self, message: StoredMessage) -> bool:
        """The same in recovery, where the log may know more than the journal.

        After a power loss a record of an unknown topic that was not deleted brings its topic back.
        """
        name, queues = message.topic, message.queue + 1
        config = self._topics.get(name)
        if not 0 < queues <= QUEUES_MAX or (config is None and not is_topic_name(name)):
            return False  # damaged where no checksum lies over it, or no topic could be like this
        begin = self._deleted.get(name, 0)
        if config is None and message.position < begin:
            return False
        if config is None:
            config = self._system_config(name) if is_system_topic(name) else self._default(name)
            now_ms = self._now_ms()
            self._set(msgspec.structs.replace(config, created_ms=now_ms, since_position=begin))
        elif config.is_automatic and queues > config.read_queues:
            self._set(msgspec.structs.replace(config, read_queues=queues, write_queues=queues))
        return self.is_current(name, message.position)

    def has(self, message: StoredMessage) -> bool:
        """Whether a record is of a topic as it is now; makes none, as `owns` may."""
        return self.is_current(message.topic, message.position)

    def settle(self) -> None:
        """After recovery: no topic begins behind the log's end, where a power loss cut it short.

        Its next messages would pass for an earlier topic's at the recovery after this one.
        """
        end = self._log.written
        for config in [config for config in self._topics.values() if config.since_position > end]:
            self._set(msgspec.structs.replace(config, since_position=end))
        for name in [name for name, position in self._deleted.items() if position > end]:
            entry = TopicDeleted(name, end)
            self._journal.append(entry, is_lasting=True)
            self._apply(entry)

    def _default(self, name: str) -> TopicConfig:
        queues = self._default_queues
        return TopicConfig(name, read_queues=queues, write_queues=queues, is_automatic=True)

    def _system_config(self, name: str) -> TopicConfig:
        queues = SCHEDULE_QUEUES if name == SCHEDULE_TOPIC else 1
        return TopicConfig(name, read_queues=queues, write_queues=queues)

    def _add(self, config: TopicConfig) -> TopicConfig:
        _check(config)
        if len(self._topics) >= self._topics_max:
            raise Busy(
                f"there are {len(self._topics)} topics, {self._topics_max} is the most",
                field="topic",
                remedy="delete topics that nobody uses, or raise topics_max",
                retry_after_s=60.0,
            )
        config = msgspec.structs.replace(
            config, created_ms=self._now_ms(), since_position=self._log.written
        )
        self._set(config)
        return config

    def _set(self, config: TopicConfig) -> None:
        entry = TopicSet(config)
        self._journal.append(entry, is_lasting=True)
        self._apply(entry)

    def _apply(self, entry: TopicSet | TopicDeleted) -> None:
        self.version += 1
        if isinstance(entry, TopicSet):
            self._topics[entry.config.name] = entry.config
            self._deleted.pop(entry.config.name, None)
            self._aged.pop(entry.config.name, None)
            if entry.config.retention_ms is not None:
                self._aged[entry.config.name] = None
        else:
            self._topics.pop(entry.name, None)
            self._aged.pop(entry.name, None)
            self._deleted[entry.name] = entry.position

    def _snapshot(self) -> Iterable[JournalEntry]:
        yield from map(TopicSet, self._topics.values())
        for name, position in self._deleted.items():
            if position > self._log.oldest:  # older ones have no record left to be mistaken for
                yield TopicDeleted(name, position)


def _check_entry(entry: TopicSet | TopicDeleted) -> None:
    """Raises Illegal for what cannot be a topic, or the end of one."""
    if isinstance(entry, TopicDeleted):
        check_number("position", entry.position)
        return
    config = entry.config
    check_by(check_topic_name, config.name)
    check_by(_check, config)
    check_number("created_ms", config.created_ms)
    check_number("since_position", config.since_position)


def check_topic(config: TopicConfig) -> None:
    """Raise Invalid or Forbidden for what no topic of the users' can be."""
    check_topic_name(config.name, field="name")
    if is_system_topic(config.name):
        raise Forbidden(
            f"{config.name!r} is a name of the system's own",
            field="name",
            remedy="choose another name",
        )
    _check(config)


def changed_topic(config: TopicConfig, changes: Mapping[str, Any]) -> TopicConfig:
    """The topic with these changes; Invalid, and Forbidden for the engine's own."""
    unknown = sorted(changes.keys() - CHANGEABLE)
    if unknown:
        raise Invalid(f"a topic has no changeable {unknown[0]!r}", field=unknown[0])
    changed = msgspec.structs.replace(config, **changes)
    if changed != config:
        if is_system_topic(config.name) and not is_group_topic(config.name):
            raise Forbidden(f"{config.name!r} is the system's own topic", field="topic")
        _check(changed)
    return changed


def check_deletable(name: str) -> None:
    """Raise Forbidden for a topic that the engine cannot be without."""
    if name in CLOSED_TOPICS:
        raise Forbidden(f"{name!r} is the system's own topic", field="topic")


def topic_exists(name: str) -> Conflict:
    """The error for a name that is taken."""
    return Conflict(
        f"the topic {name!r} exists already",
        field="name",
        remedy="change it, or choose another name",
    )


def _check(config: TopicConfig) -> None:
    for field in ("read_queues", "write_queues"):
        if not 1 <= getattr(config, field) <= QUEUES_MAX:
            raise Invalid(
                f"{field} is {getattr(config, field)}, it must be 1 to {QUEUES_MAX}",
                field=field,
                remedy=f"give a number from 1 to {QUEUES_MAX}",
            )
    if config.permission not in (0, PERMISSION_READ, PERMISSION_WRITE, PERMISSION_BOTH):
        raise Invalid(
            f"permission is {config.permission}",
            field="permission",
            remedy="give 6 (read and write), 4 (read), 2 (write) or 0 (neither)",
        )
    age_ms = config.retention_ms
    if age_ms and not RETENTION_MS_MIN <= age_ms <= RETENTION_MS_MAX:
        raise Invalid(
            f"retention_ms is {age_ms}",
            field="retention_ms",
            remedy=f"give {RETENTION_MS_MIN} to {RETENTION_MS_MAX}, 0 to keep messages for good, "
            "or null for the broker's",
        )
    if config.trace_sample is not None and not 0 <= config.trace_sample <= 1:
        raise Invalid(
            f"trace_sample is {config.trace_sample}",
            field="trace_sample",
            remedy="give the share of messages to trace, from 0 (none) to 1 (all)",
        )
