"""One HTTP/2 connection of gRPC clients: frames, streams, flow control, and bounds on all of them.

Everything that one read asks for is served before anything is written, so that the answers of one
turn of the event loop leave in one write. A client that keeps the protocol's rules never loses a
call to these bounds; one that does not is told why by GOAWAY, and closed.
"""

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from app.db.rows import CLIENT_ADDRESS
from app.grpc.connection import GrpcConnection
from app.grpc.http2_stream import Http2Stream
from app.network import connection_limits
from app.network.connection_limits import ConnectionSlot
from app.network.connection_monitor import MonitoredConnection
from app.network.keep_alive import keep_alive
from app.security.byte_budget import DETAILS, BudgetExceeded, RefusalReason
from engine.host import socket_text
from protocol.http2 import frames
from protocol.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES_MAX,
    HAS_PRIORITY,
    HEAD,
    HEAD_BYTES,
    PREFACE,
    WINDOW,
    Http2Code,
    Setting,
)
from protocol.http2.hpack import HeaderDecoder, HeadersTooLarge, HpackError

if TYPE_CHECKING:
    from app.grpc.port import GrpcPort

log = logging.getLogger("kitemq.grpc")

OWN_WINDOW = 1024 * 1024  # what a client may send ahead on all its streams together
HEADER_BYTES_MAX = 16 * 1024  # of the headers of a call, as HTTP/2 counts them
PREFACE_S = 10.0  # for a connection's first frames
# A silent connection is pinged, and ends without an answer: a dead peer is detected within 45 s.
KEEPALIVE_S = 15.0
KEEPALIVE_ANSWER_S = 15.0
VANISHED_MS = 50_000  # without an acknowledgement of what was written
STALL_S = 60.0  # after which a call ends whose client makes no room for its answer
REQUEST_S = 120.0  # for a call's request to arrive whole
RESETS_MAX = 2000  # calls that a client may begin and take back in a second
PING = b"KiteMQ\0\0"


class ConnectionFault(Exception):
    """The client breaks the protocol, and its connection ends with `code`."""

    def __init__(self, code: Http2Code, text: str) -> None:
        super().__init__(text)
        self.code = code


class Http2Connection(MonitoredConnection):
    """A client's connection; `begin` serves a stream whose headers have arrived."""

    def __init__(self, port: "GrpcPort", slot: ConnectionSlot) -> None:
        self._enter(slot, port.monitor)
        self._port = port
        self._host = port.host
        self._loop = port.host.loop
        self._budget = port.budget
        self._reservation = port.budget.reserve(slot.address, "", self._evicted)
        self.origin = GrpcConnection("", "", is_tls=False)
        self.message_bytes_max = port.settings.request_bytes_max
        self.begin: Callable[[Http2Stream], None] | None = None
        self.now_s = self._loop.time()
        self.window = WINDOW  # what the client lets us send
        self.peer_window = WINDOW  # of a new stream
        self.peer_frame_bytes_max = FRAME_BYTES_MAX
        self.is_full = False  # the client does not read what it is sent
        self.held_bytes = 0  # of unfinished messages, over all streams
        self._own_window = OWN_WINDOW
        self._unacknowledged = 0  # bytes that the client has sent since the last window update
        self._streams: dict[int, Http2Stream] = {}
        self._last_stream = 0
        self._headers = HeaderDecoder(HEADER_BYTES_MAX)
        self._block: tuple[int, int, bytes] | None = None  # stream, flags, begin of its headers
        self._input = b""
        self._awaits_preface = True
        self._out: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._resets = 0
        self._read_s = self._idle_s = self.now_s
        self._pinged_s: float | None = None
        self._is_closing = False
        self.closed: asyncio.Future[None] = self._loop.create_future()

    # -- the transport's calls -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        super().connection_made(transport)
        peer, own = (transport.get_extra_info(name) for name in ("peername", "sockname"))
        is_tls = transport.get_extra_info("ssl_object") is not None
        self.origin = GrpcConnection(socket_text(peer), socket_text(own), is_tls=is_tls)
        if (accepted := transport.get_extra_info("socket")) is not None:
            keep_alive(accepted, user_timeout_ms=VANISHED_MS)
        self._port.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self.origin.ended_s = self._host.clock.monotonic_s()
        for stream in tuple(self._streams.values()):
            stream.cancel()
        self._reservation.close()
        self._port.disconnected(self)
        self.closed.set_result(None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.is_full = True
        if not self.transport.is_closing():
            self.transport.pause_reading()  # a client that reads no answers sends no more calls

    def resume_writing(self) -> None:
        super().resume_writing()
        self.is_full = False
        if self.begin is not None and not self.transport.is_closing():
            self.transport.resume_reading()
        for stream in tuple(self._streams.values()):
            stream.wake()

    def data_received(self, data: bytes) -> None:
        self.now_s = self._read_s = self._loop.time()
        self._pinged_s = None
        CLIENT_ADDRESS.set(self.origin.host)
        self._input = self._input + data if self._input else data
        if self.begin is None:
            self.transport.pause_reading()
        else:
            self._read()

    def _read(self) -> None:
        """Serve what has arrived."""
        try:
            if not self._awaits_preface or self._take_preface():
                self._take_frames()
        except ConnectionFault as fault:
            log.debug("%s breaks HTTP/2: %s", self.origin.client, fault)
            self.close(fault.code, str(fault))
        except BudgetExceeded as full:
            self.close(Http2Code.ENHANCE_YOUR_CALM, DETAILS[full.reason])
        self._flush()

    def serve(self, begin: Callable[[Http2Stream], None]) -> None:
        """Begin to read calls, which `begin` serves."""
        self.begin = begin
        if self._input:
            self._read()
        if not (self.is_full or self.transport.is_closing()):
            self.transport.resume_reading()

    # -- what streams ask for --------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Write at the end of this turn of the event loop."""
        if not self._out and not self._host.turn_end.defer(self._flush):
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def identify(self, caller: str) -> None:
        """The caller whose bytes the connection's are; the first one counts."""
        if not self._reservation.caller:
            self._reservation.name(caller)

    def begin_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run what is left of a call."""
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def forget(self, stream: Http2Stream) -> None:
        """The stream has ended."""
        self._streams.pop(stream.number, None)
        self._count()
        if not self._streams:
            self._idle_s = self.now_s
            if self._is_closing:
                self._loop.call_soon(self._end)

    # -- its end ---------------------------------------------------------------------------------

    def close(self, code: Http2Code = Http2Code.NO_ERROR, text: str = "") -> None:
        """Say goodbye, and close once everything is written."""
        if self.transport.is_closing():
            return
        self.write(frames.goaway(self._last_stream, code, text))
        self._end()

    def finish(self) -> None:
        """Take no further calls, and close after those under way."""
        if self._is_closing:
            return
        self._is_closing = True
        self.write(frames.goaway(self._last_stream, Http2Code.NO_ERROR))
        if not self._streams:
            self._end()

    def check(self, now_s: float) -> None:
        """End what takes too long: calls, and the connection itself."""
        super().check(now_s)
        self.now_s = now_s
        if self.transport.is_closing():
            return
        self._resets = 0
        for stream in tuple(self._streams.values()):
            self._check_stream(stream, now_s)
        if self._awaits_preface:
            if self.begin is not None and now_s - self._read_s > PREFACE_S:
                self.end(connection_limits.HEADER_TIMEOUT)
        elif not self._streams and now_s - self._idle_s > self._port.settings.grpc_idle_s:
            self.close()
        elif self._pinged_s is not None:
            if now_s - self._pinged_s > KEEPALIVE_ANSWER_S:
                self.transport.abort()
        elif now_s - self._read_s > KEEPALIVE_S and not self.is_full:
            self._pinged_s = now_s
            self.write(frames.frame(frames.PING, 0, 0, PING))

    def _check_stream(self, stream: Http2Stream, now_s: float) -> None:
        if stream.deadline_s is not None and now_s > stream.deadline_s:
            self._reset(stream, Http2Code.CANCEL)
        elif stream.waiting_bytes and now_s - stream.waiting_since_s > STALL_S:
            self._monitor.limits.refusals.note(connection_limits.SLOW_READER, self._slot.address)
            self._reset(stream, Http2Code.CANCEL)
        elif stream.is_unfinished and now_s - stream.input_since_s > REQUEST_S:
            self._budget.refuse(RefusalReason.SLOW)
            assert stream.receiver is not None, "it waits for its request"
            if not stream.receiver.refuse(RefusalReason.SLOW):
                self.close(Http2Code.ENHANCE_YOUR_CALM, DETAILS[RefusalReason.SLOW])

    def _evicted(self) -> None:
        self.close(Http2Code.ENHANCE_YOUR_CALM, DETAILS[RefusalReason.EVICTED])

    def _end(self) -> None:
        self._flush()
        if not self.transport.is_closing():
            self.transport.close()

    # -- frames ----------------------------------------------------------------------------------

    def _take_preface(self) -> bool:
        """Whether the client has said what HTTP/2 begins with."""
        known = self._input[: len(PREFACE)]
        if not PREFACE.startswith(known):
            self._end()
            return False
        if len(known) < len(PREFACE):
            return False
        self._input = self._input[len(PREFACE) :]
        self._awaits_preface = False
        settings = {
            Setting.MAX_CONCURRENT_STREAMS: self._port.settings.grpc_connection_calls_max,
            Setting.MAX_HEADER_LIST_SIZE: HEADER_BYTES_MAX,
        }
        self.write(frames.settings(settings) + frames.window_update(0, OWN_WINDOW - WINDOW))
        return True

    def _take_frames(self) -> None:
        data, position, size = self._input, 0, len(self._input)
        while size - position >= HEAD_BYTES and not self.transport.is_closing():
            word, flags, number = HEAD.unpack_from(data, position)
            length = word >> 8
            if length > FRAME_BYTES_MAX:
                raise ConnectionFault(Http2Code.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            start = position + HEAD_BYTES
            position = start + length
            if position > size:
                position = start - HEAD_BYTES
                break
            kind = word & 0xFF
            if self._block is not None and kind != frames.CONTINUATION:
                raise ConnectionFault(Http2Code.PROTOCOL_ERROR, "headers that do not end")
            take = TAKERS.get(kind)
            if take is not None:  # others may be extensions
                take(self, flags, number & frames.STREAM_BITS, data[start:position])
        self._input = data[position:]

    def _take_data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        self._own_window -= size
        self._unacknowledged += size
        if self._own_window < 0:
            raise ConnectionFault(Http2Code.FLOW_CONTROL_ERROR, "more than the window allows")
        if self._unacknowledged * 2 > WINDOW:
            self.write(frames.window_update(0, self._unacknowledged))
            self._own_window += self._unacknowledged
            self._unacknowledged = 0
        stream = self._streams.get(number)
        if stream is None:
            self._check_known(number)
            return  # its call is answered: what was on its way is dropped
        if stream.has_client_ended:
            self._reset(stream, Http2Code.STREAM_CLOSED)
            return
        stream.own_window -= size
        if stream.own_window < 0:
            self._reset(stream, Http2Code.FLOW_CONTROL_ERROR)
            return
        body = frames.unpadded(flags, payload)
        if body is None:
            raise ConnectionFault(Http2Code.PROTOCOL_ERROR, "padding longer than its frame")
        stream.data(body, is_last=bool(flags & END_STREAM))
        if self.held_bytes != self._reservation.size_bytes:
            self._count(is_checked=True)
        if not flags & END_STREAM:
            stream.replenish()

    def _take_headers(self, flags: int, number: int, payload: bytes) -> None:
        body = frames.unpadded(flags, payload)
        if body is None or not number % 2:
            raise ConnectionFault(Http2Code.PROTOCOL_ERROR, "invalid headers")
        if flags & HAS_PRIORITY:
            body = body[5:]
        self._take_block(flags, number, body)

    def _take_continuation(self, flags: int, number: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != number:
            raise ConnectionFault(Http2Code.PROTOCOL_ERROR, "headers that did not begin")
        _, first_flags, begun = self._block
        if len(begun) + len(payload) > 2 * HEADER_BYTES_MAX:
            raise ConnectionFault(Http2Code.ENHANCE_YOUR_CALM, "headers that are too large")
        self._take_block(first_flags | flags & END_HEADERS, number, begun + payload)

    def _take_block(self, flags: int, number: int, block: bytes) -> None:
        if not flags & END_HEADERS:
            self._block = number, flags, block
            return
        self._block = None
        try:
            headers = self._headers.decode(block)
        except HeadersTooLarge as error:
            raise ConnectionFault(Http2Code.ENHANCE_YOUR_CALM, str(error)) from None
        except HpackError as error:
            raise ConnectionFault(Http2Code.COMPRESSION_ERROR, str(error)) from None
        stream = self._streams.get(number)
        if stream is not None:  # what follows a request
            if flags & END_STREAM:
                stream.end_of_client()
        elif number > self._last_stream:
            self._open(number, headers, has_ended=bool(flags & END_STREAM))

    def _open(self, number: int, headers: list[tuple[str, str]], *, has_ended: bool) -> None:
        self._last_stream = number
        if self._is_closing or len(self._streams) >= self._port.settings.grpc_connection_calls_max:
            self.write(frames.reset(number, Http2Code.REFUSED_STREAM))
            return
        assert self.begin is not None, "it is not read before"
        stream = self._streams[number] = Http2Stream(self, number, headers)
        self.begin(stream)
        if has_ended:
            stream.end_of_client()

    def _take_reset(self, _: int, number: int, payload: bytes) -> None:
        _check_size(payload, 4)
        self._check_known(number)
        self._resets += 1
        if self._resets > RESETS_MAX:
            raise ConnectionFault(Http2Code.ENHANCE_YOUR_CALM, "too many calls are taken back")
        stream = self._streams.get(number)
        if stream is not None:
            stream.cancel()

    def _take_settings(self, flags: int, _: int, payload: bytes) -> None:
        if flags & ACK:
            return
        if len(payload) % 6:
            raise ConnectionFault(Http2Code.FRAME_SIZE_ERROR, "settings of another size")
        for name, value in struct.iter_unpack(">HI", payload):
            if name == Setting.INITIAL_WINDOW_SIZE:
                if value > frames.WINDOW_MAX:
                    raise ConnectionFault(Http2Code.FLOW_CONTROL_ERROR, f"a window of {value}")
                for stream in self._streams.values():
                    stream.window += value - self.peer_window
                self.peer_window = value
            elif name == Setting.MAX_FRAME_SIZE:
                if not FRAME_BYTES_MAX <= value < 1 << 24:
                    raise ConnectionFault(Http2Code.PROTOCOL_ERROR, f"frames of {value} bytes")
                self.peer_frame_bytes_max = min(value, WINDOW)
        self.write(frames.frame(frames.SETTINGS, ACK))
        self._pump()

    def _take_ping(self, flags: int, _: int, payload: bytes) -> None:
        _check_size(payload, 8)
        if not flags & ACK:
            self.write(frames.frame(frames.PING, ACK, 0, payload))

    def _take_window_update(self, _: int, number: int, payload: bytes) -> None:
        _check_size(payload, 4)
        more = int.from_bytes(payload, "big") & frames.STREAM_BITS
        if not number:
            self.window += more
            if not more or self.window > frames.WINDOW_MAX:
                raise ConnectionFault(Http2Code.FLOW_CONTROL_ERROR, "an impossible window")
            self._pump()
            return
        stream = self._streams.get(number)
        if stream is None:
            self._check_known(number)
            return
        stream.window += more
        if not more or stream.window > frames.WINDOW_MAX:
            self._reset(stream, Http2Code.FLOW_CONTROL_ERROR)
        else:
            stream.pump()

    def _take_goaway(self, _: int, __: int, ___: bytes) -> None:
        """The client opens no further streams; those under way go on."""

    def _refuse_push(self, _: int, __: int, ___: bytes) -> None:
        raise ConnectionFault(Http2Code.PROTOCOL_ERROR, "a client pushes nothing")

    def _check_known(self, number: int) -> None:
        if not number % 2 or number > self._last_stream:
            raise ConnectionFault(Http2Code.PROTOCOL_ERROR, "a stream that was never opened")

    def _reset(self, stream: Http2Stream, code: Http2Code) -> None:
        self.write(frames.reset(stream.number, code))
        stream.cancel()

    def _pump(self) -> None:
        for stream in tuple(self._streams.values()):
            if stream.waiting_bytes:
                if self.window <= 0:
                    return
                stream.pump()

    # -- bytes of unfinished requests ------------------------------------------------------------

    def _count(self, *, is_checked: bool = False) -> None:
        """Reserve the bytes of unfinished messages; end calls while there is no room for them."""
        reservation = self._reservation
        more = self.held_bytes - reservation.size_bytes
        if more <= 0 or not is_checked:
            reservation.add(more)
            return
        try:
            if reservation.size_bytes + more > self._budget.limits.connection_max:
                self._budget.refuse(RefusalReason.CONNECTION)
                raise BudgetExceeded(RefusalReason.CONNECTION)
            reservation.take(more)
        except BudgetExceeded as full:
            reservation.add(more)  # already in memory, so the limit is exceeded by one read
            self._shed(full.reason)

    def _shed(self, reason: RefusalReason) -> None:
        """End calls that wait for the rest of their request, the newest first; or raise."""
        for stream in reversed(tuple(self._streams.values())):
            receiver = stream.receiver
            if stream.held_bytes and receiver is not None:
                receiver.refuse(reason)
                if self._has_room():
                    return
        raise BudgetExceeded(reason)

    def _has_room(self) -> bool:
        reservation = self._reservation
        fits = reservation.size_bytes <= self._budget.limits.connection_max
        return fits and reservation.lacks is None

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and not self.transport.is_closing():
            self.transport.write(out[0] if len(out) == 1 else b"".join(out))


TAKERS: dict[int, Callable[[Http2Connection, int, int, bytes], None]] = {
    frames.DATA: Http2Connection._take_data,
    frames.HEADERS: Http2Connection._take_headers,
    frames.RST_STREAM: Http2Connection._take_reset,
    frames.SETTINGS: Http2Connection._take_settings,
    frames.PUSH_PROMISE: Http2Connection._refuse_push,
    frames.PING: Http2Connection._take_ping,
    frames.GOAWAY: Http2Connection._take_goaway,
    frames.WINDOW_UPDATE: Http2Connection._take_window_update,
    frames.CONTINUATION: Http2Connection._take_continuation,
}


def _check_size(payload: bytes, size: int) -> None:
    if len(payload) != size:
        raise ConnectionFault(Http2Code.FRAME_SIZE_ERROR, "a frame of another size")
