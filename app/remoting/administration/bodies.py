"""Bodies that several answers share.

Maps by queue have objects as keys, as RocketMQ's tools write them; such a body is no valid JSON.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from app.remoting.call import json_body
from app.remoting.clients import RemotingSubscription
from app.remoting.errors import ErrorResponse
from engine.broker import tag_hash

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

TAG, ALL = "TAG", "*"
DATA_VERSION = {"counter": 0, "stateVersion": 0, "timestamp": 0}


def name_list(names: Iterable[str]) -> ErrorResponse:
    """A list of topics."""
    return ErrorResponse(body=json_body({"topicList": list(names), "brokerAddr": None}))


def subscription_shape(subscription: RemotingSubscription) -> dict[str, Any]:
    """A client's subscription to a topic."""
    is_tags = subscription.kind == TAG and subscription.text != ALL
    tags = [tag for each in subscription.text.split("||") if (tag := each.strip())]
    return {
        "topic": subscription.topic,
        "subString": subscription.text,
        "tagsSet": tags if is_tags else [],
        "codeSet": [tag_hash(tag) for tag in tags] if is_tags else [],
        "subVersion": subscription.version,
        "expressionType": subscription.kind,
        "classFilterMode": False,
    }


def queue_key(backend: "RemotingBackend", topic: str, queue: int) -> dict[str, Any]:
    """A queue as RocketMQ names it."""
    return {"brokerName": backend.settings.broker_name, "queueId": queue, "topic": topic}


def by_queue(
    backend: "RemotingBackend",
    name: str,
    entries: Iterable[tuple[tuple[str, int], Any]],
    more: dict[str, Any] | None = None,
) -> bytes:
    """An object with a map whose keys are queues, and some other members."""
    encode = msgspec.json.encode
    parts = [
        encode(queue_key(backend, topic, queue)) + b":" + encode(value)
        for (topic, queue), value in entries
    ]
    members = [encode(name) + b":{" + b",".join(parts) + b"}"]
    members += [encode(key) + b":" + encode(value) for key, value in (more or {}).items()]
    return b"{" + b",".join(members) + b"}"
