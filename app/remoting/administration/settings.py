"""Settings by RocketMQ's names, and the name server's values.

KiteMQ reads its settings once, at its start: a change is refused with the name of its own setting.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from app.remoting.call import RemotingCall, json_body
from app.remoting.errors import OK, ErrorResponse, RemotingRefusal
from app.security.access import Action, Kind
from protocol.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

ORDER_TOPICS = "ORDER_TOPIC_CONFIG"  # namespace of the queues of ordered topics
# RocketMQ's names, and the settings that they stand for.
OWN_NAMES = {
    "brokerName": "broker_name",
    "brokerClusterName": "cluster_name",
    "autoCreateTopicEnable": "auto_create_topics",
    "autoCreateSubscriptionGroup": "auto_create_groups",
    "defaultTopicQueueNums": "default_queues",
    "flushDiskType": "durability",
    "brokerPermission": "read_only",
    "namesrvAddr": "remoting_advertised",
    "fileReservedTime": "retention_h",
    "maxMessageSize": "",
    "enablePropertyFilter": "",
    "timerWheelEnable": "",
    "useServerSideResetOffset": "",
}


def broker_config(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The settings that RocketMQ's tools know by name."""
    call.require(Action.READ, Kind.SERVER)
    return _properties(_broker_settings(backend, call))


def name_server_config(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The settings of the name server; it has none of its own."""
    call.require(Action.READ, Kind.SERVER)
    return _properties(_name_server_settings(backend, call))


def update_broker_config(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Refuse a change of a setting; what it is already set to is no change."""
    return _unchanged(call, _broker_settings(backend, call))


def update_name_server_config(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The same for the name server."""
    return _unchanged(call, _name_server_settings(backend, call))


def kv_config(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The queues of a topic, as tools look them up for ordered topics; nothing else is kept."""
    call.require(Action.READ, Kind.SERVER)
    value = _kv_values(backend, call.text("namespace", "")).get(call.text("key", ""))
    if value is None:
        raise RemotingRefusal(ResponseCode.QUERY_NOT_FOUND, f"no value is kept for {_key(call)}")
    return ErrorResponse(fields={"value": value})


def kv_list(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """All values of a namespace."""
    call.require(Action.READ, Kind.SERVER)
    values = _kv_values(backend, call.text("namespace", ""))
    if not values:
        raise RemotingRefusal(ResponseCode.QUERY_NOT_FOUND, f"no value is kept for {_key(call)}")
    return ErrorResponse(body=json_body({"table": values}))


def put_kv_config(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Take the queues that a topic has already; other values are refused."""
    call.require(Action.ADMINISTER, Kind.SERVER)
    value = _kv_values(backend, call.text("namespace")).get(call.text("key"))
    if value is None:
        raise RemotingRefusal(
            ResponseCode.ILLEGAL_OPERATION,
            f"{_key(call)}: the name server keeps no values but the queues of topics "
            f"({ORDER_TOPICS})",
        )
    if value not in call.text("value").split(";"):
        raise RemotingRefusal(
            ResponseCode.ILLEGAL_OPERATION,
            f"{_key(call)} is {value}: updateTopic changes the number of queues",
        )
    return OK


def delete_kv_config(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Delete a value; there is none that could be deleted apart from its topic."""
    call.require(Action.ADMINISTER, Kind.SERVER)
    if call.text("key") in _kv_values(backend, call.text("namespace")):
        raise RemotingRefusal(
            ResponseCode.ILLEGAL_OPERATION,
            f"{_key(call)} are the queues of a topic, which go with it: use deleteTopic",
        )
    return OK


def _broker_settings(backend: "RemotingBackend", call: RemotingCall) -> dict[str, str]:
    settings = backend.settings
    return {
        "brokerName": settings.broker_name,
        "brokerClusterName": settings.cluster_name,
        "brokerId": "0",
        "brokerRole": "ASYNC_MASTER",
        "brokerPermission": "6",
        "autoCreateTopicEnable": str(settings.auto_create_topics).lower(),
        "autoCreateSubscriptionGroup": str(settings.auto_create_groups).lower(),
        "defaultTopicQueueNums": str(settings.default_queues),
        "flushDiskType": "ASYNC_FLUSH" if settings.durability == "stored" else "SYNC_FLUSH",
        "maxMessageSize": "4194304",
        "enablePropertyFilter": "true",
        "timerWheelEnable": "true",
        "recallMessageEnable": "true",
        "useServerSideResetOffset": "true",
        "namesrvAddr": backend.name_server_address(call.connection),
    }


def _name_server_settings(backend: "RemotingBackend", call: RemotingCall) -> dict[str, str]:
    port = backend.addresses.name_server_port
    return {"listenPort": str(port), "orderMessageEnable": "true"}


def _properties(config: Mapping[str, str]) -> ErrorResponse:
    text = "".join(f"{name}={value}\n" for name, value in config.items())
    return ErrorResponse(fields={"version": "{}"}, body=text.encode())


def _unchanged(call: RemotingCall, config: Mapping[str, str]) -> ErrorResponse:
    call.require(Action.ADMINISTER, Kind.SERVER)
    for line in call.body.decode("utf-8", "replace").splitlines():
        name, is_pair, value = (part.strip() for part in line.partition("="))
        if is_pair and not name.startswith("#") and config.get(name) != value:
            raise RemotingRefusal(ResponseCode.ILLEGAL_OPERATION, _why_fixed(name))
    return OK


def _why_fixed(name: str) -> str:
    own = OWN_NAMES.get(name)
    if own is None:
        return f"{name[:80]!r} is no setting here; docs/settings.md lists all"
    if not own:
        return f"{name} cannot be changed"
    return f"{name} is the setting {own}, which is read at the start: change it there and restart"


def _kv_values(backend: "RemotingBackend", namespace: str) -> dict[str, str]:
    if namespace != ORDER_TOPICS:
        return {}
    name = backend.settings.broker_name
    return {each.name: f"{name}:{each.write_queues}" for each in backend.broker.topics()}


def _key(call: RemotingCall) -> str:
    return f"{call.text('namespace', '')}.{call.text('key', '')}"[:300]
