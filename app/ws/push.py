"""One subscription: hands out while the client has credit, waits in the engine otherwise.

No loop polls here. `pump` runs when a subscription begins, when credit or room in the outbox comes
back, and when the engine says that something may be there.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from operator import attrgetter
from typing import Any, Protocol, TypeAlias

from app import eager
from app.capabilities import NOT_SUPPORTED
from app.messaging import Messaging
from app.services import bodies
from app.ws.limits import SocketLimits
from app.ws.packed_deliver import PackedDeliverFrame
from engine.broker import (
    AckResult,
    Delivery,
    DeliveryColumns,
    LongPoll,
    MemberConnection,
    Receipt,
    Receipts,
)
from engine.errors import Busy, EngineError, Paused, Refused
from kitemq.protocol.batches import DeliverFrame
from kitemq.protocol.frames import SubscribeFrame

log = logging.getLogger("kitemq.socket")

Deliveries: TypeAlias = list[Delivery] | DeliveryColumns

_message = attrgetter("message")


class Pusher(Protocol):
    """The session, as a subscription sees it."""

    client: str

    @property
    def has_push_room(self) -> bool:
        """Whether the client has room; `resume` is called once it has room again."""

    def check_push(self, group: str, topics: Iterable[str]) -> None:
        """Raise RightMissing or ReadOnly unless the client may be handed these as of now."""

    def deliver(
        self,
        subscription: int,
        frame: DeliverFrame | PackedDeliverFrame,
        *,
        is_text: bool,
        undo: Callable[[], None],
    ) -> None:
        """Write a DELIVER; `undo` if it cannot be."""

    def call_soon(self, callback: Callable[[], None]) -> asyncio.Handle:
        """Call back at the loop's next turn, at whose end what it delivers is written."""

    def ended(self, subscription: int, error: EngineError, *, is_text: bool) -> None:
        """The subscription is over, because of `error`."""


class Subscription:
    """A push of one group's messages on one connection."""

    def __init__(
        self,
        messaging: Messaging,
        pusher: Pusher,
        limits: SocketLimits,
        number: int,
        frame: SubscribeFrame,
        *,
        is_text: bool,
        member: MemberConnection,
    ) -> None:
        self._member = member
        self._messaging = messaging
        self._pusher = pusher
        self._limits = limits
        self._number = number
        self.group = frame.group
        self._topics = frame.topics
        self._invisible_s = frame.invisible_ms / 1000
        self._is_text = is_text
        self._credit = 0
        self._parked: LongPoll | None = None
        self._next: asyncio.Handle | None = None
        self._is_receiving = False
        # Delivered messages whose bodies a thread decompresses; other deliveries wait.
        self._held: list[Delivery] = []
        self._decompressing: asyncio.Task[None] | None = None
        self._is_open = True

    def add_credit(self, count: int) -> None:
        """Let `count` more messages come, up to the limit of a connection."""
        self._credit = min(self._credit + count, self._limits.credit_max)
        self.resume()

    def resume(self) -> None:
        """Pump at the loop's next turn, unless waiting or about to."""
        if self._next is None and self._parked is None and self._may_pump():
            self._next = self._pusher.call_soon(self._pump)

    def close(self) -> None:
        """Hand out nothing more; a wake that came already goes to another waiter."""
        self._is_open = False
        self._member.close()
        self._unpark()
        if self._next is not None:
            self._next.cancel()
            self._next = None
        held, self._held = self._held, []
        self._release(held)

    def _may_pump(self) -> bool:
        is_free = self._is_open and not self._held and not self._is_receiving
        return is_free and self._credit > 0 and self._pusher.has_push_room

    def _unpark(self) -> None:
        if self._parked is not None:
            self._parked.cancel()
            self._parked = None

    def _pump(self) -> None:
        """Begin to receive one batch; `_received` goes on with it, in this turn if it is there."""
        self._next = None
        if not self._may_pump():
            self._unpark()
            return
        try:
            self._pusher.check_push(self.group, self._topics)
        except EngineError as error:
            self._fail(error)
            return
        self._is_receiving = True
        messaging = self._messaging
        # Text is written from messages.
        verb = messaging.receive if self._is_text else messaging.receive_columns
        receive: Coroutine[Any, Any, Deliveries] = verb(
            self.group,
            self._topics,
            count_max=min(self._credit, self._limits.deliver_count_max),
            invisible_s=self._invisible_s,
            client=self._pusher.client,
        )
        eager.run(receive, self._received)

    def _received(self, deliveries: Deliveries | None, error: EngineError | None) -> None:
        """Deliver a batch, let the event loop do its other work, and repeat; park without one."""
        self._is_receiving = False
        if not self._is_open:
            self._release(deliveries or [])
            return
        try:
            if error is not None and not isinstance(error, Paused):  # a pause's end wakes as well
                raise error
            self._hand_out(deliveries or [])
        except Busy as busy:
            loop = asyncio.get_running_loop()
            self._next = loop.call_later(busy.retry_after_s, self._pump)
        except EngineError as failure:
            self._fail(failure)

    def _fail(self, error: EngineError) -> None:
        self.close()
        self._pusher.ended(self._number, error, is_text=self._is_text)

    def _hand_out(self, deliveries: Deliveries) -> None:
        self._unpark()  # after a wake: if more is left, the next waiter is woken
        if isinstance(deliveries, DeliveryColumns):
            self._write(deliveries)
            self._wait()
            return
        messages = list(map(_message, deliveries))
        if not bodies.is_small(messages):
            self._held = deliveries
            decompress = self._decompress(deliveries)
            self._decompressing = asyncio.get_running_loop().create_task(decompress)
        elif deliveries:
            count = bodies.fitting_count(messages)
            self._release(deliveries[count:])
            self._write(deliveries[:count])
            self._wait()
        else:
            self._wait()

    def _wait(self) -> None:
        """Pump again once there is something: at the next turn, where there is already."""
        if self._may_pump():
            self._parked = self._messaging.wait_to_receive(
                self.group, self._topics, self._woken, self._pusher.client
            )

    async def _decompress(self, deliveries: list[Delivery]) -> None:
        """Write what fits into one frame once a thread has decompressed it; put the rest back."""
        count = await bodies.delivered_count([delivery.message for delivery in deliveries])
        if not self._is_open:
            return  # `close` has put them back
        self._held = []
        self._release(deliveries[count:])
        self._write(deliveries[:count])
        self.resume()

    def _release(self, deliveries: Deliveries) -> None:
        self._give_back(_receipts_of(deliveries))

    def _give_back(self, receipts: list[Receipts]) -> None:
        for run in receipts:
            eager.run(self._messaging.release(self.group, run), _released)

    def _woken(self) -> None:
        """There may be something; can come from within `wait_to_receive`."""
        if self._next is None and self._is_open:
            self._next = self._pusher.call_soon(self._pump)

    def _write(self, deliveries: Deliveries) -> None:
        receipts = _receipts_of(deliveries)
        self._credit -= sum(map(len, receipts))
        self._pusher.deliver(
            self._number,
            deliver_frame(deliveries),
            is_text=self._is_text,
            undo=partial(self._give_back, receipts),
        )


def _released(_results: list[AckResult] | None, error: EngineError | None) -> None:
    if error is not None:
        log.warning("deliveries that never left were not put back: %s", error.detail)


def _receipts_of(deliveries: Deliveries) -> list[Receipts]:
    """What is settled with one call each."""
    if isinstance(deliveries, DeliveryColumns):
        return [run.receipts for run in deliveries.runs]
    return [[delivery.receipt for delivery in deliveries]] if deliveries else []


def deliver_frame(deliveries: Deliveries) -> DeliverFrame | PackedDeliverFrame:
    """The DELIVER of these messages."""
    if isinstance(deliveries, DeliveryColumns):
        return PackedDeliverFrame(deliveries)
    messages = list(map(_message, deliveries))
    return DeliverFrame(
        [delivery.receipt for delivery in deliveries],
        [delivery.attempt for delivery in deliveries],
        [delivery.invisible_until_ms for delivery in deliveries],
        [message.born_ms for message in messages],
        [message.stored_ms for message in messages],
        [message.position for message in messages],
        [message.flag for message in messages],
        [message.plain_flag for message in messages],
        [message.property_block for message in messages],
        [message.plain.body for message in messages],
    )


async def held_by(messaging: Messaging, group: str, client: str) -> list[Receipt]:
    """The receipts that a client holds; none where the engine does not tell.

    What the client holds all the same comes again once its invisible time is over.
    """
    try:
        return await messaging.held(group, client)
    except Refused as error:
        if error.code != NOT_SUPPORTED:
            raise
        return []
