"""ReceiveMessage, and the operations on receipts: acknowledge, change invisible time, give up."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial
from typing import Any

from app import eager
from app.grpc import workarounds
from app.grpc.backend import GrpcBackend
from app.grpc.call import GrpcCall
from app.grpc.client_settings import POLL_S, filter_text
from app.grpc.clients import GrpcClient
from app.grpc.codes import GrpcRefusal, ok, status
from app.grpc.leases import LEASE_S
from app.grpc.shapes import delivered, handle_of, receipt_of
from app.security.access import Action
from app.server_host import Place
from app.services import bodies
from app.services.receive_attempts import ReceiveAttempts
from engine.broker import AckResult, Delivery, Nack, Receipt
from engine.errors import GroupNotFound, Paused
from protocol.rocketmq.messages import (
    AckMessageResponse,
    AckMessageResultEntry,
    ChangeInvisibleDurationResponse,
    ForwardMessageToDeadLetterQueueResponse,
    ReceiveMessageResponse,
)
from protocol.rocketmq.numbers import Code

BATCH_MAX = 32  # Apache's limit
RECEIPTS_MAX = 1024
INVISIBLE_MS_MIN = 10_000
INVISIBLE_MS_MAX = 12 * 3_600_000
SHORTEST_S = 0.01  # for an invisible time of 0
ANSWER_S = 0.2  # of a call's time, reserved for transmitting the answer
WORTHLESS = (
    "INVALID_RECEIPT_HANDLE: the receipt handle is no longer valid; the message was, or will be, "
    "delivered again"
)


Park = Callable[[Callable[[], None]], Place]


class Receives:
    """The handlers, with the latest attempts."""

    def __init__(self, backend: GrpcBackend) -> None:
        self._backend = backend
        self._attempts = ReceiveAttempts()

    async def receive_message(self, call: GrpcCall, request: Any) -> AsyncGenerator[Any, None]:
        """Deliver messages from any queue of a topic; waits for the first one."""
        backend = self._backend
        group = call.group(request.group, Action.CONSUME)
        topic = call.topic(request.message_queue.topic, Action.CONSUME)
        filter = filter_text(request.filter_expression)
        invisible_s = _invisible_s(request)
        wait_s = poll_s(request, call.limit_s)
        client = backend.clients.touch(call)
        self._repeat(group, request.attempt_id)
        with backend.polling(call, client):
            await backend.clients.join_group(
                client, group, {topic: filter} if request.auto_renew else None
            )
            receive = partial(
                backend.messaging.receive,
                group,
                {topic: filter},
                count_max=min(max(1, request.batch_size), BATCH_MAX),
                invisible_s=invisible_s,
                client=client.name,
            )
            deliveries = await self._wait(receive, group, {topic: filter}, client, wait_s)
            receipts = [delivery.receipt for delivery in deliveries]
            if backend.clients.find(client.name) is not client or call.origin.ended_s is not None:
                # The client ended during the wait: nothing would end its leases.
                self._return(group, receipts)
                deliveries, receipts = [], []
            if request.auto_renew:
                backend.leases.add(group, client.name, call.origin, receipts)
            if request.attempt_id and receipts:
                self._attempts.add(group, request.attempt_id, receipts)
            try:
                yield _status_of(deliveries, call, is_push=request.auto_renew)
                async for answer in _answers(backend, call, deliveries, invisible_s):
                    yield answer
                backend.leases.written(group, receipts)
            except (asyncio.CancelledError, GeneratorExit):
                self._return(group, receipts)  # the client discards a partial answer
                raise

    async def _wait(
        self, receive: Any, group: str, topics: dict[str, str], client: GrpcClient, wait_s: float
    ) -> list[Delivery]:
        """Receive, or wait for messages; the wait continues while the group is paused."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_s
        while True:
            try:
                deliveries: list[Delivery] = await receive()
            except Paused:
                deliveries = []
            left_s = deadline_s - loop.time()
            if deliveries or left_s <= 0 or client.is_gone:
                return deliveries
            messaging = self._backend.messaging
            park = partial(messaging.wait_to_receive, group, topics, client=client.name)
            if not await self._parked(client, park, left_s):
                return []

    async def _parked(self, client: GrpcClient, park: Park, left_s: float) -> bool:
        """Wait for possible messages; False after the timeout or if the client ended."""
        waits: list[tuple[Callable[[], None], Place]] = []

        def begin(wake: Callable[[], None]) -> Place:
            place = park(wake)
            waits.append((wake, place))
            client.waits.add(wake)
            return place

        try:
            is_woken = await self._backend.host.wait(begin, left_s)
        finally:
            for wake, place in waits:
                client.waits.discard(wake)
                if client.is_gone:
                    place.cancel()  # passes a wake-up on to the next one
        return is_woken and not client.is_gone

    def _repeat(self, group: str, attempt: str) -> None:
        """Release the deliveries of a repeated attempt, which the client did not receive."""
        if attempt:
            self._return(group, self._attempts.take(group, attempt))

    def _return(self, group: str, receipts: list[Receipt]) -> None:
        if not receipts:
            return
        self._backend.leases.drop(group, receipts)
        eager.run(self._backend.messaging.release(group, receipts), eager.ignore)

    async def ack_message(self, call: GrpcCall, request: Any) -> Any:
        """Acknowledge messages; each entry has its own status."""
        group = call.group(request.group, Action.CONSUME)
        entries = request.entries
        if not 0 < len(entries) <= RECEIPTS_MAX:
            raise GrpcRefusal(
                Code.BAD_REQUEST,
                f"{len(entries)} entries in one request, it must be 1 to {RECEIPTS_MAX}",
            )
        backend = self._backend
        backend.clients.touch(call)
        results: list[Any] = []
        receipts = [_parse_receipt(entry.receipt_handle) for entry in entries]
        valid = [receipt for receipt in receipts if receipt is not None]
        try:
            acks = await backend.messaging.ack(group, valid)
            settled = dict(zip(valid, acks, strict=True))
        except GroupNotFound:
            settled = {}
        backend.leases.drop(group, valid)
        for entry, receipt in zip(entries, receipts, strict=True):
            is_done = receipt is not None and settled.get(receipt, AckResult.STALE) in DONE
            results.append(
                AckMessageResultEntry(
                    message_id=entry.message_id,
                    receipt_handle=entry.receipt_handle,
                    status=ok() if is_done else _worthless(),
                )
            )
        return AckMessageResponse(status=_common(results), entries=results)

    async def change_invisible_duration(self, call: GrpcCall, request: Any) -> Any:
        """Change a message's invisible time; a push consumer reports a failure this way."""
        group = call.group(request.group, Action.CONSUME)
        receipt = receipt_of(request.receipt_handle)
        wait_s = _checked_s(request.invisible_duration, least_ms=0)
        backend = self._backend
        client = backend.clients.touch(call)
        try:
            if backend.leases.drop(group, [receipt]) or client.is_push:
                renewed = await self._fail(group, receipt, client)
            else:
                renewed = await backend.messaging.renew(group, receipt, max(wait_s, SHORTEST_S))
        except GroupNotFound:
            renewed = None
        if renewed is None:
            raise GrpcRefusal(Code.INVALID_RECEIPT_HANDLE, WORTHLESS)
        return ChangeInvisibleDurationResponse(status=ok(), receipt_handle=handle_of(renewed))

    async def _fail(self, group: str, receipt: Receipt, client: GrpcClient) -> Receipt | None:
        """Retry the message by the group's policy, or make it a dead letter (see workarounds.py).

        An answer must have a handle: it is the old one, which is no longer valid.
        """
        nack = Nack(receipt, error=FAILED)
        results = await self._backend.messaging.nack(group, [nack], client.name)
        return None if results[0] is AckResult.STALE else receipt

    async def forward_message_to_dead_letter_queue(self, call: GrpcCall, request: Any) -> Any:
        """Make a message a dead letter after a FIFO consumer's own attempts."""
        group = call.group(request.group, Action.CONSUME)
        receipt = receipt_of(request.receipt_handle)
        backend = self._backend
        client = backend.clients.touch(call)
        backend.leases.drop(group, [receipt])
        attempts = f"given up by its consumer after {request.delivery_attempt} attempts"
        nack = Nack(receipt, delay_level=-1, error=attempts)
        try:
            results = await backend.messaging.nack(group, [nack], client.name)
        except GroupNotFound:
            results = [AckResult.STALE]
        if results[0] is AckResult.STALE:
            raise GrpcRefusal(Code.INVALID_RECEIPT_HANDLE, WORTHLESS)
        return ForwardMessageToDeadLetterQueueResponse(status=ok())


DONE = (AckResult.DONE, AckResult.ALREADY)
FAILED = "the push consumer reported a failure"


def poll_s(request: Any, limit_s: float | None) -> float:
    """The wait of a poll in seconds: as requested, at most 20, and within the call's deadline."""
    polling_ms = int(request.long_polling_timeout.ToMilliseconds())
    if polling_ms < 0:
        raise GrpcRefusal(
            Code.ILLEGAL_POLLING_TIME,
            f"the polling time is too small: {polling_ms} ms, 0 ms is the least",
        )
    polling_s = polling_ms / 1000
    wait_s = min(polling_s, POLL_S) if request.HasField("long_polling_timeout") else POLL_S
    return wait_s if limit_s is None else max(0.0, min(wait_s, limit_s - ANSWER_S))


def _invisible_s(request: Any) -> float:
    if request.auto_renew:
        return LEASE_S
    return _checked_s(request.invisible_duration, least_ms=INVISIBLE_MS_MIN)


def _checked_s(duration: Any, *, least_ms: int) -> float:
    """An invisible time in seconds, within its limits.

    The error's text is Apache's, which the tests of its clients expect.
    """
    ms = int(duration.ToMilliseconds())
    if ms < least_ms:
        why = f"too small: {ms} ms, {least_ms} ms is the least"
    elif ms > INVISIBLE_MS_MAX:
        why = f"too large: {ms} ms, {INVISIBLE_MS_MAX} ms is the most"
    else:
        return ms / 1000
    raise GrpcRefusal(Code.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is {why}")


def _status_of(deliveries: list[Delivery], call: GrpcCall, *, is_push: bool) -> Any:
    if deliveries or (is_push and call.speaks in workarounds.COUNTS_EMPTY_POLLS_FOR_EVER):
        return ReceiveMessageResponse(status=ok())
    return ReceiveMessageResponse(status=status(Code.MESSAGE_NOT_FOUND, "no new message"))


async def _answers(
    backend: GrpcBackend, call: GrpcCall, deliveries: list[Delivery], invisible_s: float
) -> AsyncIterator[Any]:
    """The answers after the status, in Apache's order: the messages, then the time."""
    for delivery in deliveries:
        await bodies.decompress([delivery.message])
        yield ReceiveMessageResponse(message=delivered(delivery, call.namespace, invisible_s))
        delivery.message.decompressed = None  # many at once would take much memory
    seconds, ms = divmod(backend.host.clock.now_ms(), 1000)
    last = ReceiveMessageResponse()
    last.delivery_timestamp.seconds, last.delivery_timestamp.nanos = seconds, ms * 1_000_000
    yield last


def _parse_receipt(handle: str) -> Receipt | None:
    try:
        return receipt_of(handle)
    except GrpcRefusal:
        return None


def _worthless() -> Any:
    return status(Code.INVALID_RECEIPT_HANDLE, WORTHLESS)


def _common(results: list[Any]) -> Any:
    """The common status of all entries, or MULTIPLE_RESULTS."""
    codes = {result.status.code for result in results}
    if len(codes) == 1:
        return results[0].status
    return status(Code.MULTIPLE_RESULTS, "some entries failed: each has its own status")
