"""SendMessage, RecallMessage and EndTransaction over a raw stub."""

import gzip
import zlib
from typing import Any

import pytest

from engine.message import BODY_BYTES_MAX
from protocol.rocketmq.messages import (
    EndTransactionRequest,
    RecallMessageRequest,
    Resource,
    SendMessageRequest,
)
from protocol.rocketmq.numbers import BodyEncoding, Code, MessageType
from tests.grpc.endpoint import Running, message_of

pytestmark = pytest.mark.anyio


async def make_topic(running: Running, name: str, kind: str) -> None:
    answer = await running.http.post("/api/v1/topics", json={"name": name, "type": kind})
    assert answer.status_code == 201, answer.text


async def test_messages_are_stored_under_the_ids_that_their_clients_made(running: Running) -> None:
    answer = await running.stub.send("orders", b"1", b"2")
    assert answer.status.code == Code.OK
    assert [entry.status.code for entry in answer.entries] == [Code.OK] * 2
    assert [entry.message_id for entry in answer.entries] == [f"01{n:032X}" for n in (0, 1)]
    assert [entry.transaction_id for entry in answer.entries] == [f"01{n:032X}" for n in (0, 1)]
    stored = running.broker.messages_by_id(f"01{1:032X}")
    assert [message.body for message in stored] == [b"2"]
    assert stored[0].born_host.startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("system", "code"),
    [
        ({"message_id": " "}, Code.ILLEGAL_MESSAGE_ID),
        ({"message_id": "a-b"}, Code.ILLEGAL_MESSAGE_ID),
        ({"tag": "a|b"}, Code.ILLEGAL_MESSAGE_TAG),
        ({"tag": " "}, Code.ILLEGAL_MESSAGE_TAG),
        ({"keys": ["a b"]}, Code.ILLEGAL_MESSAGE_KEY),
        ({"message_group": ""}, Code.ILLEGAL_MESSAGE_GROUP),
        ({"message_group": "x" * 65}, Code.ILLEGAL_MESSAGE_GROUP),
        ({"properties": {"TAGS": "x"}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"properties": {"a": "x" * 17_000}}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"properties": {f"p{n}": "x" for n in range(129)}}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"deliver_at_s": 4_000_000_000}, Code.ILLEGAL_DELIVERY_TIME),
    ],
)
async def test_what_is_wrong_with_a_message_has_its_code(
    running: Running, system: dict[str, Any], code: Code
) -> None:
    answer = await running.stub.send("orders", b"x", **system)
    assert answer.status.code == code, answer.status


async def test_a_body_is_neither_empty_nor_too_large(running: Running) -> None:
    assert (await running.stub.send("orders", b"")).status.code == Code.MESSAGE_BODY_EMPTY
    large = await running.stub.send("orders", b"x" * (4 * 1024 * 1024 + 1))
    assert large.status.code == Code.MESSAGE_BODY_TOO_LARGE
    assert not running.broker.messages_by_id(f"01{0:032X}")


async def test_one_request_has_messages_of_one_topic(running: Running) -> None:
    two = [message_of("a", b"1"), message_of("b", b"2", number=1)]
    assert await running.stub.code("SendMessage", SendMessageRequest()) == Code.MESSAGE_CORRUPTED
    request = SendMessageRequest(messages=two)
    assert await running.stub.code("SendMessage", request) == Code.MESSAGE_CORRUPTED


@pytest.mark.parametrize("packed", [gzip.compress, zlib.compress], ids=["gzip", "zlib"])
async def test_a_compressed_body_is_stored_as_what_it_was(running: Running, packed: Any) -> None:
    body = b"long and dull " * 5000
    answer = await running.stub.send("orders", packed(body), body_encoding=BodyEncoding.GZIP)
    assert answer.status.code == Code.OK
    assert running.broker.messages_by_id(f"01{0:032X}")[0].body == body


async def test_a_broken_or_exploding_body_is_refused(running: Running) -> None:
    for body, code in (
        (b"no gzip", Code.MESSAGE_CORRUPTED),
        (gzip.compress(b"x" * 1000)[:-12], Code.MESSAGE_CORRUPTED),
        (gzip.compress(bytes(5 * 1024 * 1024)), Code.MESSAGE_BODY_TOO_LARGE),
    ):
        answer = await running.stub.send("orders", body, body_encoding=BodyEncoding.GZIP)
        assert answer.status.code == code


async def test_a_topic_takes_messages_of_its_own_type_only(running: Running) -> None:
    for kind in ("NORMAL", "FIFO", "DELAY", "TRANSACTION"):
        await make_topic(running, kind.lower(), kind)
    kinds: dict[str, dict[str, Any]] = {
        "normal": {},
        "fifo": {"message_group": "g"},
        "delay": {"deliver_at_s": running.clock.now_ms() // 1000 + 60},
        "transaction": {"message_type": MessageType.TRANSACTION},
    }
    for topic in kinds:
        for kind, system in kinds.items():
            answer = await running.stub.send(topic, b"x", **system)
            fits = Code.OK if kind == topic else Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
            assert answer.status.code == fits, (topic, kind, answer.status)


async def test_a_topic_made_at_its_first_message_takes_all_types(running: Running) -> None:
    await running.stub.send("made", b"1")
    assert (await running.stub.send("made", b"2", message_group="g")).status.code == Code.OK


async def test_a_setting_lets_automatic_topics_be_checked_too(open_endpoint: Any) -> None:
    async with open_endpoint(grpc_check_automatic_topics=True) as running:
        answer = await running.stub.send("made", b"2", message_group="g")
        assert answer.status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE


async def test_without_automatic_topics_an_unknown_one_is_not_found(open_endpoint: Any) -> None:
    async with open_endpoint(auto_create_topics=False) as running:
        assert (await running.stub.send("nowhere", b"x")).status.code == Code.TOPIC_NOT_FOUND
        answer = await running.stub.route("nowhere")
        assert answer.status.code == Code.TOPIC_NOT_FOUND
        assert answer.status.message == (
            "CODE: 17  DESC: No topic route info in name server for the topic: nowhere"
        )


async def test_a_delayed_message_can_be_recalled_once_and_is_never_delivered(
    running: Running,
) -> None:
    due_s = running.clock.now_ms() // 1000 + 60
    answer = await running.stub.send("later", b"x", deliver_at_s=due_s)
    handle = answer.entries[0].recall_handle
    request = RecallMessageRequest(topic=Resource(name="later"), recall_handle=handle)
    recalled = await running.stub.ok("RecallMessage", request)
    assert recalled.message_id == answer.entries[0].message_id
    running.advance(120)
    assert await running.stub.receive("g", "later") == []
    entries = await running.app.services.audit.entries(limit=5, name=recalled.message_id)
    assert [(entry.action, entry.result) for entry in entries] == [("message.recall", "done")]


async def test_a_recall_that_comes_too_late_or_for_nothing_says_so(running: Running) -> None:
    due_s = running.clock.now_ms() // 1000 + 60
    handle = (await running.stub.send("later", b"x", deliver_at_s=due_s)).entries[0].recall_handle
    running.advance(120)
    late = RecallMessageRequest(topic=Resource(name="later"), recall_handle=handle)
    assert await running.stub.code("RecallMessage", late) == Code.PRECONDITION_FAILED
    other = RecallMessageRequest(topic=Resource(name="other"), recall_handle=handle)
    assert await running.stub.code("RecallMessage", other) == Code.BAD_REQUEST
    junk = RecallMessageRequest(topic=Resource(name="later"), recall_handle="junk")
    assert await running.stub.code("RecallMessage", junk) == Code.BAD_REQUEST


async def test_a_transaction_is_seen_once_it_is_committed(running: Running) -> None:
    system = {"message_type": MessageType.TRANSACTION}
    for number, resolution in ((1, 1), (2, 2)):
        sent = await running.stub.send("orders", b"%d" % number, number=number, **system)
        assert await running.stub.receive("g", "orders") == []
        request = EndTransactionRequest(
            topic=Resource(name="orders"),
            message_id=sent.entries[0].message_id,
            transaction_id=sent.entries[0].transaction_id,
            resolution=resolution,
        )
        await running.stub.ok("EndTransaction", request)
        await running.stub.ok("EndTransaction", request)  # the same again is the same
        got = await running.stub.receive("g", "orders")
        assert [message.body for message in got] == ([b"1"] if number == 1 else [])
    request.resolution = 1
    assert await running.stub.code("EndTransaction", request) == Code.PRECONDITION_FAILED
    request.transaction_id = "nobody"
    assert await running.stub.code("EndTransaction", request) == Code.INVALID_TRANSACTION_ID
    request.transaction_id = ""
    assert await running.stub.code("EndTransaction", request) == Code.INVALID_TRANSACTION_ID


async def test_a_body_that_is_empty_once_inflated_is_refused_as_empty(running: Running) -> None:
    for body in (gzip.compress(b""), zlib.compress(b"")):
        answer = await running.stub.send("orders", body, body_encoding=BodyEncoding.GZIP)
        assert answer.status.code == Code.MESSAGE_BODY_EMPTY


async def test_an_encoding_that_is_not_served_is_refused_and_nothing_stored(
    running: Running,
) -> None:
    answer = await running.stub.send("orders", b"packed", body_encoding=7)
    assert answer.status.code == Code.UNSUPPORTED
    assert not running.broker.messages_by_id(f"01{0:032X}")
    plain = await running.stub.send("orders", b"plain", body_encoding=BodyEncoding.IDENTITY)
    assert plain.status.code == Code.OK


@pytest.mark.parametrize(
    ("version", "code"),
    [
        ("5.0.0", Code.BAD_REQUEST),
        ("5.0.7", Code.BAD_REQUEST),
        ("5.0.8", Code.MESSAGE_BODY_EMPTY),
        ("", Code.MESSAGE_BODY_EMPTY),
    ],
)
async def test_a_java_client_is_told_no_code_that_it_cannot_parse(
    running: Running, version: str, code: Code
) -> None:
    """It throws at the number itself, so that nobody would see the reason."""
    java = running.stub.named("java", x_mq_language="JAVA", x_mq_client_version=version)
    refused = await java.send("orders", b"")
    assert refused.status.code == code
    assert "no body" in refused.status.message


async def test_another_client_is_told_every_code(running: Running) -> None:
    go = running.stub.named("go", x_mq_language="GO", x_mq_client_version="5.0.0")
    assert (await go.send("orders", b"")).status.code == Code.MESSAGE_BODY_EMPTY


async def test_a_body_of_the_largest_size_is_taken_with_full_properties_beside_it(
    running: Running,
) -> None:
    body = bytes(BODY_BYTES_MAX)
    properties = {"p": "x" * (15 * 1024)}
    assert (await running.stub.send("orders", body, properties=properties)).status.code == Code.OK
    (stored,) = running.broker.messages_by_id(f"01{0:032X}")
    assert (len(stored.body), stored.properties["p"]) == (BODY_BYTES_MAX, properties["p"])
