"""Receives messages from a cluster by POP: each is delivered for a time, against a receipt.

A receive asks every broker of the topic in turn. Where none has a message it waits for the notice
of one (NOTIFICATION) on all of them at once, so that a wait that ends holds back no message.
"""

import asyncio
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple

import msgspec

from app.cluster.errors import ClusterError, ClusterUnreachable
from app.cluster.link import ClusterLink, field, number
from app.cluster.messages import ClusterMessage, born_now_ms, messages_of
from app.cluster.routes import TIMEOUT_S
from app.tasks import end_tasks
from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.frames import Command
from protocol.remoting.pop import NORMAL_MARK, PARTS, RETRY_MARK

RECEIVE_MAX = 32
WAIT_S_MAX = 30.0
PAUSE_S = 0.5
POP_CK = "POP_CK"
RETRY_PREFIX = "%RETRY%"
NOTHING = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.POLLING_FULL,
    ResponseCode.POLLING_TIMEOUT,
)
START_AT, MARK_AT, BROKER_AT, QUEUE_AT, OFFSET_AT = 0, 4, 5, 6, 7


class ClusterDelivery(msgspec.Struct, frozen=True):
    """A message that is the receiver's until its invisible time ends; `attempt` counts from 1."""

    message: ClusterMessage
    receipt: str
    attempt: int


class PopRequest(NamedTuple):
    """What is received: with `queue` below 0 from any; `is_sql` says what `tags` is."""

    group: str
    topic: str
    invisible_ms: int
    tags: str = "*"
    queue: int = -1
    is_ordered: bool = False
    is_sql: bool = False


class NoticeRequest(NamedTuple):
    """Where a message is waited for."""

    group: str
    topic: str
    broker: str
    queue: int = -1
    is_ordered: bool = False


class ClusterDeliveries:
    """The verbs for receiving."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link
        self._turns = count()

    async def receive(
        self,
        group: str,
        topic: str,
        *,
        count_max: int = 1,
        invisible_s: float = 60.0,
        tags: str = "*",
        wait_s: float = 0.0,
    ) -> list[ClusterDelivery]:
        """Up to 32 messages; waits up to `wait_s` (30) for the first. The group must exist.

        Of brokers that are away nothing comes; ClusterUnreachable where there was nothing else.
        """
        end_s = time.monotonic() + min(wait_s, WAIT_S_MAX)
        while True:
            brokers = (await self._link.routes.route(topic)).brokers
            pop = PopRequest(group, topic, invisible_ms=round(invisible_s * 1000), tags=tags)
            deliveries, failure = await self.pop_some(brokers, pop, count_max)
            rest_s = end_s - time.monotonic()
            is_final = rest_s <= 0 or not isinstance(failure, ClusterUnreachable)
            if failure is not None and not deliveries and is_final:
                raise failure
            if deliveries or rest_s <= 0:
                return deliveries
            await self.notice([NoticeRequest(group, topic, each) for each in brokers], rest_s)

    async def pop_some(
        self, brokers: Sequence[str], pop: PopRequest, count_max: int
    ) -> tuple[list[ClusterDelivery], ClusterError | None]:
        """Up to 32 messages of these brokers, asked in turn; and why one of them gave none.

        That it refused counts more than that it is away.
        """
        turn = next(self._turns) % max(1, len(brokers))
        deliveries: list[ClusterDelivery] = []
        failure: ClusterError | None = None
        for broker in (*brokers[turn:], *brokers[:turn]):
            open_count = min(count_max, RECEIVE_MAX) - len(deliveries)
            if open_count > 0:
                try:
                    deliveries += await self._pop(broker, pop, open_count)
                except ClusterUnreachable as error:
                    failure = failure or error
                except ClusterError as error:
                    failure = error
        return deliveries, failure

    async def ack(self, group: str, topic: str, receipt: str) -> None:
        """A delivered message is done. Too late, it is delivered again all the same."""
        await self._settle(RequestCode.ACK_MESSAGE, group, topic, receipt)

    async def ack_together(self, group: str, broker: str, acks: Sequence[tuple[str, str]]) -> None:
        """The same of several that one broker delivered, as topics and receipts, with one request.

        Those that came with one answer from one queue are named by one bit each.
        """
        checkpoints: dict[tuple[str, ...], int] = {}
        for topic, receipt in acks:
            *checkpoint, offset = _parts_of(receipt)
            key = (topic, *checkpoint)
            bit = 1 << int(offset) - int(checkpoint[START_AT])
            checkpoints[key] = checkpoints.get(key, 0) | bit
        body = {
            "brokerName": broker,
            "acks": [
                {
                    "c": group,
                    "t": topic,
                    "r": mark,
                    "so": int(start),
                    "q": int(queue),
                    "rq": int(revive),
                    "pt": int(pop_ms),
                    "it": int(hidden_ms),
                    "b": b64encode(bits.to_bytes(bits.bit_length() // 8 + 1, "little")).decode(),
                }
                for (topic, start, pop_ms, hidden_ms, revive, mark, _, queue), bits in (
                    checkpoints.items()
                )
            ],
        }
        code = RequestCode.BATCH_ACK_MESSAGE
        await self._link.ask(broker, code, {}, body=msgspec.json.encode(body))

    async def change_invisible(
        self, group: str, topic: str, receipt: str, invisible_s: float
    ) -> str:
        """Deliver the message again so long from now, unless it is done before; its new receipt.

        This is both: more time for who works on it, and giving it back after a failure.
        """
        parts = _parts_of(receipt)
        fields = {"invisibleTime": round(invisible_s * 1000)}
        answer = await self._settle(
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME, group, topic, receipt, **fields
        )
        times = (field(answer, "popTime"), field(answer, "invisibleTime"))
        return " ".join(
            (parts[OFFSET_AT], *times, field(answer, "reviveQid"), *parts[MARK_AT:PARTS])
        )

    async def _pop(self, broker: str, pop: PopRequest, count_max: int) -> list[ClusterDelivery]:
        fields = {
            "consumerGroup": pop.group,
            "topic": pop.topic,
            "queueId": pop.queue,
            "maxMsgNums": count_max,
            "invisibleTime": pop.invisible_ms,
            "pollTime": 0,
            "bornTime": born_now_ms(),
            "initMode": 0,
            "expType": "SQL92" if pop.is_sql else "TAG",
            "exp": pop.tags,
            "order": pop.is_ordered,
        }
        answer = await self._link.ask(
            broker, RequestCode.POP_MESSAGE, fields, allowed=NOTHING, timeout_s=TIMEOUT_S
        )
        if answer.code != ResponseCode.SUCCESS:
            return []
        starts = _starts(answer.fields.get("startOffsetInfo", ""))
        failures = _failures(answer.fields.get("orderCountInfo", ""))
        return [
            _delivery(message, answer, starts, failures)
            for message in messages_of(answer.body, broker)
        ]

    async def notice(self, requests: Sequence[NoticeRequest], wait_s: float) -> bool:
        """Whether a broker said in time that it may have a message; True where none waits, too."""
        tasks = [
            asyncio.create_task(
                self._link.ask(
                    each.broker,
                    RequestCode.NOTIFICATION,
                    {
                        "consumerGroup": each.group,
                        "topic": each.topic,
                        "queueId": each.queue,
                        "pollTime": round(wait_s * 1000),
                        "bornTime": born_now_ms(),
                        "order": each.is_ordered,
                    },
                    timeout_s=wait_s + TIMEOUT_S,
                    allowed=NOTHING,
                )
            )
            for each in requests
        ]
        try:
            end_s = time.monotonic() + wait_s
            open_tasks = set(tasks)
            while open_tasks and (rest_s := end_s - time.monotonic()) > 0:
                done, open_tasks = await asyncio.wait(
                    open_tasks, timeout=rest_s, return_when=asyncio.FIRST_COMPLETED
                )
                if any(
                    each.exception() is None and each.result().fields.get("hasMsg") == "true"
                    for each in done
                ):
                    return True
            if (rest_s := end_s - time.monotonic()) > 0:  # no broker waits with us
                await asyncio.sleep(min(rest_s, PAUSE_S))
                return True
            return False
        finally:
            await end_tasks(*tasks)

    async def _settle(
        self, code: RequestCode, group: str, topic: str, receipt: str, **more: int
    ) -> Command:
        parts = _parts_of(receipt)
        fields = {
            "consumerGroup": group,
            "topic": _topic_of(parts[MARK_AT], group, topic),
            "queueId": parts[QUEUE_AT],
            "offset": parts[OFFSET_AT],
            "extraInfo": receipt,
            **more,
        }
        return await self._link.ask(parts[BROKER_AT], code, fields)


def _parts_of(receipt: str) -> list[str]:
    parts = receipt.split(" ")
    if len(parts) < PARTS:
        raise ClusterError(f"receipt: {receipt[:80]!r} is none", remedy="give that of the delivery")
    return parts[:PARTS]


def _topic_of(mark: str, group: str, topic: str) -> str:
    """Where a delivered message lies: in the topic, or in the group's retries of it."""
    if mark == NORMAL_MARK:
        return topic
    return f"{RETRY_PREFIX}{group}{'_' if mark == RETRY_MARK else '+'}{topic}"


def _starts(text: str) -> dict[str, str]:
    """The first offset of the answer in each queue ("mark queue")."""
    parts = [each.rpartition(" ") for each in text.split(";") if each]
    return {place: offset for place, _, offset in parts}


def _failures(text: str) -> dict[str, int]:
    """How often the delivery of each ordered message failed before ("mark qo<queue>%<offset>")."""
    parts = [each.rpartition(" ") for each in text.split(";") if each]
    return {place: int(times) for place, _, times in parts if times.isdecimal()}


def _delivery(
    message: ClusterMessage,
    answer: Command,
    starts: Mapping[str, str],
    failures: Mapping[str, int],
) -> ClusterDelivery:
    receipt = message.properties.get(POP_CK)  # Apache's broker sets it on retries
    attempt = message.reconsume_times + 1
    if receipt is None:
        topic, broker, queue = message.place
        mark = RETRY_MARK if topic.startswith(RETRY_PREFIX) else NORMAL_MARK
        start = starts.get(f"{mark} {queue}", str(message.offset))
        attempt = max(attempt, failures.get(f"{mark} qo{queue}%{message.offset}", 0) + 1)
        parts = (
            start,
            number(answer, "popTime"),
            number(answer, "invisibleTime"),
            number(answer, "reviveQid"),
            mark,
            broker,
            queue,
            message.offset,
        )
        receipt = " ".join(map(str, parts))
    return ClusterDelivery(message, receipt, attempt)
