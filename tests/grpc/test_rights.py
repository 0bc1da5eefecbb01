"""What becomes of settings that name what the caller has no right to."""

from typing import Any

import pytest

from protocol.rocketmq.messages import NotifyClientTerminationRequest, TelemetryCommand
from protocol.rocketmq.numbers import ClientLanguage, ClientType, Code
from tests.grpc.endpoint import Running, Stub
from tests.grpc.test_endpoint import PASSWORD, key_for, signed
from tests.grpc.test_telemetry import consumer_settings, producer_settings, told

pytestmark = pytest.mark.anyio
RIGHTS = ("produce:topic:tea-*", "consume:*:tea-*")
TOPICS = ("tea", "tea-orders", "coffee")


async def taster(running: Running) -> Stub:
    """A caller who may use what `RIGHTS` say; all of `TOPICS` are there."""
    made = await key_for(running, "operator", *RIGHTS)
    for name in TOPICS:
        answer = await running.http.post("/api/v1/topics", json={"name": name})
        assert answer.status_code == 201, answer.text
    return signed(running, made)


async def test_a_producer_keeps_its_stream_whatever_topics_its_settings_name(
    open_endpoint: Any,
) -> None:
    async with open_endpoint(admin_password=PASSWORD) as running:
        stub = await taster(running)
        stream, _ = await told(stub, producer_settings("tea-orders", "coffee"))
        await stream.write(TelemetryCommand(settings=producer_settings("coffee")))
        assert (await stream.read()).status.code == Code.OK
        refused = await stub.send("coffee", b"latte")
        assert refused.status.code == Code.FORBIDDEN
        assert "produce:topic:coffee" in refused.status.message
        assert (await stub.send("tea-orders", b"oolong", number=1)).status.code == Code.OK
        (client,) = running.grpc_server.backend.clients.all()
        assert list(client.asks) == ["tea-orders"]  # it is not asked about others' transactions


async def test_a_simple_consumer_is_refused_where_it_receives(open_endpoint: Any) -> None:
    async with open_endpoint(admin_password=PASSWORD) as running:
        stub = await taster(running)
        settings = consumer_settings("coffee", "coffee")
        settings.client_type = ClientType.SIMPLE_CONSUMER
        await told(stub, settings)
        (refused,) = await stub.received("coffee", "tea-orders")
        assert refused.status.code == Code.FORBIDDEN
        assert running.grpc_server.backend.clients.all()[0].groups == {}


@pytest.mark.parametrize(
    ("group", "topic", "right"),
    [
        ("coffee", "tea-orders", "consume:group:coffee"),
        ("tea-tasters", "coffee", "consume:topic:coffee"),
    ],
)
async def test_a_push_consumer_that_starts_is_refused_on_its_stream_and_at_its_next_route(
    open_endpoint: Any, group: str, topic: str, right: str
) -> None:
    """Java asks for the route again, and tells its program the answer."""
    async with open_endpoint(admin_password=PASSWORD) as running:
        stub = await taster(running)
        assert (await stub.route("tea-orders")).status.code == Code.OK
        stream = stub.begin("Telemetry")
        await stream.write(TelemetryCommand(settings=consumer_settings(group, topic)))
        refused = (await stream.read()).status
        assert (refused.code, right in refused.message) == (Code.FORBIDDEN, True)
        assert (await stub.route("tea-orders")).status == refused
        await told(stub, consumer_settings("tea-tasters", "tea-orders"))
        assert (await stub.route("tea-orders")).status.code == Code.OK


async def test_a_push_consumer_that_runs_keeps_its_stream(open_endpoint: Any) -> None:
    async with open_endpoint(admin_password=PASSWORD) as running:
        stub = await taster(running)
        stream, _ = await told(stub, consumer_settings("tea-tasters", "tea-orders"))
        await stream.write(TelemetryCommand(settings=consumer_settings("tea-tasters", "coffee")))
        assert (await stream.read()).status.code == Code.OK
        assert (await stub.route("tea-orders")).status.code == Code.OK
        await stub.ok("NotifyClientTermination", NotifyClientTerminationRequest())


@pytest.mark.parametrize(
    ("language", "version"), [(ClientLanguage.JAVA, "5.0.4"), (ClientLanguage.PYTHON, "5.1.2")]
)
async def test_a_push_consumer_that_hides_the_reason_starts_and_is_refused_where_it_receives(
    open_endpoint: Any, language: ClientLanguage, version: str
) -> None:
    async with open_endpoint(admin_password=PASSWORD) as running:
        stub = await taster(running)
        settings = consumer_settings("coffee", "tea-orders", language)
        settings.user_agent.version = version
        await told(stub, settings)
        (refused,) = await stub.received("coffee", "tea-orders")
        assert "consume:group:coffee" in refused.status.message


async def test_nobody_is_told_the_settings_of_a_group_without_a_right_to_it(
    open_endpoint: Any,
) -> None:
    async with open_endpoint(admin_password=PASSWORD) as running:
        stub = await taster(running)
        body = {"name": "coffee", "retry_max": 3}
        answer = await running.http.post("/api/v1/groups", json=body)
        assert answer.status_code == 201, answer.text
        settings = consumer_settings("coffee", "tea-orders")
        settings.client_type = ClientType.SIMPLE_CONSUMER
        _, answered = await told(stub, settings)
        assert answered.backoff_policy.max_attempts != 4
