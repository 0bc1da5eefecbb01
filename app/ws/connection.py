"""One WebSocket connection: frames in, answers out, how much it may hold, and how it ends.

Everything runs on the loop's thread. A connection holds nothing that a restart would miss: what its
client was handed is known to the engine under the client's name, and a client that comes back asks
for it by subscribing again. What its frames ask for: session.py.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Iterable
from types import CoroutineType
from typing import Any, TypeAlias

from starlette.types import Scope

from app import eager
from app.container import services_of
from app.network.websocket_protocol import RESERVATION, SOCKET, BoundedWebSocketProtocol
from app.security.access import Action, Kind, Principal, principal_of, require
from app.security.authenticator import Authenticator
from app.security.byte_budget import ByteReservation
from app.security.client_names import check_name, owner_of
from app.server_host import ServerHost
from app.ws.calls import Calls
from app.ws.limits import SocketLimits
from app.ws.outbox import Outbox
from app.ws.packed_deliver import PackedAck, PackedDeliverFrame
from app.ws.packed_send import PackedSend
from app.ws.producers import Producers
from app.ws.push import Subscription, held_by
from app.ws.shapes import error_frame
from engine.errors import EngineError, Invalid
from kitemq.protocol import batches, frames, sends, text
from kitemq.protocol.columns import ProtocolError
from kitemq.protocol.stream import (
    CLIENT_FRAMES,
    FrameParser,
    UnreadableFrame,
    iter_frames,
    only_frame,
)

log = logging.getLogger("kitemq.socket")

Answer: TypeAlias = frames.Frame | Coroutine[Any, Any, frames.Frame | None] | None

PARSERS: dict[int, FrameParser] = {
    **CLIENT_FRAMES,
    sends.SendFrame.TYPE: PackedSend(),
    batches.AckFrame.TYPE: PackedAck(),
}
CLEAN_CLOSES = frozenset({1000, 1001})  # the client said goodbye: normal, or leaving its page
TURN_FRAMES = 128  # of one message that are worked on without a break
CLOSE_UNREADABLE = 1002
CLOSE_TOO_BIG = 1009
CLOSE_REPLACED = 4001
CLOSE_NOT_ALLOWED = 4003
CLOSE_DISCONNECTED = 4004
RIGHTS_EVERY_S = 5.0  # how soon a connection ends after its token was revoked or expired


class Hub:
    """State that the connections of one server share: the names and owners of clients."""

    def __init__(self, host: ServerHost, limits: SocketLimits) -> None:
        self.host = host
        self.limits = limits
        self._sessions: dict[str, Connection] = {}

    def enter(self, client: str, session: "Connection") -> None:
        """Make `session` the one of `client`; an older one of that name is closed.

        Raises ClientNameTaken, and changes nothing, where the older one is another principal's.
        """
        older = self._sessions.get(client)
        if older is not None and older is not session:
            check_name(client, older.holder, session.holder)
            older.replace()
        self._sessions[client] = session

    def leave(self, client: str, session: "Connection") -> bool:
        """Forget `session`; whether it still was the one of `client`."""
        if self._sessions.get(client) is not session:
            return False
        del self._sessions[client]
        return True


class Connection:
    """Reads one connection until it closes; `run` is the whole of its life."""

    def __init__(self, hub: Hub, remote: str, scope: Scope) -> None:
        self._hub = hub
        self._host = hub.host
        self._services = services_of(scope)
        self._messaging = self._services.messaging
        self._limits = hub.limits
        self._remote = remote
        self._socket: BoundedWebSocketProtocol = scope[SOCKET]
        self._outbox = Outbox(self._socket, self._on_room, self._host.turn_end)
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._close_code: int | None = None  # once the connection is over
        self._work: asyncio.Task[None] | None = None  # on a message that has to wait
        self._room = asyncio.Event()
        self._subscriptions: dict[int, Subscription] = {}
        self._groups: set[str] = set()
        self._inflight_bytes = 0
        self._hold = _hold_of(scope)
        self._is_closing = False
        self._scope = scope
        self._looking: asyncio.TimerHandle | None = None
        self._authenticator: Authenticator = self._services.authenticator
        self.holder = owner_of(principal_of(scope))
        self.client = f"ws-{secrets.token_hex(6)}"
        self._calls = Calls(
            scope,
            hub.limits,
            on_answer=self._answer,
            on_done=self._on_call_done,
            has_room=lambda: self._outbox.size_bytes <= self._limits.outbox_bytes_max,
        )
        self._producers = Producers(
            self._messaging.transactions,
            self._services.transactions,
            requests_max=hub.limits.subscriptions_max,
            on_answer=self._answer,
            has_room=lambda: self.has_push_room,
        )
        hub.enter(self.client, self)

    async def run(self) -> None:
        """Serve an accepted connection until either side closes it."""
        self._look_again()
        code = 1006
        try:
            self._socket.attach(self)
            code = await self._ended
        finally:
            self._socket.detach()
            if self._looking is not None:
                self._looking.cancel()
            if self._work is not None:
                self._work.cancel()
                await asyncio.gather(self._work, return_exceptions=True)
            self._close(code)
            await self._calls.close()
            await self._producers.close()
            self._outbox.forget_owner()
            self._hold.close()

    # -- called by the socket (MessageReceiver) --------------------------------------------------

    def on_message(self, data: bytes | str) -> None:
        """Work on a message at once; while that has to wait, the socket keeps further ones."""
        if self._is_closing:
            return
        self._outbox.is_reading = True
        if isinstance(data, str) or not self._take_one(data):
            self._begin(self._on_data(data))

    def on_lone_message(self, data: bytes) -> None:
        self.on_message(data)
        self.on_read_end()

    def on_read_end(self) -> None:
        self._outbox.end_read()
        if self._is_overfull and self._work is None:
            self._begin(self._until_room())

    def _take_one(self, data: bytes) -> bool:
        """Work on a message of one frame, as most are; False, and nothing is done, for others."""
        one = only_frame(data, PARSERS) if len(data) <= self._limits.frame_bytes_max else None
        if one is None:
            return False
        rest = self._on_frame(*one, is_text=False)
        if rest is not None:
            self._begin(self._then_until_room(rest))
        return True

    async def _then_until_room(self, rest: Coroutine[Any, Any, None]) -> None:
        await rest
        await self._until_room()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        rest = eager.begin(work)
        if rest is not None:
            self._socket.pause()
            self._work = asyncio.get_running_loop().create_task(rest)
            self._work.add_done_callback(self._on_worked)

    def on_writable(self) -> None:
        self._outbox.resume()

    def on_close(self, code: int) -> None:
        """End once everything that the client sent before is handled."""
        if self._close_code is None:
            self._close_code = code
        self._room.set()  # nothing will make room any more
        self._end_when_handled()

    def _end_when_handled(self) -> None:
        is_handled = self._work is None and not self._socket.has_untaken
        if self._close_code is not None and is_handled and not self._ended.done():
            self._ended.set_result(self._close_code)

    def _on_worked(self, work: "asyncio.Task[None]") -> None:
        """Go on with the messages that came meanwhile."""
        if work.cancelled():
            return
        self._work = None
        error = work.exception()
        if error is None:
            self._socket.resume()
            self._end_when_handled()
        elif not self._ended.done():
            self._ended.set_exception(error)

    # -- called by subscriptions (Pusher) --------------------------------------------------------

    @property
    def has_push_room(self) -> bool:
        return self._outbox.size_bytes < self._limits.push_bytes_max

    def check_push(self, group: str, topics: Iterable[str]) -> None:
        self._require(Action.CONSUME, Kind.GROUP, group)
        self._require(Action.CONSUME, Kind.TOPIC, *topics)

    def deliver(
        self,
        subscription: int,
        frame: batches.DeliverFrame | PackedDeliverFrame,
        *,
        is_text: bool,
        undo: Callable[[], None],
    ) -> None:
        self._answer(subscription, frame, is_text, undo)

    def call_soon(self, callback: Callable[[], None]) -> asyncio.Handle:
        return self._host.loop.call_soon(self._host.turn_end.run, callback)

    def ended(self, subscription: int, error: EngineError, *, is_text: bool) -> None:
        self._subscriptions.pop(subscription, None)
        self._answer(subscription, error_frame(error), is_text)

    # -- reading --------------------------------------------------------------------------------

    @property
    def _is_overfull(self) -> bool:
        limits = self._limits
        is_open = not self._is_closing and self._close_code is None
        return is_open and (
            self._inflight_bytes > limits.inflight_bytes_max
            or (self._inflight_bytes > 0 and self._hold.is_tight)
            or self._outbox.size_bytes > limits.outbox_bytes_max
        )

    async def _until_room(self) -> None:
        """Wait while the connection holds more than it may."""
        while self._is_overfull:
            self._room.clear()
            await self._room.wait()

    async def _on_data(self, data: bytes | str) -> None:
        if len(data) > self._limits.frame_bytes_max:
            detail = f"a message of {len(data)} bytes; at most {self._limits.frame_bytes_max}"
            self._fail(CLOSE_TOO_BIG, detail, is_text=isinstance(data, str))
        elif isinstance(data, str):
            rest = self._on_frame(*text.parse(data), is_text=True)
            if rest is not None:
                await rest
        else:
            try:
                for number, (request, frame) in enumerate(iter_frames(data, PARSERS), 1):
                    rest = self._on_frame(request, frame, is_text=False)
                    if rest is not None:
                        await rest
                    if number % TURN_FRAMES == 0:  # others have their turn, answers leave
                        await asyncio.sleep(0)
                        await self._until_room()
                        if self._is_closing:
                            return
            except ProtocolError as error:
                self._fail(CLOSE_UNREADABLE, str(error), is_text=False)
        await self._until_room()

    def _on_frame(
        self, request: int, frame: frames.Frame | UnreadableFrame, *, is_text: bool
    ) -> Coroutine[Any, Any, None] | None:
        """Handle a frame up to its first wait, and answer it; what is left of that to await."""
        answer: Any
        try:
            if isinstance(frame, UnreadableFrame):
                raise Invalid(str(frame), field="frame", remedy="see docs/websocket.md")
            answer = self._take(request, frame, is_text)
            if type(answer) is CoroutineType:
                answer = eager.begin(answer)
        except Exception as error:
            answer = _failure(error, frame)
        if type(answer) is eager.Remainder:  # of an abstract class `isinstance` takes long
            return self._finish(request, frame, answer, is_text=is_text)
        if answer is not None:
            self._answer(request, answer, is_text)
        return None

    async def _finish(
        self,
        request: int,
        frame: frames.Frame | UnreadableFrame,
        rest: Coroutine[Any, Any, frames.Frame | None],
        *,
        is_text: bool,
    ) -> None:
        try:
            answer = await rest
        except Exception as error:
            answer = _failure(error, frame)
        if answer is not None:
            self._answer(request, answer, is_text)

    def _take(self, request: int, frame: frames.Frame, is_text: bool) -> Answer:
        """Handle a frame; gives the answer, or None if it comes later or none is due."""
        raise NotImplementedError

    def _answer(
        self,
        request: int,
        frame: frames.Frame,
        is_text: bool,
        undo: Callable[[], None] | None = None,
    ) -> None:
        if is_text:
            self._outbox.put(text.render(request, frame), undo)
        else:
            self._outbox.put(frames.encode(request, frame), undo)

    def _on_room(self) -> None:
        if (self._work is not None or self._calls.is_busy) and not self._is_overfull:
            self._room.set()
            self._calls.resume()
        if self.has_push_room:
            for subscription in self._subscriptions.values():
                subscription.resume()

    def _on_call_done(self, size_bytes: int) -> None:
        self._count(-size_bytes)
        self._on_room()

    def _count(self, size_bytes: int) -> None:
        """So many bytes more, or fewer, wait for their answer."""
        self._inflight_bytes += size_bytes
        self._hold.add(size_bytes)

    # -- rights ---------------------------------------------------------------------------------

    def _require(self, action: Action, kind: Kind, *names: str) -> None:
        """Raise RightMissing unless the connection's principal has the right now."""
        authenticator = self._authenticator
        if authenticator.is_unrestricted:
            return
        who = authenticator.reauthenticate(self._scope) or Principal("")
        for name in names:
            require(who, action, kind, name)

    def _look_again(self) -> None:
        """End the connection soon after its token or its session has ended."""
        if self._is_closing:
            return
        if self._authenticator.reauthenticate(self._scope) is None:
            self._fail(CLOSE_NOT_ALLOWED, "the token or the login is not valid", is_text=False)
            return
        self._looking = asyncio.get_running_loop().call_later(RIGHTS_EVERY_S, self._look_again)

    # -- the end --------------------------------------------------------------------------------

    def replace(self) -> None:
        """Another connection speaks for this client from now on."""
        self._fail(CLOSE_REPLACED, "another connection of this client took over", is_text=False)

    def disconnect(self) -> None:
        """An operator ends the connection; what its client holds is the operator's affair."""
        self._fail(CLOSE_DISCONNECTED, "an operator ended the connection", is_text=False)

    def _fail(self, code: int, detail: str, *, is_text: bool) -> None:
        self._answer(0, frames.ErrorFrame("connection_closed", detail), is_text)
        self._outbox.close(code, detail[:100])
        self._is_closing = True
        self._end_subscriptions()
        self._calls.leave()
        self._room.set()

    def _end_subscriptions(self) -> None:
        self._producers.leave()
        for subscription in self._subscriptions.values():
            subscription.close()
        self._subscriptions.clear()

    def _close(self, code: int) -> None:
        """Stop pushing; give back what never left, and all that is held after a clean goodbye."""
        self._end_subscriptions()
        self._calls.leave()
        self._is_closing = True
        is_current = self._hub.leave(self.client, self)
        if not self._host.is_ready:
            return
        self._outbox.abandon()
        if is_current and code in CLEAN_CLOSES:
            eager.run(self._release_held(), self._on_released)

    async def _release_held(self) -> None:
        for group in self._groups:
            held = await held_by(self._messaging, group, self.client)
            for start in range(0, len(held), self._limits.count_max):
                part = held[start : start + self._limits.count_max]
                await self._messaging.release(group, part)

    def _on_released(self, _: None, error: EngineError | None) -> None:
        if error is not None:
            log.warning("what %s held was not put back: %s", self.client, error.detail)


def _failure(error: Exception, frame: frames.Frame | UnreadableFrame) -> frames.ErrorFrame:
    if isinstance(error, EngineError):
        return error_frame(error)
    log.error("a %s failed", type(frame).__name__, exc_info=error)
    return frames.ErrorFrame("internal_error", "the server failed; its log says why")


def _hold_of(scope: Scope) -> ByteReservation:
    """Memory that the connection uses on the server, on account of its principal."""
    client = scope.get("client")
    hold: ByteReservation = scope.get(RESERVATION) or services_of(
        scope
    ).request_limits.budget.reserve(client[0] if client else "", "", _nothing)
    hold.name(principal_of(scope).caller)
    return hold


def _nothing() -> None:
    """Without a connection of its own there is nothing unfinished."""
