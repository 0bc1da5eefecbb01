"""Shared core of both consumers, on the loop's thread: receives, settles, extends deliveries.

A consumer holds at most `prefetch` messages: each settled one gives a credit back. Every settlement
that the server has not confirmed is repeated over a new connection, where the server also lists the
deliveries that this client still has; both sides reconcile the rest.
"""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol, cast

from kitemq.connection import ServerConnection
from kitemq.consumer_rules import ConsumerRules
from kitemq.errors import Busy, Invalid, KiteError, Stopped, Unreachable
from kitemq.link import CONNECT_TIMEOUT_S, ServerLink
from kitemq.protocol.batches import (
    NOT_GIVEN,
    TO_DEAD_LETTERS,
    AckFrame,
    DeliverFrame,
    ExtendFrame,
    NackFrame,
    Receipt,
    ReleaseFrame,
    ResultCode,
    ResultFrame,
    SubscribedFrame,
)
from kitemq.protocol.frames import CreditFrame, Frame, SubscribeFrame, UnsubscribeFrame
from kitemq.protocol.text import receipt_text
from kitemq.received import AckResult, OnSettled, Received, received_of
from kitemq.replies import OnReplied, Replies
from kitemq.requests import new_reply
from kitemq.settlement import KINDS, Kind, Settlement, settling_frame, tell

log = logging.getLogger("kitemq")

SETTLE_COUNT_MAX = 1024
EXTEND_CHECKS = 4  # looks at the held messages so often within one invisible time
EXTEND_TICK_MIN_S = 0.01
SETTLE_RETRY_S = 0.5
GOODBYE_S = 1.0


class Shelf(Protocol):
    """Queue of delivered messages for their handlers."""

    def put(self, messages: list[Received]) -> None:
        """Add delivered messages."""

    def clear(self) -> list[Received]:
        """Remove and return all messages that no handler has taken."""

    def end(self, error: KiteError | None) -> None:
        """Close the queue and wake its waiters."""


class ConsumerCore:
    """One subscription of one group, over as many connections as it takes."""

    def __init__(
        self,
        server: str,
        rules: ConsumerRules,
        shelf: Shelf,
        *,
        client: str,
        schedule: Callable[[Callable[[], None]], object],
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        ca: str = "",
    ) -> None:
        """`schedule` runs something on the loop's thread soon; called from any thread."""
        self._rules = rules
        self._shelf = shelf
        self._schedule = schedule
        self._held: dict[Receipt, Received] = {}
        self._inbox: deque[tuple[Received, Settlement]] = deque()
        self._is_scheduled = False
        self._unsent: dict[Kind, deque[Settlement]] = {kind: deque() for kind in KINDS}
        self._on_road: set[Kind] = set()
        self._owed = 0
        self._subscription = 0
        self._timer: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._is_stopping = False
        self._is_started = False
        self._failure: KiteError | None = None
        self.client = client or f"consumer-{secrets.token_hex(8)}"
        self._link = ServerLink(
            server,
            self.client,
            on_up=self._on_up,
            on_down=self._on_down,
            connect_timeout_s=connect_timeout_s,
            ca=ca,
        )
        self._replies = Replies(self._link, schedule)
        self._first: asyncio.Future[None] | None = None

    # -- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect and subscribe; raises Unreachable, or what is wrong with group or topics."""
        self._first = asyncio.get_running_loop().create_future()
        await self._link.start()
        try:
            await self._first
        except BaseException:
            await self._link.stop()
            raise
        self._is_started = True
        self._tick()

    async def stop(self, timeout_s: float) -> None:
        """Settle or release the held messages, then leave; takes at most about `timeout_s`.

        Messages without a handler are released at once; running handlers have until `timeout_s`,
        then theirs are released too, and may be delivered again while the handlers still run.
        """
        if self._is_stopping:
            return
        self._is_stopping = True
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        connection = self._link.connection
        if connection is not None and connection.is_open:
            goodbye = connection.request(UnsubscribeFrame(self._subscription))
            goodbye.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.wait([goodbye], timeout=GOODBYE_S)
        self._drain()
        for message in self._shelf.clear():
            self._settle(message, Settlement(message.receipt, ReleaseFrame))
        self._shelf.end(self._failure)
        await self._wait_until(lambda: not self._held, deadline_s)
        for message in list(self._held.values()):
            self._settle(message, Settlement(message.receipt, ReleaseFrame))
        await self._wait_until(self._is_settled, max(deadline_s, loop.time() + 1.0))
        if self._timer is not None:
            self._timer.cancel()
        await self._replies.close()
        await self._link.stop()

    def is_held(self, message: Received) -> bool:
        """Whether a message is still held by this consumer."""
        return message.receipt in self._held

    # -- settling, from any thread --------------------------------------------------------------

    def settle_ack(self, message: Received, on_settled: OnSettled | None) -> None:
        self._post(message, Settlement(message.receipt, AckFrame, on_settled))

    def settle_nack(
        self, message: Received, error: str, delay_s: float | None, on_settled: OnSettled | None
    ) -> None:
        if delay_s is not None and delay_s < 0:
            raise Invalid(f"delay_s is {delay_s}", field="delay_s", remedy="0 or more")
        delay_ms = NOT_GIVEN if delay_s is None else round(delay_s * 1000)
        self._post(
            message, Settlement(message.receipt, NackFrame, on_settled, error[:1024], delay_ms)
        )

    def settle_reject(self, message: Received, error: str, on_settled: OnSettled | None) -> None:
        settlement = Settlement(message.receipt, NackFrame, on_settled, error[:1024])
        settlement.delay_level = TO_DEAD_LETTERS
        self._post(message, settlement)

    def settle_release(self, message: Received, on_settled: OnSettled | None) -> None:
        self._post(message, Settlement(message.receipt, ReleaseFrame, on_settled))

    def reply(
        self,
        message: Received,
        body: bytes | str,
        tag: str,
        properties: Mapping[str, str] | None,
        on_replied: OnReplied | None,
    ) -> None:
        if not message.correlation_id:
            raise Invalid(
                "nobody waits for a reply to this message",
                field="message",
                remedy="reply to what was sent with `request`",
            )
        receipt = receipt_text(message.receipt)
        reply = new_reply(body, receipt=receipt, tag=tag, properties=properties)
        self._replies.post(reply, on_replied)

    def _post(self, message: Received, settlement: Settlement) -> None:
        self._inbox.append((message, settlement))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(self._drain)

    def _drain(self) -> None:
        self._is_scheduled = False  # before looking: what is added from here on schedules again
        while self._inbox:
            self._settle(*self._inbox.popleft())
        self._send_settlements()

    def _settle(self, message: Received, settlement: Settlement) -> None:
        """Keep what shall become of a message until it is sent; a second word does not count."""
        if self._held.pop(message.receipt, None) is None:
            if settlement.on_settled is not None:
                settlement.on_settled(AckResult.STALE)
            return
        self._owed += 1
        self._unsent[settlement.kind].append(settlement)

    # -- the connection -------------------------------------------------------------------------

    def _on_up(self, connection: ServerConnection) -> None:
        self._subscribe(connection)

    def _subscribe(self, connection: ServerConnection) -> None:
        rules = self._rules
        frame = SubscribeFrame(rules.group, rules.topics, 0, round(rules.invisible_s * 1000))
        number, answer = connection.subscribe(frame, self._on_deliver, self._on_ended)
        self._subscription = number

        def subscribed(answer: "asyncio.Future[Frame]") -> None:
            error = answer.exception()
            if error is None:
                self._reconcile(connection, cast(SubscribedFrame, answer.result()).held)
            elif isinstance(error, Unreachable):
                pass  # lost again: the link comes back with another connection
            elif isinstance(error, Busy) and self._is_started:
                wait_s = error.retry_after_s
                asyncio.get_running_loop().call_later(wait_s, self._resubscribe, connection)
            else:
                self._fail(error)

        answer.add_done_callback(subscribed)

    def _resubscribe(self, connection: ServerConnection) -> None:
        if connection.is_open and not self._is_stopping:
            self._subscribe(connection)

    def _reconcile(self, connection: ServerConnection, held: list[Receipt]) -> None:
        """Reconcile the deliveries of both sides: in progress, settled, unknown."""
        at_server = set(held)
        receipts = {each.receipt for unsent in self._unsent.values() for each in unsent}
        for receipt in [receipt for receipt in self._held if receipt not in at_server]:
            del self._held[receipt]  # its time ran out while we were away: it comes again
        self._unsent[ReleaseFrame].extend(
            Settlement(receipt, ReleaseFrame)
            for receipt in held
            if receipt not in self._held and receipt not in receipts
        )
        self._owed = 0
        if not self._is_stopping:
            connection.tell(CreditFrame(self._subscription, self._rules.prefetch - len(self._held)))
        self._send_settlements()
        self._changed.set()
        if self._first is not None and not self._first.done():
            self._first.set_result(None)

    def _on_down(self) -> None:
        """Nothing to do: what was being settled comes back by itself, what is held stays ours."""

    def _on_ended(self, error: KiteError) -> None:
        connection = self._link.connection
        if isinstance(error, Busy) and connection is not None:
            asyncio.get_running_loop().call_later(
                error.retry_after_s, self._resubscribe, connection
            )
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """The subscription has failed: waiters for messages get the error."""
        if self._first is not None and not self._first.done():
            self._first.set_exception(error)
            return
        self._failure = error if isinstance(error, KiteError) else Stopped(repr(error))
        self._shelf.end(self._failure)

    def _on_deliver(self, frame: DeliverFrame) -> None:
        if self._is_stopping:  # on its way while we said goodbye
            self._unsent[ReleaseFrame].extend(
                Settlement(receipt, ReleaseFrame) for receipt in frame.receipts
            )
            self._send_settlements()
            return
        now_s = asyncio.get_running_loop().time()
        messages = received_of(frame, self, now_s, now_s + self._rules.invisible_s)
        self._held.update(zip(frame.receipts, messages, strict=True))
        self._shelf.put(messages)

    # -- settlements ----------------------------------------------------------------------------

    def _is_settled(self) -> bool:
        return self._replies.is_idle and not self._on_road and not any(self._unsent.values())

    def _send_settlements(self) -> None:
        """Send settlements: one frame of a kind in flight, so that frames grow under load."""
        connection = self._link.connection
        if connection is None or not connection.is_open:
            return
        self._return_credit(connection)
        for kind, unsent in self._unsent.items():
            if unsent and kind not in self._on_road:
                self._send_kind(connection, kind, unsent)

    def _send_kind(
        self, connection: ServerConnection, kind: Kind, unsent: deque[Settlement]
    ) -> None:
        batch = [unsent.popleft() for _ in range(min(len(unsent), SETTLE_COUNT_MAX))]
        self._on_road.add(kind)
        answer = connection.request(settling_frame(self._rules.group, kind, batch))
        answer.add_done_callback(lambda answer: self._settled(kind, batch, answer))

    def _return_credit(self, connection: ServerConnection) -> None:
        if self._is_stopping or not self._owed:
            return
        if self._owed * 4 >= self._rules.prefetch or not self._held:
            connection.tell(CreditFrame(self._subscription, self._owed))
            self._owed = 0

    def _settled(
        self, kind: Kind, batch: list[Settlement], answer: "asyncio.Future[Frame]"
    ) -> None:
        self._on_road.discard(kind)
        error = answer.exception()
        if error is None:
            tell(batch, cast(ResultFrame, answer.result()).results)
            self._send_settlements()
        elif isinstance(error, Unreachable):
            self._unsent[kind].extendleft(reversed(batch))  # again over the next connection
        elif isinstance(error, Busy):
            self._unsent[kind].extendleft(reversed(batch))
            wait_s = max(error.retry_after_s, SETTLE_RETRY_S)
            asyncio.get_running_loop().call_later(wait_s, self._send_settlements)
        else:
            log.error("the server would not settle %d messages: %s", len(batch), error)
            tell(batch, [ResultCode.STALE] * len(batch))
            self._send_settlements()
        self._changed.set()

    async def _wait_until(self, is_true: Callable[[], bool], deadline_s: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._drain()
            if is_true():
                return
            self._changed.clear()
            remaining_s = deadline_s - loop.time()
            if remaining_s <= 0:
                return
            try:
                async with asyncio.timeout(min(remaining_s, 0.05)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    # -- time -----------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Extend what half of its invisible time is over for, and plan the next look."""
        wait_s = max(self._rules.invisible_s / EXTEND_CHECKS, EXTEND_TICK_MIN_S)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(wait_s, self._tick)
        connection = self._link.connection
        if connection is None or not connection.is_open:
            return
        now_s = loop.time()
        half_s = self._rules.invisible_s / 2
        due = [
            message
            for message in self._held.values()
            if message.deadline_s - now_s < half_s
            and now_s - message.received_s < self._rules.extend_max_s
        ]
        for start in range(0, len(due), SETTLE_COUNT_MAX):
            self._extend(connection, due[start : start + SETTLE_COUNT_MAX], now_s)

    def _extend(self, connection: ServerConnection, messages: list[Received], now_s: float) -> None:
        invisible_ms = round(self._rules.invisible_s * 1000)
        receipts = [message.receipt for message in messages]
        answer = connection.request(ExtendFrame(self._rules.group, receipts, invisible_ms))

        def extended(answer: "asyncio.Future[Frame]") -> None:
            if answer.exception() is not None:
                return  # the next look tries again
            for message, code in zip(
                messages, cast(ResultFrame, answer.result()).results, strict=True
            ):
                if code == ResultCode.DONE:
                    message.deadline_s = now_s + self._rules.invisible_s
                elif self._held.pop(message.receipt, None) is not None:
                    self._owed += 1

        answer.add_done_callback(extended)
