"""Messages as producers send them, as the log stores them and as consumers receive them.

Property names are RocketMQ's (MessageConst); those in `RESERVED` cannot be set by a user.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from engine.compression import (
    COMPRESSED_FLAG,
    COMPRESSION_BITS,
    PlainBody,
    plain_body,
    raw_body,
)
from engine.host import pack_host

BODY_BYTES_MAX = 4 * 1024 * 1024
PROPERTIES_BYTES_MAX = 32767  # of a record's property string
# A producer's share of it. The rest is room for what is noted on a message on its way: delays,
# failures, replays, transactions. So whatever was accepted can be moved on.
SENT_PROPERTIES_BYTES_MAX = 28 * 1024
BATCH_COUNT_MAX = 4096
BATCH_BYTES_MAX = 4 * 1024 * 1024

NAME_SEPARATOR = "\x01"
PROPERTY_SEPARATOR = "\x02"

TAGS = "TAGS"
TAG_BEGINS = f"{TAGS}{NAME_SEPARATOR}".encode()
KEYS = "KEYS"
UNIQ_KEY = "UNIQ_KEY"
SHARDING_KEY = "__SHARDINGKEY"
DELAY = "DELAY"
WAIT = "WAIT"
REAL_TOPIC = "REAL_TOPIC"
REAL_QID = "REAL_QID"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"
TRAN_MSG = "TRAN_MSG"
PGROUP = "PGROUP"
TRANSACTION_ID = "__transactionId__"
CHECK_IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"

# KiteMQ's own, written by the engine only. SOURCE ties a moved message to the place it left
# ("group@topic@queue@offset"): the moved record is itself the proof that its source is done, so a
# crash between the two writes is healed by reading the log again.
SOURCE = "KITE_SOURCE"
FAILED_ERROR = "KITE_ERROR"
FAILED_CLIENT = "KITE_CLIENT"
FAILED_REASON = "KITE_REASON"
# A copy that a replay job sent: which job, from where ("topic@queue@offset"), how often by now.
REDRIVEN_JOB = "KITE_REDRIVEN_JOB"
REDRIVEN_FROM = "KITE_REDRIVEN_FROM"
REDRIVEN_TIMES = "KITE_REDRIVEN_TIMES"
EVENT_MS = "KITE_EVENT_MS"  # event time stated by the producer, ms since 1970 UTC; not reserved

RESERVED = frozenset(
    """KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET
    BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION
    TRACE_ON UNIQ_KEY EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME INNER_NUM INNER_BASE
    DUP_INFO CHECK_IMMUNITY_TIME_IN_SECONDS TRAN_PREPARED_QUEUE_OFFSET __transactionId__
    TRANSACTION_CHECK_TIMES INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME
    PUSH_REPLY_TIME CLUSTER MSG_TYPE POP_CK POP_CK_OFFSET 1ST_POP_TIME __SHARDINGKEY REDIRECT
    INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET TRACE_CONTEXT TIMER_DELAY_SEC TIMER_DELAY_MS
    TIMER_DELIVER_MS __BORNHOST BORN_TIMESTAMP TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES
    TIMER_OUT_MS TIMER_DEL_UNIQKEY DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32#
    KITE_SOURCE KITE_ERROR KITE_CLIENT KITE_REASON
    KITE_REDRIVEN_JOB KITE_REDRIVEN_FROM KITE_REDRIVEN_TIMES KITE_LATE""".split()
)
# Of these, a consumer sets some on what it sends to its retry topic.
OF_RETRIES = frozenset({RETRY_TOPIC, ORIGIN_MESSAGE_ID, RECONSUME_TIME, MAX_RECONSUME_TIMES})


class Durability(StrEnum):
    """What "accepted" means.

    In the page cache (survives a killed process), on the disk (power loss), or on the disk and on
    a standby, too (the loss of the machine).
    """

    STORED = "stored"
    FLUSHED = "flushed"
    REPLICATED = "replicated"


class Message(msgspec.Struct, gc=False):
    """A message on its way into the log.

    `properties` holds everything that has no field of its own; an endpoint checks it against
    `RESERVED`, the engine adds to it. `queue` -1 lets the router choose. `attempt` starts at 1
    (RocketMQ's reconsumeTimes + 1).
    """

    topic: str
    body: bytes
    tag: str = ""
    keys: tuple[str, ...] = ()
    properties: dict[str, str] = {}
    message_group: str = ""
    message_id: str = ""
    queue: int = -1
    delay_level: int = 0
    flag: int = 0
    sys_flag: int = 0
    attempt: int = 1
    born_ms: int = 0
    born_host: str = ""  # "127.0.0.1:52100"; empty means the broker itself
    deliver_at_ms: int = 0  # not before this time; a delay level beats it
    transaction_group: str = ""  # the producer group that will commit it or roll it back
    check_immunity_s: int = 0  # no check of the transaction before that; 0: as the setting says
    prepared_position: int = 0  # set by the engine: of the half message that was committed


class StoredMessage(msgspec.Struct, gc=False):
    """A message read back from the log, with every property and where it stands. Not to be changed.

    `topic` and `queue` are where the record lies, which for a retry is `%RETRY%group`;
    `origin_topic` is where it was first sent to. `offset` counts messages in the queue,
    `position` bytes in the log. Times are ms since 1970 UTC. Hosts are "ip:port".
    `property_block` is the stored property string, name 0x01 value 0x02 …, parsed when asked for.
    `body` is as stored, which may be compressed: what leaves the server is `plain`.
    """

    topic: str
    queue: int
    offset: int
    position: int
    size_bytes: int
    body: bytes
    property_block: bytes
    flag: int
    sys_flag: int
    attempt: int
    born_ms: int
    born_host: str
    stored_ms: int
    store_host: str
    prepared_position: int = 0
    parsed: dict[str, str] | None = None
    decompressed: PlainBody | None = None

    @property
    def is_compressed(self) -> bool:
        """Whether its producer compressed the body."""
        return bool(self.sys_flag & COMPRESSED_FLAG)

    @property
    def plain(self) -> PlainBody:
        """The body that the producer sent, at most BODY_BYTES_MAX; decompressed once, when asked.

        That takes up to some 10 ms: the app does it on a thread first (`services/bodies.py`).
        """
        if not self.sys_flag & COMPRESSED_FLAG:
            return PlainBody(self.body, "", len(self.body), "")
        if self.decompressed is None:
            body = plain_body(self.body, self.sys_flag, bytes_max=BODY_BYTES_MAX)
            self.decompressed = body
        return self.decompressed

    @property
    def plain_flag(self) -> int:
        """The system flag that goes with `plain`: without compression unless it stayed raw."""
        if not self.sys_flag & COMPRESSED_FLAG or self.plain.why_raw:
            return self.sys_flag
        return self.sys_flag & ~COMPRESSION_BITS

    def keep_raw(self, why: str) -> None:
        """Let `plain` be the body as stored, for the reason given."""
        self.decompressed = raw_body(self.body, self.sys_flag, why)

    @property
    def properties(self) -> dict[str, str]:
        """All properties by name."""
        if self.parsed is None:
            self.parsed = split_properties(str(self.property_block, "utf-8"))
        return self.parsed

    @property
    def message_id(self) -> str:
        """The id given when it was first sent; the same through retries and replays."""
        return self.properties.get(UNIQ_KEY, "") or self.offset_id

    @property
    def offset_id(self) -> str:
        """RocketMQ's offsetMsgId: this very record, as upper-case hex of host and position."""
        return offset_id(self.store_host, self.position)

    @property
    def tag(self) -> str:
        if self.parsed is None and TAG_BEGINS not in self.property_block:
            return ""  # every read asks, and most need no other property
        return self.properties.get(TAGS, "")

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.properties.get(KEYS, "").split())

    @property
    def message_group(self) -> str:
        return self.properties.get(SHARDING_KEY, "")

    @property
    def origin_topic(self) -> str:
        """The topic its producer named: a retried or dead message remembers it."""
        properties = self.properties
        return properties.get(RETRY_TOPIC) or properties.get(DLQ_ORIGIN_TOPIC) or self.topic


class AppendResult(msgspec.Struct, gc=False, frozen=True):
    """The result of one accepted message: its ids and where it stands."""

    message_id: str
    topic: str
    queue: int
    offset: int
    position: int


class SentRun(NamedTuple):
    """Messages of one send that went to one queue; `size_bytes` is that of their records."""

    topic: str
    queue: int
    first_offset: int
    message_count: int
    size_bytes: int


class PutResult(msgspec.Struct, frozen=True):
    """The result of one send, by column: `offsets` and `positions` go with `messages`.

    Each message carries its id, and the topic and queue in which it was stored. STORED they are
    already; a higher `durability` they have once log or standby have reached `flush_position`: wait
    with `Broker.when_accepted`.
    """

    messages: Sequence[Message]
    offsets: list[int]
    positions: list[int]
    durability: Durability
    flush_position: int
    runs: list[SentRun]

    @property
    def stored(self) -> list[AppendResult]:
        """A result for each message, in the order given."""
        return [
            AppendResult(message.message_id, message.topic, message.queue, offset, position)
            for message, offset, position in zip(
                self.messages, self.offsets, self.positions, strict=True
            )
        ]


def offset_id(store_host: str, position: int) -> str:
    """32 (IPv4) or 56 (IPv6) upper-case hex digits: host address, port (4 bytes), position (8)."""
    return f"{pack_host(store_host).hex().upper()}{position:016X}"


def join_properties(properties: Mapping[str, str]) -> str:
    """The property string of a record: name 0x01 value 0x02, for each."""
    return "".join(
        f"{name}{NAME_SEPARATOR}{value}{PROPERTY_SEPARATOR}" for name, value in properties.items()
    )


def split_properties(text: str) -> dict[str, str]:
    """Names and values; like RocketMQ's decoder it ignores an item with an empty name or value."""
    pairs = (item.partition(NAME_SEPARATOR) for item in text.split(PROPERTY_SEPARATOR) if item)
    return {name: value for name, _, value in pairs if name and value}


def copy_of(stored: StoredMessage) -> Message:
    """The same message on its way into the log once more: its named properties in their fields.

    `properties` is a new dict, free to be changed; `queue` and `delay_level` are as if never set.
    """
    properties = dict(stored.properties)
    return Message(
        topic=stored.topic,
        body=stored.body,
        tag=properties.pop(TAGS, ""),
        keys=tuple(properties.pop(KEYS, "").split()),
        message_group=properties.pop(SHARDING_KEY, ""),
        message_id=properties.pop(UNIQ_KEY, "") or stored.offset_id,
        properties=properties,
        flag=stored.flag,
        sys_flag=stored.sys_flag,
        attempt=stored.attempt,
        born_ms=stored.born_ms,
        born_host=stored.born_host,
    )
