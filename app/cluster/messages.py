"""Messages as they are sent to a cluster, and as it hands them out."""

import time
from collections.abc import Iterable, Mapping
from uuid import uuid4

import msgspec

from app.cluster.errors import ClusterError
from app.cluster.routes import ClusterQueue
from engine.compression import plain_body
from engine.host import unpack_host
from kitemq.protocol.properties import KEYS, TAGS, UNIQ_KEY, split_properties
from protocol.remoting.records import Record, RecordError, decode_records

BODY_BYTES_MAX = 4 * 1024 * 1024
PROPERTIES_BYTES_MAX = 32767
PLAIN_BYTES_MAX = 64 * 1024 * 1024  # of a body that is decompressed
DELAY = "DELAY"
DELIVER_AT_MS = "TIMER_DELIVER_MS"


class NewClusterMessage(msgspec.Struct, frozen=True):
    """A message to be sent. `delay_level` 1 to 18, or `deliver_at_ms`, delays it.

    `properties` are the producer's own and those of the system, without the ones that have a field.
    A half message names its `producer_group`, and says so in `sys_flag`.
    """

    body: bytes
    tag: str = ""
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = {}
    message_id: str = ""
    delay_level: int = 0
    deliver_at_ms: int = 0
    born_ms: int = 0  # 0: now
    reconsume_times: int = 0
    flag: int = 0
    sys_flag: int = 0
    producer_group: str = ""

    def property_text(self) -> str:
        """The property string; ClusterError where it is too long or has a separator in it."""
        named = {
            UNIQ_KEY: self.message_id or uuid4().hex.upper(),
            TAGS: self.tag,
            KEYS: " ".join(self.keys),
            DELAY: str(self.delay_level) if self.delay_level else "",
            DELIVER_AT_MS: str(self.deliver_at_ms) if self.deliver_at_ms else "",
            "WAIT": "true",
        }
        items = {**self.properties, **{name: value for name, value in named.items() if value}}
        text = "".join(f"{name}\x01{value}\x02" for name, value in items.items())
        if text.count("\x01") + text.count("\x02") != 2 * len(items):
            raise ClusterError("properties: a name or value holds byte 1 or 2", remedy="encode it")
        if len(text.encode()) > PROPERTIES_BYTES_MAX:
            raise ClusterError(
                f"properties: they have more than {PROPERTIES_BYTES_MAX} bytes",
                remedy="put what is long into the body",
            )
        return text


class ClusterMessage(msgspec.Struct, frozen=True):
    """A message that a broker keeps; `body` is decompressed when it is asked for."""

    place: ClusterQueue
    offset: int
    position: int
    message_id: str
    offset_id: str
    tag: str
    keys: tuple[str, ...]
    properties: dict[str, str]
    born_ms: int
    born_host: str
    stored_ms: int
    store_host: str
    reconsume_times: int
    record: Record

    @property
    def body(self) -> bytes:
        """The body as its producer wrote it; takes a while where that compressed it."""
        record = self.record
        return plain_body(record.body, record.sys_flag, bytes_max=PLAIN_BYTES_MAX).body


def messages_of(body: bytes, broker: str) -> list[ClusterMessage]:
    """The messages of an answer of `broker`; ClusterError where it holds none."""
    try:
        records = decode_records(body)
    except RecordError as error:
        raise ClusterError(
            f"{broker} answered with {error}", remedy="is this a RocketMQ broker of 4.9 or 5?"
        ) from None
    return [_message(record, broker) for record in records]


def born_now_ms() -> int:
    """The born time of what is sent now."""
    return time.time_ns() // 1_000_000


def with_key(messages: Iterable[ClusterMessage], topic: str, key: str) -> list[ClusterMessage]:
    """Those that carry a key or id; brokers look at its hash alone."""
    return [
        each
        for each in messages
        if each.place.topic == topic and (key in each.keys or key == each.message_id)
    ]


def _message(record: Record, broker: str) -> ClusterMessage:
    properties = split_properties(record.properties)
    return ClusterMessage(
        place=ClusterQueue(record.topic, broker, record.queue),
        offset=record.offset,
        position=record.position,
        message_id=properties.pop(UNIQ_KEY, ""),
        offset_id=(record.store_host + record.position.to_bytes(8, "big")).hex().upper(),
        tag=properties.pop(TAGS, ""),
        keys=tuple(properties.pop(KEYS, "").split()),
        properties=properties,
        born_ms=record.born_ms,
        born_host=unpack_host(record.born_host),
        stored_ms=record.stored_ms,
        store_host=unpack_host(record.store_host),
        reconsume_times=record.reconsume_times,
        record=record,
    )
