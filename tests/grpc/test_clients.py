"""A client's own page and its REST twin: its stack, a message to process, sending it away."""

import asyncio
import json
import math
from typing import Any

import grpc.aio
import httpx
import pytest

from app.grpc import clients as grpc_clients
from app.grpc.client_directory import GrpcClientDirectory
from app.services import clients
from app.services.connections import NO_STREAM, ClientFacts
from protocol.rocketmq.messages import TelemetryCommand
from protocol.rocketmq.numbers import ClientType, Code
from tests.grpc.endpoint import CLIENT, Running
from tests.grpc.test_telemetry import consumer_settings, heartbeat, producer_settings, told

pytestmark = pytest.mark.anyio
STACK = "main <waits>\n  at poll()"


async def answering(stream: Any, code: Code = Code.OK, most: float = math.inf) -> None:
    """Answer so many questions to a client, or until its stream ends.

    Who reads a stream and is cancelled ends the stream as well.
    """
    count = 0
    while count < most and (command := await stream.read()) is not grpc.aio.EOF:
        count += 1
        answer = TelemetryCommand()
        if command.WhichOneof("command") == "print_thread_stack_trace_command":
            answer.thread_stack_trace.nonce = command.print_thread_stack_trace_command.nonce
            answer.thread_stack_trace.thread_stack_trace = STACK
        else:
            answer.verify_message_result.nonce = command.verify_message_command.nonce
            answer.status.code = code
            answer.status.message = command.verify_message_command.message.body.decode()
        await stream.write(answer)


async def post(running: Running, path: str, body: dict[str, Any]) -> httpx.Response:
    return await running.http.post(f"/api/v1{path}", json=body)


async def audit_of(running: Running, name: str) -> list[dict[str, Any]]:
    found = await running.http.get("/api/v1/audit", params={"limit": "10"})
    return [each for each in found.json()["items"] if each["object_name"] == name]


def to_verify(**changes: Any) -> dict[str, Any]:
    return {"client": CLIENT, "topic": "orders", "queue": 0, "offset": "0"} | changes


async def test_the_page_of_a_client_tells_what_it_reported_and_what_it_does(
    running: Running,
) -> None:
    await running.stub.send("orders", b"1", b"2")
    await told(running.stub, consumer_settings("g", "orders"))
    (one, __) = await running.stub.receive("g", "orders", auto_renew=True)
    running.clock.advance(0.25)
    await running.stub.ack("g", "orders", one.system_properties.receipt_handle)
    page = (await running.http.get(f"/clients/{CLIENT}", params={"format": "json"})).json()
    assert (page["language"], page["version"], page["kind"]) == ("JAVA", "9.9", "push consumer")
    client = page["client"]
    (endpoint,) = client["endpoints"]
    assert endpoint["endpoint"] == "gRPC"
    assert ["subscription.group.name", "g"] in endpoint["settings"]
    assert client["memberships"][0]["in_flight"] == 1
    activity = page["activity"]
    assert (activity["handed"], activity["sent"], activity["failed"]) == (2, 2, 0)
    assert activity["processing_p99_ms"] == 250
    assert activity["acked_ms"] == running.clock.now_ms()
    assert client["why_no_stack"] == ""


async def test_a_stack_is_asked_for_shown_as_text_and_audited(running: Running) -> None:
    stream, _ = await told(running.stub, consumer_settings("g", "orders"))
    task = asyncio.ensure_future(answering(stream))
    found = (await post(running, "/clients/stack", {"client": CLIENT})).json()
    assert (found["answer"], found["text"], found["is_cut"]) == ("answered", STACK, False)
    origin = {"origin": "http://127.0.0.1:8080"}
    page = await running.http.post("/client/stack", data={"client": CLIENT}, headers=origin)
    assert page.status_code == 200
    assert "main &lt;waits&gt;" in page.text
    assert [each["action"] for each in await audit_of(running, CLIENT)] == ["client.stack"] * 2
    task.cancel()


async def test_a_stack_is_cut_and_a_silent_client_is_told_as_such(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "STACK_CHARS_MAX", 4)
    stream, _ = await told(running.stub, consumer_settings("g", "orders"))
    task = asyncio.ensure_future(answering(stream, most=1))
    cut = (await post(running, "/clients/stack", {"client": CLIENT})).json()
    assert (cut["text"], cut["is_cut"]) == ("main", True)
    await task
    monkeypatch.setattr(clients, "ASK_S", 0.05)
    silent = (await post(running, "/clients/stack", {"client": CLIENT})).json()
    assert (silent["answer"], silent["text"]) == ("no_answer", "")
    assert "did not answer within 0.05 s" in silent["detail"]


async def test_a_client_with_too_many_questions_cannot_be_asked_just_now(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_clients, "QUESTIONS_MAX", 0)
    await told(running.stub, consumer_settings("g", "orders"))
    busy = await post(running, "/clients/stack", {"client": CLIENT})
    assert (busy.status_code, busy.json()["code"]) == (503, "client_not_reachable")
    (entry,) = await audit_of(running, CLIENT)
    assert entry["result"] == "client_not_reachable"
    origin = {"origin": "http://127.0.0.1:8080"}
    page = await running.http.post("/client/stack", data={"client": CLIENT}, headers=origin)
    assert (page.status_code, "cannot be asked just now" in page.text) == (200, True)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (Code.OK, "consumed"),
        (Code.FAILED_TO_CONSUME_MESSAGE, "failed"),
        (Code.NOT_IMPLEMENTED, "not_offered"),
    ],
)
async def test_a_client_processes_one_message_apart_from_its_delivery(
    running: Running, code: Code, verdict: str
) -> None:
    await running.stub.send("orders", b"only this")
    place = running.broker.messages_by_id(f"01{0:032X}")[0]
    stream, _ = await told(running.stub, consumer_settings("g", "orders"))
    task = asyncio.ensure_future(answering(stream, code))
    asked = to_verify(queue=place.queue, offset=str(place.offset))
    before = running.broker.lag("g").count if running.broker.lag("g").queues else 0
    found = (await post(running, "/groups/g/members/verify", asked)).json()
    assert (found["verdict"], found["code"]) == (verdict, code.name)
    assert found["detail"] == "only this"
    assert found["message_id"] == place.message_id
    assert (running.broker.lag("g").count if before else 0) == before
    (entry,) = await audit_of(running, CLIENT)
    assert entry["action"] == "client.verify"
    origin = {"origin": "http://127.0.0.1:8080"}
    path = f"/messages/orders/{place.queue}/{place.offset}/verify"
    assert f'value="{CLIENT}" checked' in (await running.http.get(path + "?group=g")).text
    form = {"client": CLIENT, "group": "g"}
    page = await running.http.post(path, data=form, headers=origin)
    assert (page.status_code, code.name in page.text) == (200, True)
    task.cancel()


async def test_nodes_way_to_decline_is_an_answer(running: Running) -> None:
    await running.stub.send("orders", b"1")
    place = running.broker.messages_by_id(f"01{0:032X}")[0]
    stream, _ = await told(running.stub, consumer_settings("g", "orders"))

    async def decline() -> None:
        command = await stream.read()
        answer = TelemetryCommand()
        answer.verify_message_command.nonce = command.verify_message_command.nonce
        answer.status.code = Code.NOT_IMPLEMENTED
        await stream.write(answer)

    task = asyncio.ensure_future(decline())
    asked = to_verify(queue=place.queue, offset=str(place.offset))
    found = (await post(running, "/groups/g/members/verify", asked)).json()
    assert found["verdict"] == "not_offered"
    await task


async def test_who_cannot_be_asked_is_told_with_the_reason(running: Running) -> None:
    await running.stub.send("orders", b"1")
    place = running.broker.messages_by_id(f"01{0:032X}")[0]
    asked = to_verify(queue=place.queue, offset=str(place.offset))
    await running.stub.ok("Heartbeat", heartbeat(ClientType.SIMPLE_CONSUMER, "g"))
    closed = await post(running, "/clients/stack", {"client": CLIENT})
    assert (closed.status_code, closed.json()["code"]) == (409, "not_offered")
    assert "telemetry stream" in closed.json()["detail"]
    settings = consumer_settings("g", "orders")
    settings.client_type = ClientType.SIMPLE_CONSUMER
    await told(running.stub, settings)
    simple = await post(running, "/groups/g/members/verify", asked)
    assert (simple.status_code, "push consumers" in simple.json()["detail"]) == (409, True)
    member = {"client": "w1", "topics": {"orders": "*"}}
    await post(running, "/groups/g/members/heartbeat", member)
    rest = await post(running, "/groups/g/members/verify", asked | {"client": "w1"})
    assert (rest.status_code, "no open connection" in rest.json()["detail"]) == (409, True)
    stranger = await post(running, "/groups/g/members/verify", asked | {"client": "nobody"})
    assert (stranger.status_code, stranger.json()["code"]) == (404, "client_not_found")
    await running.http.post("/api/v1/groups", json={"name": "other"})
    outside = await post(running, "/groups/other/members/verify", asked)
    assert "no member of the group 'other'" in outside.json()["detail"]


async def test_a_client_that_is_disconnected_gives_back_what_it_held(running: Running) -> None:
    await running.stub.send("orders", b"1", b"2")
    stream, _ = await told(running.stub, consumer_settings("g", "orders"))
    assert len(await running.stub.receive("g", "orders", auto_renew=True)) == 2
    page = await running.http.get("/client/disconnect", params={"client": CLIENT})
    assert "2 messages in flight are redelivered within a second" in page.text
    done = (await post(running, "/clients/disconnect", {"client": CLIENT})).json()
    assert done == {"client": CLIENT, "connections": 1, "groups": ["g"], "returned": 2, "kept": 0}
    with pytest.raises((grpc.aio.AioRpcError, AssertionError)):
        assert await stream.read() is not grpc.aio.EOF
    assert running.broker.members.of("g") == []
    assert running.app.services.connections.all() == []
    (entry,) = await audit_of(running, CLIENT)
    assert entry["action"] == "client.disconnect"
    assert json.loads(entry["before_json"])["in_flight"] == {"g": 2}
    after = {"connections": 1, "returned": 2, "kept": 0}
    assert json.loads(entry["after_json"]) == after
    running.advance(600)  # the waits of the retries, too
    again = await running.stub.named("test@2@0@x").receive("g", "orders", auto_renew=True)
    assert sorted(each.body for each in again) == [b"1", b"2"]
    assert {each.system_properties.delivery_attempt for each in again} == {2}
    gone = await post(running, "/clients/disconnect", {"client": CLIENT})
    assert gone.status_code == 404


async def test_the_clients_of_a_large_group_are_looked_up_one_by_one(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the page of thousands would hold up everybody."""
    for number in range(3):
        await running.stub.named(f"c{number}").ok(
            "Heartbeat", heartbeat(ClientType.PUSH_CONSUMER, "g")
        )
    asked: list[str] = []
    find = GrpcClientDirectory.find

    def counted(reach: GrpcClientDirectory, client: str) -> ClientFacts | None:
        asked.append(client)
        return find(reach, client)

    monkeypatch.setattr(GrpcClientDirectory, "find", counted)
    offers = await running.app.services.clients.offers("g")
    first = next(offers)
    assert (first.name, first.why_no_verify, asked) == ("c0", NO_STREAM, ["c0"])
    assert [each.name for each in offers] == ["c1", "c2"]
    assert asked == ["c0", "c1", "c2"]
    assert list(await running.app.services.clients.offers("none")) == []


async def test_a_connection_that_others_share_stays(running: Running) -> None:
    await told(running.stub, producer_settings("orders"))
    other, _ = await told(running.stub.named("other@1"), consumer_settings("g", "orders"))
    task = asyncio.ensure_future(answering(other))
    done = (await post(running, "/clients/disconnect", {"client": CLIENT})).json()
    assert (done["connections"], done["groups"]) == (1, [])
    found = (await post(running, "/clients/stack", {"client": "other@1"})).json()
    assert found["text"] == STACK
    task.cancel()
