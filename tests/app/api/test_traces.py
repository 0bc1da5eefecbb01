"""Journeys over REST, through the SDK and on the command line."""

import pytest

from tests.app.conftest import App, Starter

pytestmark = pytest.mark.anyio


async def consumed(app: App, **sent: object) -> str:
    """A message that was received and acknowledged; its id."""
    (message,) = await app.send("orders", "x", queue=0, **sent)
    (delivery,) = await app.receive("g", "orders", client="c1")
    await app.post("/groups/g/ack", {"receipts": [delivery["receipt"]]})
    return str(message["message_id"])


async def test_a_journey_tells_each_stage_and_how_each_group_stands(running: App) -> None:
    message_id = await consumed(running)
    journey = await running.get(f"/messages/{message_id}/journey")
    assert [(each["name"], each["outcome"]) for each in journey["stages"]] == [
        ("produce", "stored"),
        ("store", "stored"),
        ("wait", "delivered"),
        ("delivery", "acked"),
    ]
    delivery = journey["stages"][-1]
    assert (delivery["group"], delivery["client"], delivery["attempt"]) == ("g", "c1", 1)
    assert (delivery["topic"], delivery["queue"], delivery["offset"]) == ("orders", 0, "0")
    assert journey["stages"][0]["offset"] is None
    assert [(each["group"], each["state"]) for each in journey["groups"]] == [("g", "done")]
    assert (journey["message_id"], journey["topic"]) == (message_id, "orders")
    assert journey["complete"] is True


async def test_what_is_not_known_is_an_empty_journey_with_its_reasons(running: App) -> None:
    journey = await running.get("/messages/nobody-has-this/journey")
    assert journey["stages"] == []
    assert {each["code"] for each in journey["reasons_checked"]} == {
        "retention",
        "kind_of_id",
        "not_indexed",
        "tracing_off",
        "dropped",
    }


async def test_an_id_that_is_too_long_is_named(running: App) -> None:
    problem = await running.get(f"/messages/{'x' * 300}/journey", 422)
    assert problem["errors"][0]["field"] == "id"


async def test_a_refused_send_is_in_the_journey_of_its_id(running: App) -> None:
    await running.post("/topics", {"name": "closed", "permission": 4}, 201)
    message = {"body": "x", "id": "C0FFEE"}
    await running.post("/topics/closed/messages", {"messages": [message]}, 403)
    journey = await running.get("/messages/C0FFEE/journey")
    assert [(each["name"], each["detail"]) for each in journey["stages"]] == [
        ("refused", "forbidden")
    ]


async def test_the_status_and_the_metrics_count_what_was_traced(running: App) -> None:
    await consumed(running)
    running.advance(0.2)
    status = await running.get("/traces/status")
    assert (status["recorded"], status["dropped"], status["records"]) == (2, 0, 1)
    assert (status["sample"], status["kept_records"], status["refusal"]) == (1.0, 1, "")
    assert 0 < status["bytes"] < 1000
    page = (await running.http.get("/metrics")).text
    assert "kitemq_traces_recorded_total 2\n" in page
    assert "kitemq_traces_dropped_total 0\n" in page
    assert 'kitemq_messages_in_total{topic="rmq_sys_kite_trace"}' not in page


async def test_a_topic_is_traced_at_its_own_rate(running: App) -> None:
    created = await running.post("/topics", {"name": "orders", "trace_sample": 0.0}, 201)
    assert created["trace_sample"] == 0.0
    message_id = await consumed(running)
    journey = await running.get(f"/messages/{message_id}/journey")
    assert [each["code"] for each in journey["reasons_checked"] if each["applies"]] == [
        "tracing_off"
    ]
    answer = await running.http.patch("/api/v1/topics/orders", json={"trace_sample": None})
    assert answer.json()["trace_sample"] is None
    answer = await running.http.patch("/api/v1/topics/orders", json={"trace_sample": 2})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "trace_sample"


async def test_a_rate_that_is_no_share_refuses_to_start(start: Starter) -> None:
    with pytest.raises(Exception, match="trace_sample is 2"):
        async with start(trace_sample=2.0):
            pass
