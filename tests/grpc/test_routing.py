"""QueryRoute, QueryAssignment, pulling and offsets, namespaces, over a raw stub."""

from typing import Any

import pytest

from protocol.rocketmq.messages import (
    METHODS,
    GetOffsetRequest,
    MessageQueue,
    PullMessageRequest,
    QueryAssignmentRequest,
    QueryOffsetRequest,
    QueryRouteRequest,
    Resource,
    SendMessageRequest,
    SyncLiteSubscriptionRequest,
    UpdateOffsetRequest,
)
from protocol.rocketmq.numbers import (
    AddressScheme,
    Code,
    MessageType,
    Permission,
    QueryOffsetPolicy,
)
from tests.grpc.endpoint import Running, Stub, message_of

pytestmark = pytest.mark.anyio


def queue_of(topic: str, number: int = 0) -> Any:
    return MessageQueue(topic=Resource(name=topic), id=number)


async def listed_types(stub: Stub, topic: str) -> list[int]:
    return list((await stub.route(topic)).message_queues[0].accept_message_types)


async def test_a_route_leads_back_to_the_address_that_was_called(running: Running) -> None:
    request = QueryRouteRequest(topic=Resource(name="orders"))
    request.endpoints.scheme = AddressScheme.DOMAIN_NAME
    request.endpoints.addresses.add(host="kite.example.org", port=18081)
    answer = await running.stub.ok("QueryRoute", request)
    assert [queue.id for queue in answer.message_queues] == [0, 1, 2, 3]
    for queue in answer.message_queues:
        assert queue.broker.endpoints == request.endpoints
        assert (queue.broker.name, queue.broker.id) == ("kitemq", 0)
        assert queue.permission == Permission.READ_WRITE
        assert queue.topic.name == "orders"


async def test_who_does_not_say_where_he_called_is_led_to_where_he_arrived(
    running: Running,
) -> None:
    answer = await running.stub.route("orders")
    (address,) = answer.message_queues[0].broker.endpoints.addresses
    assert f"{address.host}:{address.port}" == running.port.address


async def test_a_setting_names_the_addresses_to_be_called(open_endpoint: Any) -> None:
    async with open_endpoint(grpc_advertised=("kite-1.example.org:80", "10.0.0.7:81")) as running:
        endpoints = (await running.stub.route("orders")).message_queues[0].broker.endpoints
        assert endpoints.scheme == AddressScheme.DOMAIN_NAME
        shown = [(address.host, address.port) for address in endpoints.addresses]
        assert shown == [("kite-1.example.org", 80), ("10.0.0.7", 81)]


@pytest.mark.parametrize("kind", ["NORMAL", "FIFO", "DELAY", "TRANSACTION"])
async def test_a_route_says_which_messages_a_topic_takes(running: Running, kind: str) -> None:
    await running.http.post("/api/v1/topics", json={"name": "t", "type": kind})
    newest = running.stub.named("newest", x_mq_language="JAVA", x_mq_client_version="5.2.0")
    expected = [MessageType[kind]] + ([MessageType.PRIORITY] if kind == "NORMAL" else [])
    assert await listed_types(newest, "t") == expected


BEFORE_PRIORITY = [
    ("JAVA", "5.0.0"),
    ("JAVA", "5.0.8"),
    ("JAVA", "5.1.0"),
    ("JAVA", "5.2.0-SNAPSHOT"),
    ("JAVA", ""),
    ("JAVA", "unknown"),
    ("DOTNET", "5.1.0"),
    ("DOTNET", "5.2.0-rc1+0123abcd"),
    ("", ""),
    ("COBOL", "9.9.9"),
]
KNOW_PRIORITY = [
    ("JAVA", "5.2.0"),
    ("JAVA", "5.10.1"),
    ("JAVA", "6.0.0"),
    ("DOTNET", "5.2.1+0123abcd"),
    ("GO", "5.0.0"),  # these keep any number, and some name a version that is not theirs
    ("CPP", "5.0.0"),
    ("RUST", "5.0.0"),
    ("PYTHON", "5.0.1"),
    ("HTTP", "1.0.0"),  # what Node calls itself
]


@pytest.mark.parametrize(("language", "version"), BEFORE_PRIORITY)
async def test_a_route_names_no_type_that_its_client_cannot_parse(
    running: Running, language: str, version: str
) -> None:
    await running.http.post("/api/v1/topics", json={"name": "normal"})
    old = running.stub.named("old", x_mq_language=language, x_mq_client_version=version)
    first_four = [MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION]
    assert await listed_types(old, "normal") == [MessageType.NORMAL]
    assert await listed_types(old, "automatic") == first_four
    request = QueryAssignmentRequest(topic=Resource(name="normal"), group=Resource(name="g"))
    (assigned,) = (await old.ok("QueryAssignment", request)).assignments
    assert list(assigned.message_queue.accept_message_types) == [MessageType.NORMAL]


@pytest.mark.parametrize(("language", "version"), KNOW_PRIORITY)
async def test_a_route_names_every_type_that_its_client_knows(
    running: Running, language: str, version: str
) -> None:
    await running.http.post("/api/v1/topics", json={"name": "normal"})
    new = running.stub.named("new", x_mq_language=language, x_mq_client_version=version)
    assert await listed_types(new, "normal") == [MessageType.NORMAL, MessageType.PRIORITY]
    assert MessageType.PRIORITY in await listed_types(new, "automatic")


async def test_a_topic_takes_priorities_whatever_its_route_said(running: Running) -> None:
    await running.http.post("/api/v1/topics", json={"name": "normal"})
    assert (await running.stub.send("normal", b"1", priority=3)).status.code == Code.OK


async def test_asking_for_a_route_creates_nothing(running: Running) -> None:
    await running.stub.route("orders")
    assert running.broker.topics() == []


async def test_a_wrong_or_reserved_topic_has_no_route(running: Running) -> None:
    for name in ("", "a b", "x" * 128, "SCHEDULE_TOPIC_XXXX", "rmq_sys_kite_trace"):
        answer = await running.stub.route(name)
        assert answer.status.code in (Code.ILLEGAL_TOPIC, Code.TOPIC_NOT_FOUND), name
        assert not answer.message_queues


async def test_queues_that_cannot_be_written_are_marked(running: Running) -> None:
    made = {"name": "t", "read_queues": 3, "write_queues": 2}
    assert (await running.http.post("/api/v1/topics", json=made)).status_code == 201
    shown = [queue.permission for queue in (await running.stub.route("t")).message_queues]
    assert shown == [Permission.READ_WRITE, Permission.READ_WRITE, Permission.READ]
    running.broker.change_topic("t", permission=0)
    shown = [queue.permission for queue in (await running.stub.route("t")).message_queues]
    assert shown == [Permission.NONE]


async def test_a_push_consumer_gets_one_assignment_for_all_queues(running: Running) -> None:
    request = QueryAssignmentRequest(topic=Resource(name="orders"), group=Resource(name="g"))
    answer = await running.stub.ok("QueryAssignment", request)
    assert [each.message_queue.id for each in answer.assignments] == [-1]
    await running.stub.send("orders", b"1")
    running.broker.change_topic("orders", permission=2)
    assert await running.stub.code("QueryAssignment", request) == Code.FORBIDDEN


async def test_a_pulling_client_reads_from_its_own_place(running: Running) -> None:
    await running.stub.send("orders", b"1", b"2")
    queue = running.broker.messages_by_id(f"01{0:032X}")[0].queue
    request = PullMessageRequest(
        group=Resource(name="g"), message_queue=queue_of("orders", queue), batch_size=8
    )
    request.long_polling_timeout.SetInParent()
    answers = [each async for each in running.stub.begin("PullMessage", request)]
    kinds = [each.WhichOneof("content") for each in answers]
    assert kinds == ["status", "message", "message", "next_offset"]
    assert answers[-1].next_offset == 2
    request.offset = 2
    answers = [each async for each in running.stub.begin("PullMessage", request)]
    assert answers[0].status.code == Code.MESSAGE_NOT_FOUND
    request.offset = 9
    answers = [each async for each in running.stub.begin("PullMessage", request)]
    assert answers[0].status.code == Code.ILLEGAL_OFFSET
    assert answers[-1].next_offset == 2


async def test_a_pulling_client_keeps_its_offset_with_us(running: Running) -> None:
    await running.stub.send("orders", b"1", b"2")
    place = {"group": Resource(name="g"), "message_queue": queue_of("orders", 0)}
    pull = PullMessageRequest(**place, batch_size=1)
    pull.long_polling_timeout.SetInParent()
    _ = [each async for each in running.stub.begin("PullMessage", pull)]
    assert await running.stub.code("GetOffset", GetOffsetRequest(**place)) == Code.OFFSET_NOT_FOUND
    await running.stub.ok("UpdateOffset", UpdateOffsetRequest(**place, offset=1))
    assert (await running.stub.ok("GetOffset", GetOffsetRequest(**place))).offset == 1
    for wrong in (-1, 3, 2**62):  # the queue has two messages
        request = UpdateOffsetRequest(**place, offset=wrong)
        assert await running.stub.code("UpdateOffset", request) == Code.ILLEGAL_OFFSET
    assert (await running.stub.ok("GetOffset", GetOffsetRequest(**place))).offset == 1
    nowhere = UpdateOffsetRequest(group=Resource(name="g"), message_queue=queue_of("orders", 99))
    assert await running.stub.code("UpdateOffset", nowhere) == Code.NOT_FOUND


async def test_offsets_are_found_by_place_and_by_time(running: Running) -> None:
    await running.stub.send("orders", b"1")
    queue = running.broker.messages_by_id(f"01{0:032X}")[0].queue
    later_s = running.clock.now_ms() // 1000 + 10
    request = QueryOffsetRequest(message_queue=queue_of("orders", queue))
    request.timestamp.seconds = later_s
    found = {}
    for policy in QueryOffsetPolicy:
        request.query_offset_policy = policy
        found[policy.name] = (await running.stub.ok("QueryOffset", request)).offset
    assert found == {"BEGINNING": 0, "END": 1, "TIMESTAMP": 1}
    request.message_queue.id = 99
    assert await running.stub.code("QueryOffset", request) == Code.NOT_FOUND


async def test_a_namespace_is_part_of_the_name_wherever_it_is_given(running: Running) -> None:
    """One client fills the header, another one the resource, a third one both."""
    by_header = running.stub.named("h", x_mq_namespace="ns")
    request = SendMessageRequest(messages=[message_of("orders", b"1", namespace="ns")])
    await running.stub.ok("SendMessage", request)
    assert [topic.name for topic in running.broker.topics()] == ["ns%orders"]
    (got,) = await by_header.receive("g", "orders")
    assert (got.topic.resource_namespace, got.topic.name) == ("ns", "orders")
    assert [group.name for group in running.broker.groups()] == ["ns%g"]
    assert await running.stub.code("QueryRoute", route_of("orders", "n s")) == Code.BAD_REQUEST


async def test_lite_topics_are_not_offered_and_every_other_method_is_answered(
    running: Running,
) -> None:
    unsupported = await running.stub.code("SyncLiteSubscription", SyncLiteSubscriptionRequest())
    assert unsupported == Code.UNSUPPORTED
    for method in METHODS.values():
        if not (method.is_client_stream or method.is_server_stream):
            assert (await running.stub.ask(method.name, method.request())).status.code != 0


def route_of(topic: str, namespace: str) -> Any:
    return QueryRouteRequest(topic=Resource(name=topic, resource_namespace=namespace))
