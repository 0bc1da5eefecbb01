"""`/metrics` in Prometheus text: RocketMQ exporter's names where it has them, else `kitemq_*`.

Every family stands in `FAMILIES`, from which `docs/metrics.md` is made (`python -m
app.api.metrics`). Reading ten thousand topics takes a while, so the walk lets others run.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from app.api.operation import Call, Raw, operation
from app.heartbeat import Heartbeat
from app.host import EngineHost
from app.security.load import Load
from app.settings import Settings
from app.stats import Counter, Stats
from app.version import VERSION
from engine.broker import GroupLag
from engine.errors import NotFound

TAG = "system"
MEDIA_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
NAMES_PER_SLICE = 100
PAGE_BYTES = 4096
STATM = Path("/proc/self/statm")
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Labels = tuple[str, ...]
Sample = tuple[Labels, float]


class Family(NamedTuple):
    """One metric: its name, gauge or counter, what it means, and its labels."""

    name: str
    kind: str
    help: str
    labels: Labels = ()


BROKER = ("cluster", "broker")
TOPIC = (*BROKER, "topic")
CONSUMER = (*TOPIC, "group")

FAMILIES = {
    family.name: family
    for family in (
        Family("rocketmq_broker_tps", "gauge", "Messages stored per second.", BROKER),
        Family("rocketmq_broker_qps", "gauge", "Messages handed out per second.", BROKER),
        Family("rocketmq_producer_tps", "gauge", "Messages stored per second by topic.", TOPIC),
        Family("rocketmq_producer_message_size", "gauge", "Body bytes stored per second.", TOPIC),
        Family("rocketmq_producer_offset", "counter", "Sum of a topic's max offsets.", TOPIC),
        Family(
            "rocketmq_consumer_tps", "gauge", "Messages handed out per second by group.", CONSUMER
        ),
        Family(
            "rocketmq_consumer_offset", "counter", "Sum of a group's committed offsets.", CONSUMER
        ),
        Family("rocketmq_message_accumulation", "gauge", "Messages not done by a group.", CONSUMER),
        Family(
            "rocketmq_group_get_latency_by_storetime",
            "gauge",
            "Milliseconds since the oldest message that a group has not done was stored.",
            CONSUMER,
        ),
        Family("rocketmq_group_diff", "gauge", "Messages not done by a group.", ("group", "topic")),
        Family("rocketmq_group_retrydiff", "gauge", "Messages waiting for a retry.", ("group",)),
        Family("rocketmq_group_dlqdiff", "gauge", "Dead letters of a group.", ("group",)),
        Family("kitemq_group_inflight", "gauge", "Messages in clients' hands.", ("group", "topic")),
        Family("kitemq_messages_in_total", "counter", "Messages stored.", ("topic",)),
        Family("kitemq_bytes_in_total", "counter", "Body bytes stored.", ("topic",)),
        Family("kitemq_messages_out_total", "counter", "Hand-outs.", ("topic", "group")),
        Family("kitemq_acked_total", "counter", "Messages acknowledged.", ("topic", "group")),
        Family("kitemq_retried_total", "counter", "Failed or expired hand-outs.", ("group",)),
        Family("kitemq_dead_letters_total", "counter", "Messages given up.", ("group", "reason")),
        Family("kitemq_sends_refused_total", "counter", "Sends turned down.", ("code",)),
        Family("kitemq_delayed_released_total", "counter", "Delayed messages become due."),
        Family("kitemq_corrupt_records_total", "counter", "Damaged records stepped over."),
        Family("kitemq_requests_under_way", "gauge", "Requests and sockets under way."),
        Family("kitemq_request_bytes_held", "gauge", "Bytes of request bodies held."),
        Family("kitemq_requests_refused_total", "counter", "Requests refused for overload."),
        Family(
            "kitemq_event_loop_delay_worst_seconds",
            "gauge",
            "Longest delay of the event loop within the last minute.",
        ),
        Family(
            "kitemq_event_loop_delay_worst_ever_seconds",
            "gauge",
            "Longest delay of the event loop since the start.",
        ),
        Family("kitemq_service_failing", "gauge", "1 for a failing background duty.", ("service",)),
        Family("kitemq_ready", "gauge", "1 while the engine serves."),
        Family("kitemq_disk_free_bytes", "gauge", "Room left on the data directory's disk."),
        Family("kitemq_topics", "gauge", "Topics, the engine's own included."),
        Family("kitemq_groups", "gauge", "Consumer groups."),
        Family("kitemq_uptime_seconds", "gauge", "Seconds since the start."),
        Family("kitemq_build_info", "gauge", "Always 1.", ("version",)),
        Family("process_resident_memory_bytes", "gauge", "Memory of the process."),
    )
}


class Page:
    """The text as it grows: samples by family, written out in the table's order."""

    def __init__(self) -> None:
        self._samples: dict[str, list[Sample]] = {}

    def add(self, name: str, value: float, labels: Labels = ()) -> None:
        """One sample; `labels` are the values, in the family's order."""
        assert len(labels) == len(FAMILIES[name].labels), name
        self._samples.setdefault(name, []).append((labels, value))

    def add_counter(self, name: str, counter: Counter) -> None:
        """A sample for each label of a counter; 0 for one without labels that never counted."""
        totals = counter.totals or ({(): 0} if not FAMILIES[name].labels else {})
        for labels, value in totals.items():
            self.add(name, value, labels)

    def text(self) -> bytes:
        return "".join(self._lines()).encode()

    def _lines(self) -> Iterator[str]:
        for family in FAMILIES.values():
            samples = self._samples.get(family.name)
            if not samples:
                continue
            yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
            for labels, value in samples:
                yield f"{family.name}{_label_text(family.labels, labels)} {_number(value)}\n"


@operation(
    "GET",
    "/metrics",
    tag=TAG,
    answer=str,
    media_type="text/plain",
    example="curl $URL/metrics",
)
async def metrics(call: Call[None, None]) -> Raw:
    """Read the metrics in Prometheus text."""
    page = Page()
    host, settings = call.host, call.settings
    stats: Stats = call.state.stats
    _add_totals(page, stats)
    _add_server(page, call)
    page.add("process_resident_memory_bytes", await asyncio.to_thread(resident_bytes))
    await _add_topics(page, host, settings, stats)
    await _add_groups(page, host, settings, stats)
    return Raw(page.text(), MEDIA_TYPE)


def _add_totals(page: Page, stats: Stats) -> None:
    page.add_counter("kitemq_messages_in_total", stats.messages_in)
    page.add_counter("kitemq_bytes_in_total", stats.bytes_in)
    page.add_counter("kitemq_messages_out_total", stats.messages_out)
    page.add_counter("kitemq_acked_total", stats.acked)
    page.add_counter("kitemq_retried_total", stats.retried)
    page.add_counter("kitemq_dead_letters_total", stats.dead)
    page.add_counter("kitemq_sends_refused_total", stats.refused)
    page.add_counter("kitemq_delayed_released_total", stats.released)
    page.add_counter("kitemq_corrupt_records_total", stats.corrupt)


def _add_server(page: Page, call: Call[None, None]) -> None:
    load: Load = call.state.load
    heartbeat: Heartbeat = call.state.heartbeat
    page.add("kitemq_requests_under_way", load.requests)
    page.add("kitemq_request_bytes_held", load.held_bytes)
    page.add("kitemq_requests_refused_total", load.refused)
    page.add("kitemq_event_loop_delay_worst_seconds", heartbeat.worst_s)
    page.add("kitemq_event_loop_delay_worst_ever_seconds", heartbeat.worst_ever_s)
    health = call.host.broker.health()
    page.add("kitemq_ready", int(health.is_ready))
    for service in health.failures:
        page.add("kitemq_service_failing", 1, (service,))
    if health.disk_free_bytes is not None:
        page.add("kitemq_disk_free_bytes", health.disk_free_bytes)
    page.add("kitemq_uptime_seconds", (call.host.clock.now_ms() - call.state.started_ms) / 1000)
    page.add("kitemq_build_info", 1, (VERSION,))


async def _add_topics(page: Page, host: EngineHost, settings: Settings, stats: Stats) -> None:
    broker = host.broker
    labels = (settings.cluster_name, settings.broker_name)
    page.add("rocketmq_broker_tps", stats.total_rate(stats.messages_in), labels)
    page.add("rocketmq_broker_qps", stats.total_rate(stats.messages_out), labels)
    topics = broker.topics(system=True)
    page.add("kitemq_topics", len(topics))
    async for name in _in_slices(config.name for config in topics):
        try:
            queues = broker.topic_stats(name).queues
        except NotFound:
            continue  # deleted while others ran
        of_topic = (*labels, name)
        page.add("rocketmq_producer_offset", sum(q.max_offset for q in queues), of_topic)
        page.add("rocketmq_producer_tps", stats.rate(stats.messages_in, (name,)), of_topic)
        page.add("rocketmq_producer_message_size", stats.rate(stats.bytes_in, (name,)), of_topic)


async def _add_groups(page: Page, host: EngineHost, settings: Settings, stats: Stats) -> None:
    broker = host.broker
    labels = (settings.cluster_name, settings.broker_name)
    groups = broker.groups()
    page.add("kitemq_groups", len(groups))
    async for name in _in_slices(config.name for config in groups):
        try:
            lag = broker.lag(name)
        except NotFound:
            continue
        _add_lag(page, labels, name, lag, host.clock.now_ms())
    for topic, group in stats.messages_out.totals:
        rate = stats.rate(stats.messages_out, (topic, group))
        page.add("rocketmq_consumer_tps", rate, (*labels, topic, group))


def _add_lag(page: Page, labels: Labels, group: str, lag: GroupLag, now_ms: int) -> None:
    page.add("rocketmq_group_retrydiff", lag.retry_waiting, (group,))
    page.add("rocketmq_group_dlqdiff", lag.dead, (group,))
    for topic in dict.fromkeys(queue.topic for queue in lag.queues):
        queues = [queue for queue in lag.queues if queue.topic == topic]
        count = sum(queue.count for queue in queues)
        oldest = [queue.oldest_ms for queue in queues if queue.oldest_ms is not None]
        age_ms = max(0, now_ms - min(oldest)) if oldest else 0
        consumer = (*labels, topic, group)
        committed = sum(queue.committed for queue in queues)
        page.add("rocketmq_consumer_offset", committed, consumer)
        page.add("rocketmq_message_accumulation", count, consumer)
        page.add("rocketmq_group_get_latency_by_storetime", age_ms, consumer)
        page.add("rocketmq_group_diff", count, (group, topic))
        page.add("kitemq_group_inflight", sum(queue.inflight for queue in queues), (group, topic))


async def _in_slices(names: Iterable[str]) -> AsyncIterator[str]:
    """The names, with a pause for others after every few."""
    for count, name in enumerate(names, 1):
        yield name
        if not count % NAMES_PER_SLICE:
            await asyncio.sleep(0)


def resident_bytes() -> int:
    """Memory that the process holds; 0 where the system does not tell."""
    try:
        return int(STATM.read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return 0


def _label_text(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    pairs = zip(names, values, strict=True)
    return "{" + ",".join(f'{name}="{value.translate(ESCAPES)}"' for name, value in pairs) + "}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def document() -> str:
    """The text of `docs/metrics.md`."""
    lines = [
        "# Metrics",
        "",
        "Made by `python -m app.api.metrics > docs/metrics.md` from the code; do not edit by hand.",
        "",
        "`GET /metrics` answers in Prometheus text. Names that begin with `rocketmq_` are those of",
        "Apache RocketMQ's exporter with the same meaning, so its dashboards and alerts go on",
        "working; labels that change all the time (`lastUpdateTimestamp`) or that KiteMQ cannot",
        "fill (`countOfOnlineConsumers`, `msgModel`) are left out. Rates are averages over about",
        "the last minute. At most 20,000 label values are counted apart in one counter; what comes",
        'after is counted as "other".',
        "",
        "| name | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{family.name}` | {family.kind} | {', '.join(family.labels) or '-'} | {family.help} |"
        for family in FAMILIES.values()
    ]
    return "\n".join(lines) + "\n"


OPERATIONS = (metrics,)

if __name__ == "__main__":
    sys.stdout.write(document())
