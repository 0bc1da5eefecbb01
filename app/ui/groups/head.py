"""The head of every page of a consumer group."""

from dataclasses import dataclass
from urllib.parse import quote

from app.ui.framework.console import Console
from engine.broker import DEAD_LETTER_PREFIX, RETRY_PREFIX, GroupConfig, GroupLag, Mode
from engine.errors import NotFound


@dataclass(frozen=True)
class GroupHead:
    """A group's name, state and address `path`, for the head of its pages."""

    name: str
    path: str
    is_paused: bool
    is_broadcast: bool
    is_ordered: bool
    paused_topics: int
    members: int
    is_differing: bool
    is_mixed: bool
    dead: int
    retry_topic: str
    dead_topic: str
    has_retry_topic: bool
    has_dead_topic: bool


def head_of(console: Console, config: GroupConfig, lag: GroupLag) -> GroupHead:
    """The head of a group's page."""
    broker, name = console.broker, config.name
    retry_topic, dead_topic = RETRY_PREFIX + name, DEAD_LETTER_PREFIX + name
    return GroupHead(
        name=name,
        path=f"/groups/{quote(name, safe='')}",
        is_paused=not config.consume_enabled,
        is_broadcast=config.mode is Mode.BROADCAST,
        is_ordered=config.ordered,
        paused_topics=len(config.paused_topics),
        members=broker.members.count(name),
        is_differing=is_differing(console, name),
        is_mixed=console.mixed_groups.is_mixed(name),
        dead=lag.dead_open,
        retry_topic=retry_topic,
        dead_topic=dead_topic,
        has_retry_topic=_has_topic(console, retry_topic),
        has_dead_topic=_has_topic(console, dead_topic),
    )


def is_differing(console: Console, group: str) -> bool:
    """Whether the members of a group have different subscriptions."""
    members = console.broker.members
    return members.count(group) > 1 and members.warning(group) is not None


def topics_of_group(console: Console, config: GroupConfig, lag: GroupLag) -> list[str]:
    """The topics that a group has offsets in, subscribes to or has paused, by name.

    Its retry topic is included once it has held a message.
    """
    own_retry = RETRY_PREFIX + config.name
    names = {queue.topic for queue in lag.queues if queue.topic != own_retry or queue.max_offset}
    names.update(config.paused_topics)
    for member in console.broker.members.of(config.name):
        names.update(member.topics)
    return sorted(names)


def _has_topic(console: Console, name: str) -> bool:
    try:
        console.broker.topic(name)
    except NotFound:
        return False
    return True
