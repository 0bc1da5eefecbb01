"""Good inputs, one or more for each target, made by the code that writes them; and small disks."""

import random
from array import array
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from engine.broker import Broker, GroupConfig, TopicConfig
from engine.clock import ManualClock
from engine.message import Message
from engine.statistics import lag_block
from engine.statistics.lag_files import DIGITS, SUFFIX
from engine.statistics.lag_round import WIDTH, LagRound
from engine.statistics.values import LagName
from engine.store.encode import Encoder
from engine.trace.record import Row, TraceRecordBuilder
from kitemq.protocol import batches, calls, frames, sends, transactions
from protocol.remoting import batches as remoting_batches
from protocol.remoting import frames as remoting
from tests.app.ui.bodies.containers import avro_file
from tests.simulation.boot import boot
from tests.simulation.disk import Disk, Node

NOW_MS = 1_700_000_000_000
DATA = Path("/data")
# The big ones are nearly empty, and changing them is another target's work.
LEFT_OUT = ("index", "lock", "abort")


def disk_of(contents: dict[Path, bytes]) -> Disk:
    """A simulated disk with these files on it."""
    disk = Disk(random.Random(0))
    for path, content in contents.items():
        for place in (*reversed(path.parents),):
            disk.shown[place] = disk.kept[place] = None
        node = Node()
        node.shown, node.kept = bytearray(content), bytearray(content)
        disk.shown[path] = disk.kept[path] = node
    return disk


def lag_file_name() -> str:
    return f"{NOW_MS:0{DIGITS}d}{SUFFIX}"


@lru_cache(maxsize=1)
def disk_files() -> dict[Path, bytes]:
    """The files of a broker that was killed in the middle of a little of everything."""
    disk = Disk(random.Random(0))
    broker = boot(disk, ManualClock(), segment_bytes=8192, queue_file_entries=10)
    _live_a_little(broker)
    disk.kill()
    return {
        path: bytes(node.shown)
        for path, node in disk.shown.items()
        if node is not None and not set(path.parts) & set(LEFT_OUT)
    }


def _live_a_little(broker: Broker) -> None:
    broker.create_topic(TopicConfig("orders", read_queues=2, write_queues=2))
    broker.create_group(GroupConfig("billing", retry_max=1))
    broker.send([Message("orders", b"x" * 50, tag="paid", keys=("k",)) for _ in range(30)])
    taken = broker.receive("billing", {"orders": "*"}, count_max=10, invisible_s=60)
    broker.ack("billing", [one.receipt for one in taken[:7]])
    broker.send([Message("orders", b"later", delay_level=3)])
    broker.commit_offset("pulling", "orders", 0, 2)
    broker.tick()


def of_target(name: str) -> list[bytes]:
    """What the fuzzing of a target begins with."""
    made = _MADE.get(name)
    return made() if made else [b"", b"\0", b"a"]


def _binary_frames() -> list[bytes]:
    receipt = ("orders", 1, 7, 0x18C)
    empty = [0, 0]
    sent = sends.SendFrame(
        "orders",
        [b"one", b"two"],
        ["a", "b"],
        ["k1 k2", ""],
        ["", "g"],
        [{"a": "1"}, {}],
        [0, 3],
        [0, 1],
        [NOW_MS, 0],
        delay_ms=[0, 5],
    )
    delivered = batches.DeliverFrame(
        [receipt, receipt],
        *[[1, 2]] * 7,
        [b"a\x011\x02", b""],
        [b"one", b"two"],
    )
    found: list[frames.Frame] = [
        sent,
        delivered,
        frames.HelloFrame("me"),
        frames.SubscribeFrame("billing", {"orders": "a||b"}, 10, 60_000),
        frames.CreditFrame(1, 5),
        batches.AckFrame("billing", [receipt]),
        batches.ReleaseFrame("billing", [receipt]),
        batches.NackFrame("billing", [receipt], [-1], [2], ["no"]),
        batches.ExtendFrame("billing", [receipt], 1000),
        sends.SentFrame(1, [0, 0], [1, 2], [3, 4], ["x", "y"]),
        batches.ResultFrame(empty, empty),
        batches.SubscribedFrame([receipt]),
        calls.CallFrame("GET", "/api/v1/topics", "", b""),
        calls.AnswerFrame(200, "application/json", b"{}"),
        transactions.ChecksWantedFrame("payers"),
        transactions.DecideFrame("T1", 1, "payers"),
    ]
    return [frames.encode(7, frame) for frame in found]


def _text_frames() -> list[bytes]:
    return [
        line.encode()
        for line in (
            '{"op":"hello","id":1,"client":"me"}',
            '{"op":"send","id":1,"topic":"t","messages":[{"body":"b","tag":"a","keys":["k"],'
            '"properties":{"a":"1"},"message_group":"g","delay_ms":5,"flag":1,"born_ms":2}],'
            '"queue":-1,"durability":"stored"}',
            '{"op":"send","id":1,"topic":"t","messages":[{"body":"YQ==","encoding":"base64",'
            '"deliver_at_ms":1700000000000}]}',
            '{"op":"subscribe","id":2,"group":"g","topics":{"t":"*"},"credit":5}',
            '{"op":"ack","id":3,"group":"g","receipts":["t:0:0:18c"]}',
            '{"op":"nack","id":4,"group":"g","receipts":["t:0:0:18c"],"delay_ms":5,"error":"e"}',
            '{"op":"extend","id":5,"group":"g","receipts":["t:0:0:18c"],"invisible_ms":1000}',
            '{"op":"call","id":6,"path":"/api/v1/topics","method":"GET"}',
            '{"op":"decide","id":7,"transaction_id":"T","decision":"commit","group":"g"}',
        )
    ]


def _record() -> bytes:
    queue: Any = SimpleNamespace(next_offset=0)
    message = Message("orders", b"body", tag="a", keys=("k",), properties={"p": "1"}, queue=0)
    encoder = Encoder("127.0.0.1:8080", "0" * 16, lambda *_: queue, {})
    data: bytes = encoder.encode([message, message], 0, NOW_MS).data
    return data


def _trace() -> bytes:
    builder = TraceRecordBuilder(10_000)
    row = dict.fromkeys(Row._fields, 0) | {
        "group": "g", "topic": "orders", "client": "c", "detail": "", "message_id": "", "at_ms": 1
    }  # fmt: skip
    values: Any = row
    builder.add(Row(**values))
    return builder.message().body


def _lag() -> list[bytes]:
    names = (LagName("g", "orders", 0), LagName("g", "orders", 1))
    values = array("q", [1] * (2 * WIDTH))
    rounds = [LagRound(NOW_MS + at, names, values) for at in (0, 10_000)]
    return [lag_block.encode(rounds[:1]), lag_block.encode(rounds)]


def _remoting_frames() -> list[bytes]:
    batch = remoting_batches.encode_batch(
        [
            remoting_batches.BatchMessage(3, b"one", "TAGS\x01t\x02"),
            remoting_batches.BatchMessage(0, b"2", ""),
        ]
    )
    fields = {"b": "orders", "i": "TAGS\x01paid\x02", "e": "1"}
    return [
        remoting.encode(remoting.Command(code, 5, 0, fields, body, "r", is_binary=is_binary))
        for code, body in ((310, b"hello"), (320, batch), (200050, b""))
        for is_binary in (False, True)
    ] + [batch]


_MADE: dict[str, Any] = {
    "avro_containers": lambda: [
        avro_file([{"name": "Ada", "age": 36}, {"name": "Grace", "age": None}], codec)
        for codec in ("null", "deflate")
    ],
    "binary_frames": _binary_frames,
    "text_frames": _text_frames,
    "remoting_frames": _remoting_frames,
    "receipts": lambda: [b"orders:1:7:18c", b"%RETRY%g:0:0:0", "té:1:2:f".encode()],
    "filters": lambda: [
        b"*",
        b"a || b",
        b"a > 5 AND b IN ('x', 'y') OR NOT (c IS NULL)",
        b"a BETWEEN -1.5e3 AND 0x10 AND b CONTAINS 'x' AND c NOT STARTSWITH 'y'",
        b"TRUE = a AND 'it''s' = b",
    ],
    "headers": lambda: [
        b"MQv2-HMAC-SHA1 Credential=key/, SignedHeaders=x-mq-date-time, Signature=AB12\n"
        b"20260101T000000Z\nme@1@0@x\n127.0.0.1:8080",
        b"Bearer abc\n\n\n[::1]:80",
        b"https://a\nsame-origin\n\nlocalhost",
    ],
    "message_ids": lambda: [b"7F00000100001F900000000000000012", b"7F0000010000 1F90", b"x" * 32],
    "definitions": lambda: [
        b"name,read_queues,type\norders,4,FIFO\n",
        b'[{"name":"orders","read_queues":4,"retention_ms":null,"durability":"flushed"}]',
        b'{"items":[{"topic":"a"}],"next_cursor":null}',
        b'{"name":"a"}\n{"name":"b","permission":6,"trace_sample":0.5}',
    ],
    "records": lambda: [_record()],
    "record_fields": lambda: [b"body\ntag\nk1 k2\nname\nvalue\ngroup"],
    "property_strings": lambda: [b"a\x011\x02b\x012\x02", b"TAGS\x01x\x02"],
    "traces": lambda: [
        _trace(),
        b"Pub\x011\x01r\x01g\x01t\x01ID\x01tag\x01key\x01host\x015\x012\x010\x01off\x01true\x02",
    ],
    "lag_files": lambda: [*_lag(), b"".join(_lag())],
    "directories": lambda: [bytes((number, 0, 0, 20, 255)) for number in range(12)],
    "rocketmq_tables": lambda: [
        b'{"topicConfigTable":\n{"new":{"readQueueNums":7,"writeQueueNums":5,"perm":6}}}',
        b'{"offsetTable":\n{"orders@g":{0:2},1:2,"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:1}}}',
        b'{"subscriptionGroupTable":\n{"g":{"retryMaxTimes":3,"consumeEnable":false}}}',
        bytes(4096),
    ],
}
