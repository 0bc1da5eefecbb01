"""One call of a gRPC client: a stream of an HTTP/2 connection, cut into messages.

The bytes of an unfinished message count in the connection's reservation until a receiver has the
message. What the client lets us send no more of waits here; its owner waits for it with `drained`.
"""

import asyncio
import re
import struct
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from app import eager
from app.grpc.connection import GrpcConnection
from app.security.byte_budget import RefusalReason
from protocol.http2 import frames, hpack
from protocol.http2.frames import DATA, END_HEADERS, END_STREAM, HEAD, HEADERS, Http2Code

if TYPE_CHECKING:
    from app.grpc.http2_connection import Http2Connection

MESSAGE_HEAD = struct.Struct(">BI")  # is it compressed, length
MESSAGE_HEAD_BYTES = MESSAGE_HEAD.size
FRAME_BYTES = 64  # what a frame of an unfinished message counts besides its payload
QUEUED_MAX = 64  # messages of a client's stream that wait for their handler
TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])")
UNIT_S = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
BEGIN = hpack.encode(((":status", "200"), ("content-type", "application/grpc")))
END_WELL = hpack.encode((("grpc-status", "0"),))


class GrpcStatus(IntEnum):
    """The status codes of gRPC that this endpoint ends a call with."""

    OK = 0
    INVALID_ARGUMENT = 3
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAUTHENTICATED = 16


class CallReceiver(Protocol):
    """What takes the messages of a call.

    `is_waiting` as long as it needs a message; `is_full` while it takes no more for now.
    """

    @property
    def is_waiting(self) -> bool: ...

    @property
    def is_full(self) -> bool: ...

    def message(self, data: bytes) -> None:
        """A whole message."""

    def end(self) -> None:
        """The client sends no more."""

    def refuse(self, reason: RefusalReason) -> bool:
        """Answer the call, as its bytes are too many or too slow; False if it has no such way."""

    def cancel(self) -> None:
        """The call is over: its client or its connection has ended."""


class Http2Stream:
    """A call from its headers to its status; ended by `answer` or `finish`, or by the client."""

    def __init__(
        self, connection: "Http2Connection", number: int, headers: list[hpack.Header]
    ) -> None:
        self._connection = connection
        self.number = number
        # The last one of a name counts: Go's client signs again when it repeats a call, and sends
        # both signatures.
        self.metadata = metadata = dict(headers)
        self.path = metadata.get(":path", "")
        self.input_since_s = connection.now_s  # when the message that is unfinished began
        limit_s = _timeout_s(metadata.get("grpc-timeout", ""))
        self.deadline_s = None if limit_s is None else connection.now_s + limit_s
        self.receiver: CallReceiver | None = None
        self.window = connection.peer_window  # what the client lets us send
        self.own_window = frames.WINDOW  # what we let the client send
        self.held_bytes = 0  # of the unfinished message
        self.waiting_bytes = 0  # of messages that the client lets us not send yet
        self.waiting_since_s = 0.0
        self.has_ended = False  # no further frames are sent or taken
        self.has_client_ended = False
        self._input = bytearray()
        self._waiting: deque[memoryview] = deque()
        self._end_block: bytes | None = None
        self._has_begun = False
        self._drained: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_unfinished(self) -> bool:
        """Whether the rest of a message is waited for."""
        receiver = self.receiver
        return receiver is not None and (self.held_bytes > 0 or receiver.is_waiting)

    @property
    def origin(self) -> GrpcConnection:
        return self._connection.origin

    @property
    def limit_s(self) -> float | None:
        """Seconds that the client gives the call from now on; None without a deadline."""
        if self.deadline_s is None:
            return None
        return max(0.0, self.deadline_s - self._connection.now_s)

    def identify(self, caller: str) -> None:
        """The caller, whose bytes the connection's are."""
        self._connection.identify(caller)

    # -- from the client -------------------------------------------------------------------------

    def data(self, payload: bytes, *, is_last: bool) -> None:
        """Take the payload of a DATA frame."""
        receiver = self.receiver
        if receiver is not None:
            whole = len(payload) - MESSAGE_HEAD_BYTES
            if not self._input and whole >= 0 and payload[:5] == MESSAGE_HEAD.pack(0, whole):
                receiver.message(payload[MESSAGE_HEAD_BYTES:])
            elif payload or not is_last:
                if not self.held_bytes:
                    self.input_since_s = self._connection.now_s
                self._input += payload
                self._hold(self.held_bytes + len(payload) + FRAME_BYTES)
                self._cut(receiver)
        if is_last:
            self.end_of_client()

    def end_of_client(self) -> None:
        """The client sends no more."""
        self.has_client_ended = True
        if self.receiver is not None and not self.has_ended:
            self.receiver.end()

    def _cut(self, receiver: CallReceiver) -> None:
        """Hand over the messages that are whole."""
        data = self._input
        while len(data) >= MESSAGE_HEAD_BYTES and self.receiver is receiver:
            is_compressed, size = MESSAGE_HEAD.unpack_from(data)
            if size > self._connection.message_bytes_max:
                limit = self._connection.message_bytes_max
                text = f"a message of {size} bytes, {limit} are the most"
                self.finish(GrpcStatus.RESOURCE_EXHAUSTED, text)
                return
            if is_compressed:
                text = "compressed messages are not served; send them without grpc-encoding"
                self.finish(GrpcStatus.UNIMPLEMENTED, text)
                return
            end = MESSAGE_HEAD_BYTES + size
            if len(data) < end:
                return
            message = bytes(memoryview(data)[MESSAGE_HEAD_BYTES:end])
            del data[:end]
            self._hold(len(data))
            receiver.message(message)

    def replenish(self) -> None:
        """Let the client send the rest of its message, or its next one."""
        receiver = self.receiver
        if receiver is None or receiver.is_full or self.has_client_ended:
            return
        needed = frames.WINDOW // 2
        if len(self._input) >= MESSAGE_HEAD_BYTES:
            _, size = MESSAGE_HEAD.unpack_from(self._input)
            needed = max(needed, MESSAGE_HEAD_BYTES + size - len(self._input))
        if self.own_window < needed:
            more = max(needed, frames.WINDOW) - self.own_window
            self.own_window += more
            self._connection.write(frames.window_update(self.number, more))

    def messages(self) -> "Messages":
        """The client's messages, for a call that has more than one."""
        messages = Messages(self)
        self.receiver = messages
        return messages

    # -- to the client ---------------------------------------------------------------------------

    def answer(self, message: bytes) -> None:
        """Send the one message of a call that went well, and end it."""
        connection = self._connection
        size = len(message) + MESSAGE_HEAD_BYTES
        if self.has_ended:
            return
        if (
            self._has_begun
            or self._waiting
            or size > self.window
            or size > connection.window
            or size > connection.peer_frame_bytes_max
        ):
            self.send(message)
            self.finish(GrpcStatus.OK)
            return
        connection.window -= size
        connection.write(
            b"%b%b%b%b%b%b%b"
            % (
                HEAD.pack(len(BEGIN) << 8 | HEADERS, END_HEADERS, self.number),
                BEGIN,
                HEAD.pack(size << 8 | DATA, 0, self.number),
                MESSAGE_HEAD.pack(0, len(message)),
                message,
                HEAD.pack(len(END_WELL) << 8 | HEADERS, END_HEADERS | END_STREAM, self.number),
                END_WELL,
            )
        )
        self._over()

    def send(self, message: bytes) -> None:
        """Send one message of several, as soon as the client lets us."""
        if self.has_ended:
            return
        self._begin()
        if not self._waiting:
            self.waiting_since_s = self._connection.now_s
        self._waiting.append(memoryview(MESSAGE_HEAD.pack(0, len(message)) + message))
        self.waiting_bytes += len(message) + MESSAGE_HEAD_BYTES
        self.pump()

    def finish(self, status: GrpcStatus, text: str = "") -> None:
        """End the call with a status once what waits is sent; with an error at once."""
        if self.has_ended or self._end_block is not None:
            return
        if status == GrpcStatus.OK:
            self._end_block = END_WELL
        else:
            self._waiting.clear()
            self.waiting_bytes = 0
            headers = [("grpc-status", f"{status:d}"), ("grpc-message", quote(text[:1024], " "))]
            self._end_block = hpack.encode(headers)
        self.receiver = None
        self._drop_input()
        self.pump()

    async def drained(self) -> None:
        """Wait until everything has left, as far as the connection's buffer goes."""
        while not self.has_ended and (self._waiting or self._connection.is_full):
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    def wake(self) -> None:
        """Go on with what waited for `drained`."""
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def pump(self) -> None:
        """Send what the client's windows allow, then the status."""
        connection = self._connection
        while self._waiting:
            room = min(self.window, connection.window, connection.peer_frame_bytes_max)
            if room <= 0:
                return
            data = self._waiting.popleft()
            if len(data) > room:
                self._waiting.appendleft(data[room:])
                data = data[:room]
            self.window -= len(data)
            connection.window -= len(data)
            self.waiting_bytes -= len(data)
            self.waiting_since_s = connection.now_s
            connection.write(b"".join((HEAD.pack(len(data) << 8 | DATA, 0, self.number), data)))
        if self._end_block is not None:
            self._begin()
            flags = END_HEADERS | END_STREAM
            connection.write(frames.frame(HEADERS, flags, self.number, self._end_block))
            self._over()
        else:
            self.wake()

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._connection.write(frames.frame(HEADERS, END_HEADERS, self.number, BEGIN))

    # -- its end ---------------------------------------------------------------------------------

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Serve the call, in this turn of the event loop as far as it does not wait."""
        rest = eager.begin(coroutine)
        if isinstance(rest, eager.Remainder):
            self._task = self._connection.begin_task(rest)

    def run_later(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Serve the call as a task from its begin."""
        self._task = self._connection.begin_task(coroutine)

    def cancel(self) -> None:
        """The client or its connection has ended: nothing more is sent."""
        receiver, self.receiver = self.receiver, None
        self._over(says_so=False)
        if receiver is not None:
            receiver.cancel()
        if self._task is not None:
            self._task.cancel()

    def _over(self, *, says_so: bool = True) -> None:
        if self.has_ended:
            return
        self.has_ended = True
        self.receiver = None
        self._waiting.clear()
        self.waiting_bytes = 0
        self._drop_input()
        if says_so and not self.has_client_ended:
            self._connection.write(frames.reset(self.number, Http2Code.NO_ERROR))
        self._connection.forget(self)
        self.wake()

    def _drop_input(self) -> None:
        self._input = bytearray()
        self._hold(0)

    def _hold(self, size_bytes: int) -> None:
        self._connection.held_bytes += size_bytes - self.held_bytes
        self.held_bytes = size_bytes


class Messages:
    """The messages of a client's stream, in order; the client waits while QUEUED_MAX are unread."""

    is_waiting = False

    def __init__(self, stream: Http2Stream) -> None:
        self._stream = stream
        self._queue: deque[bytes] = deque()
        self._is_over = False
        self._arrived: asyncio.Future[None] | None = None

    def message(self, data: bytes) -> None:
        self._queue.append(data)
        self._wake()

    def end(self) -> None:
        self._is_over = True
        self._wake()

    cancel = end

    def refuse(self, reason: RefusalReason) -> bool:
        return False

    @property
    def is_full(self) -> bool:
        return len(self._queue) >= QUEUED_MAX

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._queue:
            if self._is_over:
                raise StopAsyncIteration
            self._arrived = asyncio.get_running_loop().create_future()
            await self._arrived
        message = self._queue.popleft()
        self._stream.replenish()
        return message

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)


def _timeout_s(text: str) -> float | None:
    """The seconds of the header grpc-timeout; None for none, or one that is invalid."""
    match = TIMEOUT.fullmatch(text)
    return None if match is None else int(match[1]) * UNIT_S[match[2]]
