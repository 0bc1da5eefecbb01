"""The engine on the loop: who waits is woken, who goes away takes nothing along."""

import asyncio
import threading
from pathlib import Path

import pytest
import uvloop

from app.engine_messaging import EngineMessaging
from app.host import EngineHost, LoopPool
from app.messaging import Messaging
from engine.broker import TopicConfig
from engine.config import EngineConfig
from engine.errors import Busy
from engine.message import Durability, Message
from tests.app.conftest import App

pytestmark = pytest.mark.anyio

TOPIC = {"orders": "*"}
LIMIT_S = 30


def host_of(app: App) -> tuple[EngineHost, Messaging]:
    host = app.app.services.engine_host
    host.broker.create_topic(TopicConfig("orders"))
    return host, app.app.services.messaging


async def until_waiting(host: EngineHost, count: int) -> None:
    for _ in range(1000):
        if host.waiting_count == count:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{host.waiting_count} wait, not {count}")


async def test_a_wake_of_one_that_goes_away_reaches_the_next(running: App) -> None:
    host, messaging = host_of(running)
    first = asyncio.create_task(messaging.receive("g", TOPIC, wait_s=60))
    await until_waiting(host, 1)
    second = asyncio.create_task(messaging.receive("g", TOPIC, wait_s=60))
    await until_waiting(host, 2)
    host.broker.send([Message("orders", b"x")])  # wakes the first, which has waited longer
    first.cancel()
    [delivery] = await asyncio.wait_for(second, LIMIT_S)
    assert delivery.message.body == b"x"
    assert first.cancelled()
    assert host.waiting_count == 0


async def test_one_message_wakes_one_of_those_who_wait(running: App) -> None:
    host, messaging = host_of(running)
    tasks = [asyncio.create_task(messaging.receive("g", TOPIC, wait_s=60)) for _ in range(3)]
    await until_waiting(host, 3)
    host.broker.send([Message("orders", b"x")])
    done, _ = await asyncio.wait(tasks, timeout=LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
    assert [len(task.result()) for task in done] == [1]
    assert host.waiting_count == 2
    host.drain()
    assert sum([len(await task) for task in tasks]) == 1


async def test_a_wait_that_is_over_leaves_its_place_to_others(running: App) -> None:
    host, messaging = host_of(running)
    assert await messaging.receive("g", TOPIC, wait_s=0.01) == []
    waiting = asyncio.create_task(messaging.receive("g", TOPIC, wait_s=60))
    await until_waiting(host, 1)
    host.broker.send([Message("orders", b"x")])
    assert len(await asyncio.wait_for(waiting, LIMIT_S)) == 1


async def test_a_long_scan_that_matches_nothing_lets_others_run(running: App) -> None:
    host, messaging = host_of(running)
    host.broker.send([Message("orders", b"x", tag="other", queue=0) for _ in range(4000)])
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    waiting = asyncio.create_task(messaging.receive("g", {"orders": "wanted"}, wait_s=60))
    await until_waiting(host, 1)
    host.broker.send([Message("orders", b"y", tag="wanted", queue=0)])
    [delivery] = await asyncio.wait_for(waiting, LIMIT_S)
    counting.cancel()
    assert delivery.message.body == b"y"
    assert turns >= 4000 // 800


async def test_a_flushed_send_returns_when_the_disk_has_it(running: App) -> None:
    host, messaging = host_of(running)
    sent = await messaging.send([Message("orders", b"x")], Durability.FLUSHED)
    assert sent.durability is Durability.FLUSHED
    assert host.broker.health().unflushed_bytes == 0


async def test_results_of_the_pool_come_back_on_the_loops_thread() -> None:
    pool = LoopPool(asyncio.get_running_loop())
    came: list[tuple[object, str, threading.Thread]] = []

    def fail() -> None:
        raise OSError("no room")

    def done(result: object, error: Exception | None) -> None:
        came.append((result, str(error), threading.current_thread()))

    pool.submit(threading.current_thread, done)
    pool.submit(fail, done)
    await pool.close(LIMIT_S)
    here = threading.current_thread()
    assert sorted(str(error) for _, error, _ in came) == ["None", "no room"]
    assert all(thread is here for _, _, thread in came)
    assert all(result is not here for result, _, _ in came)


async def test_threads_of_the_pool_begin_with_work_and_end_with_the_pool() -> None:
    pool = LoopPool(asyncio.get_running_loop(), threads=2)
    gate, threads = threading.Event(), set[threading.Thread]()

    def wait() -> None:
        threads.add(threading.current_thread())
        assert gate.wait(LIMIT_S)

    for _ in range(3):
        pool.submit(wait, lambda _result, error: None)
    gate.set()
    await pool.close(LIMIT_S)

    assert 1 <= len(threads) <= 2
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()


async def test_the_pool_is_not_closed_before_its_work_is_done() -> None:
    pool = LoopPool(asyncio.get_running_loop())
    gate = threading.Event()
    pool.submit(lambda: gate.wait(LIMIT_S), lambda _result, error: None)
    with pytest.raises(TimeoutError):
        await pool.close(0.01)
    gate.set()
    await pool.close(LIMIT_S)


async def test_a_directory_in_use_is_refused_and_can_be_opened_afterwards(tmp_path: Path) -> None:
    config = EngineConfig(data=tmp_path, disk_free_min_bytes=0)
    first, second = EngineHost(config), EngineHost(config)
    await first.start()
    with pytest.raises(Busy):
        await second.start()
    await first.stop()
    await second.start()
    await second.stop()


def test_what_falls_due_early_is_done_early_on_uvloop_too(tmp_path: Path) -> None:
    async def story() -> None:
        host = EngineHost(EngineConfig(data=tmp_path, disk_free_min_bytes=0))
        await host.start()
        messaging = EngineMessaging(host)
        now_s = asyncio.get_running_loop().time
        host.broker.send([Message("orders", b"x")])
        while host.next_tick_s <= now_s():  # until the engine has named a time to come
            await asyncio.sleep(0)
        await messaging.receive("g", TOPIC, invisible_s=0.05)
        assert host.next_tick_s <= now_s()
        [again] = await messaging.receive("g", TOPIC, wait_s=LIMIT_S)
        assert again.attempt == 2
        await host.stop()

    uvloop.run(story())
