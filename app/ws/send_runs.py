"""Plain SENDs of one read that continue each other: stored as one batch of columns.

A program that sends message by message without waiting sends frames that differ in their request
number, the number of the id, the born time and the bodies. Only the first of them is parsed.
"""

import struct
from typing import NamedTuple

from app.send_batcher import BatchSlice, part_of
from app.ws.packed_send import COUNT_MIN, PackedSendFrame, parse_plain, sum_of_lengths
from app.ws.shapes import DURABILITY_CODES, build_messages, sent_frame
from engine.message import Message
from engine.message_columns import BODY_LENGTH_BYTES, SHARED, ColumnsResult, MessageColumns
from kitemq.protocol.columns import I64, NOTHING, SAME, ProtocolError, put_numbers
from kitemq.protocol.frames import COUNT_MAX, HEADER, encode
from kitemq.protocol.sends import SEND, SendFrame, SentFrame

HEAD = struct.Struct(">BIIBiII")  # the header and what SEND begins with
assert HEAD.size == HEADER.size + SEND.size
ALIKE = slice(HEADER.size, HEAD.size - 4)  # durability, queue, count
RUN_BYTES_MAX = 1024 * 1024


class SendPattern(NamedTuple):
    """What frames have in common that continue each other.

    `texts` lie between the fixed fields and the born time at `born_at`, or the bodies if there is
    none.
    """

    frame: PackedSendFrame
    alike: bytes
    texts: bytes
    born_at: int

    def fits(self, data: bytes) -> bool:
        """Whether a frame has the same, and whole bodies."""
        frame = self.frame
        return (
            data[ALIKE] == self.alike
            and data[HEAD.size : self.born_at] == self.texts
            and _ends_with_bodies(data, frame.bodies_at, frame.count)
        )


class SendRun(NamedTuple):
    """Frames that are stored together; their messages have neighbouring ids."""

    pattern: SendPattern
    frames: list[bytes]
    body_bytes: int

    @property
    def message_count(self) -> int:
        return self.pattern.frame.count * len(self.frames)

    def columns(self, remote: str) -> MessageColumns:
        """The messages of all frames, sent by a client at the address `remote`."""
        first, frames = self.pattern.frame, self.frames
        bodies_at = first.bodies_at
        texts_at = bodies_at + BODY_LENGTH_BYTES * first.count
        parts = [data[bodies_at:texts_at] for data in frames]
        parts += [data[texts_at:] for data in frames]
        born, born_at = [data[self.pattern.born_at : bodies_at] for data in frames], SHARED
        if born.count(born[0]) < len(born):
            born_at = BODY_LENGTH_BYTES * self.message_count + self.body_bytes
            parts += [each * first.count for each in born]
        return MessageColumns(
            topic=first.topic,
            queue=first.queue,
            count=self.message_count,
            data=b"".join(parts),
            bodies_at=0,
            body_bytes=self.body_bytes,
            messages=lambda: self._messages(remote),
            born_at=born_at,
            tag=first.tag,
            keys=tuple(first.keys.split()),
            properties=first.properties,
            flag=first.flag,
            born_ms=I64.unpack(born[0])[0] if born[0] else 0,
            born_host=remote,
            id_prefix=first.id_prefix,
            id_first=HEAD.unpack_from(frames[0])[6],
        )

    def _messages(self, remote: str) -> list[Message]:
        return [
            message
            for data in self.frames
            for message in build_messages(SendFrame.parse(data, HEADER.size), remote, 0)
        ]

    def requests(self) -> list[int]:
        """The request number of each frame."""
        return [HEADER.unpack_from(data)[1] for data in self.frames]

    def answers(self, result: BatchSlice | ColumnsResult) -> bytes:
        """The SENT of each frame, side by side."""
        count, with_ids = self.pattern.frame.count, not self.pattern.frame.id_prefix
        requests = self.requests()
        if isinstance(result, ColumnsResult) and count == 1 and not with_ids:
            return _answers_of_one(requests, result)
        spans = [slice(at, at + count) for at in range(0, self.message_count, count)]
        parts = [part_of(result, span) for span in spans]
        return b"".join(
            [
                encode(request, sent_frame(part, with_ids=with_ids))
                for request, part in zip(requests, parts, strict=True)
            ]
        )


class SendRuns:
    """Collects SENDs of one connection: `begin` with one, `go_on` with others, `end`."""

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._pattern: SendPattern | None = None
        self._frames: list[bytes] = []
        self._size_bytes = 0
        self._next_id = 0

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
            or not pattern.fits(data)
        ):
            return False
        frames.append(data)
        self._size_bytes += len(data)
        self._next_id += count
        return True

    def end(self) -> SendRun | list[bytes]:
        """What has waited: a run, or frames to be handled each by itself."""
        frames, pattern = self._frames, self._pattern
        if not frames:
            return frames
        self._frames = []
        if len(frames) == 1 or pattern is None or pattern.frame.count * len(frames) < COUNT_MIN:
            return frames
        bodies_at = pattern.frame.bodies_at + BODY_LENGTH_BYTES * pattern.frame.count
        return SendRun(pattern, frames, self._size_bytes - bodies_at * len(frames))

    def _adopt(self, data: bytes) -> SendPattern | None:
        """The pattern of a frame that others may continue."""
        if self._pattern is None or not self._pattern.fits(data):
            self._pattern = _pattern_of(data)
        *_, count, id_first = HEAD.unpack_from(data)
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
    ):
        return None
    born_at = frame.bodies_at - (I64.size if frame.born_ms else 0)
    return SendPattern(frame, data[ALIKE], data[HEAD.size : born_at], born_at)


def _ends_with_bodies(data: bytes, at: int, count: int) -> bool:
    """Whether a bytes column at `at` reaches just to the end."""
    if count == 1:
        bodies_at = at + BODY_LENGTH_BYTES
        return int.from_bytes(data[at:bodies_at], "big") == len(data) - bodies_at
    try:
        return at + BODY_LENGTH_BYTES * count + sum_of_lengths(data, at, count, "I") == len(data)
    except ProtocolError:
        return False


def _answers_of_one(requests: list[int], result: ColumnsResult) -> bytes:
    """The SENTs of frames of one message each, whose ids the client knows."""
    queue, durability = put_numbers((result.queue,)), DURABILITY_CODES[result.durability]
    layout = struct.Struct(f">BIIBI{len(queue)}sBqBqB")
    pack, size_bytes = layout.pack, layout.size - HEADER.size
    places = zip(requests, result.offsets, result.positions, strict=True)
    answers = [
        pack(
            *(SentFrame.TYPE, request, size_bytes, durability, 1, queue),
            *(SAME, offset, SAME, position, NOTHING),
        )
        for request, offset, position in places
    ]
    if result.offsets[0] == 0 or result.positions[0] == 0:  # a column of a 0 is NOTHING
        first = part_of(result, slice(0, 1))
        answers[0] = encode(requests[0], sent_frame(first, with_ids=False))
    return b"".join(answers)
