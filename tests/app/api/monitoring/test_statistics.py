"""Statistics and the history of lag over REST."""

import pytest

from tests.app.conftest import App, Starter

pytestmark = pytest.mark.anyio


async def some_traffic(app: App) -> None:
    await app.send("orders", *"abcdef", tag="paid")
    for delivery in await app.receive("billing", "orders", max=2, filter="paid"):
        await app.post("/groups/billing/ack", {"receipts": [delivery["receipt"]]})


async def test_the_broker_says_how_much_and_how_fast(running: App) -> None:
    await some_traffic(running)
    await running.http.post("/api/v1/topics/orders/messages", json={"messages": [{"body": ""}]})
    running.clock.advance(10)
    found = await running.get("/statistics")
    assert found["traffic"]["messages_in"] == {
        "total": 6,
        "second": 0.0,
        "minute": 0.6,
        "ten_minutes": 0.6,
        "day": 0.6,
    }
    assert found["traffic"]["messages_out"]["total"] == 2
    assert found["acked"]["total"] == 2
    assert found["refused_by_code"] == {"invalid_size": 1}
    assert found["put_latency"]["stored"]["recent"]["count"] == 1
    assert len(found["put_latency"]["stored"]["distribution"]) == 13
    assert found["message_size"]["max"] == 1
    assert found["lag_history"]["interval_s"] == 10.0


async def test_a_topic_and_a_group_say_it_for_themselves(running: App) -> None:
    await some_traffic(running)
    topic = await running.get("/topics/orders/statistics")
    assert topic["traffic"]["messages_in"]["total"] == 6
    assert sum(queue["traffic"]["messages_in"]["total"] for queue in topic["queues"]) == 6
    assert [(each["group"], each["acked"]["total"]) for each in topic["readers"]] == [
        ("billing", 2)
    ]
    group = await running.get("/groups/billing/statistics")
    assert group["messages_out"]["total"] == 2
    assert group["dead_by_reason"] == {}
    assert [each["topic"] for each in group["readers"]] == ["orders"]


async def test_an_unknown_topic_or_group_has_no_statistics(running: App) -> None:
    await running.get("/topics/nothing/statistics", 404)
    await running.get("/groups/nobody/statistics", 404)
    await running.get("/groups/nobody/lag/history", 404)


async def sampled(app: App, rounds: int) -> None:
    for _ in range(rounds):
        app.advance(10)


async def test_the_history_of_lag_has_points_and_gaps(running: App) -> None:
    await some_traffic(running)
    await sampled(running, 30)
    found = await running.get("/groups/billing/lag/history?from_ms=-600000&points=60")
    assert found["step_ms"] % 10_000 == 0
    assert len(found["points"]) <= 60
    seen = [point for point in found["points"] if point["samples"]]
    assert sum(point["samples"] for point in seen) == 30
    assert seen[-1]["count_max"] == 4
    assert seen[-1]["committed"] is not None
    gap = found["points"][0]
    assert gap == {
        **dict.fromkeys(gap),
        "at_ms": gap["at_ms"],
        "samples": 0,
    }


async def test_the_history_of_lag_is_there_after_a_restart(start: Starter) -> None:
    async with start() as app:
        await some_traffic(app)
        await sampled(app, 5)
        clock_ms = app.clock.now_ms()
    async with start() as app:
        app.clock.set_ms(clock_ms + 60_000)
        found = await app.get("/groups/billing/lag/history?topic=orders&from_ms=-300000")
        assert sum(point["samples"] for point in found["points"]) == 5


async def test_a_history_of_lag_that_makes_no_sense_is_refused(running: App) -> None:
    await some_traffic(running)
    for query, field in (
        ("queue=1", "topic"),
        ("from_ms=10&to_ms=5", "from_ms"),
        ("points=0", "points"),
    ):
        answer = await running.http.get(f"/api/v1/groups/billing/lag/history?{query}")
        assert answer.status_code in (400, 422)
        assert field in answer.text


async def test_lag_says_whether_it_counts_by_the_filter(running: App) -> None:
    await running.send("orders", "a", "b", tag="paid")
    await running.send("orders", "c", tag="open")
    await running.receive("billing", "orders", filter="open")
    lag = await running.get("/groups/billing/lag")
    assert (lag["count"], lag["counts"]) == (1, "matching")
    assert {queue["counts"] for queue in lag["queues"]} == {"matching"}
    await running.receive("billing", "orders", filter="SQL92: a > 1")
    await running.send("orders", "d")
    assert (await running.get("/groups/billing/lag"))["counts"] == "all"


async def test_metrics_tell_latency_sizes_and_what_lag_counts(running: App) -> None:
    await some_traffic(running)
    text = (await running.http.get("/metrics")).text
    assert 'kitemq_put_latency_seconds{durability="stored",quantile="0.99"}' in text
    assert 'durability="flushed"' not in text  # nothing was measured: no 0 that would be a lie
    assert 'kitemq_message_size_bytes{quantile="1"} 1' in text
    assert 'kitemq_group_lag_is_matching{group="billing"} 1' in text
    assert "kitemq_bytes_out_total{" in text
