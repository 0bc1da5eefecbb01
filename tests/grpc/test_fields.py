"""Every field of a message is the same whichever endpoints it comes and leaves by.

`FIELDS` has the very rows of the table in docs/rocketmq-clients.md.
"""

import base64
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engine.message import RESERVED
from protocol.rocketmq.messages import EndTransactionRequest, Resource
from protocol.rocketmq.numbers import Code, MessageType, TransactionResolution
from tests.grpc.endpoint import Running, Stub

pytestmark = pytest.mark.anyio

COMMIT = TransactionResolution.COMMIT
PAGE = Path(__file__).parents[2] / "docs" / "rocketmq-clients.md"
BORN_MS = 1_700_000_000_123
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
BODY = bytes(range(256)) + "茶 ☕".encode()
# REST shows RocketMQ's own properties among the others; gRPC has fields for them, or none.
OWN = RESERVED | {"traceparent", "KITE_PRIORITY", "TIMER_OUT_MS"}


class Field(NamedTuple):
    """How one row of the table reads in a message over gRPC, and over REST."""

    wire: Callable[[Any], Any]
    rest: Callable[[dict[str, Any]], Any]


def system(name: str) -> Callable[[Any], Any]:
    return lambda wire: getattr(wire.system_properties, name)


def ms(time: Any) -> int:
    return int(time.seconds) * 1000 + int(time.nanos) // 1_000_000


def digest(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest().upper()


def body_of(rest: dict[str, Any]) -> bytes:
    return base64.b64decode(rest["body"])


def user_properties(properties: Any) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name not in OWN}


def topic_of(wire: Any) -> str:
    space, name = wire.topic.resource_namespace, wire.topic.name
    return f"{space}%{name}" if space else str(name)


FIELDS = {
    "`topic`": Field(topic_of, lambda rest: rest["origin_topic"]),
    "`body` (IDENTITY, GZIP)": Field(lambda wire: wire.body, body_of),
    "`user_properties`": Field(
        lambda wire: user_properties(wire.user_properties),
        lambda rest: user_properties(rest["properties"]),
    ),
    "`message_id`": Field(system("message_id"), lambda rest: rest["message_id"]),
    "`tag`, `keys`": Field(
        lambda wire: (wire.system_properties.tag, list(wire.system_properties.keys)),
        lambda rest: (rest["tag"], rest["keys"]),
    ),
    "`message_group`": Field(system("message_group"), lambda rest: rest["message_group"]),
    "`born_timestamp`, `born_host`": Field(
        lambda wire: (
            ms(wire.system_properties.born_timestamp),
            wire.system_properties.born_host,
        ),
        lambda rest: (rest["born_ms"], rest["born_host"]),
    ),
    "`store_timestamp`, `store_host`": Field(
        lambda wire: (
            ms(wire.system_properties.store_timestamp),
            wire.system_properties.store_host,
        ),
        lambda rest: (rest["stored_ms"], host_of(rest["offset_id"])),
    ),
    "`queue_id`, `queue_offset`": Field(
        lambda wire: (
            wire.system_properties.queue_id,
            str(wire.system_properties.queue_offset),
        ),
        lambda rest: (rest["queue"], rest["offset"]),
    ),
    "`delivery_attempt`": Field(system("delivery_attempt"), lambda rest: rest["attempt"]),
    "`trace_context`": Field(
        system("trace_context"), lambda rest: rest["properties"].get("traceparent", "")
    ),
    "`priority`": Field(
        system("priority"), lambda rest: int(rest["properties"].get("KITE_PRIORITY", "0"))
    ),
    "`body_digest`": Field(
        lambda wire: wire.system_properties.body_digest.checksum,
        lambda rest: digest(body_of(rest)),
    ),
}
# These are no field of both: each has a test of its own below.
TESTED_APART = {
    "`delivery_timestamp`",
    "`message_type` TRANSACTION",
    "`orphaned_transaction_recovery_duration`",
    "`recall_handle`",
    "`receipt_handle`",
    "`dead_letter_queue`",
}


def host_of(offset_id: str) -> str:
    """Address and port in an offset id."""
    host = bytes.fromhex(offset_id[:-16])
    return f"{'.'.join(map(str, host[:4]))}:{int.from_bytes(host[4:], 'big')}"


def test_the_table_of_fields_has_no_row_that_is_not_tested() -> None:
    part = PAGE.read_text().partition("## Fields")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+?) \|", part, re.MULTILINE)
    assert set(rows) == FIELDS.keys() | TESTED_APART


async def by_rest(running: Running, topic: str, **fields: Any) -> str:
    """Send by REST; the message's id."""
    message = {"body": base64.b64encode(BODY).decode(), "encoding": "base64", **fields}
    answer = await running.http.post(f"/api/v1/topics/{topic}/messages", json=message)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["messages"][0]["message_id"])


async def rest_view(running: Running, topic: str, group: str = "rest") -> dict[str, Any]:
    """The message that a group is handed out by REST."""
    answer = await running.http.post(
        f"/api/v1/groups/{group}/receive", params={"encoding": "base64"}, json={"topic": topic}
    )
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()["deliveries"]
    return dict(found)


async def wire_view(stub: Stub, topic: str, group: str = "wire") -> Any:
    (found,) = await stub.receive(group, topic)
    return found


def compare(wire: Any, rest: dict[str, Any], sent: dict[str, Any]) -> None:
    """Each field is the same in both, and what it was sent as."""
    for name, field in FIELDS.items():
        assert field.wire(wire) == field.rest(rest), name
    for name, value in sent.items():
        assert FIELDS[name].wire(wire) == value, name


SENT = {
    "`topic`": "orders",
    "`body` (IDENTITY, GZIP)": BODY,
    "`user_properties`": {"shop": "north", "Größe": "ß ☕"},
    "`message_id`": f"01{7:032X}",
    "`tag`, `keys`": ("hot", ["k1", "k2"]),
    "`message_group`": "lane",
    "`delivery_attempt`": 1,
    "`trace_context`": TRACE,
    "`priority`": 5,
    "`body_digest`": digest(BODY),
}


async def test_a_message_sent_by_rest_has_every_field_over_grpc(running: Running) -> None:
    properties = {"shop": "north", "Größe": "ß ☕", "traceparent": TRACE, "KITE_PRIORITY": "5"}
    await by_rest(
        running,
        "orders",
        id=SENT["`message_id`"],
        tag="hot",
        keys=["k1", "k2"],
        properties=properties,
        message_group="lane",
        born_ms=BORN_MS,
    )
    wire, rest = await wire_view(running.stub, "orders"), await rest_view(running, "orders")
    compare(wire, rest, SENT)
    assert rest["born_ms"] == BORN_MS


async def test_a_message_sent_over_grpc_has_every_field_by_rest(running: Running) -> None:
    answer = await running.stub.send(
        "orders",
        BODY,
        message_id=SENT["`message_id`"],
        tag="hot",
        keys=["k1", "k2"],
        properties={"shop": "north", "Größe": "ß ☕"},
        message_group="lane",
        trace_context=TRACE,
        priority=5,
    )
    assert answer.status.code == Code.OK, answer.status
    wire, rest = await wire_view(running.stub, "orders"), await rest_view(running, "orders")
    compare(wire, rest, SENT)
    assert rest["born_ms"] == 1000
    assert rest["born_host"].startswith("127.0.0.1:")
    assert wire.user_properties["__SHARDINGKEY"] == "lane"


async def test_a_namespace_is_part_of_the_name(running: Running) -> None:
    await running.http.post("/api/v1/topics", json={"name": "shop%orders"})
    inside = running.stub.named("c", x_mq_namespace="shop")
    await inside.send("orders", BODY)
    rest = await rest_view(running, "shop%orders")
    wire = await wire_view(inside, "orders")
    compare(wire, rest, {"`topic`": "shop%orders"})


@pytest.mark.parametrize("endpoint", ["REST", "gRPC"])
async def test_a_time_of_delivery_is_the_same_by_both(running: Running, endpoint: str) -> None:
    due_s = running.clock.now_ms() // 1000 + 60
    if endpoint == "REST":
        await by_rest(running, "later", deliver_at_ms=due_s * 1000)
    else:
        await running.stub.send("later", BODY, deliver_at_s=due_s)
    (waiting,) = (await running.http.get("/api/v1/scheduled")).json()["items"]
    assert waiting["due_ms"] == due_s * 1000
    running.advance(61)
    wire, rest = await wire_view(running.stub, "later"), await rest_view(running, "later")
    compare(wire, rest, {"`topic`": "later", "`body` (IDENTITY, GZIP)": BODY})
    assert wire.system_properties.delivery_timestamp.seconds == due_s
    assert wire.system_properties.message_type == MessageType.DELAY


@pytest.mark.parametrize("endpoint", ["REST", "gRPC"])
async def test_a_transaction_begun_by_one_door_is_committed_by_the_other(
    running: Running, endpoint: str
) -> None:
    if endpoint == "REST":
        name = await by_rest(running, "paid", transaction_group="paid", check_immunity_s=90)
        request = EndTransactionRequest(
            topic=Resource(name="paid"), message_id=name, transaction_id=name, resolution=COMMIT
        )
        await running.stub.ok("EndTransaction", request)
    else:
        answer = await running.stub.send("paid", BODY, **half(90))
        name = answer.entries[0].transaction_id
        (waiting,) = (await running.http.get("/api/v1/transactions")).json()["items"]
        assert waiting["producer_group"] == "paid"
        done = await running.http.post(f"/api/v1/transactions/{name}/commit")
        assert done.status_code == 200, done.text
    wire, rest = await wire_view(running.stub, "paid"), await rest_view(running, "paid")
    compare(wire, rest, {"`topic`": "paid", "`message_id`": name})
    assert wire.system_properties.message_type == MessageType.TRANSACTION
    assert wire.system_properties.orphaned_transaction_recovery_duration.seconds == 90
    assert wire.user_properties["__transactionId__"] == name


def half(immunity_s: int) -> dict[str, Any]:
    """The fields of a half message that is not checked before."""
    duration = {"seconds": immunity_s}
    return {
        "message_type": MessageType.TRANSACTION,
        "orphaned_transaction_recovery_duration": duration,
    }


async def test_a_receipt_of_one_door_settles_by_the_other(running: Running) -> None:
    await by_rest(running, "orders")
    wire, rest = await wire_view(running.stub, "orders"), await rest_view(running, "orders")
    acked = await running.stub.ack("rest", "orders", rest["receipt"])
    assert acked.status.code == Code.OK
    handle = wire.system_properties.receipt_handle
    answer = await running.http.post("/api/v1/groups/wire/ack", json={"receipts": [handle]})
    assert [each["result"] for each in answer.json()["results"]] == ["done"]


async def test_a_dead_letter_names_where_it_came_from_by_both(running: Running) -> None:
    await running.http.post("/api/v1/groups", json={"name": "g", "retry_max": 0})
    name = await by_rest(running, "orders")
    rest = await rest_view(running, "orders", "g")
    failed = {"nacks": [{"receipt": rest["receipt"]}]}
    assert (await running.http.post("/api/v1/groups/g/nack", json=failed)).status_code == 200
    running.advance(1)
    wire = await wire_view(running.stub, "%DLQ%g", "grave")
    origin = wire.system_properties.dead_letter_queue
    (dead,) = (await running.http.get("/api/v1/groups/g/dead-letters")).json()["items"]
    assert (origin.topic, origin.message_id) == ("orders", dead["origin_id"])
    assert dead["origin_topic"] == "orders"
    assert wire.system_properties.message_id == dead["message"]["message_id"] == name


async def test_a_journey_over_grpc_is_told_like_everyones(running: Running) -> None:
    sent = await running.stub.send("orders", b"1")
    (message,) = await running.stub.named("worker").receive("g", "orders")
    await running.stub.named("worker").ack("g", "orders", message.system_properties.receipt_handle)
    path = f"/api/v1/messages/{sent.entries[0].message_id}/journey"
    journey = (await running.http.get(path)).json()
    stages = [(each["name"], each["outcome"], each["client"]) for each in journey["stages"][1:]]
    waited = ("wait", "delivered", "")
    assert stages == [("store", "stored", ""), waited, ("delivery", "acked", "worker")]
    assert [(each["group"], each["state"]) for each in journey["groups"]] == [("g", "done")]
