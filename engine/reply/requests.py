"""Request and reply: sends a request to a topic, and returns its one reply to the requester.

A request is an ordinary message with a correlation id. Its reply is a record of the reply topic,
found by that id in the key index: so the log alone says which request is answered, a crash leaves
nothing to heal, and a late reply can still be fetched. Waiting requests are known
to memory only. Property names are RocketMQ's (docs/rocketmq-rules.md#request-and-reply).
"""

import re
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from uuid import uuid4

import msgspec

from engine.context import EngineContext
from engine.errors import Busy, Conflict, Invalid, MessageNotFound
from engine.events import Replied, Requested, RequestExpired
from engine.message import Durability, Message, StoredMessage
from engine.message_checks import check_message
from engine.reply.pending_requests import PendingRequest, PendingRequests
from engine.service import IDLE_WAIT_MAX_S, Service
from engine.topic.names import REPLY_TOPIC

CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TTL = "TTL"
CLUSTER = "CLUSTER"
MESSAGE_TYPE = "MSG_TYPE"
REPLY_TYPE = "reply"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"  # when the requester got it; missing in a late reply
LATE = "KITE_LATE"  # when a late reply came; ms since 1970

TIMEOUT_MS_MAX = 30_000
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
CLIENT_LENGTH_MAX = 255
DUE_COUNT_MAX = 500  # requests that give up in one tick
RECENT_COUNT_MAX = 16_384  # replies known without looking into the log
FLUSH_WAIT_S = 0.5
UNREAD_WAIT_S = 0.005  # until the next look whether a reply can be read
RECORDS_MAX = 16  # of one correlation id, to be looked at
REPLY_CLUSTER = REPLY_TOPIC.removesuffix("_REPLY_TOPIC")


class ReplyResult(StrEnum):
    """Result of a reply."""

    DELIVERED = "delivered"  # to the waiting requester
    LATE = "late"  # no requester waits: it is kept, and can be fetched
    ALREADY = "already"  # the request was answered before: nothing is stored


class ReplyMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A reply on its way in. `requester` and `ttl_ms` as the request had them, where known.

    `message_id` is the sender's, "" for one of the engine's own.
    """

    correlation_id: str
    body: bytes
    tag: str = ""
    properties: dict[str, str] = {}
    requester: str = ""
    ttl_ms: int = 0
    born_host: str = ""
    message_id: str = ""


class ReplyOutcome(msgspec.Struct, frozen=True):
    """Outcome of a reply; `message_id`, `position` and `offset` are those of the stored reply.

    For ALREADY nothing is stored: they are "", -1 and -1.
    """

    result: ReplyResult
    message_id: str = ""
    position: int = -1
    offset: int = -1


class FoundReply(msgspec.Struct, frozen=True):
    """A reply that the log keeps; `is_late`: no requester waited when it came."""

    message: StoredMessage
    is_late: bool


class RequestCounts(msgspec.Struct, frozen=True):
    """Requests since the start: how many wait, and how the others ended.

    `late` and `duplicates` count replies: those that came too late, and those not stored
    because the request was answered before.
    """

    waiting: int
    sent: int
    answered: int
    expired: int
    cancelled: int
    late: int
    duplicates: int


class RequestReply(Service):
    """The verbs; ticks tell those whose time is over."""

    name = "requests"

    def __init__(
        self,
        context: EngineContext,
        *,
        waiting_max: int,
        keep_s: float,
        check_running: Callable[[], None],
        make_id: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        super().__init__()
        self._store = context.store
        self._intake = context.intake
        self._catalog = context.catalog
        self._clock = context.clock
        self._events = context.events
        self._waiting_max = waiting_max
        self._keep_s = keep_s
        self._check_running = check_running
        self._make_id = make_id
        self._waiting = PendingRequests()
        self._recent: dict[str, int] = {}  # correlation id to position, oldest first
        self._unread: deque[tuple[PendingRequest, int]] = (
            deque()
        )  # replies stored, not readable yet
        self._sent = self._answered = self._expired = self._late = self._duplicates = 0

    def services(self) -> list[Service]:
        """The services to tick."""
        return [self]

    @property
    def counts(self) -> RequestCounts:
        """Counts of requests, and of their ends."""
        return RequestCounts(
            waiting=len(self._waiting),
            sent=self._sent,
            answered=self._answered,
            expired=self._expired,
            cancelled=self._waiting.cancelled_count,
            late=self._late,
            duplicates=self._duplicates,
        )

    # -- asking ---------------------------------------------------------------------------------

    def request(
        self,
        message: Message,
        *,
        timeout_ms: int,
        client: str,
        on_end: Callable[[], None],
        correlation_id: str = "",
    ) -> PendingRequest:
        """Send `message` and wait; `on_end` is called once, with the reply there or none in time.

        `correlation_id`, made where it is empty, is at most 64 letters, digits, `_` and `-`;
        Conflict where another request has it. Raises what a send raises, Invalid for a
        `timeout_ms` that is not 1 to 30,000, and Busy when too many requests wait. Cancelling the
        request ends the wait without a call.
        """
        self._check_running()
        check_request(timeout_ms, client, correlation_id)
        if len(self._waiting) >= self._waiting_max:
            raise Busy(
                f"{len(self._waiting)} requests wait for their reply",
                remedy="try again after the given wait, or raise requests_waiting_max",
            )
        if correlation_id:
            self._check_unused(correlation_id)
        correlation_id = correlation_id or self._make_id()
        own = {
            CORRELATION_ID: correlation_id,
            REPLY_TO_CLIENT: client or correlation_id,
            TTL: str(timeout_ms),
            CLUSTER: REPLY_CLUSTER,
        }
        sent = self._intake.send([message], own=own)
        message_id, topic = sent.messages[0].message_id, message.topic
        request = PendingRequest(
            self._waiting,
            correlation_id=correlation_id,
            topic=topic,
            client=own[REPLY_TO_CLIENT],
            timeout_ms=timeout_ms,
            started_s=self._clock.monotonic_s(),
            on_end=on_end,
            sent=sent,
        )
        self._wait_for(request)
        if self._events.has_subscribers:
            fields = (topic, message_id, correlation_id, own[REPLY_TO_CLIENT], timeout_ms)
            self._events.emit(Requested(self._clock.now_ms(), *fields))
        return request

    def tick(self) -> float:
        """Hand over what can be read now, and tell those whose time is over; at most 500 each."""
        for _ in range(min(len(self._unread), DUE_COUNT_MAX)):
            if self._unread[0][1] >= self._store.readable:
                break
            self._hand_over(*self._unread.popleft())
        now_s = self._clock.monotonic_s()
        for request in self._waiting.take_due(now_s, DUE_COUNT_MAX):
            self._expired += 1
            if self._events.has_subscribers:
                fields = (request.topic, request.message_id, request.correlation_id, request.client)
                self._events.emit(RequestExpired(self._clock.now_ms(), *fields))
            self._waiting.end(request, None)
        first_s = self._waiting.first_s
        wait_s = UNREAD_WAIT_S if self._unread else IDLE_WAIT_MAX_S
        return wait_s if first_s is None else min(wait_s, max(0.0, first_s - now_s))

    # -- answering ------------------------------------------------------------------------------

    def reply(self, new: ReplyMessage) -> ReplyOutcome:
        """Store a reply and pass it to its requester; durable when it returns, as a send is.

        The first reply to a request wins, for as long as replies are kept. Raises Invalid for
        what cannot be stored; DiskFull, and the requester goes on waiting.
        """
        self._check_running()
        check_correlation_id(new.correlation_id)
        request = self._waiting.find(new.correlation_id)
        if self._is_answered(new.correlation_id, request):
            self._duplicates += 1
            return ReplyOutcome(ReplyResult.ALREADY)
        message = self._message_of(new, request)
        self._catalog.ensure_system(REPLY_TOPIC)
        sent = self._intake.put([message])
        position = sent.positions[0]
        self._remember(new.correlation_id, position)
        if request is None:
            self._late += 1
        else:
            request.is_replied = True
            self._hand_over(request, position)
            if sent.durability is not Durability.STORED:
                self._store.when_flushed(sent.flush_position, lambda _: self.wake())
        if self._events.has_subscribers:
            stored = sent.messages[0]
            fields = (REPLY_TOPIC, stored.queue, sent.offsets[0], stored.message_id)
            who = (new.correlation_id, new.born_host, request is None)
            self._events.emit(Replied(self._clock.now_ms(), *fields, *who))
        result = ReplyResult.LATE if request is None else ReplyResult.DELIVERED
        return ReplyOutcome(result, sent.messages[0].message_id, position, sent.offsets[0])

    def find(self, correlation_id: str) -> FoundReply:
        """The reply to a request; MessageNotFound where none came, or longer ago than it is kept.

        Busy while it is being flushed to the disk.
        """
        check_correlation_id(correlation_id)
        position = self._position_of(correlation_id)
        if position is not None and position >= self._store.readable:
            raise Busy("the reply is being written to the disk", retry_after_s=FLUSH_WAIT_S)
        reply = None if position is None else self._read(position, correlation_id)
        if reply is None:
            raise MessageNotFound(
                f"no reply to {correlation_id!r} is kept",
                field="correlation_id",
                remedy=f"check the id; replies are kept for {self._keep_s:g} s (reply_keep_s)",
            )
        return FoundReply(reply, LATE in reply.properties)

    # -- helpers --------------------------------------------------------------------------------

    def _wait_for(self, request: PendingRequest) -> None:
        first_s = self._waiting.first_s
        self._waiting.add(request)
        if first_s is None or request.deadline_s < first_s:
            self.wake()
        self._sent += 1

    def _message_of(self, new: ReplyMessage, request: PendingRequest | None) -> Message:
        """The reply as it is stored; Invalid for a body or property that no message may have."""
        now_ms = self._clock.now_ms()
        message = Message(
            REPLY_TOPIC,
            new.body,
            new.tag,
            (new.correlation_id,),
            new.properties,
            message_id=new.message_id,
            born_ms=now_ms,
            born_host=new.born_host,
        )
        check_message(message, self._catalog.ensure_system(REPLY_TOPIC))
        own = {MESSAGE_TYPE: REPLY_TYPE, CORRELATION_ID: new.correlation_id}
        requester = request.client if request is not None else new.requester
        ttl_ms = request.timeout_ms if request is not None else new.ttl_ms
        if requester:
            own[REPLY_TO_CLIENT] = requester
        if ttl_ms:
            own[TTL] = str(ttl_ms)
        own[LATE if request is None else PUSH_REPLY_TIME] = str(now_ms)
        message.properties = {**new.properties, **own}
        return message

    def _is_answered(self, correlation_id: str, request: PendingRequest | None) -> bool:
        if request is not None:  # it was new when it was sent, and none came since
            return request.is_replied
        return self._position_of(correlation_id) is not None

    def _hand_over(self, request: PendingRequest, position: int) -> None:
        """Give the reply to its requester; later, while it waits for a flush to be readable."""
        if position >= self._store.readable:
            self._unread.append((request, position))
            self.wake()
            return
        reply = self._read(position, request.correlation_id)
        if reply is not None and not request.is_over:
            self._answered += 1
            self._waiting.end(request, reply)

    def _remember(self, correlation_id: str, position: int) -> None:
        recent = self._recent
        recent[correlation_id] = position
        while len(recent) > RECENT_COUNT_MAX:
            oldest = next(iter(recent))
            if recent[oldest] >= self._store.readable:
                return  # the index does not know it before it is flushed
            del recent[oldest]

    def _check_unused(self, correlation_id: str) -> None:
        is_waiting = self._waiting.find(correlation_id) is not None
        if is_waiting or self._position_of(correlation_id) is not None:
            raise Conflict(
                f"the correlation id {correlation_id!r} is that of another request",
                field="correlation_id",
                remedy="leave it out: one is made",
            )

    def _position_of(self, correlation_id: str) -> int | None:
        """Where the first kept reply to a request lies; None where there is none."""
        position = self._recent.get(correlation_id)
        if position is not None:
            return position
        begin_ms = self._clock.now_ms() - round(self._keep_s * 1000)
        places = self._store.positions_of_key(
            REPLY_TOPIC, correlation_id, count_max=RECORDS_MAX, begin_ms=begin_ms
        )
        return next((place for place in sorted(places) if self._read(place, correlation_id)), None)

    def _read(self, position: int, correlation_id: str) -> StoredMessage | None:
        """The reply at `position`, if it is that to this request and is still kept."""
        try:
            stored = self._store.read_at(position)
        except MessageNotFound:
            return None
        is_it = stored.topic == REPLY_TOPIC and stored.keys == (correlation_id,)
        age_ms = self._clock.now_ms() - stored.stored_ms
        return stored if is_it and age_ms <= self._keep_s * 1000 else None


def check_request(timeout_ms: int, client: str, correlation_id: str) -> None:
    """Raise Invalid for what no request may have."""
    if not 1 <= timeout_ms <= TIMEOUT_MS_MAX:
        raise Invalid(
            f"timeout_ms is {timeout_ms}",
            field="timeout_ms",
            remedy=f"give 1 to {TIMEOUT_MS_MAX} milliseconds",
        )
    if len(client) > CLIENT_LENGTH_MAX or (client and not client.isprintable()):
        raise Invalid(
            "the client's name is too long or holds a control character",
            field="client",
            remedy=f"at most {CLIENT_LENGTH_MAX} printable characters",
        )
    if correlation_id:
        check_correlation_id(correlation_id)


def check_correlation_id(correlation_id: str) -> None:
    """Raise Invalid for what is no correlation id."""
    if not ID.fullmatch(correlation_id):
        raise Invalid(
            f"{correlation_id[:80]!r} is no correlation id",
            field="correlation_id",
            remedy="at most 64 letters, digits, '_' and '-', as the request told it",
        )
