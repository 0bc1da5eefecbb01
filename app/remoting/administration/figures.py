"""Figures of the broker: runtime information, and statistics by RocketMQ's names."""

import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from app.remoting.call import RemotingCall, json_body
from app.remoting.errors import ErrorResponse, RemotingRefusal
from app.security.access import Action, Kind
from app.version import VERSION
from engine.broker import WindowRates
from protocol.remoting.codes import VERSION as PROTOCOL_VERSION
from protocol.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
GIB = 1 << 30

# What a broker says as a copy of another one.
OF_A_COPY = (
    "lastReadTimestamp", "lastWriteTimestamp", "masterFlushOffset", "maxOffset",
    "transferredByteInSecond",
)  # fmt: skip


def runtime_info(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Figures of the broker by name."""
    call.require(Action.READ, Kind.SERVER)
    table = _identity(backend) | _traffic(backend) | _queues(backend) | _storage(backend)
    return ErrorResponse(body=json_body({"table": table}))


def ha_status(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The end of the log of a master that has no copies."""
    call.require(Action.READ, Kind.SERVER)
    status = {
        "master": True,
        "masterCommitLogMaxOffset": backend.broker.log_end,
        "inSyncSlaveNums": 0,
        "haConnectionInfo": [],
        "haClientRuntimeInfo": dict.fromkeys(OF_A_COPY, 0),
    }
    return ErrorResponse(body=json_body(status))


def view_stats(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """One figure over the last minute, hour and day; the hour goes by the last ten minutes."""
    call.require(Action.READ, Kind.SERVER)
    name, key = call.text("statsName"), call.text("statsKey")
    find = STATISTICS.get(name)
    rates = find(backend, key) if find else None
    if rates is None:
        raise RemotingRefusal(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
    items = {
        "statsMinute": _item(rates.total, rates.minute, MINUTE_S),
        "statsHour": _item(rates.total, rates.ten_minutes, HOUR_S),
        "statsDay": _item(rates.total, rates.day, DAY_S),
    }
    return ErrorResponse(body=json_body(items))


def _item(total: int, rate: float, span_s: int) -> dict[str, float]:
    """A rate with the sum over its span, which is never more than all since the start."""
    return {"sum": min(total, round(rate * span_s)), "tps": round(rate, 3), "avgpt": 0.0}


def _of_reader(field: str) -> Callable[["RemotingBackend", str], WindowRates | None]:
    """The figure of a topic and a group, whose key is `topic@group`."""

    def find(backend: "RemotingBackend", key: str) -> WindowRates | None:
        topic, _, group = key.partition("@")
        for reader in backend.broker.statistics.topic(topic).readers:
            if reader.group == group:
                rates: WindowRates = getattr(reader, field)
                return rates
        return None

    return find


def _of_topic(field: str) -> Callable[["RemotingBackend", str], WindowRates | None]:
    def find(backend: "RemotingBackend", key: str) -> WindowRates | None:
        rates: WindowRates = getattr(backend.broker.statistics.topic(key).traffic, field)
        return rates if rates.total else None

    return find


def _of_broker(field: str) -> Callable[["RemotingBackend", str], WindowRates | None]:
    def find(backend: "RemotingBackend", key: str) -> WindowRates | None:
        if key != backend.settings.cluster_name:
            return None
        rates: WindowRates = getattr(backend.broker.statistics.broker().traffic, field)
        return rates

    return find


STATISTICS: dict[str, Callable[["RemotingBackend", str], WindowRates | None]] = {
    "TOPIC_PUT_NUMS": _of_topic("messages_in"),
    "TOPIC_PUT_SIZE": _of_topic("bytes_in"),
    "GROUP_GET_NUMS": _of_reader("messages_out"),
    "GROUP_GET_SIZE": _of_reader("bytes_out"),
    "GROUP_ACK_NUMS": _of_reader("acked"),
    "SNDBCK_PUT_NUMS": _of_reader("retried"),
    "DLQ_PUT_NUMS": _of_reader("dead"),
    "BROKER_PUT_NUMS": _of_broker("messages_in"),
    "BROKER_GET_NUMS": _of_broker("messages_out"),
}


def _identity(backend: "RemotingBackend") -> dict[str, str]:
    started_ms, now_ms = backend.services.started_ms, backend.host.clock.now_ms()
    return {
        "brokerVersion": str(PROTOCOL_VERSION),
        "brokerVersionDesc": f"KiteMQ {VERSION}",
        "bootTimestamp": str(started_ms),
        "startAcceptSendRequestTimeStamp": str(started_ms),
        "runtime": str(timedelta(milliseconds=now_ms - started_ms)),
        "brokerActive": "true",
    }


def _traffic(backend: "RemotingBackend") -> dict[str, str]:
    """Messages and latencies since the start; nothing is known of the days before."""
    statistics = backend.broker.statistics
    metrics = statistics.broker()
    traffic, latency = metrics.traffic, statistics.put_latency().stored
    size_bytes, refused = _total(traffic.bytes_in), _total(metrics.refused)
    rates_in, rates_out = _rates(traffic.messages_in), _rates(traffic.messages_out)
    labels = " ".join(f"[{label}]:{count}" for label, count in latency.distribution.items())
    count = traffic.messages_in.total
    return {
        "putTps": rates_in,
        "getTotalTps": rates_out,
        "getFoundTps": rates_out,
        "getMissTps": "0.00 0.00 0.00",
        "getTransferredTps": rates_out,
        "getTransferedTps": rates_out,
        "putMessageTimesTotal": str(count),
        "putMessageSizeTotal": str(size_bytes),
        "putMessageAverageSize": str(size_bytes / count if count else 0.0),
        "putMessageFailedTimes": str(refused),
        "putMessageDistributeTime": labels,
        "putMessageEntireTimeMax": _milliseconds(latency.ever.max),
        "putLatency99": _milliseconds(latency.recent.p99),
        "putLatency999": _milliseconds(latency.recent.p999),
        "getMessageEntireTimeMax": "0",
        "msgPutTotalTodayNow": str(count),
        "msgGetTotalTodayNow": str(traffic.messages_out.total),
        "msgPutTotalTodayMorning": "0",
        "msgGetTotalTodayMorning": "0",
        "msgPutTotalYesterdayMorning": "0",
        "msgGetTotalYesterdayMorning": "0",
    }


def _total(rates: WindowRates | None) -> int:
    return rates.total if rates else 0


def _queues(backend: "RemotingBackend") -> dict[str, str]:
    """Requests under way, as the queues of thread pools that there are none of."""
    limit = str(backend.settings.requests_max)
    polls = str(backend.settings.remoting_polls_max)
    sizes = {
        "send": ("0", limit),
        "pull": (str(backend.figures.polls), polls),
        "query": ("0", limit),
        "ack": ("0", limit),
    }
    table = {"EndTransactionQueueSize": "0", "EndTransactionThreadPoolQueueCapacity": limit}
    for name, (size, capacity) in sizes.items():
        table[f"{name}ThreadPoolQueueSize"] = size
        table[f"{name}ThreadPoolQueueCapacity"] = capacity
        table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    return table


def _storage(backend: "RemotingBackend") -> dict[str, str]:
    broker, health = backend.broker, backend.broker.health()
    total_bytes = shutil.disk_usage(backend.settings.data).total
    free_bytes = health.disk_free_bytes or 0
    used = f"{1 - free_bytes / total_bytes:.4f}" if total_bytes else "0.0"
    first = broker.log_end - (health.log_bytes or 0)
    return {
        "commitLogDirCapacity": f"Total : {_gib(total_bytes)}, Free : {_gib(free_bytes)}.",
        "commitLogDiskRatio": used,
        f"commitLogDiskRatio_{os.fspath(backend.settings.data)}": used,
        "consumeQueueDiskRatio": used,
        "commitLogMaxOffset": str(broker.log_end),
        "commitLogMinOffset": str(first),
        "earliestMessageTimeStamp": str(_oldest_ms(backend)),
        "pageCacheLockTimeMills": "0",
        "dispatchBehindBytes": "0",
        "dispatchMaxBuffer": "0",
        "remainTransientStoreBufferNumbs": "0",
        "remainHowManyDataToFlush": f"{health.unflushed_bytes} bytes",
        "timerReadBehind": "0",
        "timerOffsetBehind": "0",
        "timerCongestNum": "0",
        "timerEnqueueTps": "0.0",
        "timerDequeueTps": "0.0",
    }


def _oldest_ms(backend: "RemotingBackend") -> int:
    """When the oldest message of all topics was stored; -1 for none."""
    oldest_ms = backend.broker.retention.status().oldest_ms
    return -1 if oldest_ms is None else oldest_ms


def _rates(rates: WindowRates) -> str:
    """Rates of the last ten seconds, minute and ten minutes; the first is that of the minute."""
    return f"{rates.minute:.2f} {rates.minute:.2f} {rates.ten_minutes:.2f}"


def _milliseconds(microseconds: float | None) -> str:
    return "0" if microseconds is None else str(round(microseconds / 1000))


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB"
