"""A large installation, made by the engine itself in seconds: 10,000 topics and 2,500 groups.

For whoever measures lists at size, or wants to look at them: `python -m bench.large_scene --serve`
builds it in a temporary directory and serves it until interrupted. What it holds follows from the
numbers alone, so that two of them are alike.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.broker import Broker, GroupConfig, Nack, TopicConfig, TopicType
from engine.clock import SystemClock
from engine.config import EngineConfig
from engine.message import Message
from engine.store.pool import InlinePool

QUEUES = (1, 2, 4, 4, 8, 16)
TEAMS = ("orders", "payments", "search", "stock", "mail", "fraud", "ledger", "web")
TYPES = (TopicType.NORMAL, TopicType.FIFO, TopicType.DELAY, TopicType.TRANSACTION)
ERRORS = ("TimeoutError: no answer within 5 s", "ValueError: total is missing", "KeyError: 'id'")
SEND_AT_ONCE = 1000
RECEIVE_AT_ONCE = 32
HOUR_MS = 3_600_000
INVISIBLE_S = 12 * 3600.0
RETRY_LEVEL = 18  # two hours
SILENT_GROUP = "nobody-came-yet"
DEAD_GROUP = "billing-import"


@dataclass(frozen=True)
class Size:
    """How much there is; `dead` letters in one group, `due` messages that wait for their time."""

    topics: int = 10_000
    groups: int = 2_500
    dead: int = 2_000
    due: int = 500
    transactions: int = 200
    members: int = 1_000


LARGE = Size()
SMALL = Size(topics=400, groups=100, dead=60, due=20, transactions=10, members=40)


def topic_name(number: int) -> str:
    """The name of one of the scene's topics."""
    return f"{TEAMS[number % len(TEAMS)]}-stream-{number:05d}"


def group_name(number: int) -> str:
    """The name of one of the scene's groups."""
    return f"{TEAMS[number % len(TEAMS)]}-reader-{number:04d}"


def build(data: Path, size: Size = LARGE) -> None:
    """Fill an empty data directory and leave it cleanly stopped."""
    config = EngineConfig(data=data, disk_free_min_bytes=0)
    broker = Broker(config, clock=SystemClock(), pool=InlinePool())
    broker.start()
    scene = _Scene(broker, size)
    scene.topics()
    scene.groups()
    scene.failures()
    scene.waiting()
    broker.tick()
    broker.stop()


class _Scene:
    def __init__(self, broker: Broker, size: Size) -> None:
        self._broker = broker
        self._size = size

    def topics(self) -> None:
        """All types; one in six has no message, the others up to twelve."""
        for number in range(self._size.topics):
            queues = QUEUES[number % len(QUEUES)]
            kind = _type(number)
            self._broker.create_topic(TopicConfig(topic_name(number), kind, queues, queues))
        self._send(self._traffic())
        for number in range(6, self._size.topics, 99):  # none of those whose messages wait
            self._broker.change_topic(topic_name(number), permission=4)

    def groups(self) -> None:
        """Readers at different places; one of them has none, and nothing is known of its lag."""
        broker = self._broker
        for number in range(self._size.groups - 2):
            name = group_name(number)
            broker.create_group(GroupConfig(name))
            for step in range(1 + number % 3):
                topic = topic_name((number * 4 + step * 9) % self._size.topics)
                end = broker.topic_stats(topic).queues[0].max_offset
                broker.commit_offset(name, topic, 0, min(number % 2, end))
        broker.create_group(GroupConfig(SILENT_GROUP))
        broker.create_group(GroupConfig(DEAD_GROUP, retry_max=0))

    def failures(self) -> None:
        """Many dead letters in one group; a few, retries, deliveries and pauses in others."""
        broker, size = self._broker, self._size
        bulk = topic_name(0)
        self._send(Message(bulk, b"{}" * 60, tag="import", queue=0) for _ in range(size.dead))
        self._fail(DEAD_GROUP, bulk, size.dead)
        for number in range(0, size.groups - 2, 25):
            topic = topic_name(number * 4 % size.topics)
            broker.commit_offset(group_name(number), topic, 0, 0)
            self._fail(group_name(number), topic, 2)
        for number in range(9, size.groups - 2, 25):
            name, topic = group_name(number), topic_name((number * 4 + 1) % size.topics)
            deliveries = broker.receive(name, {topic: "*"}, count_max=4, invisible_s=INVISIBLE_S)
            nacks = [
                Nack(one.receipt, delay_level=RETRY_LEVEL, error=ERRORS[0]) for one in deliveries
            ]
            broker.nack(name, nacks[1:])
        for number in range(7, size.groups - 2, 61):
            broker.pause_group(group_name(number))

    def waiting(self) -> None:
        """Messages that wait for their time, and transactions that nobody decides."""
        now_ms = SystemClock().now_ms()
        delayed = [n for n in range(self._size.topics) if _type(n) is TopicType.DELAY]
        transaction_topics = [
            n for n in range(self._size.topics) if _type(n) is TopicType.TRANSACTION
        ]
        self._send(
            Message(
                topic_name(delayed[number % len(delayed)]),
                b"remember",
                deliver_at_ms=now_ms + HOUR_MS * (1 + number % 48),
            )
            for number in range(self._size.due)
        )
        self._send(
            Message(
                topic_name(transaction_topics[number % len(transaction_topics)]),
                b"transfer",
                transaction_group=f"bank-{number % 20}",
                check_immunity_s=24 * 3600,
            )
            for number in range(self._size.transactions)
        )

    def _traffic(self) -> Iterator[Message]:
        for number in range(self._size.topics):
            kind, name = _type(number), topic_name(number)
            if kind in (TopicType.DELAY, TopicType.TRANSACTION):
                continue
            group = f"customer-{number}" if kind is TopicType.FIFO else ""
            for count in range(number % 6 * 2 + (number % 500 == 0) * 200):
                body = json.dumps({"number": number, "count": count}).encode()
                queue = -1 if group else count % 2 % QUEUES[number % len(QUEUES)]
                yield Message(name, body, tag="made", message_group=group, queue=queue)

    def _fail(self, group: str, topic: str, count: int) -> None:
        broker, left = self._broker, count
        while left > 0:
            deliveries = broker.receive(
                group, {topic: "*"}, count_max=min(left, RECEIVE_AT_ONCE), client="importer"
            )
            if not deliveries:
                return
            nacks = [
                Nack(one.receipt, delay_level=-1, error=ERRORS[(left + at) % len(ERRORS)])
                for at, one in enumerate(deliveries)
            ]
            broker.nack(group, nacks, "importer")
            left -= len(deliveries)

    def _send(self, messages: Iterator[Message]) -> None:
        batch: list[Message] = []
        for message in messages:
            batch.append(message)
            if len(batch) == SEND_AT_ONCE:
                self._broker.send(batch)
                batch = []
        if batch:
            self._broker.send(batch)


def _type(number: int) -> TopicType:
    return TYPES[number // 3 % len(TYPES)] if number % 3 == 2 else TopicType.NORMAL


def join(base: str, size: Size = LARGE) -> None:
    """Let consumers tell the server at `base` that they are alive; a restart forgets them."""
    for number in range(size.members):
        group = group_name(number // 2 % (size.groups - 2))
        beat = {
            "client": f"host-{number % 40:02d}@{number}",
            "topics": {topic_name(number // 2 * 4 % size.topics): "*" if number % 90 else "paid"},
            "version": f"5.{number % 4}.0",
            "language": ("JAVA", "GO", "PYTHON")[number % 3],
        }
        request = urllib.request.Request(
            f"{base}/api/v1/groups/{group}/members/heartbeat",
            json.dumps(beat).encode(),
            {"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=10).close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the scene and say how long it took; with --serve, serve it until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m bench.large_scene", description=__doc__)
    parser.add_argument("--serve", action="store_true", help="serve it until interrupted")
    parser.add_argument("--port", type=int, default=8085)
    parser.add_argument("--data", type=Path, help="an empty directory; a temporary one without")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kitemq-large-") as folder:
        data = options.data or Path(folder) / "data"
        began_s = time.perf_counter()
        build(data)
        print(
            f"built {LARGE.topics:,} topics and {LARGE.groups:,} groups in "
            f"{time.perf_counter() - began_s:.1f} s"
        )
        if not options.serve:
            return 0
        words = [sys.executable, "-m", "kitemq.cli", "serve", "--data", str(data)]
        return subprocess.run(
            [*words, "--listen", f"127.0.0.1:{options.port}"], check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
