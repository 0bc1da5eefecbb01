"""Sends that are stored as one `MessageColumns`, and their answers.

They are counted together, stored by one append and answered by one write. Where they are refused
together each is handled by itself, and told what concerns it.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from app.remoting.call import RemotingCall
from app.remoting.errors import ErrorResponse, answer_of
from app.remoting.plain_headers import PlainSend
from app.remoting.sending import batch_id, messages_of, stored_code, stored_fields
from app.send_batcher import BatchSlice
from engine.message import Message
from engine.message_columns import SHARED, BatchColumns, ColumnsResult, MessageColumns
from protocol.remoting.codes import Flag, ResponseCode
from protocol.remoting.frames import LENGTH_BYTES, LENGTHS, Command, RawFrame, encode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend
    from app.remoting.connection import RemotingConnection
    from app.security.access import Principal
    from engine.errors import EngineError

POSITION_DIGITS = 16
SENT_OPAQUE = 1_234_567_890  # stands for a number of its own


class SendRun:
    """Requests of one code to one queue in order: single messages, or one batch."""

    __slots__ = ("code", "frames", "is_batch", "parts", "queue", "sends", "size_bytes", "topic")

    def __init__(self, code: int, topic: str, queue: int, *, is_batch: bool) -> None:
        self.code = code
        self.topic = topic
        self.queue = queue
        self.is_batch = is_batch
        self.frames: list[RawFrame] = []
        self.sends: list[PlainSend] = []
        self.parts: list[bytes] = []  # the messages as those of a batch
        self.size_bytes = 0

    def add(self, frame: RawFrame, send: PlainSend, parts: Sequence[bytes]) -> None:
        self.frames.append(frame)
        self.sends.append(send)
        self.parts += parts
        self.size_bytes += len(frame.body)

    def split(self, count: int) -> "SendRun":
        """Take the first requests off."""
        head = SendRun(self.code, self.topic, self.queue, is_batch=self.is_batch)
        head.frames, self.frames = self.frames[:count], self.frames[count:]
        head.sends, self.sends = self.sends[:count], self.sends[count:]
        head.size_bytes = sum([len(frame.body) for frame in head.frames])
        return head

    def send_singly(self, connection: "RemotingConnection") -> None:
        """Handle each request by itself."""
        for frame in self.frames:
            connection.take(frame)


class ColumnSends:
    """The requests of a run on their way."""

    def __init__(
        self,
        connection: "RemotingConnection",
        principal: "Principal",
        run: SendRun,
        batch: BatchColumns,
    ) -> None:
        self._connection = connection
        self._principal = principal
        self._run = run
        data, born_at, times = batch.data, SHARED, [send.born_ms for send in run.sends]
        if times.count(times[0]) < len(times):
            data, born_at = data + struct.pack(f">{len(times)}q", *times), len(data)
        self._columns = MessageColumns(
            topic=run.topic,
            queue=run.queue,
            count=batch.message_count,
            data=data,
            bodies_at=0,
            body_bytes=batch.body_bytes,
            messages=self._messages,
            tags_at=batch.tags_at,
            keys_at=batch.keys_at,
            flags_at=batch.flags_at,
            born_at=born_at,
            ids_at=batch.ids_at,
            properties_at=batch.properties_at,
            born_ms=times[0],
            born_host=connection.client,
        )

    @property
    def _backend(self) -> "RemotingBackend":
        return self._connection.backend

    def submit(self) -> None:
        """Store them at the end of this turn, or each by itself where a limit leaves no room."""
        run, host, limits = self._run, self._connection.host, self._backend.request_limits
        count, caller = len(run.frames), self._principal.caller
        if not (
            limits.has_room(host, count) and limits.budget.take_whole(host, caller, run.size_bytes)
        ):
            run.send_singly(self._connection)
            return
        limits.enter(host, count)
        self._connection.ahead(count)
        self._backend.messaging.submit_columns(self._columns, None, self._done, self._split)

    def _leave(self) -> None:
        """End the count of the requests."""
        run, host, limits = self._run, self._connection.host, self._backend.request_limits
        limits.leave(host, count=len(run.frames))
        limits.budget.give_small(host, self._principal.caller, run.size_bytes)
        self._connection.ahead(-len(run.frames))

    def _split(self) -> None:
        self._leave()
        self._run.send_singly(self._connection)

    def _calls(self) -> list[RemotingCall]:
        """The requests as those that are handled by themselves."""
        calls = [
            RemotingCall(self._connection, frame.command(), self._principal)
            for frame in self._run.frames
        ]
        for call in calls:
            call.use_long_names()
        return calls

    def _messages(self) -> list[Message]:
        return [each for call in self._calls() for each in messages_of(self._backend, call)]

    def _done(self, part: BatchSlice | ColumnsResult | None, error: "EngineError | None") -> None:
        self._leave()
        backend, run = self._backend, self._run
        if part is None:
            answer = answer_of(error or RuntimeError("neither stored nor refused"))
            for call in self._calls():
                self._connection.answer(call, answer)
            return
        if client := backend.clients.name_of(self._connection):
            now_ms, born_ms = backend.host.clock.now_ms(), run.sends[-1].born_ms
            backend.activity.sent(client, self._columns.count, now_ms, born_ms)
        if run.is_batch:
            [call] = self._calls()
            self._connection.answer(call, self._answer_of_batch(call, part))
            return
        code = stored_code(backend, run.topic, part.durability)
        backend.count(run.code, code, len(run.frames))
        template = _answer_template(code, self._offset_id_prefix(), run.queue)
        answers: list[bytes] = []
        ids = self._columns.own_ids()
        for send, *place in zip(run.sends, part.positions, part.offsets, ids, strict=True):
            if send.opaque is not None:
                content = template % (send.opaque, *place)
                answers += LENGTHS.pack(LENGTH_BYTES + len(content), len(content)), content
        self._connection.write(b"".join(answers))

    def _answer_of_batch(
        self, call: RemotingCall, part: BatchSlice | ColumnsResult
    ) -> ErrorResponse:
        prefix, run = self._offset_id_prefix(), self._run
        offset_ids = ",".join([f"{prefix}{position:016X}" for position in part.positions])
        message_id = batch_id(call.text("properties", "")) or self._columns.message_ids(1)[0]
        return ErrorResponse(
            stored_code(self._backend, run.topic, part.durability),
            stored_fields(offset_ids, run.queue, str(part.offsets[0]), message_id),
        )

    def _offset_id_prefix(self) -> str:
        return self._backend.offset_id(self._connection, 0)[:-POSITION_DIGITS]


@lru_cache(maxsize=1024)
def _answer_template(code: ResponseCode, offset_id_prefix: str, queue: int) -> bytes:
    """The header of an answer, with places for its number, position, offset and message id."""
    fields = stored_fields(f"{offset_id_prefix}<position>", queue, "<offset>", "<id>")
    frame = encode(Command(code, SENT_OPAQUE, Flag.RESPONSE, fields))
    header = frame[LENGTHS.size :].replace(b"%", b"%%").replace(b"%d" % SENT_OPAQUE, b"%d")
    places = {b"<position>": b"%016X", b"<offset>": b"%d", b"<id>": b"%s"}
    for mark, place in places.items():
        header = header.replace(mark, place)
    return header
