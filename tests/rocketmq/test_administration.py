"""The contract of administration, answered by Apache RocketMQ: a name server and two masters.

And what no other maker can show: a broker that is killed and comes back, a classic client among the
members, dead letters that no KiteMQ buried.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.cluster.client import ClusterClient
from app.cluster.messages import NewClusterMessage
from app.cluster.messaging import ClusterMessaging
from app.cluster.topics import TABLE_PAGE
from engine.broker import GroupConfig
from engine.errors import Busy
from protocol.remoting.codes import RequestCode
from tests.app import test_administration as contract
from tests.app.maker import LIMIT_S, Maker, cluster_administration
from tests.remoting.port import Client
from tests.rocketmq.cluster import ApacheCluster
from tests.rocketmq.test_verbs import maker_of, pytestmark

__all__ = ["pytestmark"]


@pytest.fixture
async def messaging(cluster: ApacheCluster) -> AsyncIterator[ClusterMessaging]:
    async with ClusterMessaging(ClusterClient(cluster.name_server)) as messaging:
        yield messaging


@pytest.fixture
def maker(messaging: ClusterMessaging) -> Maker:
    maker = maker_of(messaging)
    maker.administration = cluster_administration(messaging)
    return maker


globals().update({name: test for name, test in vars(contract).items() if name.startswith("test_")})


async def test_a_large_list_is_read_in_pages(
    messaging: ClusterMessaging, maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {await maker.topic() for _ in range(3)}
    groups = {await maker.group() for _ in range(3)}
    assert TABLE_PAGE > 1000
    monkeypatch.setattr("app.cluster.topics.TABLE_PAGE", 2)
    monkeypatch.setattr("app.cluster.groups.TABLE_PAGE", 2)
    assert names <= (await messaging.catalog.client.topics.table("a")).keys()
    assert groups <= (await messaging.catalog.client.groups.table("b")).keys()


async def test_a_thousand_figures_of_a_list_take_one_request_of_each_broker(
    messaging: ClusterMessaging, maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await maker.topic()
    codes: list[str] = []
    ask = messaging.catalog.client._link.ask

    async def counted(broker: str, code: RequestCode, *args: object, **more: object) -> object:
        codes.append(code.name)
        return await ask(broker, code, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(messaging.catalog.client._link, "ask", counted)
    administration = cluster_administration(messaging)
    await asyncio.gather(*(administration.topics(system=True) for _ in range(50)))
    await asyncio.gather(*(administration.groups() for _ in range(50)))
    assert codes.count("GET_ALL_TOPIC_CONFIG") == 2
    assert codes.count("GET_ALL_SUBSCRIPTIONGROUP_CONFIG") == 2
    assert len(codes) == 6  # and the names of the brokers' own topics


async def test_a_classic_consumer_is_among_the_members(
    messaging: ClusterMessaging, maker: Maker
) -> None:
    """It beats to both brokers, as Apache's clients do, and is one member."""
    topic, group = await maker.topic(), await maker.group()
    members, client = maker.administration.members, f"classic-{group}"
    assert await members.of(group) == []
    writers = []
    try:
        for broker in messaging.catalog.numbers.brokers:
            host, _, port = (
                await messaging.catalog.client._link.routes.address(broker)
            ).rpartition(":")
            consumer = Client(*await asyncio.open_connection(host, int(port)))
            writers.append(consumer.writer)
            await consumer.beat(client, group, topic=topic, filter="paid")
        found = await contract.until(maker, lambda: members.of(group), bool)
        assert [(each.client, each.topics) for each in found] == [(client, {topic: "paid"})]
        assert await members.count(group) == 1
        assert [group for group, _ in await members.memberships(client)] == [group]
    finally:
        for writer in writers:
            writer.close()
    await contract.until(maker, lambda: members.of(group), lambda left: not left)


async def test_dead_letters_without_causes_have_none(
    messaging: ClusterMessaging, maker: Maker
) -> None:
    group = await maker.group()
    client = messaging.catalog.client
    await client.topics.create(f"%DLQ%{group}", 1)
    for body in (b"1", b"2"):
        await client.sends.send(f"%DLQ%{group}", NewClusterMessage(body, reconsume_times=16))
    letters = maker.administration.dead_letters
    await contract.until(
        maker, lambda: letters.state_counts(group), lambda counts: counts.total == 2
    )
    page = await letters.page(group)
    assert {each.message.body for each in page.items} == {b"1", b"2"}
    assert {(each.reason, each.error, each.client) for each in page.items} == {("", "", "")}
    assert {(each.origin_topic, each.failures) for each in page.items} == {("", 16)}


async def test_what_a_broker_that_is_away_keeps_is_unknown_until_it_is_back(
    cluster: ApacheCluster, messaging: ClusterMessaging, maker: Maker
) -> None:
    administration = maker.administration
    topic, group = await maker.topic(), await maker.group()
    for queue in range(4):
        await maker.send(topic, "x", queue=queue)
        await messaging.commit_offset(group, topic, queue, 0)
    lag = await contract.until(maker, lambda: administration.lag(group), lambda lag: lag.count == 4)
    topics, groups = await administration.topics(), await administration.groups()

    async def are_unknown() -> bool:
        """Whether neither figure is told; one of a moment ago may still be."""
        for verb, name in ((administration.topic_stats, topic), (administration.lag, group)):
            try:
                await verb(name)
            except Busy:
                continue
            return False
        return True

    cluster.kill("b")
    try:
        await contract.until(maker, are_unknown, bool)
        assert await administration.topics() == topics
        assert await administration.groups() == groups
        assert await administration.topic(topic) in topics
        health = await contract.until(
            maker, administration.health, lambda health: bool(health.warnings)
        )
        assert (health.is_ready, list(health.warnings)) == (True, ["broker b"])
        with pytest.raises(Busy):
            await administration.lag(group)
        another = cluster_administration(messaging)
        assert topic in [each.name for each in await another.topics()]
    finally:
        cluster.restart("b")
    async with asyncio.timeout(LIMIT_S):
        while (await administration.health()).warnings or await are_unknown():
            await asyncio.sleep(0.2)
    back = await administration.lag(group)
    assert [each.committed for each in back.queues] == [each.committed for each in lag.queues]
    assert (back.count, (await administration.health()).warnings) == (4, {})
    assert GroupConfig(group) in await administration.groups()
