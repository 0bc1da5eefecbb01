"""A large installation, made by the engine itself: 10,000 topics and 2,500 groups in seconds.

To look at lists at size, `python -m bench.large_scene --serve` builds it in a temporary directory
and serves it until interrupted; `--size huge` adds 10 million messages and a million dead letters,
and keeps them in `build/scenes` for the next time. What a scene holds follows from its numbers
alone, so that two of them are alike.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from app.ws.packed_send import PackedSend, PackedSendFrame
from engine.broker import Broker, GroupConfig, Nack, TopicConfig, TopicType
from engine.clock import SystemClock
from engine.config import EngineConfig
from engine.message import Message
from engine.store.pool import InlinePool
from kitemq.protocol.sends import SendFrame

QUEUES = (1, 2, 4, 4, 8, 16)
TEAMS = ("orders", "payments", "search", "stock", "mail", "fraud", "ledger", "web")
TYPES = (TopicType.NORMAL, TopicType.FIFO, TopicType.DELAY, TopicType.TRANSACTION)
ERRORS = ("TimeoutError: no answer within 5 s", "ValueError: total is missing", "KeyError: 'id'")
SEND_AT_ONCE = 1000
RECEIVE_AT_ONCE = 256
ARCHIVE = 4  # the number of the topic with `Size.messages`; it has eight queues
SHARED = 12  # that of the topic whose messages each 25th group fails with; it has one queue
ARCHIVE_AT_ONCE = 4096
ARCHIVE_TRACE_SAMPLE = 0.001
REGIONS = ("eu-west", "eu-north", "us-east", "us-west", "ap-south")
RARE_EVERY = 100_000  # bodies of the archive that hold RARE; the first one alone holds FIRST
RARE, FIRST = "chargeback", "opening-balance"
TICK_EVERY = 16  # sends
HOUR_MS = 3_600_000
INVISIBLE_S = 12 * 3600.0
RETRY_LEVEL = 18  # two hours
SILENT_GROUP = "nobody-came-yet"
DEAD_GROUP = "billing-import"


@dataclass(frozen=True)
class Size:
    """How much there is; `dead` letters in one group, `due` messages that wait for their time.

    One topic has `messages`, each with a key; each 25th group has `dead_each` dead letters.
    """

    topics: int = 10_000
    groups: int = 2_500
    dead: int = 2_000
    due: int = 500
    transactions: int = 200
    members: int = 1_000
    messages: int = 0
    dead_each: int = 2


LARGE = Size()
SMALL = Size(topics=400, groups=100, dead=60, due=20, transactions=10, members=40, messages=2_000)
HUGE = Size(dead=600_000, messages=10_000_000, dead_each=4_000)  # a million dead letters in all
SIZES = {"small": SMALL, "large": LARGE, "huge": HUGE}
SCENES = Path("build/scenes")
SCENE_FILE = "scene.json"  # beside the data: what it is and when it was whole
KEPT_S = 12 * 3600.0  # later what waits in it is due, and retention takes what is old


def topic_name(number: int) -> str:
    """The name of one of the scene's topics."""
    return f"{TEAMS[number % len(TEAMS)]}-stream-{number:05d}"


def group_name(number: int) -> str:
    """The name of one of the scene's groups."""
    return f"{TEAMS[number % len(TEAMS)]}-reader-{number:04d}"


def client_name(number: int) -> str:
    """The name of one of the clients that `join`."""
    return f"host-{number % 40:02d}@{number}"


def archive_key(number: int) -> str:
    """The key of one message of the archive."""
    return f"order-{number:08d}"


def build(data: Path, size: Size = LARGE) -> None:
    """Fill an empty data directory and leave it cleanly stopped."""
    with _running(data) as broker:
        scene = _Scene(broker, size)
        scene.topics()
        scene.groups()
        scene.failures()
        scene.waiting()
    if size.messages:
        with _running(data, trace_sample=ARCHIVE_TRACE_SAMPLE) as broker:
            _Scene(broker, size).archive()


def ensure(size: Size, scenes: Path = SCENES) -> Path:
    """The data directory of a scene in `scenes`, built there unless a fresh one is kept."""
    about = asdict(size)
    name = "-".join(map(str, about.values()))
    folder = scenes / name
    file = folder / SCENE_FILE
    try:
        is_fresh = time.time() - file.stat().st_mtime < KEPT_S
        if is_fresh and json.loads(file.read_bytes()) == about:
            return folder / "data"
    except (OSError, ValueError):
        pass  # there is none, or it was left in the middle
    shutil.rmtree(folder, ignore_errors=True)
    build(folder / "data", size)
    file.write_text(json.dumps(about))
    return folder / "data"


@contextmanager
def _running(data: Path, trace_sample: float = 1.0) -> Iterator[Broker]:
    config = EngineConfig(data=data, disk_free_min_bytes=0, trace_sample=trace_sample)
    broker = Broker(config, clock=SystemClock(), pool=InlinePool())
    broker.start()
    yield broker
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
        if size.dead_each > 2:
            shared = topic_name(SHARED)
            self._send(Message(shared, b"{}" * 60, tag="import") for _ in range(size.dead_each))
        for number in range(0, size.groups - 2, 25):
            topic = topic_name(SHARED if size.dead_each > 2 else number * 4 % size.topics)
            broker.commit_offset(group_name(number), topic, 0, 0)
            self._fail(group_name(number), topic, size.dead_each)
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

    def archive(self) -> None:
        """Many messages in one topic, sent by column as producers of batches do."""
        for number, first in enumerate(range(0, self._size.messages, ARCHIVE_AT_ONCE)):
            numbers = range(first, min(first + ARCHIVE_AT_ONCE, self._size.messages))
            frame = SendFrame(
                topic=topic_name(ARCHIVE),
                bodies=[_archive_body(each) for each in numbers],
                tags=[REGIONS[each % len(REGIONS)] for each in numbers],
                keys=[archive_key(each) for each in numbers],
                groups=[],
                properties=[],
                delay_levels=[],
                flags=[],
                born_ms=[],
            )
            packed = PackedSend().parse(frame.payload(), 0)
            assert isinstance(packed, PackedSendFrame)
            sent = self._broker.send_columns([packed.columns("127.0.0.1")])
            assert sent is not None
            if not number % TICK_EVERY:
                self._broker.tick()

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


def _archive_body(number: int) -> bytes:
    """A body of some 120 bytes."""
    word = RARE if number % RARE_EVERY == RARE_EVERY - 1 else "" if number else FIRST
    region, customer = REGIONS[number % len(REGIONS)], number * 7919 % 1_000_000
    return (
        f'{{"order": {number}, "customer": "c-{customer:06d}", "region": "{region}", '
        f'"total": {number % 50_000 / 100:.2f}, "note": "{word}"}}'
    ).encode()


def _type(number: int) -> TopicType:
    return TYPES[number // 3 % len(TYPES)] if number % 3 == 2 else TopicType.NORMAL


def join(base: str, size: Size = LARGE) -> None:
    """Let consumers tell the server at `base` that they are alive; a restart forgets them."""
    for number in range(size.members):
        group = group_name(number // 2 % (size.groups - 2))
        beat = {
            "client": client_name(number),
            "topics": {topic_name(number // 2 * 4 % size.topics): "*" if number % 90 else "paid"},
            "version": f"5.{number % 4}.0",
            "language": ("JAVA", "GO", "PYTHON")[number % 3],
        }
        request = urllib.request.Request(
            f"{base}/api/v1/groups/{group}/members/heartbeat",
            json.dumps(beat).encode(),
            {"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=60).close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the scene and say how long it took; with --serve, serve it until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m bench.large_scene", description=__doc__)
    parser.add_argument("--serve", action="store_true", help="serve it until interrupted")
    parser.add_argument("--port", type=int, default=8085)
    parser.add_argument("--data", type=Path, help="an empty directory; a temporary one without")
    parser.add_argument("--size", choices=SIZES, default="large", help="huge: kept for next time")
    options = parser.parse_args(arguments)
    size = SIZES[options.size]
    with tempfile.TemporaryDirectory(prefix="kitemq-large-") as folder:
        data = options.data or Path(folder) / "data"
        began_s = time.perf_counter()
        if size is HUGE and not options.data:
            data = ensure(size)
        else:
            build(data, size)
        print(
            f"{size.topics:,} topics, {size.groups:,} groups and {size.messages:,} messages are in "
            f"{data} after {time.perf_counter() - began_s:.1f} s"
        )
        if not options.serve:
            return 0
        words = [sys.executable, "-m", "kitemq.cli", "serve", "--data", str(data)]
        return subprocess.run(
            [*words, "--listen", f"127.0.0.1:{options.port}"], check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
