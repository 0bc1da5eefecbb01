"""Compares the subscriptions of a group's members and warns where they differ.

RocketMQ keeps one subscription for a group, that of the last heartbeat, so members that differ take
messages from each other and lose them. Here each receive and each pull names what it wants, so
that the group's subscription selects nothing; it is kept for clients that ask for it, and members
that differ are warned of, because a message still goes to one of them only.
Source: docs/rocketmq-rules.md#members-and-subscriptions.
"""

from collections.abc import Mapping, Sequence

import msgspec

from engine.delivery.filter import TagFilter, check_together, parse_filter
from engine.errors import Invalid
from engine.topic.names import check_topic_name

TOPICS_MAX = 64
ALL_TEXT = "*"
CLIENTS_TOLD_MAX = 100  # of each variant in a warning

Subscription = dict[str, str]  # topic to filter, as `normal` writes it


class SubscriptionVariant(msgspec.Struct, frozen=True):
    """One of several subscriptions and its clients: at most 100 of them, and their number."""

    topics: Subscription
    clients: list[str]
    count: int


class SubscriptionWarning(msgspec.Struct, frozen=True):
    """Members of one group subscribe to different things: each gets what is the others'."""

    group: str
    variants: list[SubscriptionVariant]

    @property
    def detail(self) -> str:
        """The warning as a sentence."""
        parts = (
            f"{' and '.join(each.clients[:3])}{' and others' if each.count > 3 else ''} to "
            + ", ".join(f"{topic} ({match})" for topic, match in each.topics.items())
            for each in self.variants
        )
        return (
            f"members of the group {self.group!r} subscribe to different messages: "
            f"{'; '.join(parts)}. A message goes to one member of a group only: give each "
            "subscription a group of its own, or let all members subscribe to the same"
        )


def normal(topics: Mapping[str, str]) -> Subscription:
    """The same subscription in one way of writing; Invalid, naming `topics.<name>`."""
    if len(topics) > TOPICS_MAX:
        raise Invalid(
            f"{len(topics)} topics, {TOPICS_MAX} is the most",
            field="topics",
            remedy="use several groups",
        )
    check_together(topics)
    return {name: _normal_filter(name, topics[name]) for name in sorted(topics)}


def find_difference(group: str, members: Mapping[str, Subscription]) -> SubscriptionWarning | None:
    """A warning where the members (client to subscription) disagree; None where they agree.

    A member without a subscription agrees with all others.
    """
    variants: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for client in sorted(members):
        if members[client]:
            variants.setdefault(tuple(members[client].items()), []).append(client)
    if len(variants) < 2:
        return None
    return SubscriptionWarning(
        group,
        [
            SubscriptionVariant(dict(topics), clients[:CLIENTS_TOLD_MAX], len(clients))
            for topics, clients in sorted(variants.items())
        ],
    )


def merged(subscriptions: Sequence[Subscription]) -> Subscription:
    """One client's subscriptions together; of two filters for a topic the later one."""
    together = {topic: match for each in subscriptions for topic, match in each.items()}
    return {topic: together[topic] for topic in sorted(together)}


def _normal_filter(topic: str, text: str) -> str:
    check_topic_name(topic, field="topics")
    try:
        parsed = parse_filter(text)
    except Invalid as error:
        error.field = f"topics.{topic}"
        raise
    if isinstance(parsed, TagFilter):
        return " || ".join(sorted(parsed.tags)) or ALL_TEXT
    return text.strip()
