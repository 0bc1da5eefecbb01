"""uvicorn's WebSocket protocol with bounded memory for each connection, and no task per message.

ASGI opens a connection: its application accepts the handshake and then attaches a
`MessageReceiver`, found in the scope under SOCKET. From there on messages go straight from the
parser to the receiver, and from the receiver to the transport, without a queue or an event.

Unfinished messages, and messages that the receiver has not taken yet, count in the server's
`ByteBudget`. A connection over its limit is closed with code 1013 (try again later), one whose
message is not complete within MESSAGE_S with 1008.

Tiny frames take the parser long for their size, and hundreds of connections may send at once: large
reads are therefore parsed in slices, for TURN_S in each turn of the event loop.
Too many fragments or pings close the connection with 1008.
"""

import asyncio
from asyncio.transports import BaseTransport
from collections import deque
from time import perf_counter
from typing import Any, ClassVar, Protocol, TypeVar

from uvicorn._types import ASGIReceiveEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from app.network.websocket_frames import FrameBoundaries, binary_head, lone_frame, plain_frame
from app.security.byte_budget import (
    DETAILS,
    BudgetExceeded,
    ByteBudget,
    ByteReservation,
    RefusalReason,
)

# Keys of the connection's reservation and of the connection itself in the scope.
RESERVATION = "kitemq.hold"
SOCKET = "kitemq.socket"
CLOSE_NO_UTF8 = 1007
CLOSE_ABUSE = 1008
CLOSE_FULL = 1013
EARLY_BYTES_MAX = 16 * 1024  # before the handshake is answered
FRAGMENT_BYTES = 64  # overhead of a fragment in memory
MESSAGE_S = 120.0  # for a message to arrive whole
FRAGMENTS_MAX = 1024  # of one message
PINGS_MAX = 128  # in one read
SLICE_BYTES = 8 * 1024  # the least that is parsed at once: 1,365 frames, some 10 ms
TURN_S = 0.005  # of each turn of the event loop, for parsing large reads


class MessageReceiver(Protocol):
    """The application's end of a connection; called on the event loop."""

    def on_message(self, data: bytes | str) -> None:
        """Take a message; after `pause` no further one comes until `resume`."""

    def on_lone_message(self, data: bytes) -> None:
        """Take the only message of a read; stands for `on_message` and `on_read_end`."""

    def on_read_end(self) -> None:
        """All messages that came with one read were handed over."""

    def on_writable(self) -> None:
        """The transport, which was full, has room again, or is gone."""

    def on_close(self, code: int) -> None:
        """The connection is over; comes once or more often."""


class ReceiverEvents(asyncio.Queue[ASGIReceiveEvent]):
    """Stands for uvicorn's queue of events once a receiver is attached."""

    def __init__(self, receiver: MessageReceiver) -> None:
        super().__init__()
        self._receiver = receiver

    def put_nowait(self, item: ASGIReceiveEvent) -> None:
        if item["type"] == "websocket.disconnect":
            self._receiver.on_close(item["code"])


class LargeReads:
    """Schedules the parsing of large reads of all connections of one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[BoundedWebSocketProtocol] = deque()
        self._end_s = 0.0  # when this turn's time for parsing is over
        self._is_scheduled = False

    def parse(self, connection: "BoundedWebSocketProtocol") -> bool:
        """Parse the read of `connection`; False if it has to wait for its next turn."""
        if not self._is_scheduled:
            self._end_s = perf_counter() + TURN_S
            self._is_scheduled = True
            connection.loop.call_soon(self._take_turns)
        if not self._waiting and connection.parse_until(self._end_s):
            return True
        self._waiting.append(connection)
        return False

    def _take_turns(self) -> None:
        self._end_s = perf_counter() + TURN_S
        connection = None
        while self._waiting:
            connection = self._waiting.popleft()
            if connection.parse_until(self._end_s):
                connection.read_on()
            else:
                self._waiting.append(connection)
            if perf_counter() > self._end_s:
                break
        if self._waiting:
            self._waiting[0].loop.call_soon(self._take_turns)
        else:
            self._is_scheduled = False


class BoundedWebSocketProtocol(WebSocketsSansIOProtocol):
    """One connection; `with_budget` creates the class for a server's budget."""

    budget: ClassVar[ByteBudget]
    large_reads: ClassVar[LargeReads]

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._reservation: ByteReservation | None = None
        self._receiver: MessageReceiver | None = None
        self._is_paused = True  # until a receiver is attached
        self._fragment_bytes = 0  # of an unfinished message, without the current frame
        self._untaken: deque[tuple[bytes | str, int]] = deque()  # messages with their sizes
        self._queued_bytes = 0
        self._counted_bytes = 0
        self._late: asyncio.TimerHandle | None = None
        self._rest = b""  # unparsed bytes that wait for their turn
        self._pings = 0
        self._boundaries = FrameBoundaries()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._receiver is not None:
            self._receiver.on_writable()

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        self._reservation = self.budget.reserve(address, "", self._evict)

    def connection_lost(self, exc: Exception | None) -> None:
        rest, self._rest = self._rest, b""
        if rest and not self.close_sent:
            self._parse_whole(rest)  # sent by the client before it closed
        super().connection_lost(exc)
        self._forget()
        if scope := getattr(self, "scope", None):
            scope.pop(SOCKET, None)  # a cycle otherwise

    def data_received(self, data: bytes) -> None:
        self._pings = 0
        if self._rest:
            self._rest += data
            self.transport.pause_reading()
        elif self._takes_at_once() and (frame := lone_frame(data)) is not None:
            assert self._receiver is not None
            self._receiver.on_lone_message(frame)
        elif len(data) <= SLICE_BYTES:
            self._parse_whole(data)
            self._recount()
        else:
            self._rest = data
            if not self.large_reads.parse(self):
                self.transport.pause_reading()
                self._recount()

    def _takes_at_once(self) -> bool:
        """Whether the receiver takes messages now, and nothing came of the next one yet."""
        return not (
            self._is_paused  # as it is without a receiver, which there is not before a handshake
            or self._untaken
            or self.frames
            or self._counted_bytes
            or self.close_sent
            or self._reservation is None
            or not self._boundaries.is_at_frame
        )

    def parse_until(self, end_s: float) -> bool:
        """Parse unparsed bytes in slices until `end_s`; True if all are parsed."""
        data, self._rest = self._rest, b""
        self._pings = 0
        position, size = 0, len(data)
        while position < size and self._is_reading():
            if position and perf_counter() > end_s:
                self._rest = data[position:]
                break
            position = self._parse(data, position, min(size, position + SLICE_BYTES))
        self._end_read()
        self._recount()
        return not self._rest

    def _parse_whole(self, data: bytes) -> None:
        at, size = 0, len(data)
        while at < size:
            at = self._parse(data, at, size)
        self._end_read()

    def _parse(self, data: bytes, at: int, end: int) -> int:
        """Parse from `at` to about `end`, and return where to go on.

        Hands over plain messages at once, and lets the library read everything else.
        """
        boundaries = self._boundaries
        if self.handshake_complete and boundaries.is_at_frame and not self.frames:
            self.curr_msg_data_type = "bytes"
            while at < end and self._is_reading():
                frame = plain_frame(data, at)
                if frame is None:
                    break
                self.frames = [frame.payload]
                self.send_receive_event_to_app()
                at = frame.end
        if at < end:
            # The frame under way alone: plain ones may follow it.
            part = data[at : min(end, at + boundaries.left_bytes) if boundaries.left_bytes else end]
            at += len(part)
            if self.handshake_initiated:
                boundaries.follow(part)
            super().data_received(part)
        return at

    def _end_read(self) -> None:
        if self._receiver is not None:
            self._receiver.on_read_end()

    def read_on(self) -> None:
        """Resume reading once all bytes are parsed."""
        if self._is_reading() and not (self.read_paused or self.transport.is_closing()):
            self.transport.resume_reading()

    def _is_reading(self) -> bool:
        return self._reservation is not None and not self.close_sent

    def _recount(self) -> None:
        unfinished_bytes = len(self.conn.reader.buffer) + self._fragment_bytes + len(self._rest)
        if unfinished_bytes or self._queued_bytes or self._counted_bytes:
            self._count(unfinished_bytes)

    # -- the receiver's calls -------------------------------------------------------------------

    def attach(self, receiver: MessageReceiver) -> None:
        """Hand messages to `receiver` from now on, first those that came with the handshake."""
        self._receiver = receiver
        earlier, self.queue = self.queue, ReceiverEvents(receiver)
        self.resume()
        while not earlier.empty():
            self.queue.put_nowait(earlier.get_nowait())
        self._end_read()

    def detach(self) -> None:
        """Forget the receiver: the connection is over for it."""
        self._receiver = None
        self._is_paused = True
        self._untaken.clear()
        self.queue = asyncio.Queue()

    def pause(self) -> None:
        """Hand over no messages until `resume`; the transport stops reading with the next one."""
        self._is_paused = True

    def resume(self) -> None:
        """Hand over what came meanwhile, then read on."""
        self._is_paused = False
        while self._untaken and not self._is_paused and self._receiver is not None:
            data, size_bytes = self._untaken.popleft()
            # From here on the application counts these bytes.
            self._queued_bytes -= size_bytes
            self._counted_bytes -= size_bytes
            if self._reservation is not None:
                self._reservation.give(size_bytes)
            self._receiver.on_message(data)
        self._end_read()
        if self.read_paused and not self._is_paused:
            self.read_paused = False
            if not (self._rest or self.transport.is_closing()):
                self.transport.resume_reading()

    @property
    def has_untaken(self) -> bool:
        """Whether messages wait for `resume`."""
        return bool(self._untaken)

    @property
    def can_write(self) -> bool:
        is_over = self.close_sent or self.disconnected or self.transport.is_closing()
        return self.writable.is_set() and not is_over

    def write_message(self, data: bytes | str) -> None:
        """Write one WebSocket message; only while `can_write`."""
        if isinstance(data, str):
            self.conn.send_text(data.encode())
            self.transport.write(b"".join(self.conn.data_to_send()))
        else:
            self.transport.write(binary_head(len(data)) + data)

    def close_with(self, code: int, reason: str) -> None:
        """Begin the closing handshake; only while `can_write`."""
        closing = self.send({"type": "websocket.close", "code": code, "reason": reason})
        try:
            closing.send(None)
        except StopIteration:
            return
        raise AssertionError("a writable connection closes without a wait")

    # -- the parser's calls ---------------------------------------------------------------------

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if scope := getattr(self, "scope", None):
            scope[RESERVATION] = self._reservation
            scope[SOCKET] = self

    def handle_text(self, event: Frame) -> None:
        self._fragment_bytes = 0 if event.fin else len(event.data) + FRAGMENT_BYTES
        super().handle_text(event)
        event.data = b""  # the library's parser refers to its last frame until the next is whole

    def handle_bytes(self, event: Frame) -> None:
        self._fragment_bytes = 0 if event.fin else len(event.data) + FRAGMENT_BYTES
        super().handle_bytes(event)
        event.data = b""

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= FRAGMENTS_MAX:
            self.budget.refuse(RefusalReason.SIZE)
            self._refuse(CLOSE_ABUSE, "a message of too many fragments")
            return
        if not event.fin:
            self._fragment_bytes += len(event.data) + FRAGMENT_BYTES
        super().handle_cont(event)
        event.data = b""

    def send_receive_event_to_app(self) -> None:
        """Hand a whole message to the receiver, or keep it while the receiver takes none."""
        parts, self.frames = self.frames, []
        self._fragment_bytes = 0
        self._stop_waiting()
        if self.close_sent:
            return  # discarded, so that the peer's close reply is read
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        data: bytes | str = body
        if self.curr_msg_data_type == "text":
            try:
                data = body.decode()
            except UnicodeDecodeError:
                self.conn.send_close(CLOSE_NO_UTF8)
                self.handle_parser_exception()
                return
        if self._receiver is not None and not (self._is_paused or self._untaken):
            self._receiver.on_message(data)
            return
        self._untaken.append((data, len(body)))
        self._queued_bytes += len(body)
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def handle_ping(self) -> None:
        self._pings += 1
        if self._pings > PINGS_MAX:
            self._refuse(CLOSE_ABUSE, "too many pings")
        elif self.writable.is_set():
            super().handle_ping()
        else:  # no pongs for a client that does not read
            self.conn.data_to_send()

    def _count(self, unfinished_bytes: int) -> None:
        reservation = self._reservation
        if reservation is None:
            return
        if not self.handshake_complete and unfinished_bytes > EARLY_BYTES_MAX:
            self.budget.refuse(RefusalReason.SIZE)
            self._forget()
            self.transport.abort()
            return
        more_bytes = unfinished_bytes + self._queued_bytes - self._counted_bytes
        self._counted_bytes += more_bytes
        if unfinished_bytes:
            reservation.is_unfinished = True
            self._wait()
        else:
            reservation.settle()
        if more_bytes <= 0:
            reservation.add(more_bytes)
            return
        try:
            reservation.take(more_bytes)
        except BudgetExceeded as full:
            self._refuse(CLOSE_FULL, DETAILS[full.reason])

    def _wait(self) -> None:
        """Start the timeout for the rest of a message at its first byte."""
        if self._late is None:
            self._late = self.loop.call_later(MESSAGE_S, self._is_late)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _is_late(self) -> None:
        self._late = None
        if len(self.conn.reader.buffer) + self._fragment_bytes:
            self.budget.refuse(RefusalReason.SLOW)
            self._refuse(CLOSE_ABUSE, DETAILS[RefusalReason.SLOW])

    def _evict(self) -> None:
        self._refuse(CLOSE_FULL, DETAILS[RefusalReason.EVICTED])

    def _refuse(self, code: int, reason: str) -> None:
        """Close the connection and drop its unfinished message."""
        self._forget()
        if self.close_sent or self.transport.is_closing():
            return
        if not self.handshake_complete:
            self.transport.abort()
            return
        self.stop_keepalive()
        self.conn.fail(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code})
        self.transport.close()

    def _forget(self) -> None:
        """Drop the unfinished message and return its bytes."""
        self._stop_waiting()
        self.conn.reader.discard()
        self.frames, self._rest = [], b""
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            reservation.close()


Socket = TypeVar("Socket", bound=BoundedWebSocketProtocol)


def with_budget(kind: type[Socket], budget: ByteBudget) -> type[Socket]:
    """A subclass of `kind` for a server with this budget."""
    return type("BudgetedSocket", (kind,), {"budget": budget, "large_reads": LargeReads()})
