"""The figures that a broker gives of itself, as texts by RocketMQ's names."""

import re
from collections.abc import Mapping

import msgspec

from app.cluster.routes import decoded

RUN_FOR = re.compile(r"\d+")
RUN_UNITS_S = (86_400, 3_600, 60, 1)
COUNTERS = ("YesterdayMorning", "TodayMorning", "TodayNow")  # since the start, in this order


class _RuntimeInfo(msgspec.Struct):
    table: dict[str, str]


def runtime_table(body: bytes) -> dict[str, str]:
    """The answer to GET_BROKER_RUNTIME_INFO; ClusterError where it is none."""
    return decoded(body, _RuntimeInfo).table


class BrokerRuntime(msgspec.Struct, frozen=True):
    """What is read of them; None is what the broker does not say."""

    version: str
    stored_today: int | None
    stored_yesterday: int | None
    read_today: int | None
    read_yesterday: int | None
    in_per_s: float | None
    out_per_s: float | None
    disk_ratio: float | None
    log_bytes: int | None
    log_end: int | None
    now_ms: int | None = None  # by its clock, in whole seconds since it started


def broker_runtime(table: Mapping[str, str]) -> BrokerRuntime:
    """The figures of a table. Counters are of days, the morning is their midnight."""
    stored = [_count(table, f"msgPutTotal{name}") for name in COUNTERS]
    read = [_count(table, f"msgGetTotal{name}") for name in COUNTERS]
    oldest, end = _count(table, "commitLogMinOffset"), _count(table, "commitLogMaxOffset")
    version = table.get("brokerVersionDesc", "")
    if version[:1] == "V" and version[1:2].isdigit():  # V5_5_0
        version = version[1:].replace("_", ".")
    disk_ratio = _number(table.get("commitLogDiskRatio", ""))
    return BrokerRuntime(
        version=version,
        stored_today=_less(stored[2], stored[1]),
        stored_yesterday=_less(stored[1], stored[0]),
        read_today=_less(read[2], read[1]),
        read_yesterday=_less(read[1], read[0]),
        in_per_s=_of_minute(table, "putTps"),
        out_per_s=_of_minute(table, "getTransferredTps"),
        disk_ratio=disk_ratio if disk_ratio is not None and disk_ratio >= 0 else None,
        log_bytes=None if oldest is None or oldest < 0 else _less(end, oldest),
        log_end=end,
        now_ms=_now_ms(table),
    )


def _now_ms(table: Mapping[str, str]) -> int | None:
    """When it started, and for how long it has run: [ 0 days, 1 hours, 20 minutes, 3 seconds ]."""
    boot_ms, parts = _count(table, "bootTimestamp"), RUN_FOR.findall(table.get("runtime", ""))
    if boot_ms is None or len(parts) != len(RUN_UNITS_S):
        return None
    run_s = sum(int(part) * unit for part, unit in zip(parts, RUN_UNITS_S, strict=True))
    return boot_ms + run_s * 1000


def _of_minute(table: Mapping[str, str], name: str) -> float | None:
    """The second of the rates of ten seconds, a minute and ten minutes."""
    rates = table.get(name, "").split()
    return _number(rates[min(1, len(rates) - 1)]) if rates else None


def _count(table: Mapping[str, str], name: str) -> int | None:
    text = table.get(name, "")
    return int(text) if text.removeprefix("-").isdecimal() else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _less(value: int | None, other: int | None) -> int | None:
    return None if value is None or other is None else max(0, value - other)
