"""Maps a client's frames to verbs of the broker."""

from collections.abc import Callable
from typing import Any

from starlette.types import Scope

from app.security.access import Action, Kind
from app.security.client_names import ClientNames
from app.send_batcher import BatchSlice, ColumnsDone
from app.ws.connection import PARSERS, Answer, Connection, Hub
from app.ws.lone_sends import LoneFrames, request_of
from app.ws.packed_deliver import AckRunFrame
from app.ws.packed_send import PackedSendFrame
from app.ws.push import Subscription, held_by
from app.ws.send_runs import FrameRun, SendPattern, SendRuns, answer_of_one
from app.ws.shapes import (
    DURABILITIES,
    RESULT_CODES,
    build_messages,
    error_frame,
    nacks_of,
    receipts_of,
    result_frame,
    sent_frame,
)
from engine.errors import Busy, Conflict, EngineError, Invalid
from engine.message import Durability
from engine.message_columns import ColumnsResult
from kitemq.protocol import batches, calls, frames, sends, transactions
from kitemq.protocol.stream import iter_frames

SERVER = "kitemq"
ALIKE_COUNT = 2  # SENDs that came alone, until there is a shorter way for those like them


class Session(Connection):
    """A connection whose frames are understood."""

    def __init__(self, hub: Hub, remote: str, scope: Scope) -> None:
        super().__init__(hub, remote, scope)
        self._sends = SendRuns(hub.limits.frame_bytes_max)
        self._lone: LoneFrames | None = None
        self._last_pattern: SendPattern | None = None  # of the last SEND that came alone
        self._alike_count = 0  # of those that came alone and had it

    def on_lone_message(self, data: bytes) -> None:
        if self._lone is None or not self._send_lone(self._lone, data):
            super().on_lone_message(data)

    def _send_lone(self, lone: LoneFrames, data: bytes) -> bool:
        """Store and answer a SEND at once; False where it has to go the longer way."""
        is_calm = not (self._inflight_bytes or self._outbox.size_bytes or self._is_closing)
        if not (is_calm and lone.fits(data)):
            return False
        try:
            self._require(Action.PRODUCE, Kind.TOPIC, lone.topic)
        except EngineError:
            return False
        place = lone.store(data)
        if place is None:
            if not lone.sender.is_current:
                self._lone = self._last_pattern = None
            return False
        request = request_of(data)
        if not lone.sender.waits:
            self._services.client_figures.sent(self.client, 1, place.stored_ms)
            self._outbox.put_now(answer_of_one(request, place, lone.sender.durability))
            return True

        def answer(part: BatchSlice | ColumnsResult) -> None:
            self._outbox.put_now(answer_of_one(request, place, part.durability))

        def refuse(error: EngineError) -> None:
            self._answer(request, error_frame(error), is_text=False)

        lone.sender.when_accepted(place, self._when_sent(1, len(data), answer, refuse))
        return True

    def _prepare_lone(self, run: FrameRun, durability: Durability | None) -> None:
        """Have a shorter way for SENDs like this one, once it is not the first of them."""
        pattern = run.pattern
        if pattern is not self._last_pattern:
            self._lone, self._last_pattern, self._alike_count = None, pattern, 0
        self._alike_count += 1
        if self._alike_count == ALIKE_COUNT:
            sender = self._messaging.lone_sender(run.columns(self._remote), durability)
            if sender is not None:
                self._lone = LoneFrames(pattern, sender, self._limits.frame_bytes_max)

    def on_message(self, data: bytes | str) -> None:
        if self._is_closing or self._sends.go_on(data):
            return
        if self._sends.is_under_way:
            self._end_sends()
        if not self._sends.begin(data):
            super().on_message(data)

    def on_read_end(self) -> None:
        if self._sends.is_under_way:
            self._end_sends()
        super().on_read_end()

    def _end_sends(self) -> None:
        """Store the SENDs that waited for others to continue them."""
        for sent in self._sends.end():
            if isinstance(sent, FrameRun):
                self._send_run(sent)
            else:
                self._send_one(sent)

    def _send_one(self, data: bytes) -> None:
        """Handle a SEND by itself; none of them waits."""
        for request, frame in iter_frames(data, PARSERS):
            self._on_frame(request, frame, is_text=False)

    def _send_run(self, run: FrameRun) -> None:
        """Store SENDs together, or by parts where one is to be refused."""
        first, size_bytes = run.pattern.frame, run.body_bytes

        def split() -> None:
            self._count(-size_bytes)
            for half in run.halves:
                self._send_run(half)

        def refuse(error: EngineError) -> None:
            for request in run.requests:
                self._answer(request, error_frame(error), is_text=False)

        done = self._when_sent(
            run.message_count, size_bytes, lambda part: self._outbox.put(run.answers(part)), refuse
        )
        try:
            self._require(Action.PRODUCE, Kind.TOPIC, first.topic)
        except EngineError as error:
            done(None, error)
            return
        durability = DURABILITIES[sends.DurabilityCode(first.durability)]
        if run.is_lone:
            self._prepare_lone(run, durability)
        if run.is_small:
            self._messaging.submit(run.messages(self._remote), durability, done)
        else:
            columns = run.columns(self._remote)
            together = split if len(run.frames) > 1 else None
            self._messaging.submit_columns(columns, durability, done, together)

    def _take(self, request: int, frame: frames.Frame, is_text: bool) -> Answer:
        return HANDLERS[type(frame)](self, request, frame, is_text)

    def _on_hello(self, _request: int, frame: frames.HelloFrame, _is_text: bool) -> frames.Frame:
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
            self._hub.enter(frame.client, self)
            if self.client != frame.client:
                self._hub.leave(self.client, self)
            self.client = frame.client
        limits = self._limits
        return frames.WelcomeFrame(
            self.client,
            SERVER,
            limits.frame_bytes_max,
            limits.count_max,
            limits.inflight_bytes_max,
            limits.subscriptions_max,
        )

    def _on_send(self, request: int, frame: sends.SendFrame, is_text: bool) -> None:
        self._require(Action.PRODUCE, Kind.TOPIC, frame.topic)
        messages = build_messages(frame, self._remote, self._host.clock.now_ms())
        if not messages:
            raise Invalid("a send without messages", field="messages", remedy="send at least one")
        if frame.durability not in DURABILITIES:
            raise Invalid("the durability is unknown", field="durability", remedy="0 to 3")
        done = self._answering(
            request,
            len(messages),
            sum(map(len, frame.bodies)),
            is_text=is_text,
            with_ids=is_text or not frame.id_prefix,
        )
        durability = DURABILITIES[sends.DurabilityCode(frame.durability)]
        self._messaging.submit(messages, durability, done)

    def _on_packed_send(self, request: int, frame: PackedSendFrame, is_text: bool) -> None:
        self._require(Action.PRODUCE, Kind.TOPIC, frame.topic)
        done = self._answering(
            request, frame.count, frame.body_bytes, is_text=is_text, with_ids=not frame.id_prefix
        )
        durability = DURABILITIES[sends.DurabilityCode(frame.durability)]
        self._messaging.submit_columns(frame.columns(self._remote), durability, done)

    def _when_sent(
        self,
        count: int,
        size_bytes: int,
        answer: Callable[[BatchSlice | ColumnsResult], None],
        refuse: Callable[[EngineError], None],
    ) -> ColumnsDone:
        """Hold room for messages until they are stored or refused, then answer."""
        self._count(size_bytes)

        def done(part: BatchSlice | ColumnsResult | None, error: EngineError | None) -> None:
            self._count(-size_bytes)
            self._on_room()
            if self._is_closing:
                return
            if part is not None:
                figures = self._services.client_figures
                figures.sent(self.client, count, self._host.clock.now_ms())
                answer(part)
            elif error is not None:
                refuse(error)

        return done

    def _answering(
        self, request: int, count: int, size_bytes: int, *, is_text: bool, with_ids: bool
    ) -> ColumnsDone:
        """The same for one SEND, whose answer is a frame."""
        return self._when_sent(
            count,
            size_bytes,
            lambda part: self._answer(request, sent_frame(part, with_ids=with_ids), is_text),
            lambda error: self._answer(request, error_frame(error), is_text),
        )

    def _on_call(self, request: int, frame: calls.CallFrame, is_text: bool) -> None:
        self._calls.begin(request, frame, is_text=is_text)
        self._count(len(frame.body))

    async def _on_checks_wanted(
        self, request: int, frame: transactions.ChecksWantedFrame, is_text: bool
    ) -> None:
        self._require(Action.PRODUCE, Kind.GROUP, frame.group)
        await self._producers.want(request, frame.group, is_text=is_text)

    def _on_checks_unwanted(
        self, _request: int, frame: transactions.ChecksUnwantedFrame, _is_text: bool
    ) -> frames.Frame:
        self._producers.unwant(frame.wanted)
        return batches.ResultFrame([], [])

    async def _on_decide(
        self, request: int, frame: transactions.DecideFrame, is_text: bool
    ) -> None:
        if not self._authenticator.is_unrestricted:
            transactions = self._messaging.transactions
            transaction = await transactions.get(frame.transaction_id, group=frame.group)
            self._require(Action.PRODUCE, Kind.TOPIC, transaction.topic)
        self._producers.decide(request, frame, is_text=is_text)

    async def _on_subscribe(
        self, request: int, frame: frames.SubscribeFrame, is_text: bool
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
        messaging, client = self._messaging, self.client
        names: ClientNames = self._services.client_names
        names.claim(frame.group, client, self.holder)
        messaging.wait_to_receive(frame.group, frame.topics, lambda: None, client).cancel()
        # Read before the first delivery, so that all of it is from an earlier connection.
        held = (await held_by(messaging, frame.group, client))[: batches.HELD_MAX]
        member = await messaging.members.connect(
            frame.group, client, topics=frame.topics, address=self._remote
        )
        if self._is_closing:  # meanwhile: nothing else would end the subscription
            member.close()
            return None
        subscription = Subscription(
            messaging, self, self._limits, request, frame, is_text=is_text, member=member
        )
        self._subscriptions[request] = subscription
        self._groups.add(frame.group)
        self._answer(request, batches.SubscribedFrame(list(held)), is_text)
        subscription.add_credit(_positive(frame.credit, "credit"))
        return None

    def _on_credit(self, _request: int, frame: frames.CreditFrame, _is_text: bool) -> None:
        subscription = self._subscriptions.get(frame.subscription)
        if subscription is not None:  # else it ended while this was on its way
            subscription.add_credit(_positive(frame.count, "count"))

    def _on_unsubscribe(
        self, _request: int, frame: frames.UnsubscribeFrame, _is_text: bool
    ) -> frames.Frame:
        subscription = self._subscriptions.pop(frame.subscription, None)
        if subscription is not None:
            subscription.close()
        return batches.ResultFrame([], [])

    async def _on_ack(self, _request: int, frame: batches.AckFrame, _is_text: bool) -> frames.Frame:
        self._require(Action.CONSUME, Kind.GROUP, frame.group)
        return result_frame(await self._messaging.ack(frame.group, receipts_of(frame.receipts)))

    async def _on_ack_run(self, _request: int, frame: AckRunFrame, _is_text: bool) -> frames.Frame:
        self._require(Action.CONSUME, Kind.GROUP, frame.group)
        return result_frame(await self._messaging.ack(frame.group, frame.receipts))

    async def _on_release(
        self, _request: int, frame: batches.ReleaseFrame, _is_text: bool
    ) -> frames.Frame:
        self._require(Action.CONSUME, Kind.GROUP, frame.group)
        return result_frame(await self._messaging.release(frame.group, receipts_of(frame.receipts)))

    async def _on_nack(
        self, _request: int, frame: batches.NackFrame, _is_text: bool
    ) -> frames.Frame:
        self._require(Action.CONSUME, Kind.GROUP, frame.group)
        nacks = nacks_of(frame)
        return result_frame(await self._messaging.nack(frame.group, nacks, self.client))

    async def _on_extend(
        self, _request: int, frame: batches.ExtendFrame, _is_text: bool
    ) -> frames.Frame:
        self._require(Action.CONSUME, Kind.GROUP, frame.group)
        extended = await self._messaging.extend(
            frame.group, receipts_of(frame.receipts), frame.invisible_ms / 1000
        )
        return batches.ResultFrame(
            [RESULT_CODES[item.result] for item in extended], [item.until_ms for item in extended]
        )


HANDLERS: dict[type[frames.Frame], Callable[[Session, int, Any, bool], Answer]] = {
    frames.HelloFrame: Session._on_hello,
    frames.SubscribeFrame: Session._on_subscribe,
    frames.CreditFrame: Session._on_credit,
    frames.UnsubscribeFrame: Session._on_unsubscribe,
    sends.SendFrame: Session._on_send,
    PackedSendFrame: Session._on_packed_send,
    batches.AckFrame: Session._on_ack,
    AckRunFrame: Session._on_ack_run,
    batches.ReleaseFrame: Session._on_release,
    batches.NackFrame: Session._on_nack,
    batches.ExtendFrame: Session._on_extend,
    calls.CallFrame: Session._on_call,
    transactions.ChecksWantedFrame: Session._on_checks_wanted,
    transactions.ChecksUnwantedFrame: Session._on_checks_unwanted,
    transactions.DecideFrame: Session._on_decide,
}


def _positive(count: int, field: str) -> int:
    if count < 0:
        raise Invalid(f"{field} is {count}", field=field, remedy="0 or more")
    return count
