"""The broker itself: its figures and settings."""

from typing import TYPE_CHECKING

from app.remoting.call import RemotingCall, json_body
from app.remoting.errors import ErrorResponse, RemotingRefusal
from app.security.access import Action, Kind
from app.version import VERSION
from protocol.remoting.codes import VERSION as PROTOCOL_VERSION
from protocol.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend


def runtime_info(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Figures of the broker by name."""
    call.require(Action.READ, Kind.SERVER)
    broker, settings = backend.broker, backend.settings
    health = broker.health()
    traffic = broker.statistics.broker().traffic
    rates_in = f"{traffic.messages_in.minute:.2f}"
    rates_out = f"{traffic.messages_out.minute:.2f}"
    table = {
        "brokerVersion": str(PROTOCOL_VERSION),
        "brokerVersionDesc": f"KiteMQ {VERSION}",
        "bootTimestamp": str(backend.services.started_ms),
        "brokerActive": "true",
        "putTps": " ".join([rates_in] * 3),
        "getTotalTps": " ".join([rates_out] * 3),
        "getFoundTps": " ".join([rates_out] * 3),
        "getMissTps": "0.00 0.00 0.00",
        "getTransferredTps": " ".join([rates_out] * 3),
        "getTransferedTps": " ".join([rates_out] * 3),
        "msgPutTotalTodayNow": str(traffic.messages_in.total),
        "msgGetTotalTodayNow": str(traffic.messages_out.total),
        "msgPutTotalTodayMorning": "0",
        "msgGetTotalTodayMorning": "0",
        "msgPutTotalYesterdayMorning": "0",
        "msgGetTotalYesterdayMorning": "0",
        "sendThreadPoolQueueSize": "0",
        "sendThreadPoolQueueCapacity": str(settings.requests_max),
        "sendThreadPoolQueueHeadWaitTimeMills": "0",
        "pullThreadPoolQueueSize": str(backend.figures.polls),
        "pullThreadPoolQueueCapacity": str(settings.remoting_polls_max),
        "pullThreadPoolQueueHeadWaitTimeMills": "0",
        "pageCacheLockTimeMills": "0",
        "commitLogDirCapacity": f"Free : {health.disk_free_bytes} bytes.",
        "commitLogMaxOffset": str(broker.log_end),
        "commitLogMinOffset": str(broker.log_end - health.log_bytes),
        "dispatchBehindBytes": "0",
        "remainHowManyDataToFlush": f"{health.unflushed_bytes} bytes",
    }
    return ErrorResponse(body=json_body({"table": table}))


def broker_config(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The settings that RocketMQ's tools know by name."""
    call.require(Action.READ, Kind.SERVER)
    settings = backend.settings
    config = {
        "brokerName": settings.broker_name,
        "brokerClusterName": settings.cluster_name,
        "brokerId": "0",
        "brokerRole": "ASYNC_MASTER",
        "brokerPermission": "6",
        "autoCreateTopicEnable": str(settings.auto_create_topics).lower(),
        "autoCreateSubscriptionGroup": str(settings.auto_create_groups).lower(),
        "defaultTopicQueueNums": str(settings.default_queues),
        "flushDiskType": "SYNC_FLUSH" if settings.durability == "flushed" else "ASYNC_FLUSH",
        "maxMessageSize": "4194304",
        "namesrvAddr": backend.address(call.connection),
    }
    text = "".join(f"{name}={value}\n" for name, value in config.items())
    return ErrorResponse(fields={"version": "{}"}, body=text.encode())


def kv_config(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Values of a name server; there are none."""
    call.require(Action.READ, Kind.SERVER)
    raise RemotingRefusal(
        ResponseCode.QUERY_NOT_FOUND,
        f"no value is kept for {call.text('namespace', '')}.{call.text('key', '')}",
    )
