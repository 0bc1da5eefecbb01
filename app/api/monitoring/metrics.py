"""`/metrics` in Prometheus text: RocketMQ exporter's names where it has them, else `kitemq_*`.

Reading ten thousand topics takes a while, so the walk lets others run.
`python -m app.api.monitoring.metrics` prints `docs/metrics.md`.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from app.administration import FIGURES_UNKNOWN, Administration
from app.api.framework.operation import Call, Operations, Raw
from app.api.monitoring.metric_families import FAMILIES, Family, Labels, document
from app.container import Services
from app.network.connection_limits import ConnectionLimits
from app.pause import paced
from app.security.access import READ_SERVER
from app.security.byte_budget import RefusalReason
from app.services.journeys import Journeys
from app.services.remoting_figures import RemotingFigures
from app.services.reports.reports import Reports
from app.services.rpc_figures import RpcFigures
from app.version import VERSION
from engine.broker import GroupLag, LagBasis, Metric, Spread, TrafficStatistics, total
from engine.errors import Busy, NotFound

operations = Operations("system")
MEDIA_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
PAGE_BYTES = 4096
STATM = Path("/proc/self/statm")
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Sample = tuple[Labels, float]


class MetricsPage:
    """The text as it grows: samples by family, written out in the table's order."""

    def __init__(self) -> None:
        self._samples: dict[str, list[Sample]] = {}

    def add(self, name: str, value: float | None, labels: Labels = ()) -> None:
        """One sample, none of an unknown value; `labels` are the values, in the family's order."""
        assert len(labels) == len(FAMILIES[name].labels), name
        if value is not None:
            self._samples.setdefault(name, []).append((labels, value))

    def text(self) -> bytes:
        """Render all families; with ten thousand topics this takes longer than the loop may wait.

        The samples are freed here: freeing a hundred thousand of them takes its time, too.
        """
        return "".join(self._lines()).encode()

    def _lines(self) -> Iterator[str]:
        for family in FAMILIES.values():
            samples = self._samples.pop(family.name, None)
            if not samples:
                continue
            yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
            form = _form(family)
            for labels, value in samples:
                yield form.format(*map(_escaped, labels), _number(value))


@operations.get("/metrics", prefix="", needs=READ_SERVER, answer=str, media_type="text/plain")
async def metrics(call: Call[None, None]) -> Raw:
    """Read the metrics in Prometheus text."""
    page = MetricsPage()
    has = call.messaging.capabilities
    labels = (call.settings.cluster_name, call.settings.broker_name)
    if has.traffic_figures:
        with suppress(Busy):  # a part of a cluster is away
            _add_totals(page, call.host.statistics)
            await _add_traffic(page, call.host.statistics, labels)
    if has.delivery_records:
        await _add_traces(page, call.services.journeys)
    if has.lag_history:
        keeping = call.host.lags.lag_keeping()
        page.add("kitemq_lag_history_bytes", keeping.size_bytes)
        page.add("kitemq_lag_rounds_lost_total", keeping.rounds_lost)
    await _add_server(page, call)
    _add_connections(page, call.services.connection_limits)
    _add_grpc(page, call.services.rpc_figures)
    _add_remoting(page, call.services.remoting_figures)
    if has.log_figures:
        _add_replication(page, call.services)
    _add_reports(page, call.services.reports, call.host.clock.now_ms())
    page.add("process_resident_memory_bytes", await asyncio.to_thread(resident_bytes))
    with suppress(Busy):  # the figures above are the server's own
        await _add_topics(page, call.administration, labels)
        await _add_groups(page, call, labels)
    return Raw(await asyncio.to_thread(page.text), MEDIA_TYPE)


def _add_totals(page: MetricsPage, statistics: TrafficStatistics) -> None:
    totals = statistics.broker()
    for code, count in (totals.refused_by_code or {}).items():
        page.add("kitemq_sends_refused_total", count, (code,))
    for labels, count in statistics.dead_letters().items():
        page.add("kitemq_dead_letters_total", count, labels)
    page.add("kitemq_delayed_released_total", totals.released)
    page.add("kitemq_corrupt_records_total", totals.corrupt)
    if latency := totals.put_latency:
        for durability, spread in (
            ("stored", latency.stored.recent),
            ("flushed", latency.flushed.recent),
        ):
            for quantile, value in _quantiles(spread):
                page.add("kitemq_put_latency_seconds", value / 1e6, (durability, quantile))
    for quantile, value in _quantiles(statistics.end_to_end()):
        page.add("kitemq_end_to_end_seconds", value / 1e6, (quantile,))
    for quantile, value in _quantiles(totals.message_size):
        page.add("kitemq_message_size_bytes", value, (quantile,))


async def _add_traces(page: MetricsPage, journeys: Journeys) -> None:
    traces = await journeys.status()
    page.add("kitemq_traces_recorded_total", traces.recorded)
    page.add("kitemq_traces_dropped_total", traces.dropped)
    page.add("kitemq_traces_bytes_total", traces.bytes)


def _quantiles(spread: Spread | None) -> list[tuple[str, int]]:
    """None where nothing was measured: a 0 would be a lie."""
    if spread is None or not spread.count:
        return []
    return [("0.5", spread.p50), ("0.95", spread.p95), ("0.99", spread.p99), ("1", spread.max)]


async def _add_server(page: MetricsPage, call: Call[None, None]) -> None:
    load = call.services.request_limits
    heartbeat = call.services.heartbeat
    page.add("kitemq_requests_under_way", load.requests)
    page.add("kitemq_request_bytes_held", load.used_bytes)
    page.add("kitemq_request_bytes_held_by_one_address", load.budget.most_of_one_address)
    for reason in RefusalReason:
        page.add("kitemq_request_bytes_refused_total", load.budget.refused[reason], (reason,))
    page.add("kitemq_requests_refused_total", load.refused)
    page.add("kitemq_event_loop_delay_worst_seconds", heartbeat.worst_s)
    page.add("kitemq_event_loop_delay_worst_ever_seconds", heartbeat.worst_ever_s)
    health = await call.administration.health()
    page.add("kitemq_ready", int(health.is_ready))
    for service in health.failures:
        page.add("kitemq_service_failing", 1, (service,))
    if health.disk_free_bytes is not None:
        page.add("kitemq_disk_free_bytes", health.disk_free_bytes)
    page.add("kitemq_uptime_seconds", (call.host.clock.now_ms() - call.services.started_ms) / 1000)
    page.add("kitemq_build_info", 1, (VERSION,))


def _add_connections(page: MetricsPage, places: ConnectionLimits) -> None:
    page.add("kitemq_connections", places.count)
    page.add("kitemq_connections_max", places.count_max)
    for reason, count in places.refusals.counts.items():
        page.add("kitemq_connections_refused_total", count, (reason,))


def _add_grpc(page: MetricsPage, figures: RpcFigures) -> None:
    for labels, count in figures.calls.items():
        page.add("kitemq_grpc_calls_total", count, labels)
    page.add("kitemq_grpc_connections", figures.connections)
    page.add("kitemq_grpc_connections_refused_total", figures.connections_refused)
    page.add("kitemq_grpc_clients", figures.clients)
    page.add("kitemq_grpc_streams", figures.streams)
    page.add("kitemq_grpc_polls", figures.polls)
    page.add("kitemq_grpc_leases", figures.leases)


def _add_remoting(page: MetricsPage, figures: RemotingFigures) -> None:
    for (request, answer), count in figures.requests.items():
        page.add("kitemq_remoting_requests_total", count, (str(request), str(answer)))
    page.add("kitemq_remoting_connections", figures.connections)
    page.add("kitemq_remoting_clients", figures.clients)
    page.add("kitemq_remoting_polls", figures.polls)


def _add_replication(page: MetricsPage, services: Services) -> None:
    """A lag only where it is known."""
    following, standbys = services.following, services.standbys
    log_end = services.host.broker.log_end
    if following.leader:
        page.add("kitemq_replication_connected", int(following.is_connected))
        if (lag_bytes := following.lag_bytes(log_end)) is not None:
            page.add("kitemq_replication_lag_bytes", lag_bytes)
    page.add("kitemq_standbys", len(standbys.links))
    for link in standbys.links:
        labels = (link.address, link.kind)
        page.add("kitemq_standby_lag_bytes", link.lag_bytes(log_end), labels)


def _add_reports(page: MetricsPage, reports: Reports, now_ms: int) -> None:
    """An age only where there are figures; it is known once the reports have been looked at."""
    for job in reports.jobs:
        figures = reports.figures[job]
        page.add("kitemq_report_running", int(reports.job_under_way == job), (job,))
        page.add("kitemq_report_failures", figures.failures, (job,))
        for state, count in figures.runs.items():
            page.add("kitemq_report_runs_total", count, (job, state))
        if figures.fresh_ms is not None:
            age_s = max(0, now_ms - figures.fresh_ms) / 1000
            page.add("kitemq_report_age_seconds", age_s, (job,))
        if figures.last_s is not None:
            page.add("kitemq_report_last_duration_seconds", figures.last_s, (job,))


async def _add_topics(page: MetricsPage, administration: Administration, labels: Labels) -> None:
    topics = await administration.topics(system=True)
    page.add("kitemq_topics", len(topics))
    async for config in paced(topics):
        try:
            queues = (await administration.topic_stats(config.name)).queues
        except (NotFound, *FIGURES_UNKNOWN):
            continue  # deleted while others ran
        of_topic = (*labels, config.name)
        page.add("rocketmq_producer_offset", sum(q.max_offset for q in queues), of_topic)


async def _add_groups(page: MetricsPage, call: Call[None, None], labels: Labels) -> None:
    groups = await call.administration.groups()
    page.add("kitemq_groups", len(groups))
    async for config in paced(groups):
        try:
            lag = await call.administration.lag(config.name)
        except (NotFound, *FIGURES_UNKNOWN):
            continue
        _add_lag(page, labels, config.name, lag, call.host.clock.now_ms())


async def _add_traffic(page: MetricsPage, statistics: TrafficStatistics, labels: Labels) -> None:
    now_ms, sum_of, minute = statistics.charted_ms(), statistics.total, statistics.minute
    traffic = statistics.broker().traffic
    page.add("rocketmq_broker_tps", traffic.messages_in.minute, labels)
    page.add("rocketmq_broker_qps", traffic.messages_out.minute, labels)
    async for name, account in paced(list(statistics.topics())):
        of_topic = (*labels, name)
        page.add("kitemq_messages_in_total", sum_of(account, Metric.MESSAGES_IN), (name,))
        page.add("kitemq_bytes_in_total", sum_of(account, Metric.BYTES_IN), (name,))
        page.add("rocketmq_producer_tps", minute(account, Metric.MESSAGES_IN, now_ms), of_topic)
        bytes_s = minute(account, Metric.BYTES_IN, now_ms)
        page.add("rocketmq_producer_message_size", bytes_s, of_topic)
    async for name, account in paced(list(statistics.groups())):
        page.add("kitemq_retried_total", sum_of(account, Metric.RETRIED), (name,))
    async for place, account in paced(list(statistics.readers())):
        page.add("kitemq_messages_out_total", sum_of(account, Metric.MESSAGES_OUT), place)
        page.add("kitemq_bytes_out_total", sum_of(account, Metric.BYTES_OUT), place)
        page.add("kitemq_acked_total", sum_of(account, Metric.ACKED), place)
        messages_s = minute(account, Metric.MESSAGES_OUT, now_ms)
        page.add("rocketmq_consumer_tps", messages_s, (*labels, *place))


def _add_lag(page: MetricsPage, labels: Labels, group: str, lag: GroupLag, now_ms: int) -> None:
    page.add("rocketmq_group_retrydiff", lag.retry_waiting, (group,))
    page.add("rocketmq_group_dlqdiff", lag.dead, (group,))
    page.add("kitemq_group_lag_is_matching", int(lag.counts is LagBasis.MATCHING), (group,))
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
        page.add("kitemq_group_inflight", total(queue.inflight for queue in queues), (group, topic))


def resident_bytes() -> int:
    """Memory that the process holds; 0 where the system does not tell."""
    try:
        return int(STATM.read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return 0


def _form(family: Family) -> str:
    """A sample's line, for `str.format` with the labels' values and the number."""
    labels = ",".join(f'{label}="{{}}"' for label in family.labels)
    return family.name + (f"{{{{{labels}}}}}" if labels else "") + " {}\n"


def _escaped(value: str) -> str:
    return value.translate(ESCAPES) if "\\" in value or '"' in value or "\n" in value else value


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


if __name__ == "__main__":
    sys.stdout.write(document())
