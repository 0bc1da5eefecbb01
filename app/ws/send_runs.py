"""Plain SENDs of one read that continue each other: stored as one batch of columns.

A program that sends message by message without waiting sends frames that differ in their request
number, the number of the id, the born time and the bodies. Only the first of them is parsed.
"""

import struct
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from app.send_batcher import BatchSlice, part_of
from app.ws.packed_send import ID_NUMBERS, PackedSendFrame, parse_plain, sum_of_lengths
from app.ws.shapes import DURABILITY_CODES, sent_frame
from engine.broker import KERNEL
from engine.message import Durability, Message
from engine.message_columns import (
    BODY_LENGTH_BYTES,
    SHARED,
    ColumnsResult,
    LonePlace,
    MessageColumns,
)
from engine.plain_columns import COLUMNS_COUNT_MIN
from kitemq.protocol.columns import I64, NOTHING, SAME, ProtocolError, put_numbers, take_blobs
from kitemq.protocol.frames import COUNT_MAX, HEADER, encode
from kitemq.protocol.sends import SEND, SendFrame, SentFrame, message_ids

HEAD = struct.Struct(">BIIBiII")  # the header and what SEND begins with
assert HEAD.size == HEADER.size + SEND.size
ALIKE = slice(HEADER.size, HEAD.size - 4)  # durability, queue, count
RUN_BYTES_MAX = 1024 * 1024
# Where the pattern is known, columns of one message cost less than the message.
LONE_COUNT_MIN = 1 if KERNEL == "compiled" else COLUMNS_COUNT_MIN
TEXTS_BYTES_MAX = 4096  # of a pattern, which lives as long as its connection
FLAG_MAX = 1 << 31


class SendPattern(NamedTuple):
    """What frames have in common that continue each other.

    `texts` lie between the fixed fields and the born time at `born_at`, which is empty if it is 0.
    """

    frame: PackedSendFrame
    alike: bytes
    texts: bytes
    born_at: int
    bodies_at: int
    lengths_end: int  # of the bodies' column: where the first begins

    def fits(self, data: bytes, id_first: int) -> bool:
        """Whether a frame has the same, whole bodies, and ids within their 32 bits."""
        if self.frame.id_prefix and id_first + self.frame.count > ID_NUMBERS:
            return False
        if data[ALIKE] != self.alike or data[HEAD.size : self.born_at] != self.texts:
            return False
        at, end, count = self.bodies_at, self.lengths_end, self.frame.count
        if count == 1:
            body_bytes = int.from_bytes(data[at:end], "big")
        elif end <= len(data):
            body_bytes = sum_of_lengths(data, at, count, "I")
        else:
            return False
        return end + body_bytes == len(data)


class FrameRun(NamedTuple):
    """Frames that are stored together; their messages have neighbouring ids."""

    pattern: SendPattern
    frames: list[bytes]

    @property
    def body_bytes(self) -> int:
        return sum(map(len, self.frames)) - self.pattern.lengths_end * len(self.frames)

    @property
    def message_count(self) -> int:
        return self.pattern.frame.count * len(self.frames)

    @property
    def is_small(self) -> bool:
        """Whether it is stored sooner by messages than by columns."""
        return len(self.frames) == 1 and self.pattern.frame.count < LONE_COUNT_MIN

    @property
    def is_lone(self) -> bool:
        """Whether it is one message, whose id its client chose."""
        return self.message_count == 1 and self.pattern.frame.id_prefix != ""

    @property
    def requests(self) -> list[int]:
        """The request number of each frame."""
        return [HEADER.unpack_from(data)[1] for data in self.frames]

    @property
    def halves(self) -> list["FrameRun"]:
        """Both halves of a run of two frames or more, in order."""
        middle = len(self.frames) // 2
        halves = self.frames[:middle], self.frames[middle:]
        return [FrameRun(self.pattern, frames) for frames in halves]

    def columns(self, remote: str) -> MessageColumns:
        """The messages of all frames, sent by a client at the address `remote`."""
        pattern, first, frames = self.pattern, self.pattern.frame, self.frames
        data, bodies_at, born_at = frames[0], pattern.bodies_at, SHARED
        born_ms = int.from_bytes(data[pattern.born_at : bodies_at], "big", signed=True)
        id_first: int = HEAD.unpack_from(data)[6]
        if len(frames) > 1:
            born = [each[pattern.born_at : bodies_at] for each in frames]
            lengths_end = pattern.lengths_end
            parts = [each[bodies_at:lengths_end] for each in frames]
            parts += [each[lengths_end:] for each in frames]
            if born.count(born[0]) < len(born):
                born_at = sum(map(len, parts))
                parts += [each * first.count for each in born]
            data, bodies_at = b"".join(parts), 0
        return MessageColumns(
            topic=first.topic,
            queue=first.queue,
            count=self.message_count,
            data=data,
            bodies_at=bodies_at,
            body_bytes=self.body_bytes,
            messages=lambda: self.messages(remote),
            born_at=born_at,
            tag=first.tag,
            keys=tuple(first.keys.split()),
            properties=first.properties,
            flag=first.flag,
            born_ms=born_ms,
            born_host=remote,
            id_prefix=first.id_prefix,
            id_first=id_first,
        )

    def messages(self, remote: str) -> list[Message]:
        """The same as objects."""
        born_at, bodies_at = self.pattern.born_at, self.pattern.bodies_at
        first, messages = self.pattern.frame, []
        for data in self.frames:
            bodies, _ = take_blobs(data, bodies_at, first.count)
            ids = message_ids(first.id_prefix, HEAD.unpack_from(data)[6], first.count)
            born_ms = int.from_bytes(data[born_at:bodies_at], "big", signed=True)
            messages += [
                Message(
                    topic=first.topic,
                    body=body,
                    tag=first.tag,
                    keys=tuple(first.keys.split()),
                    properties=dict(first.properties),
                    message_id=message_id,
                    queue=first.queue,
                    flag=first.flag,
                    born_ms=born_ms,
                    born_host=remote,
                )
                for body, message_id in zip(bodies, ids, strict=True)
            ]
        return messages

    def answers(self, result: BatchSlice | ColumnsResult) -> bytes:
        """The SENT of each frame, side by side."""
        count, with_ids = self.pattern.frame.count, not self.pattern.frame.id_prefix
        if count == 1 and not with_ids:
            return _answers_of_one(self.requests, result)
        spans = [slice(at, at + count) for at in range(0, self.message_count, count)]
        parts = [part_of(result, span) for span in spans]
        return b"".join(
            [
                encode(request, sent_frame(part, with_ids=with_ids))
                for request, part in zip(self.requests, parts, strict=True)
            ]
        )


class SendRuns:
    """Collects SENDs of one connection: `begin` with one, `go_on` with others, `end`."""

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = min(frame_bytes_max, RUN_BYTES_MAX)
        self._pattern: SendPattern | None = None
        self._frames: list[bytes] = []
        self._size_bytes = 0
        self._next_id = 0

    @property
    def is_under_way(self) -> bool:
        """Whether SENDs wait for the end of their run."""
        return bool(self._frames)

    def begin(self, data: bytes | str) -> bool:
        """Whether a message is just one SEND, which waits for the end of its run then."""
        if not isinstance(data, bytes) or not HEAD.size < len(data) <= self._frame_bytes_max:
            return False
        kind, _, payload_bytes = HEADER.unpack_from(data)
        if kind != SendFrame.TYPE or HEADER.size + payload_bytes != len(data):
            return False
        self._frames.append(data)
        self._size_bytes = len(data)
        return True

    def go_on(self, data: bytes | str) -> bool:
        """Whether a message is a SEND that is stored with those before, and waits as they do."""
        frames = self._frames
        if not frames or not isinstance(data, bytes) or len(data) <= HEAD.size:
            return False
        pattern = self._pattern if len(frames) > 1 else self._adopt(frames[0])
        kind, _, payload_bytes, _, _, count, id_first = HEAD.unpack_from(data)
        if (
            pattern is None
            or kind != SendFrame.TYPE
            or HEADER.size + payload_bytes != len(data)
            or (id_first != self._next_id and pattern.frame.id_prefix)
            or self._size_bytes + len(data) > RUN_BYTES_MAX
            or count * (len(frames) + 1) > COUNT_MAX
            or not pattern.fits(data, id_first)
        ):
            return False
        frames.append(data)
        self._size_bytes += len(data)
        self._next_id += count
        return True

    def end(self) -> list[FrameRun | bytes]:
        """What has waited: runs, and a frame that is special."""
        frames = self._frames
        if not frames:
            return []
        self._frames = []
        pattern = self._pattern if len(frames) > 1 else self._adopt(frames[0])
        if pattern is None:
            return [*frames]
        return [FrameRun(pattern, frames)]

    def _adopt(self, data: bytes) -> SendPattern | None:
        """The pattern of a frame that others may continue."""
        *_, count, id_first = HEAD.unpack_from(data)
        if self._pattern is None or not self._pattern.fits(data, id_first):
            self._pattern = _pattern_of(data)
        self._next_id = id_first + count
        return self._pattern


def _pattern_of(data: bytes) -> SendPattern | None:
    """The pattern of a frame whose messages differ in nothing but their bodies."""
    try:
        frame = parse_plain(data, HEADER.size, count_min=1)
    except ProtocolError:
        return None
    if frame is None or not (
        frame.tags_at == frame.keys_at == frame.flags_at == frame.born_at == SHARED
        and -FLAG_MAX <= frame.flag < FLAG_MAX
    ):
        return None
    bodies_at = frame.bodies_at
    born_at = bodies_at - (I64.size if frame.born_ms else 0)
    lengths_end = bodies_at + BODY_LENGTH_BYTES * frame.count
    texts = data[HEAD.size : born_at]
    if len(texts) > TEXTS_BYTES_MAX:
        return None
    frame = replace(frame, data=b"")
    return SendPattern(frame, data[ALIKE], texts, born_at, bodies_at, lengths_end)


def _answers_of_one(requests: list[int], result: BatchSlice | ColumnsResult) -> bytes:
    """The SENTs of frames of one message each, whose ids the client knows."""
    # Of plain messages of one topic that are stored together, all are in one queue.
    queue = result.queue if isinstance(result, ColumnsResult) else result.messages[0].queue
    layout, column = _sent_of_one(queue)
    pack, size_bytes = layout.pack, layout.size - HEADER.size
    code = DURABILITY_CODES[result.durability]
    places = zip(requests, result.offsets, result.positions, strict=True)
    answers = [
        pack(
            *(SentFrame.TYPE, request, size_bytes, code, 1, column),
            *(SAME, offset, SAME, position, NOTHING),
        )
        for request, offset, position in places
    ]
    if result.offsets[0] == 0 or result.positions[0] == 0:  # a column of a 0 is NOTHING
        place = LonePlace(queue, result.offsets[0], result.positions[0])
        answers[0] = answer_of_one(requests[0], place, result.durability)
    return b"".join(answers)


def answer_of_one(request: int, place: LonePlace, durability: Durability) -> bytes:
    """The SENT of a frame of one message, whose id the client knows."""
    code, queue, offset, position = DURABILITY_CODES[durability], *place[:3]
    if not (offset and position):  # a column of a 0 is NOTHING
        return encode(request, SentFrame(code, [queue], [offset], [position], [""]))
    layout, column = _sent_of_one(queue)
    return layout.pack(
        *(SentFrame.TYPE, request, layout.size - HEADER.size, code, 1, column),
        *(SAME, offset, SAME, position, NOTHING),
    )


@lru_cache(maxsize=1024)
def _sent_of_one(queue: int) -> tuple[struct.Struct, bytes]:
    """The layout of a SENT of one message, and its column of queues."""
    column = put_numbers((queue,))
    return struct.Struct(f">BIIBI{len(column)}sBqBqB"), column
