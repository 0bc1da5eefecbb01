"""The engine without an endpoint, in a process of its own: `python -m bench.engine_alone`.

It is put together as the server does it, with a small pool of threads for what the kernel may make
wait, and ticked as often as the server would. Prints one JSON object with microseconds per message.
"""

import argparse
import gc
import json
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from app.ws.packed_send import PackedSend, PackedSendFrame
from engine.broker import Broker, DeliveryColumns
from engine.clock import SystemClock
from engine.config import EngineConfig
from engine.message import Message
from engine.message_columns import MessageColumns, body_column
from kitemq.protocol.sends import SendFrame

T = TypeVar("T")

APPEND_BATCH = 100
RECEIVE_BATCH = 256
WARM_BATCHES = 20
SINGLE_PART = 10  # one message in so many is sent by itself
TICK_EVERY = 50  # batches: some 10 ms
TOPIC = "bench"
GROUP = "bench"
ID_PREFIX = "7F0000010BE4C4A1C4A10000"


class HandBackPool:
    """The engine's pool: threads do the work, `drain` brings the results on our own thread."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(4)
        self._done: deque[Callable[[], None]] = deque()
        self._under_way = 0

    def submit(
        self, work: Callable[[], T], done: Callable[[T | None, Exception | None], None]
    ) -> None:
        def finished(future: Future[T]) -> None:
            error = future.exception()
            if error is None:
                self._done.append(lambda: done(future.result(), None))
            else:
                known = error if isinstance(error, Exception) else RuntimeError(repr(error))
                self._done.append(lambda: done(None, known))

        self._under_way += 1
        self._executor.submit(work).add_done_callback(finished)

    def drain(self) -> None:
        """Run what came back."""
        while self._done:
            self._done.popleft()()
            self._under_way -= 1

    def close(self) -> None:
        """Wait for all work and for what its results ask for, then let the threads go."""
        while self._under_way:
            time.sleep(0.001)
            self.drain()
        self._executor.shutdown()


def main() -> None:
    """Append, receive and acknowledge; print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--body", type=int, default=256)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--trace-sample", type=float, default=1.0)
    parser.add_argument("--processor-time", action="store_true", help="not the time that passed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kitemq-bench-") as folder:
        pool = HandBackPool()
        config = EngineConfig(data=Path(folder), trace_sample=options.trace_sample)
        broker = Broker(config, clock=SystemClock(), pool=pool)
        broker.start()
        append(broker, pool, options.body, WARM_BATCHES)
        batches = max(1, options.messages // APPEND_BATCH)
        now_s = time.process_time if options.processor_time else time.perf_counter
        singles = options.messages // SINGLE_PART
        columns = [packed_batch(options.body, number) for number in range(batches)]
        parts: dict[str, Callable[[], int]] = {
            "append": lambda: append(broker, pool, options.body, batches),
            "receive_ack": lambda: receive_and_ack(broker, pool),
            "append_columns": lambda: append_columns(broker, pool, columns),
            "receive_ack_columns": lambda: receive_and_ack_columns(broker, pool),
            "append_single": lambda: append(broker, pool, options.body, singles, 1),
            "append_alike": lambda: append_alike(broker, pool, options.body, singles),
            "receive_ack_single": lambda: receive_and_ack(broker, pool, 1),
        }
        figures = {name: timed(work, now_s) for name, work in parts.items()}
        if options.processor_time:
            figures["one_by_one"] = timed(
                lambda: one_by_one(broker, pool, options.body, singles), now_s
            )
        pool.close()
        broker.stop()
    print(json.dumps(figures))


def append(
    broker: Broker, pool: HandBackPool, body_bytes: int, sends: int, count: int = APPEND_BATCH
) -> int:
    """Send `count` messages at a time, made on the spot as an endpoint makes them."""
    body = bytes(body_bytes)
    for number in range(sends):
        broker.send([Message(TOPIC, body) for _ in range(count)])
        if not number % TICK_EVERY:
            broker.tick()
            pool.drain()
    return sends * count


def packed_batch(body_bytes: int, number: int) -> MessageColumns:
    """A batch as the frame of a producer brings it."""
    bodies = [bytes(body_bytes)] * APPEND_BATCH
    frame = SendFrame(TOPIC, bodies, [], [], [], [], [], [], [], id_prefix=ID_PREFIX)
    packed = PackedSend().parse(frame.payload(), 0)
    assert isinstance(packed, PackedSendFrame)
    return structs.replace(packed.columns(""), id_first=number * APPEND_BATCH)


def append_columns(broker: Broker, pool: HandBackPool, batches: Sequence[MessageColumns]) -> int:
    """Send such batches."""
    for number, batch in enumerate(batches):
        assert broker.send_columns([batch]) is not None
        if not number % TICK_EVERY:
            broker.tick()
            pool.drain()
    return len(batches) * APPEND_BATCH


def append_alike(broker: Broker, pool: HandBackPool, body_bytes: int, count: int) -> int:
    """Send single messages as WebSocket and REST do, once a client has sent some alike."""
    data = body_column(bytes(body_bytes))
    columns = MessageColumns(
        topic=TOPIC, queue=-1, count=1, data=data, bodies_at=0, body_bytes=body_bytes,
        messages=list, id_prefix=ID_PREFIX,
    )  # fmt: skip
    sender = broker.lone_sender(columns)
    assert sender is not None
    for number in range(count):
        assert sender.send(data, 0, 0, number) is not None
        if not number % TICK_EVERY:
            broker.tick()
            pool.drain()
    return count


def receive_and_ack(broker: Broker, pool: HandBackPool, batch: int = RECEIVE_BATCH) -> int:
    """Take everything in batches and acknowledge each batch."""
    count = number = 0
    while deliveries := broker.receive(GROUP, {TOPIC: "*"}, count_max=batch, client="b"):
        broker.ack(GROUP, [delivery.receipt for delivery in deliveries])
        count += len(deliveries)
        number += 1
        if not number % TICK_EVERY:
            broker.tick()
            pool.drain()
    return count


def receive_and_ack_columns(broker: Broker, pool: HandBackPool) -> int:
    """The same by column, as pushes take it."""
    count = number = 0
    topics = {TOPIC: "*"}
    while got := broker.receive_columns(GROUP, topics, count_max=RECEIVE_BATCH, client="b"):
        if not isinstance(got, DeliveryColumns):  # what comes first is not plain, or lies alone
            broker.ack(GROUP, [delivery.receipt for delivery in got])
            count += len(got)
        else:
            for run in got.runs:
                broker.ack(GROUP, run.receipts)
                count += len(run.receipts)
        number += 1
        if not number % TICK_EVERY:
            broker.tick()
            pool.drain()
    return count


def one_by_one(broker: Broker, pool: HandBackPool, body_bytes: int, count: int) -> int:
    """Send, receive and acknowledge single messages in turn: where tracing costs most."""
    body = bytes(body_bytes)
    for number in range(count):
        broker.send([Message(TOPIC, body)])
        deliveries = broker.receive(GROUP, {TOPIC: "*"}, client="b")
        broker.ack(GROUP, [delivery.receipt for delivery in deliveries])
        if not number % TICK_EVERY:
            broker.tick()
            pool.drain()
    return count


def timed(work: Callable[[], int], now_s: Callable[[], float]) -> float:
    """Microseconds per message by the clock given."""
    gc.collect()
    began_s = now_s()
    count = work()
    return (now_s() - began_s) / count * 1e6


if __name__ == "__main__":
    main()
