"""Sends messages to a cluster: one, or a batch that one broker stores one after the other.

Without a queue a send goes to the next one of the topic, and to another broker where one failed or
is avoided for being slow: up to ATTEMPTS, so it may be stored twice where an answer was lost. With
a queue it is tried once, which keeps an order.
"""

import time
from collections.abc import Container, Sequence
from itertools import count

import msgspec

from app.cluster.errors import ClusterError, ClusterRefused, ClusterUnreachable
from app.cluster.faults import FAILED_MS
from app.cluster.link import ClusterLink, number
from app.cluster.messages import BODY_BYTES_MAX, NewClusterMessage, born_now_ms
from app.cluster.routes import ClusterQueue
from protocol.remoting.batches import message_parts
from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.frames import Command

ATTEMPTS = 3
BATCH_MAX = 1024
GROUP = "kitemq"
# Stored, but not as safely as the broker is set up for.
STORED = (
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)
# Another broker may take it.
ELSEWHERE = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
    }
)


class ClusterSent(msgspec.Struct, frozen=True):
    """Where messages were stored: `offset` is that of the first, the others follow.

    A delayed one has no offset in its queue yet, `offset` is then one of the broker's own.
    `is_safe` is false where the broker says that its disk or slave has them not yet.
    """

    queue: ClusterQueue
    offset: int
    offset_ids: tuple[str, ...]
    is_safe: bool


class ClusterSends:
    """The verbs for sending."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link
        self._turns = count()

    async def send(
        self, topic: str, message: NewClusterMessage, *, queue: ClusterQueue | None = None
    ) -> ClusterSent:
        """Store one message."""
        if not message.body:
            raise ClusterError("body: it is empty", remedy="RocketMQ takes no empty message alone")
        return await self._send(topic, [message], queue, is_batch=False)

    async def send_batch(
        self,
        topic: str,
        messages: Sequence[NewClusterMessage],
        *,
        queue: ClusterQueue | None = None,
    ) -> ClusterSent:
        """Store up to 1,024 messages and 4 MiB next to each other, or none; none may be delayed."""
        if not 0 < len(messages) <= BATCH_MAX:
            raise ClusterError(f"messages: a batch has 1 to {BATCH_MAX}, not {len(messages)}")
        if any(each.delay_level or each.deliver_at_ms for each in messages):
            raise ClusterError(
                "messages: a batch cannot be delayed", remedy="send delayed messages one by one"
            )
        return await self._send(topic, messages, queue, is_batch=True)

    async def _send(
        self,
        topic: str,
        messages: Sequence[NewClusterMessage],
        queue: ClusterQueue | None,
        *,
        is_batch: bool,
    ) -> ClusterSent:
        fields, body = send_fields(topic, messages, is_batch=is_batch)
        if queue is not None:
            return await self._try(queue, fields, body)
        failed: set[str] = set()
        for attempt in range(1, ATTEMPTS + 1):
            chosen = await self.choose(topic, failed)
            try:
                return await self._try(chosen, fields, body)
            except ClusterError as error:
                self._link.routes.forget(topic)
                refused = isinstance(error, ClusterRefused) and error.answer not in ELSEWHERE
                if refused or attempt == ATTEMPTS:
                    raise
            failed.add(chosen.broker)
        raise AssertionError("the last attempt returns or raises")

    async def choose(self, topic: str, failed: Container[str] = ()) -> ClusterQueue:
        """The next queue in turn, of a broker that has not failed and is not avoided if any is."""
        queues = (await self._link.routes.route(topic)).writable(topic)
        if not queues:
            raise ClusterUnreachable(
                f"no broker takes messages of {topic} just now",
                remedy="look at the brokers and at the topic's permission",
            )
        good = [each for each in queues if each.broker not in failed]
        good = [each for each in good if self._link.faults.is_available(each.broker)] or good
        queues = good or queues
        return queues[next(self._turns) % len(queues)]

    async def _try(
        self, queue: ClusterQueue, fields: dict[str, object], body: bytes
    ) -> ClusterSent:
        begun_s = time.monotonic()
        try:
            answer = await self._link.ask(
                queue.broker,
                RequestCode.SEND_MESSAGE,
                fields | {"queueId": queue.queue},
                body=body,
                allowed=STORED,
            )
        except ClusterError:
            self._link.faults.record(queue.broker, FAILED_MS)
            raise
        self._link.faults.record(queue.broker, (time.monotonic() - begun_s) * 1000)
        return _sent(queue, answer)


def send_fields(
    topic: str, messages: Sequence[NewClusterMessage], *, is_batch: bool
) -> tuple[dict[str, object], bytes]:
    """The fields and body of a send, but for the queue."""
    first = messages[0]
    texts = [each.property_text() for each in messages]
    body = first.body
    if is_batch:
        body = b"".join(
            part
            for each, text in zip(messages, texts, strict=True)
            for part in message_parts(each.flag, each.body, text.encode())
        )
    if len(body) > BODY_BYTES_MAX:
        raise ClusterError(
            f"body: {len(body)} bytes are more than the {BODY_BYTES_MAX} of a send",
            remedy="send less at once, or a reference to what is large",
        )
    return {
        "producerGroup": first.producer_group or GROUP,
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "sysFlag": first.sys_flag,
        "bornTimestamp": first.born_ms or born_now_ms(),
        "flag": first.flag,
        "properties": "WAIT\x01true\x02" if is_batch else texts[0],
        "reconsumeTimes": first.reconsume_times,
        "unitMode": False,
        "batch": is_batch,
    }, body


def _sent(queue: ClusterQueue, answer: Command) -> ClusterSent:
    ids = tuple(answer.fields.get("msgId", "").split(","))
    place = queue._replace(queue=number(answer, "queueId"))
    is_safe = answer.code == ResponseCode.SUCCESS
    return ClusterSent(place, number(answer, "queueOffset"), ids, is_safe)
