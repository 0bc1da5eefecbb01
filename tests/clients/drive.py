"""Drives Apache RocketMQ's official Python client, unmodified, as a test says.

Runs in the client's own environment: `python drive.py ADDRESS OPTIONS`. Each line on standard input
is a command in JSON ({"id", "do", ...}); it is answered by {"id", "ok"} or {"id", "error"}. What
listeners and checkers are called with comes as {"event", ...}. Bodies are in base64. `drive.js` is
the same for Node.js.
"""

import asyncio
import base64
import copy
import json
import sys
import threading
import time
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType
from rocketmq.v5.client.connection.rpc_client import RpcClient

ADDRESS, OPTIONS = sys.argv[1], json.loads(sys.argv[2])
TLS = {"tls_enable": bool(OPTIONS.get("tls"))}
CONFIGURATION = ClientConfiguration(
    ADDRESS,
    Credentials(OPTIONS.get("access_key", ""), OPTIONS.get("secret_key", "")),
    OPTIONS.get("namespace", ""),
    OPTIONS.get("timeout_s", 10),
)
WRITING = threading.Lock()

clients: dict[str, Any] = {}
held: dict[str, Any] = {}  # messages by the receipt handle that they came with


def say(**line: Any) -> None:
    with WRITING:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def told(message: Any) -> dict[str, Any]:
    """A message as the test sees it; of times what the client made of them."""
    return {
        "message_id": message.message_id,
        "topic": message.topic,
        "body": base64.b64encode(message.body).decode(),
        "tag": message.tag or "",
        "keys": sorted(message.keys),
        "message_group": message.message_group or "",
        "properties": message.properties,
        "attempt": message.delivery_attempt,
        "born_host": message.born_host,
        "born_ms": message.born_timestamp,
        "deliver_at_ms": message.delivery_timestamp or 0,
        "priority": message.priority,
        "handle": message.receipt_handle,
        "corrupted": message.corrupted,
    }


class Checker(TransactionChecker):
    def __init__(self, name: str, checks: dict[str, str]) -> None:
        self._name = name
        self._checks = checks

    def check(self, message: Any) -> Any:
        answer = self._checks.get(message.body.decode(), "unknown")
        say(event="check", client=self._name, message=told(message), answer=answer)
        return {
            "commit": TransactionResolution.COMMIT,
            "rollback": TransactionResolution.ROLLBACK,
        }.get(answer, TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED)


class Listener(MessageListener):
    """Fails each body as often as `fails` says, and takes `slow_s` for every message."""

    def __init__(self, name: str, fails: dict[str, int], slow_s: float) -> None:
        self._name = name
        self._fails = fails
        self._slow_s = slow_s
        self._lock = threading.Lock()

    def consume(self, message: Any) -> Any:
        body = message.body.decode(errors="replace")
        with self._lock:
            left = self._fails.get(body, 0)
            self._fails[body] = left - 1
        say(event="message", client=self._name, message=told(message), at_s=time.time())
        time.sleep(self._slow_s)
        return ConsumeResult.FAILURE if left > 0 else ConsumeResult.SUCCESS


def filters(subscriptions: dict[str, Any]) -> dict[str, Any]:
    return {
        topic: FilterExpression(text[5:], FilterType.SQL)
        if text.startswith("SQL: ")
        else FilterExpression(text)
        for topic, text in subscriptions.items()
    }


def producer(name: str, topics: list[str], checks: dict[str, str] | None = None) -> None:
    checker = Checker(name, checks) if checks is not None else None
    clients[name] = Producer(CONFIGURATION, tuple(topics), checker, **TLS)
    start(name)


def simple(name: str, group: str, subscriptions: dict[str, Any], wait_s: int) -> None:
    clients[name] = SimpleConsumer(CONFIGURATION, group, filters(subscriptions), wait_s, **TLS)
    start(name)


def start(name: str) -> None:
    # A program starts its clients in its first thread, which has an event loop. Ours has none, and
    # the client wants one unless this very thread is the first of its threads to open the channel.
    asyncio.set_event_loop(RpcClient.get_channel_io_loop())
    clients[name].startup()


def push(
    name: str,
    group: str,
    subscriptions: dict[str, Any],
    fails: dict[str, int],
    slow_s: float,
) -> None:
    listener = Listener(name, fails, slow_s)
    clients[name] = PushConsumer(CONFIGURATION, group, listener, filters(subscriptions), **TLS)
    start(name)


def message_of(fields: dict[str, Any]) -> Any:
    message = Message()
    message.topic = fields["topic"]
    message.body = base64.b64decode(fields["body"])
    for key in fields.get("keys", ()):
        message.keys = key
    for name, value in fields.get("properties", {}).items():
        message.add_property(name, value)
    for name in ("tag", "message_group", "priority"):
        if name in fields:
            setattr(message, name, fields[name])
    if "deliver_at_ms" in fields:
        message.delivery_timestamp = fields["deliver_at_ms"] // 1000  # it takes seconds
    return message


def send(name: str, message: dict[str, Any], transaction: str = "") -> dict[str, Any]:
    begun = clients[name].begin_transaction() if transaction else None
    receipt = clients[name].send(message_of(message), begun)
    if transaction == "commit":
        begun.commit()
    elif transaction == "rollback":
        begun.rollback()
    return {
        "message_id": receipt.message_id,
        "transaction_id": receipt.transaction_id,
        "offset": receipt.offset,
        "recall_handle": receipt.recall_handle,
    }


def recall(name: str, topic: str, handle: str) -> str:
    return str(clients[name].recall_message(topic, handle))


def receive(name: str, max: int, invisible_s: int) -> list[dict[str, Any]]:
    found = clients[name].receive(max, invisible_s)
    held.update({message.receipt_handle: message for message in found})
    return [told(message) for message in found]


def ack(name: str, handle: str) -> None:
    clients[name].ack(held[handle])


def change(name: str, handle: str, invisible_s: int) -> str:
    message = held[handle]
    # The client puts the new handle into the message that it was given; a test wants both.
    stale = copy.copy(message)
    clients[name].change_invisible_duration(message, invisible_s)
    new = str(message.receipt_handle)
    held.update({handle: stale, new: message})
    return new


def shutdown(name: str) -> None:
    clients.pop(name).shutdown()


COMMANDS = {
    each.__name__: each
    for each in (producer, simple, push, send, recall, receive, ack, change, shutdown)
}


def answer(number: int, do: str, arguments: dict[str, Any]) -> None:
    try:
        say(id=number, ok=COMMANDS[do](**arguments))
    except Exception as error:
        code = getattr(error, "code", None)
        code = None if callable(code) else code
        say(id=number, error={"type": type(error).__name__, "code": code, "text": str(error)})


for line in sys.stdin:
    command = json.loads(line)
    number, do = command.pop("id"), command.pop("do")
    threading.Thread(target=answer, args=(number, do, command), daemon=True).start()
