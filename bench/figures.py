"""What was measured, what was wanted, and how the two compare."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypedDict

from bench.load import Sample


class Unit(NamedTuple):
    """How a kind of figure is named and written."""

    name: str
    form: str


UNITS = {
    "rate": Unit("messages/s", ",.0f"),
    "p50_us": Unit("p50 us", ",.0f"),
    "p99_us": Unit("p99 us", ",.0f"),
    "broker_us": Unit("broker us/message", ",.2f"),
    "gateway_us": Unit("gateway us/message", ",.2f"),
    "client_us": Unit("client us/message", ",.2f"),
    "delay_ms": Unit("worst loop delay ms", ",.0f"),
    "ready_s": Unit("s to ready", ".2f"),
    "gap_s": Unit("s without an accepted send", ".2f"),
    "memory_mib": Unit("MiB", ",.0f"),
    "wall_s": Unit("s", ",.1f"),
    "cpu_s": Unit("s of processor", ",.1f"),
    "p95_us": Unit("p95 us", ",.0f"),
    "page_cpu_ms": Unit("ms of processor", ",.1f"),
    "size_kib": Unit("KiB", ",.1f"),
    "search_rate": Unit("messages/s searched", ",.0f"),
}

# The kinds without a column of their own.
OTHERS = (
    "p95_us", "page_cpu_ms", "size_kib", "search_rate",
    "gateway_us", "client_us", "ready_s", "gap_s", "wall_s", "cpu_s", "memory_mib",
)  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """What one broker did in one line: medians of its runs; None for what was not looked at."""

    broker: str
    rate: float | None = None
    p50_us: float | None = None
    p99_us: float | None = None
    broker_us: float | None = None
    gateway_us: float | None = None  # of a KiteMQ that stands before the broker
    client_us: float | None = None
    delay_ms: float | None = None
    ready_s: float | None = None
    gap_s: float | None = None  # the longest that no send was accepted
    memory_mib: float | None = None
    wall_s: float | None = None
    cpu_s: float | None = None
    p95_us: float | None = None
    page_cpu_ms: float | None = None
    size_kib: float | None = None  # of a page as it is sent, compressed
    search_rate: float | None = None  # messages that a search looks at per second
    rates: tuple[float, ...] = ()  # of each run, to see how far they lie apart

    def value(self, kind: str) -> float | None:
        """The figure of a kind named in `UNITS`."""
        value: float | None = getattr(self, kind)
        return value


assert set(UNITS) <= {field.name for field in fields(Figure)}


class Times(TypedDict):
    """How long something took, as a `Figure` takes it."""

    p50_us: float
    p95_us: float
    p99_us: float


@dataclass(frozen=True)
class Run:
    """One run of one broker: its sample, and the processor time that the broker used for it.

    That of the client is of interest where it is a client library's, and there is a gateway's where
    one stands before the broker.
    """

    sample: Sample
    cpu_s: float
    client_cpu_s: float | None = None
    gateway_cpu_s: float | None = None

    def per_message_us(self, seconds: float) -> float:
        """So many seconds, divided by the messages of the run."""
        return seconds / self.sample.messages * 1e6


def figure_of(broker: str, runs: Sequence[Run], delay_ms: float | None) -> Figure:
    """Medians over the runs, each kind for itself."""
    rates = [run.sample.messages / run.sample.seconds for run in runs]
    clients = [(run, run.client_cpu_s) for run in runs if run.client_cpu_s is not None]
    gateways = [(run, run.gateway_cpu_s) for run in runs if run.gateway_cpu_s is not None]
    times = [times_of(run.sample.latencies_s) for run in runs if run.sample.latencies_s]
    return Figure(
        broker,
        rate=statistics.median(rates),
        p50_us=_median_of(each["p50_us"] for each in times),
        p99_us=_median_of(each["p99_us"] for each in times),
        broker_us=statistics.median(run.per_message_us(run.cpu_s) for run in runs),
        gateway_us=_median_of(run.per_message_us(cpu_s) for run, cpu_s in gateways),
        client_us=_median_of(run.per_message_us(cpu_s) for run, cpu_s in clients),
        delay_ms=delay_ms,
        rates=tuple(round(rate, 1) for rate in rates),
    )


def middle_of(runs: Sequence[Figure]) -> Figure:
    """Medians over one broker's runs, each kind for itself, and the worst loop delay of them."""
    kinds: dict[str, Any] = {
        kind: _median_of(value for run in runs if (value := run.value(kind)) is not None)
        for kind in UNITS
    }
    delays_ms = [run.delay_ms for run in runs if run.delay_ms is not None]
    return Figure(runs[0].broker, **kinds | {"delay_ms": max(delays_ms, default=None)})


def times_of(took_s: Sequence[float]) -> Times:
    """Median and high percentiles of times in seconds, in any order, at least one."""
    ordered = sorted(took_s)
    return {
        "p50_us": quantile(ordered, 0.5) * 1e6,
        "p95_us": quantile(ordered, 0.95) * 1e6,
        "p99_us": quantile(ordered, 0.99) * 1e6,
    }


def quantile(ordered: Sequence[float], part: float) -> float:
    """The value below which `part` of them lie; the list must be in order."""
    return ordered[min(len(ordered) - 1, math.floor(len(ordered) * part))]


def _median_of(values: Iterable[float]) -> float | None:
    several = list(values)
    return statistics.median(several) if several else None


@dataclass(frozen=True)
class Check:
    """One target: a figure of one broker beside a number, or beside a peer's figure."""

    broker: str
    kind: str
    limit: float
    is_most: bool = True  # at most, else at least
    peer: str = ""

    def target(self) -> str:
        """The target in words."""
        sign, unit = "≤" if self.is_most else "≥", UNITS[self.kind]
        if self.peer:
            return f"{unit.name} {sign} {self.limit:g} x {self.peer}"
        return f"{sign} {self.limit:,g} {unit.name}"

    def verdict(self, line: str, figures: Sequence[Figure]) -> "Verdict":
        """How it came out; `is_met` None where a figure is missing."""
        by_name = {figure.broker: figure for figure in figures}
        ours = _value(by_name.get(self.broker), self.kind)
        theirs = _value(by_name.get(self.peer), self.kind) if self.peer else None
        beside = theirs if self.peer else self.limit
        if ours is None or not beside:
            return Verdict(line, self.broker, self.target(), "-", None, None)
        ratio = ours / beside
        threshold = self.limit if self.peer else 1.0
        is_met = ratio <= threshold if self.is_most else ratio >= threshold
        unit = UNITS[self.kind]
        return Verdict(
            line, self.broker, self.target(), f"{ours:{unit.form}} {unit.name}", ratio, is_met
        )


def _value(figure: Figure | None, kind: str) -> float | None:
    return None if figure is None else figure.value(kind)


@dataclass(frozen=True)
class Verdict:
    """A target, what was measured, and its ratio: to the peer's figure, else to the target."""

    line: str
    broker: str
    target: str
    measured: str
    ratio: float | None
    is_met: bool | None


FIGURE_HEAD = """\
| line | broker | messages/s | p50 us | p99 us | broker us/message | worst loop delay ms | other |
|---|---|---:|---:|---:|---:|---:|---:|"""
VERDICT_HEAD = """\
| line | broker | target | measured | ratio | |
|---|---|---|---:|---:|---|"""


def figure_row(line: str, figure: Figure) -> str:
    """One row under `FIGURE_HEAD`."""
    kinds = ("rate", "p50_us", "p99_us", "broker_us", "delay_ms")
    cells = [_cell(figure.value(kind), UNITS[kind]) for kind in kinds]
    others = [
        f"{_cell(figure.value(kind), UNITS[kind])} {UNITS[kind].name}"
        for kind in OTHERS
        if figure.value(kind) is not None
    ]
    return f"| {line} | {figure.broker} | {' | '.join(cells)} | {', '.join(others)} |"


def verdict_row(verdict: Verdict) -> str:
    """One row under `VERDICT_HEAD`."""
    words = {True: "met", False: "**missed**", None: "not measured"}
    ratio = "" if verdict.ratio is None else f"{verdict.ratio:.2f}"
    return (
        f"| {verdict.line} | {verdict.broker} | {verdict.target} | {verdict.measured} "
        f"| {ratio} | {words[verdict.is_met]} |"
    )


def _cell(value: float | None, unit: Unit) -> str:
    return "" if value is None else f"{value:{unit.form}}"
