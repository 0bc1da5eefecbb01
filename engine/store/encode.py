"""Encodes a batch of messages as records and queue entries; the store's inner loop.

Written for few Python steps per message: what neighbours share (topic, tag, hosts, times, body
length) is packed once and joined in by reference.
"""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from zlib import crc32

import msgspec

from engine.host import IPV6_BYTES, pack_host
from engine.message import (
    NAME_SEPARATOR,
    PROPERTIES_BYTES_MAX,
    UNIQ_KEY,
    Message,
    SentRun,
)
from engine.store.consume_queue import ConsumeQueue, entries_layout
from engine.store.entry_codes import TagCode
from engine.store.hashing import tag_hash
from engine.store.record import (
    BORN_HOST_V6,
    CRC_BYTES,
    CRC_MASK,
    CRC_NAME,
    DIGITS,
    INT,
    LAST_DIGITS,
    OWN,
    SHARED_V4,
    SHORT,
    STORE_HOST_V6,
    encode_properties,
    topic_field,
)

QueueOf = Callable[[str, int], ConsumeQueue]


# Topic, id (empty where the id itself says where the message lies), keys, position in the log.
Keys = tuple[str, str, tuple[str, ...], int]


class QueueRun(msgspec.Struct):
    """Messages of one batch that go to one queue: their entries' fields and tag codes."""

    queue: ConsumeQueue
    first_offset: int
    fields: list[int]  # position, size, tag code, for each message
    tag_codes: list[int]

    def sent(self) -> SentRun:
        """The sender's result."""
        count, size_bytes = len(self.tag_codes), sum(self.fields[1::3])
        return SentRun(*self.queue.id, self.first_offset, count, size_bytes)

    def packed(self) -> bytes:
        """The queue entries of the run."""
        return entries_layout(len(self.tag_codes)).pack(*self.fields)


class EncodedBatch(msgspec.Struct):
    """A batch ready to be written at the position it was encoded for."""

    data: bytes
    runs: list[QueueRun]
    offsets: list[int]
    positions: list[int]
    unnamed: list[Message]  # whose ids were made here, from their positions
    keyed: list[Keys]  # what is to be indexed


class Encoder:
    """Encodes for one store.

    A message without an id gets one that says where it lies: `id_prefix` (16 hex digits) and its
    position (16), so that it is found without an index. `tag_codes` gives, by topic, another third
    field of queue entries.
    """

    def __init__(
        self, store_host: str, id_prefix: str, queue_of: QueueOf, tag_codes: dict[str, TagCode]
    ) -> None:
        assert len(id_prefix) == ID_PREFIX_DIGITS
        self._host = pack_host(store_host)
        self._host_flag = STORE_HOST_V6 if len(self._host) == IPV6_BYTES else 0
        self.id_prefix = id_prefix
        self.queue_of = queue_of
        self._tag_codes = tag_codes

    def has_tag_codes(self, topic: str) -> bool:
        """Whether the third field of a topic's entries is something else than the tag's hash."""
        return topic in self._tag_codes

    def encode(self, messages: Sequence[Message], position: int, stored_ms: int) -> EncodedBatch:
        """Records of `messages` for `position`; Invalid when one's properties are too long."""
        parts: list[bytes] = []
        offsets: list[int] = []
        positions: list[int] = []
        unnamed: list[Message] = []
        keyed: list[Keys] = []
        runs: dict[tuple[str, int], QueueRun] = {}
        pack_own, join, id_prefix, start_of_run = OWN.pack, b"".join, self.id_prefix, 0
        magic, code, fields, codes = 0, 0, [0], [0]
        last_topic, last_queue, last_tag = "", -1, None
        last_born_ms, last_host, last_attempt, last_flag = -1, "", 0, 0
        shared = before_body = before = after = b""
        fixed_bytes, last_length, last_id_length = 0, -1, -1
        for message in messages:
            topic, queue, body, tag = message.topic, message.queue, message.body, message.tag
            if queue != last_queue or topic != last_topic:
                run = runs.get((topic, queue)) or self._new_run(runs, topic, queue)
                fields, codes, start_of_run = run.fields, run.tag_codes, run.first_offset
                magic = topic_field(topic)[0]
                last_topic, last_queue, last_tag, last_id_length = topic, queue, None, -1
            if tag != last_tag:
                last_tag, code = self._tag_code(message, stored_ms)
                last_id_length = -1
            if (
                message.born_ms != last_born_ms
                or message.born_host is not last_host
                or message.attempt != last_attempt
                or message.sys_flag != last_flag
            ):
                # A prepared position is used once: the next one packs its own.
                last_born_ms = -1 if message.prepared_position else message.born_ms
                last_host, last_attempt = message.born_host, message.attempt
                last_flag = message.sys_flag
                shared, last_length = self.shared(message, stored_ms), -1
            if len(body) != last_length:
                last_length = len(body)
                before_body = shared + INT.pack(last_length)
                fixed_bytes = OWN.size + len(before_body) + last_length
            message_id = message.message_id
            if not message_id:
                # This is quicker than a format.
                message_id = id_prefix + position.to_bytes(8, "big").hex().upper()
                message.message_id = message_id
                unnamed.append(message)
                if message.keys:
                    keyed.append((topic, "", message.keys, position))
            else:
                keyed.append((topic, message_id, message.keys, position))
            id_bytes, crc_bytes = message_id.encode(), CRC_BYTES
            if message.keys or message.properties or message.message_group:
                before, crc_bytes = _tail(message)
                id_bytes = after = b""
                last_id_length = -1
            elif len(id_bytes) != last_id_length:
                last_id_length = len(id_bytes)
                before, after = plain_tail(topic, tag, last_id_length)
            offset = start_of_run + len(codes)
            size = fixed_bytes + len(before) + len(id_bytes) + len(after) + crc_bytes
            own = pack_own(
                size, magic, crc32(body) & CRC_MASK, queue, message.flag, offset, position
            )
            record = join((own, before_body, body, before, id_bytes, after))
            parts.append(record)
            high, low = divmod(crc32(record) & CRC_MASK, 10_000)
            seal = CRC_NAME, DIGITS[low], DIGITS[high % 10_000], LAST_DIGITS[high // 10_000]
            parts += seal if crc_bytes else ()
            fields += (position, size, code)
            codes.append(code)
            offsets.append(offset)
            positions.append(position)
            position += size
        return EncodedBatch(
            b"".join(parts), list(runs.values()), offsets, positions, unnamed, keyed
        )

    def _new_run(self, runs: dict[tuple[str, int], QueueRun], topic: str, queue: int) -> QueueRun:
        """A new run of messages to that queue."""
        known = self.queue_of(topic, queue)
        run = runs[topic, queue] = QueueRun(known, known.next_offset, [], [])
        return run

    def _tag_code(self, message: Message, stored_ms: int) -> tuple[str | None, int]:
        """The third field of its entry, and the tag that it holds for if it is that tag's."""
        code_of = self._tag_codes.get(message.topic)
        if code_of is None:
            return message.tag, tag_hash(message.tag)
        return None, code_of(message, stored_ms)

    def shared(self, message: Message, stored_ms: int) -> bytes:
        """From the system flag to the prepared position; 20 bytes for a host that is IPv6."""
        born_host = pack_host(message.born_host)
        # A copy brings the bits of its first record, whose hosts may have been of another kind.
        sys_flag = message.sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6) | self._host_flag
        if len(born_host) == IPV6_BYTES:
            sys_flag |= BORN_HOST_V6
        layout = (
            SHARED_V4
            if not sys_flag & (BORN_HOST_V6 | STORE_HOST_V6)
            else struct.Struct(f">iq{len(born_host)}sq{len(self._host)}siq")
        )
        born_ms = message.born_ms or stored_ms
        times = message.attempt - 1
        prepared = message.prepared_position
        return layout.pack(sys_flag, born_ms, born_host, stored_ms, self._host, times, prepared)


ID_DIGITS = 32
ID_PREFIX_DIGITS = 16
HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


def is_own_id(message_id: str, position: int) -> bool:
    """Whether an id was made here for the record at `position`, so that no index needs it."""
    return len(message_id) == ID_DIGITS and message_id.endswith(f"{position:016X}")


def position_of_id(message_id: str) -> int | None:
    """The position that an id made here (or an IPv4 offset id) states; None for other ids."""
    # `int` alone also takes signs, blanks, underscores and the digits of other scripts.
    is_one = len(message_id) == ID_DIGITS and HEX_DIGITS.issuperset(message_id)
    return int(message_id[ID_PREFIX_DIGITS:], 16) if is_one else None


def _tail(message: Message) -> tuple[bytes, int]:
    """What follows the body: topic and properties, but for the CRC; the bytes that this takes.

    These are 0 where the properties leave no room for it.
    """
    properties = encode_properties(message)
    has_room = len(properties) + CRC_BYTES <= PROPERTIES_BYTES_MAX
    crc_bytes = CRC_BYTES if has_room else 0
    length = SHORT.pack(len(properties) + crc_bytes)
    return topic_field(message.topic)[1] + length + properties, crc_bytes


@lru_cache(maxsize=4096)
def plain_tail(topic: str, tag: str, id_length: int) -> tuple[bytes, bytes]:
    """The tail of a message with no more than a tag, before and after an ASCII id of a length."""
    mark = "0" * id_length
    whole, _ = _tail(Message(topic, b"", tag, message_id=mark))
    name = f"{UNIQ_KEY}{NAME_SEPARATOR}".encode()
    before, _, after = whole.partition(name + mark.encode())
    return before + name, after
