"""How far RocketMQ had come, taken over; and how far KiteMQ has, written for it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.broker import GroupConfig
from engine.clock import ManualClock
from engine.handover.timer_files import CHECK, UNIT, read_check
from engine.message import Message, PutResult
from engine.store.files import OsFiles
from tests.engine.conftest import Engine
from tests.engine.handover.theirs import (
    read_table,
    touch_checkpoint,
    write_table,
    write_timercheck,
)

Send = Callable[..., PutResult]
HOUR_MS = 3_600_000


def readable(engine: Engine, topic: str = "orders") -> list[bytes]:
    assert engine.broker is not None
    pages = [engine.broker.pull(topic, queue, 0, count_max=100) for queue in range(4)]
    return [message.body for page in pages for message in page.messages]


def test_offsets_of_rocketmqs_groups_are_taken_over(engine: Engine, send: Send) -> None:
    for body in "abc":
        send(body)
    engine.close()
    touch_checkpoint(engine.root)
    write_table(
        engine.root,
        "consumerOffset.json",
        offsetTable={"orders@theirs": {"0": 2}, "orders@CID_RMQ_SYS_TRANS": {"0": 1}},
    )
    broker = engine.start()
    assert broker.committed_offset("theirs", "orders", 0) == 2
    assert [group.name for group in broker.groups()] == ["theirs"]


@pytest.mark.parametrize("left", [None, b"", b'{"offsetTable": {"orders@th'])
def test_offsets_are_read_from_the_backup_where_a_kill_left_no_file(
    engine: Engine, send: Send, left: bytes | None
) -> None:
    for body in "abc":
        send(body)
    engine.close()
    touch_checkpoint(engine.root)
    write_table(engine.root, "consumerOffset.json.bak", offsetTable={"orders@theirs": {"0": 2}})
    table = engine.root / "config" / "consumerOffset.json"
    if left is None:
        table.unlink(missing_ok=True)
    else:
        table.write_bytes(left)
    assert engine.start().committed_offset("theirs", "orders", 0) == 2


def test_offsets_only_go_forward(engine: Engine, send: Send) -> None:
    broker = engine.broker or engine.start()
    for body in "abc":
        send(body)
    broker.commit_offset("g", "orders", 0, 2)
    engine.close()
    touch_checkpoint(engine.root)
    write_table(engine.root, "consumerOffset.json", offsetTable={"orders@g": {"0": 1}})
    assert engine.start().committed_offset("g", "orders", 0) == 2


def test_an_offset_past_the_queues_end_is_its_end(engine: Engine, send: Send) -> None:
    send("a")
    engine.close()
    touch_checkpoint(engine.root)
    write_table(engine.root, "consumerOffset.json", offsetTable={"orders@g": {"0": 99}})
    assert engine.start().committed_offset("g", "orders", 0) == 1


def test_old_tables_of_rocketmqs_do_not_count_where_only_kitemq_has_written(
    engine: Engine, send: Send
) -> None:
    broker = engine.broker or engine.start()
    for body in "abc":
        send(body)
    broker.commit_offset("g", "orders", 0, 0)
    broker.stop()
    write_table(engine.root, "consumerOffset.json", offsetTable={"orders@g": {"0": 3}})
    assert engine.start().committed_offset("g", "orders", 0) == 0


def test_what_rocketmq_released_of_a_level_is_not_released_again(
    engine: Engine, send: Send
) -> None:
    for body in "abc":
        send(body, delay_level=1)
    engine.close()
    touch_checkpoint(engine.root)
    write_table(engine.root, "delayOffset.json", offsetTable={"1": 2})
    engine.start()
    engine.tick(2)
    assert readable(engine) == [b"c"]


def test_what_rocketmqs_wheel_delivered_is_not_delivered_again(engine: Engine, send: Send) -> None:
    now_ms = engine.clock.now_ms()
    send("early", deliver_at_ms=now_ms + 5_000)
    send("late", deliver_at_ms=now_ms + HOUR_MS)
    send("not seen by the wheel", deliver_at_ms=now_ms + 6_000)
    engine.close()
    touch_checkpoint(engine.root)
    write_timercheck(engine.root, now_ms + 10_000, 2)
    broker = engine.start()
    assert broker.scheduled().count == 2
    engine.tick(20)
    assert readable(engine) == [b"not seen by the wheel"]
    engine.tick(HOUR_MS / 1000)
    assert sorted(readable(engine)) == [b"late", b"not seen by the wheel"]


def test_half_messages_that_rocketmq_has_passed_are_decided(engine: Engine) -> None:
    broker = engine.start()
    for body in (b"one", b"two"):
        broker.send([Message("orders", body, queue=0, transaction_group="makers")])
    engine.close()
    touch_checkpoint(engine.root)
    place = "RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS"
    write_table(engine.root, "consumerOffset.json", offsetTable={place: {"0": 1}})
    assert engine.start().transactions.count == 1


def test_a_running_server_writes_what_rocketmq_needs(engine: Engine, send: Send) -> None:
    broker = engine.broker or engine.start()
    broker.create_group(GroupConfig("g", retry_max=3))
    for body in "abc":
        send(body)
    send("soon", delay_level=1)
    broker.commit_offset("g", "orders", 0, 2)
    engine.tick(6)
    engine.tick(6)
    assert read_table(engine.root, "topics.json")["topicConfigTable"]["orders"]["perm"] == 6
    group = read_table(engine.root, "subscriptionGroup.json")["subscriptionGroupTable"]["g"]
    assert group["retryMaxTimes"] == 3
    assert read_table(engine.root, "consumerOffset.json")["offsetTable"]["orders@g"] == {"0": 2}
    assert read_table(engine.root, "delayOffset.json")["offsetTable"]["1"] == 1
    broker.commit_offset("g", "orders", 0, 3)
    engine.tick(6)
    assert read_table(engine.root, "consumerOffset.json")["offsetTable"]["orders@g"] == {"0": 3}


def test_the_timer_log_has_what_waits_and_ends_with_the_queue(engine: Engine, send: Send) -> None:
    broker = engine.broker or engine.start()
    now_ms = engine.clock.now_ms()
    for ahead_ms in (HOUR_MS, 72 * HOUR_MS, HOUR_MS + 1, 1_000):
        send("x", deliver_at_ms=now_ms + ahead_ms)
    engine.tick(3)
    stopped_ms = engine.clock.now_ms() // 1000 * 1000
    broker.stop()
    data = (engine.root / "timerlog" / f"{0:020d}").read_bytes()
    assert len(data) == 100 * 1024 * 1024
    units = [UNIT.unpack_from(data, at * UNIT.size) for at in range(5)]
    assert [unit[0] for unit in units] == [52, 52, 52, 52, 0], "three wait, and the last of all"
    assert [unit[1] for unit in units[:4]] == [-1, -1, 0, -1], "two are due in the same second"
    assert [unit[2] for unit in units[:4]] == [1, 3, 1, 1], "RocketMQ moves on what is far off"
    assert [unit[3] + unit[4] for unit in units[:4]] == [
        now_ms + HOUR_MS,
        stopped_ms + 48 * HOUR_MS,
        now_ms + HOUR_MS + 1,
        stopped_ms - 1_000,
    ]
    check = read_check(OsFiles(), engine.root)
    assert check == (stopped_ms, 4, True)


def test_a_timercheck_that_rocketmq_changed_is_known_as_its_own(engine: Engine, send: Send) -> None:
    send("x", deliver_at_ms=engine.clock.now_ms() + HOUR_MS)
    assert engine.broker is not None
    engine.broker.stop()
    path = engine.root / "config" / "timercheck"
    data = bytearray(path.read_bytes())
    data[: CHECK.size] = CHECK.pack(1, 2, 3, 4)
    path.write_bytes(data)
    assert read_check(OsFiles(), engine.root) == (1, 3, False)


def test_an_ordered_group_is_written_as_one_that_consumes_orderly(engine: Engine) -> None:
    broker = engine.start()
    broker.create_group(GroupConfig("books", ordered=True))
    broker.create_group(GroupConfig("search"))
    engine.tick(6)
    engine.tick(6)
    table = read_table(engine.root, "subscriptionGroup.json")["subscriptionGroupTable"]
    told = {name: entry["consumeMessageOrderly"] for name, entry in table.items()}
    assert told == {"books": True, "search": False}


def test_a_group_that_consumes_orderly_is_taken_over_as_ordered(engine: Engine, send: Send) -> None:
    send("x")
    engine.close()
    touch_checkpoint(engine.root)
    groups = {"books": {"consumeMessageOrderly": True}, "search": {"consumeMessageOrderly": False}}
    write_table(engine.root, "subscriptionGroup.json", subscriptionGroupTable=groups)
    broker = engine.start()
    assert {group.name: group.ordered for group in broker.groups()} == {
        "books": True,
        "search": False,
    }


class SlowClock(ManualClock):
    """A clock on which each reading takes half a millisecond, as work between them does."""

    def monotonic_s(self) -> float:
        self.advance(0.0005)
        return super().monotonic_s()


def test_tables_of_many_groups_are_built_over_many_ticks(tmp_path: Path) -> None:
    slow = Engine(tmp_path / "data", SlowClock())
    broker = slow.start()
    for number in range(400):
        broker.create_group(GroupConfig(f"g{number:03d}"))
    ticks, table = 0, slow.root / "config" / "consumerOffset.json"
    broker.send([Message("orders", b"1", queue=0)])
    broker.commit_offset("g399", "orders", 0, 1)
    while not table.exists():
        broker.tick()
        ticks += 1
        assert ticks < 1000
    assert ticks > 10
    groups = read_table(slow.root, "subscriptionGroup.json")["subscriptionGroupTable"]
    assert list(groups) == [f"g{number:03d}" for number in range(400)]
    assert read_table(slow.root, "consumerOffset.json")["offsetTable"]["orders@g399"] == {"0": 1}
    slow.close()
