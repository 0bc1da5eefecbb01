"""The telemetry stream, heartbeats, and what the server asks its clients."""

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest

from app.grpc.codes import GrpcRefusal
from app.grpc.shapes import to_wire
from app.grpc.telemetry import ask_stack, ask_verify
from engine.broker import Exponential, GroupConfig, Steps
from engine.message import BODY_BYTES_MAX
from protocol.rocketmq.messages import (
    EndTransactionRequest,
    HeartbeatRequest,
    NotifyClientTerminationRequest,
    Resource,
    Settings,
    TelemetryCommand,
)
from protocol.rocketmq.numbers import ClientLanguage, ClientType, Code, MessageType
from tests.grpc.endpoint import Running, Stub

pytestmark = pytest.mark.anyio
TRANSACTION = {"message_type": MessageType.TRANSACTION}


def producer_settings(*topics: str, language: ClientLanguage = ClientLanguage.JAVA) -> Any:
    told = Settings(client_type=ClientType.PRODUCER)
    told.user_agent.language = language
    told.publishing.topics.extend([Resource(name=topic) for topic in topics])
    told.publishing.SetInParent()
    return told


def consumer_settings(
    group: str, topic: str, language: ClientLanguage = ClientLanguage.JAVA
) -> Any:
    told = Settings(client_type=ClientType.PUSH_CONSUMER)
    told.user_agent.language, told.user_agent.version = language, "9.9"
    told.subscription.group.name = group
    entry = told.subscription.subscriptions.add()
    entry.topic.name = topic
    entry.expression.expression = "*"
    return told


async def told(stub: Stub, settings: Any) -> tuple[Any, Any]:
    """An open stream after its settings were answered, and the answer."""
    stream = stub.begin("Telemetry")
    await stream.write(TelemetryCommand(settings=settings))
    answer = await stream.read()
    assert answer.status.code == Code.OK
    return stream, answer.settings


async def test_a_producer_is_told_what_it_may_send_and_how_to_try_again(running: Running) -> None:
    _, settings = await told(running.stub, producer_settings("orders"))
    assert settings.publishing.max_body_size == BODY_BYTES_MAX
    assert settings.publishing.validate_message_type
    assert settings.backoff_policy.max_attempts == 3
    assert settings.backoff_policy.exponential_backoff.initial.nanos == 10_000_000
    assert not settings.metric.on


@pytest.mark.parametrize(
    "language", [each for each in ClientLanguage if each is not ClientLanguage.NODE_JS]
)
async def test_a_producer_is_told_the_largest_body_that_there_is(
    running: Running, language: ClientLanguage
) -> None:
    _, settings = await told(running.stub, producer_settings("orders", language=language))
    assert settings.publishing.max_body_size == BODY_BYTES_MAX


async def test_node_is_told_bodies_that_leave_room_in_its_own_channel(running: Running) -> None:
    node = producer_settings("orders", language=ClientLanguage.NODE_JS)
    _, settings = await told(running.stub, node)
    assert settings.publishing.max_body_size == BODY_BYTES_MAX - 64 * 1024


@pytest.mark.parametrize(
    ("language", "poll_s"),
    [
        (ClientLanguage.JAVA, 5),
        (ClientLanguage.GOLANG, 5),
        (ClientLanguage.RUST, 5),
        (ClientLanguage.DOT_NET, 5),
        (ClientLanguage.NODE_JS, 5),
        (ClientLanguage.PYTHON, 20),
        (ClientLanguage.CPP, 20),
    ],
)
async def test_who_waits_polls_out_at_its_end_is_told_short_ones(
    running: Running, language: ClientLanguage, poll_s: int
) -> None:
    _, settings = await told(running.stub, consumer_settings("g", "orders", language))
    assert settings.subscription.long_polling_timeout.seconds == poll_s


async def test_a_consumer_is_told_its_groups_schedule(running: Running) -> None:
    _, settings = await told(running.stub, consumer_settings("g", "orders"))
    assert settings.subscription.receive_batch_size == 32
    assert settings.subscription.long_polling_timeout.seconds == 5
    assert not settings.subscription.fifo
    assert settings.backoff_policy.max_attempts == 17
    waits = [wait.seconds for wait in settings.backoff_policy.customized_backoff.next]
    assert waits[:4] == [10, 30, 60, 120]


@pytest.mark.parametrize(
    ("language", "policy", "strategy"),
    [
        (ClientLanguage.JAVA, Exponential(), "exponential_backoff"),
        (ClientLanguage.JAVA, Steps((1000, 2000)), "customized_backoff"),
        (ClientLanguage.PYTHON, Exponential(), "customized_backoff"),
        (ClientLanguage.NODE_JS, Exponential(), "exponential_backoff"),
        (ClientLanguage.NODE_JS, Steps((1000, 2000)), "exponential_backoff"),
    ],
)
async def test_each_language_is_told_the_schedule_in_the_form_that_it_reads(
    running: Running, language: ClientLanguage, policy: Any, strategy: str
) -> None:
    running.broker.create_group(GroupConfig("g", retry_max=4, retry_policy=policy))
    _, settings = await told(running.stub, consumer_settings("g", "orders", language))
    assert settings.backoff_policy.max_attempts == 5
    assert settings.backoff_policy.WhichOneof("strategy") == strategy


@pytest.mark.parametrize(
    ("ordered", "topics", "is_fifo"),
    [
        (True, ["fifo"], True),
        (True, ["fifo", "fifo-2"], True),
        (True, ["orders"], False),
        (True, ["fifo", "orders"], False),
        (True, ["fifo", "nowhere"], False),
        (True, [], False),
        (False, ["fifo"], False),
    ],
)
async def test_an_ordered_group_is_told_to_keep_the_order_of_fifo_topics_alone(
    running: Running, ordered: bool, topics: list[str], is_fifo: bool
) -> None:
    for name in ("fifo", "fifo-2"):
        body = {"name": name, "type": "FIFO"}
        assert (await running.http.post("/api/v1/topics", json=body)).status_code == 201
    running.broker.create_group(GroupConfig("g", ordered=ordered))
    wanted = consumer_settings("g", "fifo")
    del wanted.subscription.subscriptions[:]
    for topic in topics:
        wanted.subscription.subscriptions.add(topic=Resource(name=topic))
    _, settings = await told(running.stub, wanted)
    assert settings.subscription.fifo is is_fifo


async def test_a_consumer_whose_group_will_create_itself_is_told_no_order(running: Running) -> None:
    body = {"name": "fifo", "type": "FIFO"}
    assert (await running.http.post("/api/v1/topics", json=body)).status_code == 201
    _, settings = await told(running.stub, consumer_settings("g", "fifo"))
    assert not settings.subscription.fifo


async def test_settings_without_a_purpose_end_the_stream_which_says_so(running: Running) -> None:
    stream = running.stub.begin("Telemetry")
    await stream.write(TelemetryCommand(settings=Settings(client_type=ClientType.PRODUCER)))
    assert (await stream.read()).status.code == Code.BAD_REQUEST
    with pytest.raises(grpc.aio.AioRpcError, match="neither publishing nor a subscription"):
        await stream.read()
    assert await stream.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_an_undecided_transaction_is_asked_of_its_producer(running: Running) -> None:
    stream, _ = await told(running.stub, producer_settings("orders"))
    sent = await running.stub.send("orders", b"half", tag="t", **TRANSACTION)
    running.advance(7)
    asked = (await stream.read()).recover_orphaned_transaction_command
    assert asked.transaction_id == sent.entries[0].transaction_id
    assert (asked.message.body, asked.message.topic.name) == (b"half", "orders")
    assert asked.message.system_properties.tag == "t"
    await running.stub.ok(
        "EndTransaction",
        EndTransactionRequest(
            topic=Resource(name="orders"),
            message_id=asked.message.system_properties.message_id,
            transaction_id=asked.transaction_id,
            resolution=1,
            source=2,
        ),
    )
    (got,) = await running.stub.receive("g", "orders")
    assert got.system_properties.message_type == MessageType.TRANSACTION


async def test_a_stream_without_settings_is_asked_by_what_its_client_sent(
    running: Running,
) -> None:
    """As a client does that opens it again after the server was started anew."""
    stream = running.stub.begin("Telemetry")
    sent = await running.stub.send("orders", b"half", **TRANSACTION)
    async with asyncio.timeout(30):
        while running.grpc_server.backend.clients.stream_count == 0:
            await asyncio.sleep(0.01)
    running.advance(7)
    asked = (await stream.read()).recover_orphaned_transaction_command
    assert asked.transaction_id == sent.entries[0].transaction_id


async def test_a_check_that_nobody_could_be_asked_waits_for_the_producer(running: Running) -> None:
    sent = await running.stub.send("orders", b"half", **TRANSACTION)
    running.advance(7)
    stream = running.stub.begin("Telemetry")
    await stream.write(TelemetryCommand(settings=producer_settings("orders")))
    first, second = await stream.read(), await stream.read()
    commands = {each.WhichOneof("command"): each for each in (first, second)}
    asked = commands["recover_orphaned_transaction_command"].recover_orphaned_transaction_command
    assert asked.transaction_id == sent.entries[0].transaction_id


async def test_a_client_tells_what_its_threads_do_and_verifies_a_message(running: Running) -> None:
    await running.stub.send("orders", b"1")
    stream, _ = await told(running.stub, consumer_settings("g", "orders"))
    backend = running.grpc_server.backend
    client = backend.clients.find("test@1@0@x")
    assert client is not None

    async def answers() -> None:
        stack = await stream.read()
        answer = TelemetryCommand()
        answer.thread_stack_trace.nonce = stack.print_thread_stack_trace_command.nonce
        answer.thread_stack_trace.thread_stack_trace = "main: waits"
        await stream.write(answer)
        verify = (await stream.read()).verify_message_command
        assert verify.message.body == b"1"
        answer = TelemetryCommand()
        answer.verify_message_result.nonce = verify.nonce
        answer.status.code = Code.FAILED_TO_CONSUME_MESSAGE
        await stream.write(answer)

    answering = asyncio.ensure_future(answers())
    assert await ask_stack(backend, client, 30) == "main: waits"
    message = to_wire(running.broker.messages_by_id(f"01{0:032X}")[0], "")
    verified = await ask_verify(backend, client, message, 30)
    assert verified.code == Code.FAILED_TO_CONSUME_MESSAGE
    await answering


async def test_who_has_no_stream_cannot_be_asked_and_who_does_not_answer_times_out(
    running: Running,
) -> None:
    await running.stub.ok("Heartbeat", heartbeat(ClientType.PUSH_CONSUMER, "g"))
    backend = running.grpc_server.backend
    client = backend.clients.all()[0]
    with pytest.raises(GrpcRefusal):
        await ask_stack(backend, client, 0.05)
    await told(running.stub, consumer_settings("g", "orders"))
    with pytest.raises(TimeoutError):
        await ask_stack(backend, client, 0.05)


@pytest.mark.parametrize("language", [ClientLanguage.JAVA, ClientLanguage.NODE_JS])
async def test_a_server_that_stops_tells_its_clients_to_connect_again(
    open_endpoint: Any, language: ClientLanguage
) -> None:
    """Node is not told: it connects again by itself, and would break by being told."""
    async with open_endpoint() as running:
        stream, _ = await told(running.stub, consumer_settings("g", "orders", language))
        await running.port.stop()
        if language is not ClientLanguage.NODE_JS:
            assert (await stream.read()).WhichOneof("command") == "reconnect_endpoints_command"
        assert await stream.read() is grpc.aio.EOF


async def test_a_second_stream_of_a_client_takes_the_place_of_the_first(running: Running) -> None:
    first, _ = await told(running.stub, producer_settings("orders"))
    second, _ = await told(running.stub, producer_settings("orders"))
    assert await first.read() is grpc.aio.EOF
    assert running.grpc_server.backend.clients.stream_count == 1
    second.cancel()


async def test_a_consumer_is_a_member_of_its_group_with_language_and_version(
    running: Running,
) -> None:
    await told(running.stub, consumer_settings("g", "orders", ClientLanguage.GOLANG))
    (member,) = running.broker.members.of("g")
    assert (member.client, member.language, member.version) == ("test@1@0@x", "GOLANG", "9.9")
    assert member.topics == {"orders": "*"}
    assert not member.is_pulling
    connections = running.app.services.connections
    (connected,) = connections.all()
    assert connections.count == 1
    assert (connected.endpoint, connected.about) == (
        "gRPC",
        "GOLANG 9.9, push consumer, telemetry; 17 attempts, polls of 5 s, batches of 32",
    )
    page = await running.http.get("/clients?format=json")
    assert "GOLANG" in page.text
    assert "test@1@0@x" in page.text


async def test_a_heartbeat_keeps_a_member_and_needs_a_known_kind(running: Running) -> None:
    for _ in range(10):
        await running.stub.ok("Heartbeat", heartbeat(ClientType.SIMPLE_CONSUMER, "g"))
        running.advance(20)
        assert [member.client for member in running.broker.members.of("g")] == [CLIENT]
    unknown = await running.stub.code("Heartbeat", HeartbeatRequest())
    assert unknown == Code.UNRECOGNIZED_CLIENT_TYPE


async def test_a_silent_client_is_forgotten_with_everything_that_was_kept_of_it(
    running: Running,
) -> None:
    stream, _ = await told(running.stub, producer_settings("orders"))
    assert running.app.services.transactions.producers.count("orders") == 1
    running.advance(100)  # its stream is open: it lives
    assert len(running.grpc_server.backend.clients) == 1
    stream.cancel()
    async with asyncio.timeout(30):
        while running.grpc_server.backend.clients.stream_count:
            await asyncio.sleep(0.01)
    running.advance(31)
    assert len(running.grpc_server.backend.clients) == 0
    assert running.app.services.transactions.producers.count("orders") == 0
    assert running.app.services.connections.all() == []


async def test_a_client_that_says_goodbye_as_its_transaction_is_stored_leaves_nothing_behind(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    messaging = running.grpc_server.backend.messaging
    send = messaging.send

    async def sent_by(*batch: Any) -> Any:
        done = await send(*batch)
        await running.stub.ok("NotifyClientTermination", NotifyClientTerminationRequest())
        return done

    monkeypatch.setattr(messaging, "send", sent_by)
    sent = await running.stub.send("orders", b"1", **TRANSACTION)
    assert sent.status.code == Code.OK
    assert len(running.grpc_server.backend.clients) == 0
    assert running.app.services.transactions.producers.count("orders") == 0


CLIENT = "test@1@0@x"


def heartbeat(kind: ClientType, group: str) -> Any:
    return HeartbeatRequest(group=Resource(name=group), client_type=kind)
