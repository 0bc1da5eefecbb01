"""Every metric that `/metrics` may give: its name, meaning and labels; made into a page of docs."""

from typing import NamedTuple

Labels = tuple[str, ...]


class Family(NamedTuple):
    """One metric: its name, what it means, and its labels."""

    name: str
    help: str
    labels: Labels = ()

    @property
    def kind(self) -> str:
        """Counters are called `_total`, as Prometheus has it, or `_offset` in RocketMQ's words."""
        return "counter" if self.name.endswith(("_total", "_offset")) else "gauge"


BROKER = ("cluster", "broker")
TOPIC = (*BROKER, "topic")
CONSUMER = (*TOPIC, "group")

FAMILIES = {
    family.name: family
    for family in (
        Family("rocketmq_broker_tps", "Messages stored per second.", BROKER),
        Family("rocketmq_broker_qps", "Messages handed out per second.", BROKER),
        Family("rocketmq_producer_tps", "Messages stored per second by topic.", TOPIC),
        Family("rocketmq_producer_message_size", "Record bytes stored per second.", TOPIC),
        Family("rocketmq_producer_offset", "Sum of a topic's max offsets.", TOPIC),
        Family("rocketmq_consumer_tps", "Messages handed out per second by group.", CONSUMER),
        Family("rocketmq_consumer_offset", "Sum of a group's committed offsets.", CONSUMER),
        Family("rocketmq_message_accumulation", "Messages not done by a group.", CONSUMER),
        Family(
            "rocketmq_group_get_latency_by_storetime",
            "Milliseconds since the oldest message that a group has not done was stored.",
            CONSUMER,
        ),
        Family("rocketmq_group_diff", "Messages not done by a group.", ("group", "topic")),
        Family("rocketmq_group_retrydiff", "Messages waiting for a retry.", ("group",)),
        Family("rocketmq_group_dlqdiff", "Dead letters of a group.", ("group",)),
        Family("kitemq_group_inflight", "Messages in clients' hands.", ("group", "topic")),
        Family("kitemq_messages_in_total", "Messages stored.", ("topic",)),
        Family("kitemq_bytes_in_total", "Bytes of records stored.", ("topic",)),
        Family("kitemq_messages_out_total", "Hand-outs.", ("topic", "group")),
        Family("kitemq_bytes_out_total", "Bytes handed out.", ("topic", "group")),
        Family("kitemq_acked_total", "Messages acknowledged.", ("topic", "group")),
        Family("kitemq_retried_total", "Failed or expired hand-outs.", ("group",)),
        Family("kitemq_dead_letters_total", "Messages given up.", ("group", "reason")),
        Family("kitemq_sends_refused_total", "Sends turned down.", ("code",)),
        Family("kitemq_delayed_released_total", "Delayed messages become due."),
        Family("kitemq_traces_recorded_total", "Messages' events that were traced."),
        Family("kitemq_traces_dropped_total", "The same, lost for want of room."),
        Family("kitemq_traces_bytes_total", "Bytes of the log taken by traces."),
        Family("kitemq_corrupt_records_total", "Damaged records stepped over."),
        Family(
            "kitemq_put_latency_seconds",
            "Time until a send has its durability, over the last minutes.",
            ("durability", "quantile"),
        ),
        Family(
            "kitemq_end_to_end_seconds",
            "From a message's making until a group acknowledged it, over the last minutes.",
            ("quantile",),
        ),
        Family(
            "kitemq_message_size_bytes", "Sizes of bodies over the last minutes.", ("quantile",)
        ),
        Family(
            "kitemq_group_lag_is_matching",
            "1 where a group's lag leaves out what its filter does, 0 where it counts everything.",
            ("group",),
        ),
        Family("kitemq_lag_history_bytes", "Disk that the history of lag takes."),
        Family("kitemq_lag_rounds_lost_total", "Samplings of lag that were not kept."),
        Family("kitemq_report_running", "1 while a report is computed.", ("job",)),
        Family("kitemq_report_runs_total", "Runs of reports that ended.", ("job", "state")),
        Family(
            "kitemq_report_failures",
            "Runs of a report that failed one after the other, up to now.",
            ("job",),
        ),
        Family(
            "kitemq_report_age_seconds",
            "Since when what was stored is not in the figures of a report.",
            ("job",),
        ),
        Family("kitemq_report_last_duration_seconds", "Of the last run of a report.", ("job",)),
        Family("kitemq_requests_under_way", "Requests and sockets under way."),
        Family("kitemq_request_bytes_held", "Bytes of requests held in memory."),
        Family(
            "kitemq_request_bytes_held_by_one_address",
            "The same of the address that holds the most.",
        ),
        Family(
            "kitemq_request_bytes_refused_total",
            "Requests and connections refused for their bytes, by the limit that was met.",
            ("reason",),
        ),
        Family("kitemq_requests_refused_total", "Requests refused for overload."),
        Family(
            "kitemq_grpc_calls_total",
            "Answered calls of RocketMQ 5 clients by status code.",
            ("method", "code"),
        ),
        Family("kitemq_connections", "Open connections: HTTP, WebSocket and gRPC."),
        Family("kitemq_connections_max", "How many HTTP connections there may be."),
        Family(
            "kitemq_connections_refused_total",
            "Connections that were refused or closed for a limit.",
            ("reason",),
        ),
        Family("kitemq_grpc_connections", "Open connections of RocketMQ 5 clients."),
        Family("kitemq_grpc_connections_refused_total", "The same, closed as too many."),
        Family("kitemq_grpc_clients", "RocketMQ 5 clients that are alive."),
        Family("kitemq_grpc_streams", "Their open telemetry streams."),
        Family("kitemq_grpc_polls", "Their receives and pulls that wait."),
        Family("kitemq_grpc_leases", "Their hand-outs that are renewed for them."),
        Family(
            "kitemq_remoting_requests_total",
            "Requests of classic RocketMQ clients (TCP) by request and answer code.",
            ("request", "answer"),
        ),
        Family("kitemq_remoting_connections", "Open connections of classic clients."),
        Family("kitemq_remoting_clients", "Classic clients that are alive."),
        Family("kitemq_remoting_polls", "Their pulls that wait."),
        Family(
            "kitemq_event_loop_delay_worst_seconds",
            "Longest delay of the event loop within the last minute.",
        ),
        Family(
            "kitemq_event_loop_delay_worst_ever_seconds",
            "Longest delay of the event loop since the start.",
        ),
        Family("kitemq_service_failing", "1 for a failing background duty.", ("service",)),
        Family("kitemq_ready", "1 while the engine serves."),
        Family("kitemq_disk_free_bytes", "Room left on the data directory's disk."),
        Family("kitemq_topics", "Topics, the engine's own included."),
        Family("kitemq_groups", "Consumer groups."),
        Family("kitemq_uptime_seconds", "Seconds since the start."),
        Family("kitemq_build_info", "Always 1.", ("version",)),
        Family("process_resident_memory_bytes", "Memory of the process."),
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
