"""Single capabilities of the engine, measured without an endpoint: `python -m bench.parts NAME`.

Each runs in a process of its own, so that its memory is its own, with the engine put together as
the server does it. Prints a JSON list of figures, as `bench.figures.Figure` takes them.
"""

import argparse
import gc
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.engine_alone import HandBackPool
from bench.figures import times_of
from engine.broker import Broker
from engine.clock import SystemClock
from engine.config import MIB, EngineConfig
from engine.events import EngineEvent, Released
from engine.message import Message

TOPIC = "bench"
GROUP = "bench"
BATCH = 100
BODY = b"x" * 256
FEW = 100  # one message in so many matches
TICK_EVERY = 50  # batches
LOOKUPS = 2_000
RETAINED_MIN = 150000
DELETION_WAIT_S = 30.0
STATM = Path("/proc/self/statm")
PAGE_BYTES = 4096

Made = dict[str, Any]
Pump = Callable[[], None]


@contextmanager
def running(**settings: Any) -> Iterator[tuple[Broker, Pump]]:
    """A broker, and what lets it do its background work."""
    with tempfile.TemporaryDirectory(prefix="kitemq-bench-") as folder:
        pool = HandBackPool()
        config = EngineConfig(data=Path(folder), trace_sample=0.0, **settings)
        broker = Broker(config, clock=SystemClock(), pool=pool)
        broker.start()

        def pump() -> None:
            broker.tick()
            pool.drain()

        try:
            yield broker, pump
        finally:
            pool.close()
            broker.stop()


def fill(broker: Broker, pump: Pump, batches: int, make: Callable[[int], Message]) -> float:
    """Send batches of messages made by number; seconds."""
    gc.collect()
    began_s = time.perf_counter()
    for number in range(batches):
        broker.send([make(number * BATCH + at) for at in range(BATCH)])
        if not number % TICK_EVERY:
            pump()
    return time.perf_counter() - began_s


# -- the parts -------------------------------------------------------------------------------------


def timers(messages: int) -> list[Made]:
    """Messages with a time of delivery: storing them, the memory they hold, how late they are."""
    with running() as (broker, pump):
        before_mib = memory_mib()
        later_ms = round(time.time() * 1000) + 3_600_000
        took_s = fill(
            broker,
            pump,
            messages // BATCH,
            lambda number: Message(TOPIC, BODY, deliver_at_ms=later_ms + number % 3_600_000),
        )
        until_s = time.perf_counter() + 1.0
        while time.perf_counter() < until_s:
            pump()
            time.sleep(0.001)
        result = {"broker": "engine, to come", "memory_mib": memory_mib() - before_mib}
        stored = {"broker": "engine, storing", **rate_of(messages, took_s)}
    return [stored, result, lateness(min(messages, 2_000))]


def lateness(messages: int) -> Made:
    """A thousand a second fall due; the engine ticks when it asked to."""
    late_s: list[float] = []

    def hear(event: EngineEvent) -> None:
        if isinstance(event, Released):
            late_s.append(event.late_ms / 1000)

    with running() as (broker, pump):
        broker.events.subscribe(hear)
        begin_ms = round(time.time() * 1000) + 500
        fill(
            broker,
            pump,
            messages // BATCH,
            lambda number: Message(TOPIC, BODY, deliver_at_ms=begin_ms + number),
        )
        until_s = time.perf_counter() + messages / 1000 + 2.0
        while len(late_s) < messages and time.perf_counter() < until_s:
            wait_s = broker.tick()
            pump()
            time.sleep(min(max(wait_s, 0.0), 0.001))
    if not late_s:
        raise RuntimeError("nothing fell due")
    return {"broker": "engine, lateness", **times_of(late_s)}


def filters(messages: int) -> list[Made]:
    """A subscription that lets one message in a hundred through, by tag and by SQL92."""
    found = []
    for name, filter_ in (
        ("tag", "few"),
        ("SQL92 with TAGS", "SQL92: TAGS = 'few' AND amount > 5"),
        ("SQL92", "SQL92: amount > 5 AND region IN ('eu', 'us')"),
    ):
        with running(inflight_max=1_000_000) as (broker, pump):
            fill(broker, pump, messages // BATCH, _mixed)
            gc.collect()
            began_s, got = time.perf_counter(), 0
            while got < messages // FEW:
                batch = broker.receive(GROUP, {TOPIC: filter_}, count_max=256, client="b")
                broker.ack(GROUP, [each.receipt for each in batch])
                got += len(batch)
            took_s = time.perf_counter() - began_s
        found.append(
            {
                "broker": f"engine, {name}",
                "rate": got / took_s,
                "broker_us": took_s / messages * 1e6,
            }
        )
    return found


def _mixed(number: int) -> Message:
    is_one = not number % FEW
    properties = {"amount": "9" if is_one else "1", "region": "eu"}
    return Message(TOPIC, BODY, tag="few" if is_one else "many", properties=properties)


def keys(messages: int) -> list[Made]:
    """Messages with a key each, then look-ups of random ones by key."""
    with running() as (broker, pump):
        stored_s = fill(
            broker,
            pump,
            messages // BATCH,
            lambda number: Message(TOPIC, b"x", keys=(f"key-{number}",)),
        )
        pump()
        chance = random.Random(1)
        took_s = []
        for _ in range(LOOKUPS):
            key = f"key-{chance.randrange(messages)}"
            began_s = time.perf_counter()
            found = broker.messages_by_key(TOPIC, key)
            took_s.append(time.perf_counter() - began_s)
            if len(found) != 1:
                raise RuntimeError(f"{len(found)} messages have the key {key}")
        rate = LOOKUPS / sum(took_s)
        looking = {"broker": "engine, look-up", "rate": rate, **times_of(took_s)}
        storing = {"broker": "engine, storing", **rate_of(messages, stored_s)}
        return [storing, {**looking, "memory_mib": memory_mib()}]


def retention(messages: int) -> list[Made]:
    """Batches of 100 while old segments are deleted all the time, and the same without."""
    found = []
    messages = max(messages, RETAINED_MIN)
    for name, bytes_kept in (("keeping all", 0), ("deleting", 4 * MIB)):
        with running(
            segment_bytes=MIB,
            retention_bytes=bytes_kept,
            retention_interval_s=0.05,
            checkpoint_interval_s=0.1,
        ) as (
            broker,
            pump,
        ):
            took_s = []
            for number in range(messages // BATCH):
                batch = [Message(TOPIC, BODY) for _ in range(BATCH)]
                began_s = time.perf_counter()
                broker.send(batch)
                took_s.append(time.perf_counter() - began_s)
                if not number % 5:
                    began_s = time.perf_counter()
                    pump()
                    took_s.append(time.perf_counter() - began_s)
            until_s = time.monotonic() + DELETION_WAIT_S
            while not (
                is_deleted := broker.topic_stats(TOPIC).messages < messages // BATCH * BATCH
            ):
                if not bytes_kept or time.monotonic() > until_s:
                    break
                pump()  # a short run on a busy machine may end before the first file can go
            if is_deleted != bool(bytes_kept):
                raise RuntimeError(f"{name}: is anything deleted? {is_deleted}")
        figure = {"broker": f"engine, {name}", "rate": messages / sum(took_s), **times_of(took_s)}
        found.append({**figure, "delay_ms": max(took_s) * 1000})
    return found


def statistics_cost(messages: int) -> list[Made]:
    """Processor time per message with the engine's statistics and without, in turns."""
    spent: dict[tuple[int, bool], list[float]] = {}
    for _ in range(5):
        for batch in (1, BATCH):
            for is_on in (True, False):
                us = _sending_us(messages // (10 if batch == 1 else 1), batch, is_on=is_on)
                spent.setdefault((batch, is_on), []).append(us)
    return [
        {
            "broker": f"engine, batches of {batch}, statistics {'on' if is_on else 'off'}",
            "broker_us": statistics.median(each),
        }
        for (batch, is_on), each in spent.items()
    ]


def _sending_us(messages: int, batch: int, *, is_on: bool) -> float:
    with running() as (broker, pump):
        if not is_on:
            broker.events.unsubscribe(broker.statistics.hear)
            broker.statistics.close()
        gc.collect()
        began_s = time.process_time()
        for number in range(messages // batch):
            broker.send([Message(TOPIC, BODY) for _ in range(batch)])
            if not number % TICK_EVERY:
                pump()
        return (time.process_time() - began_s) / messages * 1e6


# -- helpers ---------------------------------------------------------------------------------------


def rate_of(messages: int, took_s: float) -> Made:
    return {"rate": messages / took_s, "broker_us": took_s / messages * 1e6}


def memory_mib() -> float:
    """What this process holds."""
    gc.collect()
    return int(STATM.read_text().split()[1]) * PAGE_BYTES / MIB


PARTS: dict[str, Callable[[int], list[Made]]] = {
    "timers": timers,
    "filters": filters,
    "keys": keys,
    "retention": retention,
    "statistics": statistics_cost,
}


def main() -> None:
    """Measure one part; print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--messages", type=int, default=200_000)
    options = parser.parse_args()
    print(json.dumps(PARTS[options.part](options.messages)))


if __name__ == "__main__":
    main()
