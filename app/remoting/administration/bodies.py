"""Bodies that several answers share.

Maps by queue have objects as keys, as RocketMQ's tools write them; such a body is no valid JSON.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from app.remoting.call import json_body
from app.remoting.errors import ErrorResponse

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

DATA_VERSION = {"counter": 0, "stateVersion": 0, "timestamp": 0}


def name_list(names: Iterable[str]) -> ErrorResponse:
    """A list of topics."""
    return ErrorResponse(body=json_body({"topicList": list(names), "brokerAddr": None}))


def by_queue(
    backend: "RemotingBackend",
    name: str,
    entries: Iterable[tuple[tuple[str, int], Any]],
    more: dict[str, Any] | None = None,
) -> bytes:
    """An object with a map whose keys are queues, and some other members."""
    broker, encode = backend.settings.broker_name, msgspec.json.encode
    parts = [
        encode({"brokerName": broker, "queueId": queue, "topic": topic}) + b":" + encode(value)
        for (topic, queue), value in entries
    ]
    members = [encode(name) + b":{" + b",".join(parts) + b"}"]
    members += [encode(key) + b":" + encode(value) for key, value in (more or {}).items()]
    return b"{" + b",".join(members) + b"}"
