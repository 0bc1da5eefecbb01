"""Requests and replies before a cluster, as producers of RocketMQ make them.

The requester gives signs of life under its client's name, which its requests carry. The reply goes
to a broker with this name, and is pushed to the requester and stored. What the brokers' index has
of the reply topic says which request is answered, so another process may reply or look; who waits
is known to this one alone.
"""

import asyncio
from collections import Counter, OrderedDict
from contextlib import suppress
from secrets import token_hex
from typing import TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

import msgspec

from app.capabilities import not_supported
from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import as_engine_error, engine_errors
from app.cluster.errors import ClusterError, ClusterNoAnswer, ClusterRefused, ClusterUnreachable
from app.cluster.messages import ClusterMessage, NewClusterMessage
from app.cluster.verbs.part import ClusterPart
from app.cluster.verbs.sending import ClusterSendVerbs
from app.cluster.verbs.transactions import ClusterTransactions
from app.errors import ReplyTimeout
from app.messaging import Answered, RequestVerbs
from app.tasks import settle
from engine.broker import (
    REPLY_TOPIC,
    FoundReply,
    ReplyMessage,
    ReplyOutcome,
    ReplyResult,
    RequestCounts,
    RequestReply,
    TopicConfig,
    check_correlation_id,
    check_request,
)
from engine.errors import Busy, Conflict, MessageNotFound, Stopping
from engine.message import Message, StoredMessage
from engine.message_checks import check_message
from protocol.remoting.codes import ResponseCode

GROUP = "kitemq_requests"  # of the signs of life
KNOWN_MAX = 16_384  # requests that are known here after their end
ATTEMPTS = 3
INDEX_WAIT_S = 0.5
LATE = "KITE_LATE"  # when a late reply came; ms since 1970
T = TypeVar("T")
Reply = asyncio.Future[StoredMessage | None]  # None: the server stops


class ClusterRequests(ClusterPart, RequestVerbs):
    """Between `start` and `close` it takes the replies that brokers push."""

    def __init__(
        self,
        catalog: ClusterCatalog,
        sends: ClusterSendVerbs,
        transactions: ClusterTransactions,
        waiting_max: int,
    ) -> None:
        super().__init__(catalog)
        self._sends = sends
        self._signs_of_life = transactions
        self._waiting_max = waiting_max
        self._waiting: dict[str, Reply] = {}
        self._given_up: OrderedDict[str, None] = OrderedDict()  # own requests without a reply
        self._replied: OrderedDict[str, bool] = OrderedDict()  # whether it was late
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._counts: Counter[str] = Counter()
        self._registering: asyncio.Future[None] | None = None
        self._reply_topic = ""
        self._is_draining = False

    @property
    def _engine(self) -> RequestReply:
        raise not_supported("has no such verb", field="request", remedy="ask, reply or find")

    @property
    def counts(self) -> RequestCounts:
        """Those of this process; `late` and `duplicates` also of replies that were pushed to it."""
        names = RequestCounts.__struct_fields__
        return RequestCounts(**{name: self._counts[name] for name in names})

    def start(self) -> None:
        """Take replies."""
        self._client.replies.listen(self._take)

    def drain(self) -> None:
        """End every request that waits; for the way out."""
        self._is_draining = True
        for reply in self._waiting.values():
            settle(reply, None)

    def close(self) -> None:
        """End that."""
        self.drain()
        self._client.replies.close()

    # -- asking ----------------------------------------------------------------------------------

    async def ask(
        self, message: Message, *, timeout_ms: int, client: str, correlation_id: str = ""
    ) -> Answered:
        """As `RequestVerbs.ask`; brokers know the requester by this process, not by `client`."""
        check_request(timeout_ms, client, correlation_id)
        self._check_free(correlation_id)
        name = self._client.half_messages.name
        own_id = correlation_id or f"{name}_{token_hex(8)}"
        reply: Reply = asyncio.get_running_loop().create_future()
        self._waiting[own_id] = reply
        try:
            if correlation_id and await self._records(correlation_id):
                raise _conflict(correlation_id)
            await self._register()
            own = {"CORRELATION_ID": own_id, "REPLY_TO_CLIENT": name, "TTL": str(timeout_ms)}
            sent = (await self._sends.send_own([message], own)).messages[0]
            self._counts["sent"] += 1
            await self._wait(reply, timeout_ms / 1000)
        finally:
            del self._waiting[own_id]
            if not reply.done():
                _add(self._given_up, own_id, None)
        if not reply.done():
            self._counts["expired"] += 1
            raise ReplyTimeout(own_id, timeout_ms, await self._absence(sent.topic, sent.queue))
        answer = reply.result()
        if answer is None:
            raise _stopping()
        return Answered(own_id, sent.message_id, answer)

    # -- answering -------------------------------------------------------------------------------

    async def reply(self, new: ReplyMessage) -> ReplyOutcome:
        """As `RequestReply.reply`, of any process's request; `position` and `offset` are -1.

        Without a `requester` it is the process that waits, or that made the correlation id.
        """
        check_correlation_id(new.correlation_id)
        lock = self._locks.setdefault(new.correlation_id, asyncio.Lock())
        async with lock:
            return await self._reply(new)

    async def find(self, correlation_id: str) -> FoundReply:
        """As `RequestReply.find`; Busy until a broker's index has what was just replied."""
        check_correlation_id(correlation_id)
        records = await self._records(correlation_id)
        if records:
            marked = [each for each in records if LATE in each.properties]
            is_late = self._replied.get(correlation_id, bool(marked))
            return FoundReply(self._stored((marked or records)[0]), is_late)
        if correlation_id in self._replied:
            raise Busy("the brokers do not list the reply yet", retry_after_s=INDEX_WAIT_S)
        raise MessageNotFound(
            f"no reply to {correlation_id!r} is kept",
            field="correlation_id",
            remedy="check the id; brokers keep replies as long as other messages",
        )

    # -- inside ----------------------------------------------------------------------------------

    def _check_free(self, correlation_id: str) -> None:
        if self._is_draining:
            raise _stopping()
        if len(self._waiting) >= self._waiting_max:
            raise Busy(
                f"{len(self._waiting)} requests wait for their reply",
                remedy="try again after the given wait, or raise requests_waiting_max",
            )
        if correlation_id in self._waiting or correlation_id in self._replied:
            raise _conflict(correlation_id)

    async def _register(self) -> None:
        """Let all masters know this process before the first request, and from then on."""
        if self._registering is None:
            await self._signs_of_life.answer_for(GROUP)
            beat = self._client.half_messages.heartbeat([GROUP])
            self._registering = asyncio.ensure_future(beat)
        with suppress(ClusterError):  # of a broker that is away: it is told once it is back
            await asyncio.shield(self._registering)

    async def _wait(self, reply: Reply, wait_s: float) -> None:
        self._counts["waiting"] += 1
        try:
            await asyncio.wait({reply}, timeout=wait_s)
        except BaseException:  # the caller has gone
            self._counts["cancelled"] += 1
            raise
        finally:
            self._counts["waiting"] -= 1

    async def _absence(self, topic: str, queue: int) -> str:
        """Why there may be no reply: the broker that has the request is away; "" if it is not."""
        broker = self._numbers.place(topic, queue).broker
        with suppress(ClusterError):
            if broker not in await self._client.masters():
                return f"broker {broker}, which has the request, is away; ask again"
        return ""

    def _take(self, message: StoredMessage) -> bool:
        """A reply that a broker pushes: whether a request waits for it."""
        correlation_id = message.properties.get("CORRELATION_ID", "")
        reply = self._waiting.get(correlation_id)
        if reply is not None and not reply.done():
            self._counts["answered"] += 1
            _add(self._replied, correlation_id, False)
            settle(reply, message)
            return True
        if correlation_id not in self._locks:  # else it is counted where it is sent
            is_duplicate = correlation_id in self._replied
            self._counts["duplicates" if is_duplicate else "late"] += 1
        return False

    async def _reply(self, new: ReplyMessage) -> ReplyOutcome:
        waiting = self._waiting.get(new.correlation_id)
        if new.correlation_id in self._replied or (
            waiting is None and await self._records(new.correlation_id)
        ):
            self._counts["duplicates"] += 1
            return ReplyOutcome(ReplyResult.ALREADY)
        name = self._client.half_messages.name
        requester = new.requester or new.correlation_id.rpartition("_")[0]
        if waiting is not None or new.correlation_id in self._given_up:
            requester = name
        topic = await self._topic()
        reply = self._new_reply(topic, new, requester)
        is_taken = await self._send(topic, reply)
        is_late = not is_taken or (requester == name and waiting is None)
        _add(self._replied, new.correlation_id, is_late)
        if is_late:
            self._counts["late"] += 1
        if not is_taken:
            await self._mark(topic, reply, new.correlation_id)
        result = ReplyResult.LATE if is_late else ReplyResult.DELIVERED
        return ReplyOutcome(result, reply.message_id)

    def _new_reply(self, topic: str, new: ReplyMessage, requester: str) -> NewClusterMessage:
        """Invalid for a body or property that no message may have."""
        keys = (new.correlation_id,)
        message = Message(topic, new.body, new.tag, keys, new.properties)
        check_message(message, TopicConfig(topic))
        own = {"MSG_TYPE": "reply", "CORRELATION_ID": new.correlation_id}
        own |= {"REPLY_TO_CLIENT": requester} if requester else {}
        own |= {"TTL": str(new.ttl_ms)} if new.ttl_ms else {}
        message_id = new.message_id or uuid4().hex.upper()
        return NewClusterMessage(new.body, new.tag, keys, new.properties | own, message_id)

    async def _send(self, topic: str, reply: NewClusterMessage) -> bool:
        """Whether the requester took it; another broker is tried where one cannot be reached."""
        failed: set[str] = set()
        with engine_errors():
            while True:
                queue = await self._client.sends.choose(topic, failed)
                try:
                    return await self._client.replies.send(queue, reply)
                except ClusterNoAnswer:
                    raise
                except ClusterUnreachable:
                    failed.add(queue.broker)
                    if len(failed) >= ATTEMPTS:
                        raise

    async def _mark(self, topic: str, reply: NewClusterMessage, correlation_id: str) -> None:
        """Store a late reply once more, marked as late, unless the broker did so itself."""
        if any(LATE in each.properties for each in await self._records(correlation_id)):
            return
        late = {**reply.properties, LATE: str(self._catalog.now_ms())}
        with engine_errors():
            await self._client.sends.send(topic, msgspec.structs.replace(reply, properties=late))

    async def _records(self, correlation_id: str) -> list[ClusterMessage]:
        """The replies that brokers list under an id, of those that are there."""
        records: list[ClusterMessage] = []
        topic = await self._topic()
        try:
            for broker in (await self._client.topics.route(topic)).brokers:
                with suppress(ClusterUnreachable):
                    records += await self._client.reads.by_key(topic, correlation_id, broker=broker)
        except ClusterRefused as error:
            if error.answer != ResponseCode.TOPIC_NOT_EXIST:  # else nobody has replied yet
                raise as_engine_error(error) from error
        except ClusterError as error:
            raise as_engine_error(error) from error
        return sorted(records, key=lambda each: each.stored_ms)

    async def _topic(self) -> str:
        """The reply topic, which is named for the cluster."""
        if not self._reply_topic:
            with engine_errors():
                brokers = await self._client.brokers()
            names = [each.cluster for _, each in sorted(brokers.items()) if each.cluster]
            self._reply_topic = f"{names[0]}_REPLY_TOPIC" if names else REPLY_TOPIC
        return self._reply_topic


def _add(known: OrderedDict[str, T], correlation_id: str, value: T) -> None:
    """Keep the newest."""
    known[correlation_id] = value
    if len(known) > KNOWN_MAX:
        known.popitem(last=False)


def _stopping() -> Stopping:
    return Stopping("the server is stopping", retry_after_s=5.0)


def _conflict(correlation_id: str) -> Conflict:
    return Conflict(
        f"the correlation id {correlation_id!r} is that of another request",
        field="correlation_id",
        remedy="leave it out: one is made",
    )
