"""Every metric that `/metrics` may give: its name, meaning and labels; made into a page of docs."""

from typing import NamedTuple

Labels = tuple[str, ...]


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
        Family("rocketmq_producer_message_size", "gauge", "Record bytes stored per second.", TOPIC),
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
        Family("kitemq_bytes_in_total", "counter", "Bytes of records stored.", ("topic",)),
        Family("kitemq_messages_out_total", "counter", "Hand-outs.", ("topic", "group")),
        Family("kitemq_bytes_out_total", "counter", "Bytes handed out.", ("topic", "group")),
        Family("kitemq_acked_total", "counter", "Messages acknowledged.", ("topic", "group")),
        Family("kitemq_retried_total", "counter", "Failed or expired hand-outs.", ("group",)),
        Family("kitemq_dead_letters_total", "counter", "Messages given up.", ("group", "reason")),
        Family("kitemq_sends_refused_total", "counter", "Sends turned down.", ("code",)),
        Family("kitemq_delayed_released_total", "counter", "Delayed messages become due."),
        Family("kitemq_traces_recorded_total", "counter", "Messages' events that were traced."),
        Family("kitemq_traces_dropped_total", "counter", "The same, lost for want of room."),
        Family("kitemq_traces_bytes_total", "counter", "Bytes of the log taken by traces."),
        Family("kitemq_corrupt_records_total", "counter", "Damaged records stepped over."),
        Family(
            "kitemq_put_latency_seconds",
            "gauge",
            "Time until a send has its durability, over the last minutes.",
            ("durability", "quantile"),
        ),
        Family(
            "kitemq_end_to_end_seconds",
            "gauge",
            "From a message's making until a group acknowledged it, over the last minutes.",
            ("quantile",),
        ),
        Family(
            "kitemq_message_size_bytes",
            "gauge",
            "Sizes of bodies over the last minutes.",
            ("quantile",),
        ),
        Family(
            "kitemq_group_lag_is_matching",
            "gauge",
            "1 where a group's lag leaves out what its filter does, 0 where it counts everything.",
            ("group",),
        ),
        Family("kitemq_lag_history_bytes", "gauge", "Disk that the history of lag takes."),
        Family("kitemq_lag_rounds_lost_total", "counter", "Samplings of lag that were not kept."),
        Family("kitemq_report_running", "gauge", "1 while a report is computed.", ("job",)),
        Family(
            "kitemq_report_runs_total", "counter", "Runs of reports that ended.", ("job", "state")
        ),
        Family(
            "kitemq_report_failures",
            "gauge",
            "Runs of a report that failed one after the other, up to now.",
            ("job",),
        ),
        Family(
            "kitemq_report_age_seconds",
            "gauge",
            "Since when what was stored is not in the figures of a report.",
            ("job",),
        ),
        Family(
            "kitemq_report_last_duration_seconds", "gauge", "Of the last run of a report.", ("job",)
        ),
        Family("kitemq_requests_under_way", "gauge", "Requests and sockets under way."),
        Family("kitemq_request_bytes_held", "gauge", "Bytes of requests held in memory."),
        Family(
            "kitemq_request_bytes_held_by_one_address",
            "gauge",
            "The same of the address that holds the most.",
        ),
        Family(
            "kitemq_request_bytes_refused_total",
            "counter",
            "Requests and connections refused for their bytes, by the limit that was met.",
            ("reason",),
        ),
        Family("kitemq_requests_refused_total", "counter", "Requests refused for overload."),
        Family(
            "kitemq_grpc_calls_total",
            "counter",
            "Answered calls of RocketMQ 5 clients by status code.",
            ("method", "code"),
        ),
        Family("kitemq_connections", "gauge", "Open connections: HTTP, WebSocket and gRPC."),
        Family("kitemq_connections_max", "gauge", "How many HTTP connections there may be."),
        Family(
            "kitemq_connections_refused_total",
            "counter",
            "Connections that were refused or closed for a limit.",
            ("reason",),
        ),
        Family("kitemq_grpc_connections", "gauge", "Open connections of RocketMQ 5 clients."),
        Family("kitemq_grpc_connections_refused_total", "counter", "The same, closed as too many."),
        Family("kitemq_grpc_clients", "gauge", "RocketMQ 5 clients that are alive."),
        Family("kitemq_grpc_streams", "gauge", "Their open telemetry streams."),
        Family("kitemq_grpc_polls", "gauge", "Their receives and pulls that wait."),
        Family("kitemq_grpc_leases", "gauge", "Their hand-outs that are renewed for them."),
        Family(
            "kitemq_remoting_requests_total",
            "counter",
            "Requests of classic RocketMQ clients (TCP) by request and answer code.",
            ("request", "answer"),
        ),
        Family("kitemq_remoting_connections", "gauge", "Open connections of classic clients."),
        Family("kitemq_remoting_clients", "gauge", "Classic clients that are alive."),
        Family("kitemq_remoting_polls", "gauge", "Their pulls that wait."),
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


def document() -> str:
    """The text of `docs/metrics.md`."""
    lines = [
        "# Metrics",
        "",
        "Made by `python -m app.api.monitoring.metrics > docs/metrics.md` from the code; do not "
        "edit by hand.",
        "",
        "`GET /metrics` answers in Prometheus text. Names that begin with `rocketmq_` are those of",
        "Apache RocketMQ's exporter with the same meaning, so its dashboards and alerts go on",
        "working; labels that change all the time (`lastUpdateTimestamp`) or that KiteMQ cannot",
        "fill (`countOfOnlineConsumers`, `msgModel`) are left out. Rates are averages over about",
        "the last minute. Counters begin at 0 with the server. At most 20,000 topics, groups and",
        "pairs of both are counted apart: where there are more, those that are silent go, and what",
        'comes then is counted as "other".',
        "",
        "| name | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{family.name}` | {family.kind} | {', '.join(family.labels) or '-'} | {family.help} |"
        for family in FAMILIES.values()
    ]
    return "\n".join(lines) + "\n"
