"""Consumer groups: their names and settings, kept in the journal.

A group is created by hand or, where the engine allows it, at its first use. What a group has
consumed is not here but in `progress_store.py`; `DeliverySubsystem` deletes both.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from engine.delivery.policy import Ladder, RetryPolicy, check_policy
from engine.delivery.rebalance import Strategy
from engine.delivery.start import StartAt
from engine.errors import Conflict, GroupNotFound, Invalid, Refused
from engine.legality import check_by
from engine.store.journal import Journal, JournalEntry
from engine.topic.names import check_group_name, check_topic_name

RETRY_MAX_LIMIT = 10_000
PAUSED_TOPICS_MAX = 64
ROOMS_MAX = 64
ROOM_CHARS_MAX = 64
TIME_MS_MAX = 253_402_300_799_999


class Mode(StrEnum):
    """Whether the clients of a group share its messages, or each gets all of them."""

    CLUSTERING = "clustering"
    BROADCAST = "broadcast"


class GroupConfig(msgspec.Struct, frozen=True):
    """Settings of a group; `retry_max` counts retries after the first delivery.

    `start_at_ms` (ms since 1970 UTC) is used by StartAt.TIME only. `paused_topics` are not
    delivered while the others are. `rooms` are used by Strategy.MACHINE_ROOM only. A group that
    is `ordered` gets the messages of one message group of a FIFO topic one after the other, any
    other group gets them side by side. With `dismiss_when_resent` its dead letters that a replay
    job sent again count as dismissed.
    """

    name: str
    retry_max: int = 16
    start: StartAt = StartAt.EARLIEST
    consume_enabled: bool = True
    dead_letters: bool = True  # without them, what used up its attempts is dropped
    mode: Mode = Mode.CLUSTERING
    start_at_ms: int = 0
    retry_policy: RetryPolicy = Ladder()
    strategy: Strategy = Strategy.AVERAGE
    rooms: tuple[str, ...] = ()
    paused_topics: tuple[str, ...] = ()
    ordered: bool = False
    dismiss_when_resent: bool = False

    def rocketmq_entry(self) -> dict[str, object]:
        """As an entry of RocketMQ's `subscriptionGroup.json`."""
        return {
            "groupName": self.name,
            "consumeEnable": self.consume_enabled,
            "consumeFromMinEnable": True,
            "consumeBroadcastEnable": True,
            "consumeMessageOrderly": self.ordered,
            "retryQueueNums": 1,
            "retryMaxTimes": self.retry_max,
            "brokerId": 0,
            "whichBrokerWhenConsumeSlowly": 1,
            "notifyConsumerIdsChangedEnable": True,
        }


class GroupSet(JournalEntry, frozen=True, tag="group_set"):
    """A group was created or changed.

    Entries of versions in which every group was ordered lack the second field, and their `config`
    does not say whether it is.
    """

    config: GroupConfig
    has_ordered: bool = False


class GroupGone(JournalEntry, frozen=True, tag="group_gone"):
    """A group was deleted."""

    name: str


class GroupCatalog:
    """All groups by name."""

    def __init__(
        self, journal: Journal, *, auto_create: bool, groups_max: int, retry_max: int
    ) -> None:
        self._journal = journal
        self._auto_create = auto_create
        self._groups_max = groups_max
        self._retry_max = retry_max
        self._groups: dict[str, GroupConfig] = {}
        self._sorted: list[GroupConfig] | None = None
        journal.register((GroupSet, GroupGone), self._apply, self._snapshot, _check)

    def find(self, name: str) -> GroupConfig | None:
        return self._groups.get(name)

    def dismisses_resent(self, name: str) -> bool:
        """Whether the group's resent dead letters count as dismissed; False for no group."""
        config = self._groups.get(name)
        return config is not None and config.dismiss_when_resent

    def get(self, name: str) -> GroupConfig:
        """The group's settings; raises GroupNotFound."""
        config = self._groups.get(name)
        if config is None:
            raise group_missing(name)
        return config

    def ensure(self, name: str) -> GroupConfig:
        """The group's settings; creates it where the engine may, else raises GroupNotFound."""
        config = self._groups.get(name)
        if config is not None:
            return config
        if not self._auto_create:
            return self.get(name)
        check_group_name(name)
        return self.create(GroupConfig(name, retry_max=self._retry_max))

    def create(self, config: GroupConfig) -> GroupConfig:
        """Add a group; raises Invalid, Conflict when it exists, Refused when there are too many."""
        check_group(config)
        if config.name in self._groups:
            raise group_exists(config.name)
        if len(self._groups) >= self._groups_max:
            raise Refused(
                f"there are {len(self._groups)} consumer groups, the most allowed",
                field="name",
                remedy="delete groups that are no longer used, or raise groups_max",
            )
        self._write(_entry(config))
        return config

    def change(self, name: str, /, **changes: Any) -> GroupConfig:
        """Replace some settings; raises GroupNotFound, Invalid."""
        config = self.get(name)
        changed = changed_group(config, changes)
        if changed != config:
            self._write(_entry(changed))
        return changed

    def delete(self, name: str) -> None:
        """Remove a group; raises GroupNotFound."""
        self.get(name)
        self._write(GroupGone(name))

    def all(self) -> list[GroupConfig]:
        """Every group, by name."""
        if self._sorted is None:  # once for each change: thousands are listed by every page
            self._sorted = [self._groups[name] for name in sorted(self._groups)]
        return self._sorted.copy()

    def _write(self, entry: GroupSet | GroupGone) -> None:
        self._journal.append(entry)
        self._apply(entry)

    def _apply(self, entry: GroupSet | GroupGone) -> None:
        self._sorted = None
        if isinstance(entry, GroupSet):
            config = entry.config
            if not entry.has_ordered:
                config = msgspec.structs.replace(config, ordered=True)
            self._groups[config.name] = config
        else:
            self._groups.pop(entry.name, None)

    def _snapshot(self) -> Iterable[JournalEntry]:
        return [_entry(config) for config in self._groups.values()]


def _entry(config: GroupConfig) -> GroupSet:
    return GroupSet(config, has_ordered=True)


def _check(entry: GroupSet | GroupGone) -> None:
    if isinstance(entry, GroupSet):
        check_by(check_group, entry.config)


def group_missing(name: str) -> GroupNotFound:
    """The error for a name that no group has."""
    return GroupNotFound(
        f"there is no consumer group {name!r}",
        field="group",
        remedy="create it, or check its spelling",
    )


def group_exists(name: str) -> Conflict:
    """The error for a name that is taken."""
    return Conflict(
        f"the consumer group {name!r} exists already",
        field="name",
        remedy="change it instead, or choose another name",
    )


def changed_group(config: GroupConfig, changes: Mapping[str, Any]) -> GroupConfig:
    """The group with these changes; Invalid."""
    unknown = sorted(set(changes) - set(config.__struct_fields__) | {"name"} & set(changes))
    if unknown:
        raise Invalid(f"a group has no changeable {unknown[0]!r}", field=unknown[0])
    if changes.get("start", StartAt.TIME) is not StartAt.TIME:
        changes = {"start_at_ms": 0, **changes}
    changed = msgspec.structs.replace(config, **changes)
    check_group(changed)
    return changed


def check_group(config: GroupConfig) -> None:
    """Raises Invalid, naming the field, unless every setting is one that a group can have."""
    check_group_name(config.name, field="name")
    _check_choice(config.mode, Mode, "mode")
    _check_choice(config.strategy, Strategy, "strategy")
    _check_start(config)
    if not 0 <= config.retry_max <= RETRY_MAX_LIMIT:
        raise Invalid(
            f"retry_max is {config.retry_max}",
            field="retry_max",
            remedy=f"choose 0 to {RETRY_MAX_LIMIT}",
        )
    check_policy(config.retry_policy)
    _check_rooms(config)
    _check_count(config.paused_topics, "paused_topics", PAUSED_TOPICS_MAX)
    for topic in config.paused_topics:
        check_topic_name(topic, field="paused_topics")


def _check_start(config: GroupConfig) -> None:
    _check_choice(config.start, StartAt, "start")
    if not 0 <= config.start_at_ms <= TIME_MS_MAX:
        raise Invalid(
            f"start_at_ms is {config.start_at_ms}",
            field="start_at_ms",
            remedy=f"give ms since 1970 UTC, at most {TIME_MS_MAX} (the year 9999)",
        )
    if (config.start is StartAt.TIME) != (config.start_at_ms > 0):
        raise Invalid(
            f"the group starts at {config.start} with a time of {config.start_at_ms} ms",
            field="start_at_ms",
            remedy="give start_at_ms (ms since 1970 UTC) together with the start time, else 0",
        )


def _check_rooms(config: GroupConfig) -> None:
    _check_count(config.rooms, "rooms", ROOMS_MAX)
    for room in config.rooms:
        if not (0 < len(room) <= ROOM_CHARS_MAX and room.isprintable()) or "@" in room:
            raise Invalid(
                f"a room is called {room!r}",
                field="rooms",
                remedy=f"a room has 1 to {ROOM_CHARS_MAX} printable characters and no @",
            )
    if config.strategy is Strategy.MACHINE_ROOM and not config.rooms:
        raise Invalid(
            "no rooms are given for the strategy machine_room",
            field="rooms",
            remedy='name the rooms whose brokers, called "room@name", are consumed from',
        )


def _check_choice(value: object, kind: type[StrEnum], field: str) -> None:
    if not isinstance(value, kind):
        raise Invalid(
            f"{field} is {value!r}",
            field=field,
            remedy=f"choose {' or '.join(item.value for item in kind)}",
        )


def _check_count(values: tuple[str, ...], field: str, most: int) -> None:
    if len(values) > most:
        raise Invalid(f"{len(values)} {field}", field=field, remedy=f"name at most {most}")
