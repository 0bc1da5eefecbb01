"""The contract of `app.administration`: what every maker answers, whatever keeps the messages.

The maker here is the embedded engine. With these same tests `tests/rocketmq/test_administration.py`
has Apache's name server and two brokers, and `tests/app/cluster/test_administration.py` KiteMQ's
own port for classic clients in the place of a cluster.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import pytest

from app.administration import Administration, DeadLetterLists, MemberLists
from app.capabilities import NOT_SUPPORTED
from app.cluster.client import ClusterClient
from app.cluster.messaging import ClusterMessaging
from engine.broker import (
    DEAD_LETTER_PREFIX,
    DeadLetterConditions,
    DeadLetterState,
    GroupConfig,
    Nack,
    StateCounts,
    TopicConfig,
    TopicType,
)
from engine.errors import (
    Conflict,
    Forbidden,
    GroupNotFound,
    Invalid,
    MessageNotFound,
    Refused,
    TopicNotFound,
)
from engine.message import Durability
from tests.app.conftest import started
from tests.app.maker import LIMIT_S, STEP_S, Maker, cluster_administration
from tests.app.test_messaging import maker_of

pytestmark = pytest.mark.anyio
T = TypeVar("T")


@pytest.fixture
async def maker(tmp_path: Path) -> AsyncIterator[Maker]:
    """The embedded engine."""
    async with started(tmp_path / "data") as app:
        maker = maker_of(app, app.app.services.messaging)
        maker.administration = app.app.services.administration
        yield maker


def new_name(kind: str) -> str:
    return f"{kind}-{uuid4().hex[:12]}"


async def until(maker: Maker, read: Callable[[], Awaitable[T]], is_there: Callable[[T], bool]) -> T:
    """What `read` gives once it is there: a cluster's figures are a moment old."""
    async with asyncio.timeout(LIMIT_S):
        while not is_there(value := await read()):
            await maker.advance(STEP_S)
    return value


async def bury(maker: Maker, *errors: str) -> str:
    """A group with a dead letter for each error, in their order."""
    topic, group = await maker.topic(), await maker.group(retry_max=0)
    for error in errors:
        await maker.send(topic, error)
        [delivery] = await maker.receive(group, topic, 1)
        await maker.messaging.nack(group, [Nack(delivery.receipt, error=error)])
    letters = maker.administration.dead_letters
    counts = await until(
        maker, lambda: letters.state_counts(group), lambda counts: counts.total == len(errors)
    )
    assert counts == StateCounts(open=len(errors))
    return group


# -- topics -------------------------------------------------------------------------------------


async def test_a_topic_is_created_listed_changed_and_deleted(maker: Maker) -> None:
    administration, name = maker.administration, new_name("topic")
    created = await administration.create_topic(TopicConfig(name, TopicType.FIFO, 4, 4))
    assert (created.name, created.type) == (name, TopicType.FIFO)
    assert (created.read_queues, created.write_queues, created.permission) == (4, 4, 6)
    assert await administration.topic(name) == created
    assert await administration.topics() == sorted(
        await administration.topics(), key=lambda each: each.name
    )
    assert created in await administration.topics()
    changed = await administration.change_topic(name, read_queues=8, permission=4)
    assert (changed.read_queues, changed.write_queues, changed.permission) == (8, 4, 4)
    assert (await administration.change_topic(name, permission=4)) == changed
    assert changed in await administration.topics()
    await administration.delete_topic(name)
    assert name not in [each.name for each in await administration.topics(system=True)]
    for verb in (administration.topic, administration.topic_stats, administration.delete_topic):
        with pytest.raises(TopicNotFound):
            await verb(name)


async def test_a_topic_that_cannot_be_is_refused_in_the_same_words(maker: Maker) -> None:
    administration, name = maker.administration, await maker.topic()
    with pytest.raises(Conflict) as conflict:
        await administration.create_topic(TopicConfig(name))
    assert conflict.value.field == "name"
    for config, kind, field in (
        (TopicConfig("no name"), Invalid, "name"),
        (TopicConfig("TBW102"), Forbidden, "name"),
        (TopicConfig(new_name("topic"), read_queues=0), Invalid, "read_queues"),
        (TopicConfig(new_name("topic"), permission=7), Invalid, "permission"),
    ):
        for verb in (administration.check_topic, administration.create_topic):
            with pytest.raises(kind) as refusal:
                await verb(config)
            assert refusal.value.field == field
    with pytest.raises(Invalid) as refusal:
        await administration.change_topic(name, colour="red")
    assert refusal.value.field == "colour"
    with pytest.raises(TopicNotFound):
        await administration.change_topic(new_name("topic"), permission=4)
    with pytest.raises(Forbidden):
        await administration.change_topic("SCHEDULE_TOPIC_XXXX", permission=4)
    with pytest.raises(Forbidden):
        await administration.delete_topic("SCHEDULE_TOPIC_XXXX")


async def test_settings_that_an_engine_lacks_are_refused_not_dropped(maker: Maker) -> None:
    administration, capabilities = maker.administration, maker.messaging.capabilities
    topic, group = await maker.topic(), await maker.group()
    for field, value in (
        ("durability", Durability.FLUSHED),
        ("retention_ms", 60_000),
        ("trace_sample", 0.5),
    ):
        if capabilities.topic_overrides:
            assert getattr(await administration.change_topic(topic, **{field: value}), field)
        else:
            with pytest.raises(Refused) as refusal:
                await administration.change_topic(topic, **{field: value})
            assert (refusal.value.code, refusal.value.field) == (NOT_SUPPORTED, field)
    if capabilities.group_policies:
        assert (await administration.pause_group(group, topic)).paused_topics == (topic,)
        assert not (await administration.change_group(group, dead_letters=False)).dead_letters
    else:
        for verb in (
            lambda: administration.pause_group(group, topic),
            lambda: administration.change_group(group, dead_letters=False),
        ):
            with pytest.raises(Refused) as refusal:
                await verb()
            assert refusal.value.code == NOT_SUPPORTED


async def test_the_systems_own_topics_are_listed_only_when_asked_for(maker: Maker) -> None:
    group = await bury(maker, "E: 1")
    names = [each.name for each in await maker.administration.topics()]
    every = await until(
        maker,
        lambda: maker.administration.topics(system=True),
        lambda every: f"{DEAD_LETTER_PREFIX}{group}" in [each.name for each in every],
    )
    assert names == sorted(names)
    assert not any(each.is_system for each in every if each.name in names)
    assert {each.name for each in every if not each.is_system} == set(names)


async def test_a_topics_queues_say_what_they_keep(maker: Maker) -> None:
    topic = await maker.topic()
    empty = await maker.administration.topic_stats(topic)
    assert [(q.queue, q.min_offset, q.max_offset) for q in empty.queues] == [
        (each, 0, 0) for each in range(4)
    ]
    assert (empty.messages, {each.last_stored_ms for each in empty.queues}) == (0, {None})
    for queue, count in ((1, 3), (2, 1)):
        await maker.send(topic, *map(str, range(count)), queue=queue)
    stats = await until(
        maker, lambda: maker.administration.topic_stats(topic), lambda stats: stats.messages == 4
    )
    assert [each.max_offset for each in stats.queues] == [0, 3, 1, 0]
    assert [each.last_stored_ms is not None for each in stats.queues] == [False, True, True, False]


# -- groups -------------------------------------------------------------------------------------


async def test_a_group_is_created_listed_changed_paused_and_deleted(maker: Maker) -> None:
    administration, name = maker.administration, new_name("group")
    created = await administration.create_group(GroupConfig(name, retry_max=3))
    assert created == GroupConfig(name, retry_max=3)
    assert await administration.group(name) == created
    assert created in await administration.groups()
    changed = await administration.change_group(name, retry_max=5, ordered=True)
    assert changed == GroupConfig(name, retry_max=5, ordered=True)
    assert not (await administration.pause_group(name)).consume_enabled
    assert not (await administration.group(name)).consume_enabled
    assert await administration.resume_group(name) == changed
    assert changed in await administration.groups()
    await administration.delete_group(name)
    assert name not in [each.name for each in await administration.groups()]
    for verb in (
        administration.group,
        administration.lag,
        administration.pause_group,
        administration.delete_group,
        administration.members.of,
        administration.dead_letters.bounds,
    ):
        with pytest.raises(GroupNotFound):
            await verb(name)


async def test_a_group_that_cannot_be_is_refused_in_the_same_words(maker: Maker) -> None:
    administration, name = maker.administration, await maker.group()
    with pytest.raises(Conflict) as conflict:
        await administration.create_group(GroupConfig(name))
    assert conflict.value.field == "name"
    for config, field in (
        (GroupConfig("no name"), "name"),
        (GroupConfig(new_name("group"), retry_max=-1), "retry_max"),
    ):
        with pytest.raises(Invalid) as refusal:
            await administration.create_group(config)
        assert refusal.value.field == field
    with pytest.raises(Invalid):
        await administration.change_group(name, colour="red")


async def test_a_paused_group_gets_nothing_until_it_is_resumed(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    await maker.send(topic, "x")
    await maker.administration.pause_group(group)
    with pytest.raises(Forbidden):
        await maker.messaging.receive(group, {topic: "*"})
    await maker.administration.resume_group(group)
    assert await maker.receive(group, topic, 1)


async def test_the_lag_of_a_group_is_what_it_has_not_consumed(maker: Maker) -> None:
    administration = maker.administration
    topic, group = await maker.topic(), await maker.group()
    assert (await administration.lag(group)).queues == []
    for queue in range(4):
        await maker.send(topic, "1", "2", "3", queue=queue)
        await maker.messaging.commit_offset(group, topic, queue, queue)
    lag = await until(maker, lambda: administration.lag(group), lambda lag: lag.count == 6)
    assert [(each.topic, each.queue, each.committed, each.count) for each in lag.queues] == [
        (topic, 0, 0, 3),
        (topic, 1, 1, 2),
        (topic, 2, 2, 1),
        (topic, 3, 3, 0),
    ]
    assert [(each.min_offset, each.max_offset) for each in lag.queues] == [(0, 3)] * 4
    assert (lag.dead, lag.dead_open) == (0, 0)
    third = await maker.messaging.message(topic, 2, 2)
    ages = [each.oldest_ms for each in lag.queues]
    assert ages[3] is None
    assert ages[2] is not None
    assert abs(ages[2] - third.stored_ms) < 2000
    assert lag.oldest_age_ms is not None
    assert lag.oldest_age_ms >= 0
    assert list(await administration.groups_of(topic)) == [group]


async def test_what_an_engine_cannot_tell_of_a_lag_is_absent_and_never_0(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    await maker.send(topic, "x")
    await maker.receive(group, topic, 1)
    lag = await until(maker, lambda: maker.administration.lag(group), lambda lag: bool(lag.queues))
    figures = (lag.inflight, lag.retry_waiting, sum(each.inflight or 0 for each in lag.queues))
    assert figures in ((1, 0, 1), (None, None, 0))
    assert {each.expired for each in lag.queues} in ({0}, {None})


# -- members ------------------------------------------------------------------------------------


async def test_a_group_without_clients_has_no_members(maker: Maker) -> None:
    group, members = await maker.group(), maker.administration.members
    assert await members.of(group) == []
    assert await members.count(group) == 0
    assert await members.memberships("nobody") == []
    assert await members.subscription(group) == {}
    assert await members.warning(group) is None
    assert group not in [name for name, _ in await members.everyone()]
    assert members.timeout_s > 0


# -- dead letters -------------------------------------------------------------------------------


async def test_dead_letters_come_newest_first_with_their_causes(maker: Maker) -> None:
    errors = [f"{'Key' if each % 3 else 'Value'}Error: {each}" for each in range(7)]
    group = await bury(maker, *errors)
    letters = maker.administration.dead_letters
    first, end = await letters.bounds(group)
    assert end - first == 7
    page = await letters.page(group, count_max=4)
    assert [each.error for each in page.items] == errors[:2:-1]
    assert [each.offset for each in page.items] == [end - 1, end - 2, end - 3, end - 4]
    assert {each.reason for each in page.items} == {"attempts_exhausted"}
    assert {(each.state, each.failures) for each in page.items} == {(DeadLetterState.OPEN, 1)}
    assert (page.count, page.next) == (7, end - 4)
    rest = await letters.page(group, after=page.next, count_max=50)
    assert [each.error for each in rest.items] == errors[2::-1]
    assert rest.next is None
    for offset, error in zip(range(first, end), errors, strict=True):
        letter = await letters.get(group, offset)
        assert (letter.offset, letter.error) == (offset, error)
        stored = await maker.messaging.message(
            letter.message.topic, letter.message.queue, letter.message.offset
        )
        assert stored.message_id == letter.message.message_id
    for offset in (first - 1, end):
        with pytest.raises(MessageNotFound):
            await letters.get(group, offset)
    conditions = DeadLetterConditions(error_class="ValueError")
    some = await letters.page(group, conditions)
    assert [each.error for each in some.items] == [
        "ValueError: 6",
        "ValueError: 3",
        "ValueError: 0",
    ]
    assert (await letters.page(group, state=DeadLetterState.DISMISSED)).items == []
    assert (await maker.administration.lag(group)).dead == 7


async def test_dead_letters_are_counted_by_cause_and_by_time(maker: Maker) -> None:
    group = await bury(maker, "A: 1", "B: 2", "A: 3")
    letters = maker.administration.dead_letters
    tally = await letters.tally(group)
    assert (tally.examined, tally.next) == (3, None)
    assert (tally.error_classes, tally.reasons) == ({"A": 2, "B": 1}, {"attempts_exhausted": 3})
    newest = await letters.tally(group, count_max=1)
    assert (newest.examined, newest.error_classes) == (1, {"A": 1})
    states = await letters.states(group)
    assert states.counts() == StateCounts(open=3)
    last = await letters.get(group, states.end - 1)
    arrived = await letters.arrived(group, [last.message.stored_ms - 3_600_000])
    assert (arrived.steps, arrived.count, arrived.open) == ([3], 3, 3)
    later = await letters.arrived(group, [last.message.stored_ms + 1])
    assert (later.steps, later.count) == ([0], 0)
    nobody = new_name("group")
    assert await letters.state_counts(nobody) == StateCounts()
    with pytest.raises(GroupNotFound):
        await letters.page(nobody)


# -- all together -------------------------------------------------------------------------------


async def test_a_running_engine_is_healthy(maker: Maker) -> None:
    health = await maker.administration.health()
    assert (health.is_ready, health.failures, health.damages) == (True, {}, [])
    assert health.durability is Durability.STORED


@pytest.mark.parametrize(
    ("verbs", "attribute"),
    [(Administration, ""), (MemberLists, "members"), (DeadLetterLists, "dead_letters")],
)
def test_a_cluster_answers_each_verb_by_a_method_of_its_own(verbs: type, attribute: str) -> None:
    messaging = ClusterMessaging(ClusterClient("127.0.0.1:1"))
    administration = cluster_administration(messaging)
    answers = type(getattr(administration, attribute) if attribute else administration)
    names = {name for name, _ in inspect.getmembers(verbs, inspect.isfunction)}
    names = {name for name in names if not name.startswith("_")}
    assert names
    assert [name for name in names if getattr(answers, name) is getattr(verbs, name)] == []
    for name in sorted(names):
        expected = list(inspect.signature(getattr(verbs, name)).parameters)[1:]
        given = list(inspect.signature(getattr(answers, name)).parameters)[1:]
        assert given == expected, name
