"""A broker with something of everything in its log, and what the codec says is there."""

import random
from pathlib import Path
from typing import Any

from engine.broker import Broker
from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.delivery.values import Nack
from engine.message import Message, StoredMessage, split_properties
from engine.schedule.levels import DelayLevels
from engine.store.pool import InlinePool
from engine.store.recovery import LogScan
from engine.topic.names import TRACE_TOPIC
from engine.trace.record import decode as decode_trace
from engine.trace.rows import RowKind

SEGMENT_BYTES = 256 * 1024
HOURS = 3


class Store:
    """Starts brokers on one directory, whose clock the test moves."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock()
        self.broker = self.start()

    def start(self) -> Broker:
        config = EngineConfig(
            data=self.root, segment_bytes=SEGMENT_BYTES, disk_free_min_bytes=0, lag_sample_s=10.0
        )
        broker = Broker(config, clock=self.clock, pool=InlinePool())
        broker.start()
        return broker

    def tick(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        while self.broker.tick() <= 0:
            pass

    @property
    def position(self) -> int:
        """Up to where the log is on the disk, once everything is written."""
        store = self.broker._store
        self.tick(1.0)
        store.when_flushed(store.written, lambda error: None)
        self.tick(1.0)
        return min(store.readable, store.flushed)

    def stored(self) -> list[StoredMessage]:
        """Every whole record of the log, by the codec."""
        return list(LogScan(self.broker._store._log, 0, self.broker._store.written).records())

    def close(self) -> None:
        self.broker._store.close()


def live(store: Store, seed: int, hours: int = HOURS, steps: int = 60) -> None:
    """Send, receive, fail, delay, commit and roll back, for some hours."""
    chance = random.Random(seed)
    broker = store.broker
    for step in range(hours * steps):
        store.tick(3600 / steps)
        broker.send([_message(chance, step, store.clock.now_ms()) for _ in range(5)])
        if step % 3 == 0:
            broker.send([_special(chance, step, store.clock.now_ms())])
        _consume(broker, chance)


def _message(chance: random.Random, step: int, now_ms: int) -> Message:
    properties = {"carrier": chance.choice(["UA", "DL", "航空"])} if chance.random() < 0.6 else {}
    if chance.random() < 0.2:
        properties["KITE_EVENT_MS"] = str(now_ms - chance.randrange(10_000))
    return Message(
        chance.choice(["flights", "orders", "a-topic-with-" + "x" * 100]),
        chance.randbytes(chance.choice([1, 20, 3000])),
        tag=chance.choice(["", "new", "späť"]),
        keys=tuple(f"k{chance.randrange(9)}" for _ in range(chance.randrange(3))),
        properties=properties,
        message_group=chance.choice(["", "", "g1"]),
        born_ms=now_ms - chance.randrange(5000) if chance.random() < 0.8 else 0,
        born_host=chance.choice(["", "10.1.2.3:99", "[2001:db8::7]:1234"]),
    )


def _special(chance: random.Random, step: int, now_ms: int) -> Message:
    body = f"special {step}".encode()
    return chance.choice(
        [
            Message("flights", body, delay_level=chance.randrange(1, 6)),
            Message("flights", body, deliver_at_ms=now_ms + chance.randrange(1, 200_000)),
            Message("flights", body, transaction_group="billing-producers"),
        ]
    )


def _consume(broker: Broker, chance: random.Random) -> None:
    for topic in ("flights", "orders"):
        found = broker.receive("billing", {topic: "*"}, client="c1", count_max=8, invisible_s=60)
        receipts: list[Any] = [each.receipt for each in found]
        failed = [receipt for receipt in receipts if chance.random() < 0.2]
        done = [receipt for receipt in receipts if receipt not in failed]
        if done:
            broker.ack("billing", done)
        if failed:
            level = chance.choice([None, -1])
            nacks = [Nack(receipt, delay_level=level, error="it broke") for receipt in failed]
            broker.nack("billing", nacks, client="c1")


def messages_of(stored: list[StoredMessage]) -> list[dict[str, Any]]:
    """What the frame `messages` has to hold, one record at a time."""
    return [row for each in stored if (row := _row(each)) is not None]


ROLES = {
    "SCHEDULE_TOPIC_XXXX": "delayed",
    "rmq_sys_wheel_timer": "delayed",
    "RMQ_SYS_TRANS_HALF_TOPIC": "half",
    "TRANS_CHECK_MAX_TIME_TOPIC": "given_up",
    "DefaultCluster_REPLY_TOPIC": "reply",
}


def _role(topic: str) -> str:
    if topic.startswith("%RETRY%"):
        return "retry"
    if topic.startswith("%DLQ%"):
        return "dead"
    if topic in ROLES:
        return ROLES[topic]
    return "" if topic.startswith(("rmq_sys_", "RMQ_SYS_")) else "message"


def _row(each: StoredMessage) -> dict[str, Any] | None:
    role = _role(each.topic)
    if not role:
        return None
    named = split_properties(each.property_block.decode())
    target = named.get("REAL_TOPIC", "") if role in ("delayed", "half") else ""
    level = int(named["DELAY"]) if "DELAY" in named else None
    due_ms = int(named["TIMER_OUT_MS"]) if "TIMER_OUT_MS" in named else None
    if due_ms is None and role == "delayed" and level:
        due_ms = each.stored_ms + DelayLevels().delay_ms(level)
    source = named.get("KITE_SOURCE", "").split("@")
    group = next(
        (
            name.removeprefix(prefix)
            for name in (each.topic, target)
            for prefix in ("%RETRY%", "%DLQ%")
            if name.startswith(prefix)
        ),
        "",
    )
    return {
        "log_position": each.position,
        "topic": each.topic,
        "queue": each.queue,
        "offset": each.offset,
        "role": role,
        "stored_ms": each.stored_ms,
        "born_ms": each.born_ms or None,
        "event_ms": int(named["KITE_EVENT_MS"]) if "KITE_EVENT_MS" in named else None,
        "size_bytes": each.size_bytes,
        "body_bytes": len(each.body),
        "tag": each.tag,
        "keys": named.get("KEYS", ""),
        "message_id": each.message_id,
        "message_group": each.message_group,
        "attempt": each.attempt,
        "group": group,
        "origin_topic": named.get("RETRY_TOPIC")
        or named.get("DLQ_ORIGIN_TOPIC")
        or target
        or each.topic,
        "target_topic": target,
        "due_ms": due_ms,
        "delay_level": level,
        "source_topic": source[1] if len(source) > 3 else "",
        "source_queue": int(source[2]) if len(source) > 3 else None,
        "source_offset": int(source[3].split(",")[0].split(";")[0]) if len(source) > 3 else None,
        "reason": named.get("KITE_REASON", ""),
        "error": named.get("KITE_ERROR", ""),
        "failed_client": named.get("KITE_CLIENT", ""),
        "producer_group": named.get("PGROUP", ""),
        "is_transaction": role == "half"
        or each.prepared_position > 0
        or each.sys_flag & 0xC == 0x8,
        "producer_host": each.born_host.rpartition(":")[0],
        "redriven_job": named.get("KITE_REDRIVEN_JOB", ""),
        "redriven_from": named.get("KITE_REDRIVEN_FROM", ""),
    }


def trace_of(stored: list[StoredMessage]) -> list[dict[str, Any]]:
    """What the frame `trace` has to hold, one row at a time."""
    rows = []
    for each in stored:
        if each.topic != TRACE_TOPIC:
            continue
        for number, row in enumerate(decode_trace(each.body)):
            has_place = row.first >= 0
            rows.append(
                {
                    "log_position": each.position,
                    "row_number": number,
                    "at_ms": row.at_ms,
                    "kind": RowKind(row.kind).name.lower(),
                    "group": row.group,
                    "topic": row.topic,
                    "queue": row.queue if has_place else None,
                    "first_offset": row.first if has_place else None,
                    "message_count": row.message_count,
                    "client": row.client,
                    "attempt": row.attempt or None,
                    "wait_ms": row.wait_ms,
                    "born_ms": row.born_ms or None,
                    "stored_ms": row.stored_ms or None,
                    "detail": row.detail,
                    "message_id": row.message_id,
                    "sample": row.sample,
                }
            )
    return rows
