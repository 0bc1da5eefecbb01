"""One WebSocket connection: frames in, verbs of the broker, answers out.

Everything runs on the loop's thread. A session holds nothing that a restart would miss: what its
client was handed is known to the engine under the client's name, and a client that comes back asks
for it by subscribing again.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable
from typing import Any

from starlette.types import Receive, Scope
from starlette.types import Send as AsgiSend

from app.api.socket_calls import Calls
from app.api.socket_limits import SocketLimits
from app.api.socket_outbox import Outbox
from app.api.socket_producers import Producers
from app.api.socket_push import Subscription
from app.api.socket_shapes import (
    PROMISES,
    RESULT_CODES,
    build_messages,
    error_frame,
    nacks_of,
    receipts_of,
    result_frame,
    sent_frame,
)
from app.host import EngineHost
from app.security.access import Action, Kind, Principal, require
from app.security.doorman import Doorman
from app.services.sends import Part, SendGate
from engine.errors import Busy, Conflict, EngineError, Invalid
from protocol import batches, calls, frames, text, transactions
from protocol.columns import ProtocolError
from protocol.stream import CLIENT_FRAMES, Unreadable, iter_frames

log = logging.getLogger("kitemq.socket")

CLEAN_CLOSES = frozenset({1000, 1001})  # the client said goodbye: normal, or leaving its page
CLOSE_UNREADABLE = 1002
CLOSE_TOO_BIG = 1009
CLOSE_REPLACED = 4001
CLOSE_NOT_ALLOWED = 4003
CLOSE_DISCONNECTED = 4004
RIGHTS_EVERY_S = 5.0  # how soon a connection ends whose token was revoked or has expired
SERVER = "kitemq"


class Hub:
    """What the connections of one server share: the send gate, and who is connected as whom."""

    def __init__(self, host: EngineHost, limits: SocketLimits) -> None:
        self.host = host
        self.limits = limits
        self.gate = SendGate(host)
        self._sessions: dict[str, Session] = {}

    def enter(self, client: str, session: "Session") -> None:
        """Make `session` the one of `client`; an older one of that name is closed."""
        older = self._sessions.get(client)
        if older is not None and older is not session:
            older.replace()
        self._sessions[client] = session

    def leave(self, client: str, session: "Session") -> bool:
        """Forget `session`; whether it still was the one of `client`."""
        if self._sessions.get(client) is not session:
            return False
        del self._sessions[client]
        return True


class Session:
    """Reads one connection until it closes; `run` is the whole of its life."""

    def __init__(self, hub: Hub, remote: str, scope: Scope) -> None:
        self._hub = hub
        self._host = hub.host
        self._limits = hub.limits
        self._remote = remote
        self._outbox = Outbox(self._on_room)
        self._room = asyncio.Event()
        self._subscriptions: dict[int, Subscription] = {}
        self._groups: set[str] = set()
        self._inflight_bytes = 0
        self._is_closing = False
        self._scope = scope
        self._looking: asyncio.TimerHandle | None = None
        self._doorman: Doorman = scope["app"].state.doorman
        self.client = f"ws-{secrets.token_hex(6)}"
        self._calls = Calls(
            scope,
            hub.limits,
            on_answer=self._answer,
            on_done=self._on_call_done,
            has_room=lambda: self._outbox.size_bytes <= self._limits.outbox_bytes_max,
        )
        self._producers = Producers(
            hub.host,
            scope["app"].state.transactions,
            wanted_max=hub.limits.subscriptions_max,
            on_answer=self._answer,
            has_room=lambda: self.has_push_room,
        )
        hub.enter(self.client, self)

    async def run(self, receive: Receive, send: AsgiSend) -> None:
        """Serve an accepted connection until either side closes it."""
        writer = asyncio.ensure_future(self._outbox.run(send))
        writer.add_done_callback(lambda _: self._room.set())  # nothing will make room any more
        self._look_again()
        code = 1006
        try:
            while True:
                event = await receive()
                if event["type"] == "websocket.disconnect":
                    code = event.get("code", 1006)
                    return
                if not self._is_closing:
                    self._on_event(event)
                while self._is_overfull and not writer.done():
                    self._room.clear()
                    await self._room.wait()
        finally:
            if self._looking is not None:
                self._looking.cancel()
            self._close(code)
            await self._calls.close()
            await self._producers.close()
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    # -- what subscriptions ask (Pusher) --------------------------------------------------------

    @property
    def has_push_room(self) -> bool:
        return self._outbox.size_bytes < self._limits.push_bytes_max

    def check_push(self, group: str, topics: Iterable[str]) -> None:
        self._require(Action.CONSUME, Kind.GROUP, group)
        self._require(Action.CONSUME, Kind.TOPIC, *topics)

    def deliver(
        self, subscription: int, frame: batches.Deliver, *, is_text: bool, undo: Callable[[], None]
    ) -> None:
        self._answer(subscription, frame, is_text, undo)

    def ended(self, subscription: int, error: EngineError, *, is_text: bool) -> None:
        self._subscriptions.pop(subscription, None)
        self._answer(subscription, error_frame(error), is_text)

    # -- reading --------------------------------------------------------------------------------

    @property
    def _is_overfull(self) -> bool:
        limits = self._limits
        return not self._is_closing and (
            self._inflight_bytes > limits.inflight_bytes_max
            or self._outbox.size_bytes > limits.outbox_bytes_max
        )

    def _on_event(self, event: dict[str, Any] | Any) -> None:
        text_data: str | None = event.get("text")
        data: bytes | str = event["bytes"] if text_data is None else text_data
        if len(data) > self._limits.frame_bytes_max:
            detail = f"a message of {len(data)} bytes; at most {self._limits.frame_bytes_max}"
            self._fail(CLOSE_TOO_BIG, detail, is_text=isinstance(data, str))
        elif isinstance(data, str):
            self._on_frame(*text.parse(data), is_text=True)
        else:
            try:
                for request, frame in iter_frames(data, CLIENT_FRAMES):
                    self._on_frame(request, frame, is_text=False)
            except ProtocolError as error:
                self._fail(CLOSE_UNREADABLE, str(error), is_text=False)

    def _on_frame(self, request: int, frame: frames.Frame | Unreadable, *, is_text: bool) -> None:
        try:
            if isinstance(frame, Unreadable):
                raise Invalid(str(frame), field="frame", remedy="see docs/websocket.md")
            answer = HANDLERS[type(frame)](self, request, frame, is_text)
        except EngineError as error:
            answer = error_frame(error)
        except Exception:
            log.exception("a %s frame failed", type(frame).__name__)
            answer = frames.Error("internal_error", "the server failed; its log says why")
        if answer is not None:
            self._answer(request, answer, is_text)

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
        if not self._is_overfull:
            self._room.set()
            self._calls.resume()
        if self.has_push_room:
            for subscription in self._subscriptions.values():
                subscription.resume()

    # -- rights ---------------------------------------------------------------------------------

    def _require(self, action: Action, kind: Kind, *names: str) -> None:
        """Raise RightMissing unless whoever opened this connection has the right as of now."""
        doorman = self._doorman
        if doorman.is_open and not doorman.everybody.is_read_only:
            return
        who = doorman.recognise(self._scope) or Principal("")
        for name in names:
            require(who, action, kind, name)

    def _look_again(self) -> None:
        """End the connection soon after its token or its session has ended."""
        if self._is_closing:
            return
        if self._doorman.recognise(self._scope) is None:
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
        self._answer(0, frames.Error("connection_closed", detail), is_text)
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
        try:
            self._outbox.abandon()
            if is_current and code in CLEAN_CLOSES:
                self._release_held()
        except EngineError as error:
            log.warning("what %s held was not put back: %s", self.client, error.detail)

    def _release_held(self) -> None:
        broker = self._host.broker
        for group in self._groups:
            held = broker.held(group, self.client)
            for start in range(0, len(held), self._limits.count_max):
                broker.release(group, held[start : start + self._limits.count_max])

    # -- frames ---------------------------------------------------------------------------------

    def _on_hello(self, _request: int, frame: frames.Hello, _is_text: bool) -> frames.Frame:
        if frame.version != frames.VERSION:
            raise Invalid(
                f"protocol version {frame.version} is unknown",
                field="version",
                remedy=f"speak version {frames.VERSION}",
            )
        if len(frame.client) > self._limits.client_chars_max:
            raise Invalid("the name is too long", field="client", remedy="at most 128 characters")
        if self._subscriptions:
            raise Conflict("say hello before the first subscription", field="client")
        if frame.client:
            self._hub.leave(self.client, self)
            self.client = frame.client
            self._hub.enter(self.client, self)
        limits = self._limits
        return frames.Welcome(
            self.client,
            SERVER,
            limits.frame_bytes_max,
            limits.count_max,
            limits.inflight_bytes_max,
            limits.subscriptions_max,
        )

    def _on_send(self, request: int, frame: batches.Send, is_text: bool) -> frames.Frame | None:
        self._require(Action.PRODUCE, Kind.TOPIC, frame.topic)
        messages = build_messages(frame, self._remote, self._host.clock.now_ms())
        if not messages:
            raise Invalid("a send without messages", field="messages", remedy="send at least one")
        if frame.promise not in PROMISES:
            raise Invalid("the promise is unknown", field="promise", remedy="0, 1 or 2")
        size_bytes = sum(map(len, frame.bodies))
        self._inflight_bytes += size_bytes

        def done(part: Part | None, error: EngineError | None) -> None:
            self._inflight_bytes -= size_bytes
            self._on_room()
            if self._is_closing:
                return
            if part is not None:
                figures = self._scope["app"].state.client_figures
                figures.sent(self.client, len(messages), self._host.clock.now_ms())
                with_ids = is_text or not frame.id_prefix
                self._answer(request, sent_frame(part, with_ids=with_ids), is_text)
            elif error is not None:
                self._answer(request, error_frame(error), is_text)

        promise = PROMISES[batches.PromiseCode(frame.promise)]
        self._hub.gate.add(messages, promise, size_bytes, done)
        return None

    def _on_call(self, request: int, frame: calls.Call, is_text: bool) -> None:
        self._calls.begin(request, frame, is_text=is_text)
        self._inflight_bytes += len(frame.body)

    def _on_checks_wanted(
        self, request: int, frame: transactions.ChecksWanted, is_text: bool
    ) -> None:
        self._require(Action.PRODUCE, Kind.GROUP, frame.group)
        self._producers.want(request, frame.group, is_text=is_text)

    def _on_checks_unwanted(
        self, _request: int, frame: transactions.ChecksUnwanted, _is_text: bool
    ) -> frames.Frame:
        self._producers.unwant(frame.wanted)
        return batches.Result([], [])

    def _on_decide(self, request: int, frame: transactions.Decide, is_text: bool) -> None:
        if not self._doorman.is_open or self._doorman.everybody.is_read_only:
            found = self._host.broker.transactions.get(frame.transaction_id, group=frame.group)
            self._require(Action.PRODUCE, Kind.TOPIC, found.topic)
        self._producers.decide(request, frame, is_text=is_text)

    def _on_call_done(self, size_bytes: int) -> None:
        self._inflight_bytes -= size_bytes
        self._on_room()

    def _on_subscribe(
        self, request: int, frame: frames.Subscribe, is_text: bool
    ) -> frames.Frame | None:
        if request in self._subscriptions:
            raise Conflict("this request number already names a subscription", field="id")
        if len(self._subscriptions) >= self._limits.subscriptions_max:
            raise Busy(
                f"one connection holds at most {self._limits.subscriptions_max} subscriptions",
                field="group",
                remedy="name several topics in one subscription",
            )
        if not frame.topics:
            raise Invalid("no topic is named", field="topics", remedy="name at least one topic")
        self.check_push(frame.group, frame.topics)
        # Whatever is wrong with group, topics or filters shows here, not at the first message.
        broker, client = self._host.broker, self.client
        broker.park_receive(frame.group, frame.topics, lambda: None, client).cancel()
        # Asked for before the first hand-out, so that all of it is from an earlier connection.
        held = self._host.broker.held(frame.group, self.client)[: batches.HELD_MAX]
        subscription = Subscription(
            self._host,
            self,
            self._limits,
            number=request,
            group=frame.group,
            topics=frame.topics,
            invisible_s=frame.invisible_ms / 1000,
            is_text=is_text,
            member=broker.members.connect(
                frame.group, client, topics=frame.topics, address=self._remote
            ),
        )
        self._subscriptions[request] = subscription
        self._groups.add(frame.group)
        self._answer(request, batches.Subscribed(list(held)), is_text)
        subscription.add_credit(_positive(frame.credit, "credit"))
        return None

    def _on_credit(self, _request: int, frame: frames.Credit, _is_text: bool) -> None:
        subscription = self._subscriptions.get(frame.subscription)
        if subscription is not None:  # else it ended while this was on its way
            subscription.add_credit(_positive(frame.count, "count"))

    def _on_unsubscribe(
        self, _request: int, frame: frames.Unsubscribe, _is_text: bool
    ) -> frames.Frame:
        subscription = self._subscriptions.pop(frame.subscription, None)
        if subscription is not None:
            subscription.close()
        return batches.Result([], [])

    def _on_ack(self, _request: int, frame: batches.Ack, _is_text: bool) -> frames.Frame:
        self._require(Action.CONSUME, Kind.GROUP, frame.group)
        return result_frame(self._host.broker.ack(frame.group, receipts_of(frame.receipts)))

    def _on_release(self, _request: int, frame: batches.Release, _is_text: bool) -> frames.Frame:
        self._require(Action.CONSUME, Kind.GROUP, frame.group)
        return result_frame(self._host.broker.release(frame.group, receipts_of(frame.receipts)))

    def _on_nack(self, _request: int, frame: batches.Nack, _is_text: bool) -> frames.Frame:
        self._require(Action.CONSUME, Kind.GROUP, frame.group)
        nacks = nacks_of(frame)
        return result_frame(self._host.broker.nack(frame.group, nacks, self.client))

    def _on_extend(self, _request: int, frame: batches.Extend, _is_text: bool) -> frames.Frame:
        self._require(Action.CONSUME, Kind.GROUP, frame.group)
        extended = self._host.broker.extend(
            frame.group, receipts_of(frame.receipts), frame.invisible_ms / 1000
        )
        return batches.Result(
            [RESULT_CODES[item.result] for item in extended], [item.until_ms for item in extended]
        )


HANDLERS: dict[type[frames.Frame], Callable[[Session, int, Any, bool], frames.Frame | None]] = {
    frames.Hello: Session._on_hello,
    frames.Subscribe: Session._on_subscribe,
    frames.Credit: Session._on_credit,
    frames.Unsubscribe: Session._on_unsubscribe,
    batches.Send: Session._on_send,
    batches.Ack: Session._on_ack,
    batches.Release: Session._on_release,
    batches.Nack: Session._on_nack,
    batches.Extend: Session._on_extend,
    calls.Call: Session._on_call,
    transactions.ChecksWanted: Session._on_checks_wanted,
    transactions.ChecksUnwanted: Session._on_checks_unwanted,
    transactions.Decide: Session._on_decide,
}


def _positive(count: int, field: str) -> int:
    if count < 0:
        raise Invalid(f"{field} is {count}", field=field, remedy="0 or more")
    return count
