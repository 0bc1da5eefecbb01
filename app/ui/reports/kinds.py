"""The catalogue of reports: their tables, jobs, choices, and alert rules."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.ui.framework.language import N_
from app.ui.reports import failures as report_failures
from app.ui.reports import flow as report_flow
from app.ui.reports import lag as report_lag
from app.ui.reports import latency as report_latency
from app.ui.reports.axes import DAY_HOURS, WEEK_HOURS
from app.ui.reports.parts import ReportQuery, ReportView
from app.ui.reports.rows import Rows
from app.ui.reports.words import KINDS, METRICS, VALUES
from kitemq.model.alerts import RuleKind
from kitemq.model.server import Capabilities

TRACES, LAG = "traces", "lag"
Tables = Mapping[str, Rows]
Build = Callable[[ReportQuery, Tables, Tables], ReportView]
Choices = Sequence[tuple[str, str]]
MONTH_HOURS = 28 * DAY_HOURS


@dataclass(frozen=True)
class Report:
    """A report; `choices` are names with labels, `chosen_by` is their column in each table.

    `alert` is the kind of rule that watches what the report shows. The engine has to have the
    `capability`; a report that `is_of_deliveries` may be of traced clients only.
    """

    name: str
    label: str
    text: str
    tables: tuple[str, ...]
    build: Build
    job: str = TRACES
    choices: Choices = ()
    choice_label: str = ""
    chosen_by: Mapping[str, str] | None = None
    has_groups: bool = True
    alert: RuleKind | None = None
    least_hours: Callable[[int], int] = lambda hours: 1
    capability: str = "trace_reports"
    is_of_deliveries: bool = False


def _of(name: str, build: Callable[[ReportQuery, Rows, Rows], ReportView]) -> Build:
    """Adapt a view of one table to the signature of all reports."""
    return lambda query, rows, before: build(query, rows[name], before[name])


def _by_weeks(hours: int) -> int:
    """Steps of a day for rare events, of a week for long ranges."""
    if hours >= MONTH_HOURS:
        return WEEK_HOURS
    return DAY_HOURS if hours > 2 * DAY_HOURS else 1


LATE = ("lateness_level", "lateness_timer")
REPORTS = (
    Report(
        "latency", N_("Latency"), N_("Message latency by topic and group."),
        ("latency",), _of("latency", report_latency.latency), is_of_deliveries=True,
        choices=tuple((name, label) for name, label in METRICS.items() if name not in LATE),
        choice_label=N_("Measure"), chosen_by={"latency": "metric"}, alert=RuleKind.LAG_AGE,
    ),
    Report(
        "throughput", N_("Throughput"), N_("Messages stored, delivered and acknowledged."),
        ("throughput",), _of("throughput", report_flow.throughput), alert=RuleKind.NO_DATA,
        is_of_deliveries=True,
    ),
    Report(
        "lag", N_("Lag"), N_("Lagging groups, since when, and the next step."),
        ("lag_hours", "lag_bands", "lag_now"), report_lag.lag, job=LAG, alert=RuleKind.LAG,
        capability="reports",
    ),
    Report(
        "failures", N_("Failures"), N_("Dead letters, retries and refusals by reason."),
        ("failures", "outcomes"), report_failures.failures,
        choices=tuple((name, KINDS[name]) for name in report_failures.FAILURES),
        choice_label=N_("What"), chosen_by={"failures": "kind"}, alert=RuleKind.DEAD_LETTERS,
        least_hours=_by_weeks, is_of_deliveries=True,
    ),
    Report(
        "consumers", N_("Slow consumers"), N_("Processing time by client."),
        ("latency",), _of("latency", report_latency.slow_consumers),
        choices=(("process", METRICS["process"]),), choice_label=N_("Measure"),
        chosen_by={"latency": "metric"}, alert=RuleKind.LAG_AGE, is_of_deliveries=True,
    ),
    Report(
        "slowest", N_("Slowest messages"), N_("The slowest messages of each hour, with journeys."),
        ("slowest",), _of("slowest", report_failures.slowest), alert=RuleKind.LAG_AGE,
        is_of_deliveries=True,
    ),
    Report(
        "keys", N_("Keys and tags"), N_("The most frequent keys, tags and message groups."),
        ("hot_keys",), _of("hot_keys", report_flow.hot_keys),
        choices=tuple((name, VALUES[name]) for name in ("tag", "key", "message_group")),
        choice_label=N_("What"), chosen_by={"hot_keys": "kind"}, has_groups=False,
    ),
    Report(
        "queues", N_("Queue skew"), N_("Distribution of messages across the queues of a topic."),
        ("queue_skew",), _of("queue_skew", report_flow.queue_skew), has_groups=False,
    ),
    Report(
        "delayed", N_("Delayed messages"), N_("Delivery delay of scheduled messages."),
        ("latency",), _of("latency", report_latency.latency),
        choices=tuple((name, METRICS[name]) for name in reversed(LATE)),
        choice_label=N_("Measure"), chosen_by={"latency": "metric"}, has_groups=False,
        capability="delay_reports",
    ),
    Report(
        "transactions", N_("Transactions"), N_("Transactions by outcome and producer group."),
        ("transactions",), _of("transactions", report_failures.transactions),
        capability="transaction_reports",
    ),
)  # fmt: skip
BY_NAME = {report.name: report for report in REPORTS}
# Choices that an engine without a capability has no figures of.
SOURCES = {
    "decision": "transaction_reports",
    **dict.fromkeys(("expired", "refused"), "delivery_records"),
}


def offered(capabilities: Capabilities) -> list[Report]:
    """The reports that an engine has figures of."""
    has_traces = capabilities.trace_reports
    return [
        report
        for report in REPORTS
        if getattr(capabilities, report.capability) and (has_traces or report.job == LAG)
    ]


def choices_of(report: Report, capabilities: Capabilities) -> Choices:
    """The choices that an engine has figures of."""
    return [
        (name, label)
        for name, label in report.choices
        if name not in SOURCES or getattr(capabilities, SOURCES[name])
    ]
