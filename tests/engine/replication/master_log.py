"""The log of an Apache RocketMQ master as its HA port gives it: without CRCs of the records."""

import json
import re
import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Any
from zlib import crc32

from engine.handover.master_tables import MasterTables
from engine.replication.pieces import LogPiece

MAGIC_V1, MAGIC_V2, MAGIC_BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
HEAD = struct.Struct(">IIIiiqqi")
BLANK = struct.Struct(">II")
STORED_MS = 1_700_000_000_000
BORN_V6, STORE_V6 = 1 << 4, 1 << 5


class MasterLog:
    """`put` appends a record; `pieces` are what a slave gets."""

    def __init__(self, segment_bytes: int, rest: bytes = b"\0") -> None:
        """`rest` is the byte that fills a segment's end behind the head of a blank record."""
        self.segment_bytes, self._rest = segment_bytes, rest
        self.data = bytearray()
        self.offsets: dict[tuple[str, int], int] = {}

    def put(
        self,
        topic: str,
        body: bytes,
        queue: int = 0,
        properties: Mapping[str, str] | None = None,
        *,
        sys_flag: int = 0,
        magic: int = MAGIC_V1,
    ) -> int:
        """Append a record; its position."""
        offset = self.offsets.get((topic, queue), 0)
        self.offsets[topic, queue] = offset + 1
        tail = self._tail(topic, body, properties or {}, sys_flag, magic)
        size = HEAD.size + len(tail)
        room = self.segment_bytes - len(self.data) % self.segment_bytes
        if size + BLANK.size > room:
            self.data += BLANK.pack(room, MAGIC_BLANK).ljust(room, self._rest)
        position = len(self.data)
        crc = crc32(body) & 0x7FFFFFFF
        self.data += HEAD.pack(size, magic, crc, queue, 0, offset, position, sys_flag) + tail
        return position

    def forget(self, topic: str) -> None:
        """The topic is deleted: its offsets begin again."""
        self.offsets = {key: at for key, at in self.offsets.items() if key[0] != topic}

    def pieces(self, position: int, size: int = 1000) -> Iterator[LogPiece]:
        """What lies from `position` on, none of it over the end of a segment."""
        while position < len(self.data):
            room = self.segment_bytes - position % self.segment_bytes
            data = bytes(self.data[position : position + min(size, room)])
            yield LogPiece(position, data, crc32(data))
            position += len(data)

    def _tail(
        self, topic: str, body: bytes, properties: Mapping[str, str], sys_flag: int, magic: int
    ) -> bytes:
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
        name = topic.encode()
        length = struct.pack(">B" if magic == MAGIC_V1 else ">H", len(name))
        return b"".join(
            (
                struct.pack(">q", STORED_MS),
                _host(bool(sys_flag & BORN_V6)),
                struct.pack(">q", STORED_MS),
                _host(bool(sys_flag & STORE_V6)),
                struct.pack(">iqi", 0, 0, len(body)),
                body,
                length,
                name,
                struct.pack(">h", len(text)),
                text,
            )
        )


def _host(is_v6: bool) -> bytes:
    family, text = (socket.AF_INET6, "::1") if is_v6 else (socket.AF_INET, "127.0.0.1")
    return socket.inet_pton(family, text) + struct.pack(">i", 10911)


def tables(
    log_end: int,
    *,
    topics: Mapping[str, Mapping[str, Any]] | None = None,
    groups: Mapping[str, Mapping[str, Any]] | None = None,
    offsets: Mapping[str, Mapping[int, int]] | None = None,
    delays: Mapping[int, int] | None = None,
) -> MasterTables:
    """What a master says of these, in RocketMQ's JSON."""
    documents = {
        "topics.json": {"topicConfigTable": topics or {}},
        "subscriptionGroup.json": {"subscriptionGroupTable": groups or {}},
        "consumerOffset.json": {"offsetTable": offsets or {}},
        "delayOffset.json": {"offsetTable": delays or {}},
    }
    bodies = {
        name: re.sub(r'"(\d+)":', r"\1:", json.dumps(document)).encode()
        for name, document in documents.items()
    }
    return MasterTables(bodies, log_end)
