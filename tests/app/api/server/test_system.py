"""Health, readiness and metrics tell the truth."""

import asyncio
import re
import time

import pytest

from app.api.monitoring.metric_families import FAMILIES
from app.heartbeat import Heartbeat
from engine.store.kernel import KERNEL
from tests.app.conftest import App

pytestmark = pytest.mark.anyio

SAMPLE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*)\})? (-?[0-9.e+-]+)$')


async def samples(app: App) -> dict[str, float]:
    answer = await app.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {}
    for line in answer.text.splitlines():
        if not line.startswith("#"):
            assert SAMPLE.match(line), line
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


async def test_the_server_lives_and_is_ready_until_it_stops(running: App) -> None:
    assert (await running.http.get("/healthz")).json() == {"status": "ok"}
    ready = await running.http.get("/readyz")
    nothing = {"status": "ready", "problems": {}, "warnings": {}, "kernel": KERNEL}
    assert (ready.status_code, ready.json()) == (200, nothing)
    running.app.services.host.drain()
    ready = await running.http.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["problems"]


async def test_metrics_follow_the_messages(running: App) -> None:
    await running.send("orders", "a", "b", "c")
    [first] = await running.receive("billing", "orders")
    await running.post("/groups/billing/ack", {"receipts": [first["receipt"]]})
    running.clock.advance(2)
    found = await samples(running)
    where = 'cluster="DefaultCluster",broker="kitemq"'
    consumer = f'{{{where},topic="orders",group="billing"}}'
    assert found[f'rocketmq_producer_offset{{{where},topic="orders"}}'] == 3
    assert found[f"rocketmq_consumer_offset{consumer}"] == 1
    assert found[f"rocketmq_message_accumulation{consumer}"] == 2
    assert found[f"rocketmq_group_get_latency_by_storetime{consumer}"] == 2000
    assert found['rocketmq_group_diff{group="billing",topic="orders"}'] == 2
    assert found[f"rocketmq_broker_tps{{{where}}}"] == pytest.approx(1.5)
    assert found['kitemq_messages_in_total{topic="orders"}'] == 3
    assert found['kitemq_acked_total{topic="orders",group="billing"}'] == 1
    assert found["kitemq_ready"] == 1
    assert found["process_resident_memory_bytes"] > 1_000_000
    assert found["kitemq_uptime_seconds"] == 2


async def test_a_metric_is_declared_once_with_help_and_type(running: App) -> None:
    text = (await running.http.get("/metrics")).text
    declared = re.findall(r"^# TYPE (\S+) (gauge|counter)$", text, re.MULTILINE)
    assert len(declared) == len({name for name, _ in declared})
    for name, kind in declared:
        assert FAMILIES[name].kind == kind


def test_a_counter_has_the_name_of_one() -> None:
    """`_total`, as Prometheus has it, or `_offset` in RocketMQ's words."""
    for name, family in FAMILIES.items():
        assert (family.kind == "counter") == name.endswith(("_total", "_offset")), name


async def test_a_loop_that_was_held_up_shows_it() -> None:
    heartbeat = Heartbeat()
    heartbeat.start()
    time.sleep(0.15)  # noqa: ASYNC251 - holding the loop up is the point
    for _ in range(100):
        await asyncio.sleep(0)
        if heartbeat.worst_s:
            break
    heartbeat.stop()
    assert heartbeat.worst_s >= 0.09
    assert heartbeat.worst_ever_s == heartbeat.worst_s
    heartbeat.start()
    assert heartbeat.worst_ever_s == heartbeat.worst_s == 0.0
    heartbeat.stop()
