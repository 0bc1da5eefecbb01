"""The traffic of a cluster, of samples of its queues' ends and its groups' offsets."""

from collections.abc import Mapping

import pytest

from app.cluster.traffic import ClusterTraffic, TrafficSample
from engine.broker import Metric, OffsetMove
from engine.clock import ManualClock
from engine.errors import Busy

pytestmark = pytest.mark.anyio

START_MS = 1_700_000_000_000 // 3_600_000 * 3_600_000
Offsets = Mapping[str, Mapping[tuple[str, int], int]] | None


class Cluster:
    """What a test says that the brokers have, and the figures that come of it."""

    def __init__(self) -> None:
        self.clock = ManualClock(START_MS)
        self.traffic = ClusterTraffic(self.clock)
        self.ends: dict[str, dict[int, int]] = {"orders": {0: 1_000, 1: 500}}
        self.offsets: dict[str, dict[tuple[str, int], int]] = {"billing": {("orders", 0): 900}}
        self.away: set[str] = set()

    async def sample(self, *, has_offsets: bool = True) -> None:
        ends = {name: dict(each) for name, each in self.ends.items() if name not in self.away}
        offsets = {name: dict(each) for name, each in self.offsets.items()}
        await self.traffic.enter(
            TrafficSample(
                self.clock.now_ms(), list(self.ends), ends, offsets if has_offsets else None
            )
        )

    async def later(self, seconds: float = 10.0, **how: bool) -> None:
        self.clock.advance(seconds)
        await self.sample(**how)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


async def test_nothing_is_known_before_two_samples(cluster: Cluster) -> None:
    for _ in range(2):
        with pytest.raises(Busy, match="needs two samples"):
            cluster.traffic.broker()
        with pytest.raises(Busy):
            cluster.traffic.topic_rate("orders")
        with pytest.raises(Busy):
            cluster.traffic.group_out_rate("billing")
        await cluster.sample()
    await cluster.later()
    assert cluster.traffic.topic_rate("orders") == 0
    assert cluster.traffic.broker().traffic.messages_in.total == 0


async def test_what_ends_and_offsets_gain_is_what_came_and_went(cluster: Cluster) -> None:
    await cluster.sample()
    for _ in range(6):
        cluster.ends["orders"][0] += 30
        cluster.ends["orders"][1] += 70
        cluster.offsets["billing"]["orders", 0] += 20
        await cluster.later()
    traffic = cluster.traffic
    assert traffic.topic_rate("orders") == 10
    assert traffic.group_out_rate("billing") == 2
    assert traffic.broker_rate(Metric.MESSAGES_IN) == 10
    assert traffic.broker_history(Metric.MESSAGES_OUT, 6) == [20] * 6
    topic = traffic.topic("orders")
    assert topic.traffic.messages_in.total == 600
    assert [each.traffic.messages_in.total for each in topic.queues] == [180, 420]
    assert [(each.group, each.messages_out.total) for each in topic.readers] == [("billing", 120)]
    assert topic.traffic.messages_in.minute == 10


async def test_what_brokers_do_not_number_is_unknown_and_not_0(cluster: Cluster) -> None:
    await cluster.sample()
    await cluster.later()
    whole, group = cluster.traffic.broker(), cluster.traffic.group("billing")
    assert whole.traffic.messages_in.second is None
    assert whole.traffic.bytes_in is None
    assert (whole.refused, whole.refused_by_code, whole.put_latency) == (None, None, None)
    assert (group.acked, group.retried, group.dead, group.dead_by_reason) == (None,) * 4
    assert cluster.traffic.topic_bytes_rate("orders") is None
    assert cluster.traffic.group_rate("billing") is None
    assert cluster.traffic.end_to_end() is None


async def test_a_topic_that_was_made_since_began_empty(cluster: Cluster) -> None:
    await cluster.sample()
    await cluster.later()
    cluster.ends["mails"] = {0: 40}
    await cluster.later()
    assert cluster.traffic.topic("mails").traffic.messages_in.total == 40


async def test_a_topic_that_could_not_be_read_before_has_no_rate_for_a_minute(
    cluster: Cluster,
) -> None:
    cluster.away = {"orders"}
    await cluster.sample()
    await cluster.later()
    cluster.away = set()
    for _ in range(6):
        await cluster.later()
        cluster.ends["orders"][0] += 10
        with pytest.raises(Busy, match="topic 'orders'"):
            cluster.traffic.topic_rate("orders")
        with pytest.raises(Busy):
            cluster.traffic.broker()
    await cluster.later()
    assert cluster.traffic.topic_rate("orders") == 1
    assert cluster.traffic.broker().traffic.messages_in.total == 60


async def test_what_came_while_a_broker_was_away_is_spread_over_that_time(
    cluster: Cluster,
) -> None:
    await cluster.sample()
    await cluster.later()
    cluster.away = {"orders"}
    for _ in range(3):
        await cluster.later(has_offsets=False)
        with pytest.raises(Busy):
            cluster.traffic.topic_rate("orders")
        with pytest.raises(Busy):
            cluster.traffic.group_out_rate("billing")
        with pytest.raises(Busy):
            cluster.traffic.broker_rate(Metric.MESSAGES_IN)
    cluster.away = set()
    cluster.ends["orders"][0] += 80
    await cluster.later()
    assert cluster.traffic.topic_history("orders", 5) == [0, 20, 20, 20, 20]
    assert cluster.traffic.broker_history(Metric.MESSAGES_IN, 5) == [0, 20, 20, 20, 20]


async def test_figures_that_are_old_are_not_told(cluster: Cluster) -> None:
    await cluster.sample()
    await cluster.later()
    assert cluster.traffic.topic_rate("orders") == 0
    cluster.clock.advance(61)
    with pytest.raises(Busy):
        cluster.traffic.topic_rate("orders")


async def test_a_group_is_counted_from_the_first_offset_that_is_seen(cluster: Cluster) -> None:
    await cluster.sample()
    cluster.offsets["billing"]["orders", 1] = 400
    await cluster.later()
    cluster.offsets["billing"]["orders", 1] = 410
    await cluster.later()
    assert cluster.traffic.group("billing").messages_out.total == 10


@pytest.mark.parametrize(("target", "reached"), [(950, 960), (100, 110)])
async def test_what_a_reset_passes_over_was_not_consumed(
    cluster: Cluster, target: int, reached: int
) -> None:
    await cluster.sample()
    await cluster.later()
    cluster.traffic.reset("billing", [OffsetMove("orders", 0, 900, target)])
    await cluster.later()  # the broker moves the group when it reads next
    assert cluster.traffic.group("billing").messages_out.total == 0
    cluster.offsets["billing"]["orders", 0] = reached
    await cluster.later()
    assert cluster.traffic.group("billing").messages_out.total == 10


async def test_a_queue_that_comes_back_is_not_counted_anew(cluster: Cluster) -> None:
    await cluster.sample()
    await cluster.later()
    end = cluster.ends["orders"].pop(1)
    await cluster.later()
    cluster.ends["orders"][1] = end + 5
    await cluster.later()
    assert cluster.traffic.topic("orders").traffic.messages_in.total == 5


async def test_a_topic_that_is_made_anew_begins_empty(cluster: Cluster) -> None:
    await cluster.sample()
    await cluster.later()
    cluster.ends["orders"] = {}  # listed still, and gone
    await cluster.later()
    cluster.ends["orders"] = {0: 3}
    await cluster.later()
    assert cluster.traffic.topic("orders").traffic.messages_in.total == 3


async def test_what_is_deleted_is_forgotten(cluster: Cluster) -> None:
    await cluster.sample()
    cluster.ends["orders"][0] += 10
    cluster.offsets["billing"]["orders", 0] += 10
    await cluster.later()
    del cluster.ends["orders"], cluster.offsets["billing"]
    await cluster.later()
    assert (list(cluster.traffic.topics()), list(cluster.traffic.groups())) == ([], [])
    cluster.ends["orders"] = {0: 3}
    await cluster.later()
    assert cluster.traffic.topic("orders").traffic.messages_in.total == 3


async def test_a_calendar_that_is_set_back_begins_anew(cluster: Cluster) -> None:
    await cluster.sample()
    cluster.ends["orders"][0] += 10
    await cluster.later()
    cluster.clock.set_ms(START_MS - 3_600_000)
    await cluster.sample()
    with pytest.raises(Busy):
        cluster.traffic.topic_rate("orders")
    await cluster.later()
    assert cluster.traffic.topic_rate("orders") == 0
