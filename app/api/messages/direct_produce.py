"""Producing without ASGI, by requests with a head that was seen before.

What the head says about the message, and what every answer begins with, is worked out once. What
may change from one request to the next is checked for each: who asks, the rights, the limits.
Everything out of the ordinary takes the ordinary way, which refuses it with its reason.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat

from starlette.types import Scope

from app.api.framework.operation import JSON, content_type, encode
from app.api.messages.new_messages import NewMessages, RawHeaders, from_json
from app.container import Services, services_of
from app.db.rows import CLIENT_ADDRESS
from app.errors import ProblemError, answer_headers, problem_answer
from app.network.response_cycle import head_of
from app.network.whole_request import Answer
from app.security.access import Action, Kind, require
from app.security.headers import secured, stay_secure
from app.send_batcher import BatchSlice, LoneSends
from engine.errors import EngineError, Forbidden, Invalid
from engine.host import host_text, pack_host
from engine.message import offset_id
from engine.message_columns import SHARED, ColumnsResult, LonePlace, MessageColumns, body_column
from kitemq.model.produce import ProduceResult, StoredAt
from kitemq.model.topics import Durability as WireDurability

NO_LENGTH = b"content-length: 0"
ALIKE_COUNT = 2  # requests with a raw body, until there is a shorter way for those like them
ALIKE_AGAIN = 1000  # until that is tried again where it was not possible
ASKED = ("type", "method", "path", "headers", "query_string")  # what authentication reads


class DirectProduce:
    """The produce requests of one head."""

    @classmethod
    def of(cls, scope: Scope) -> "DirectProduce | None":
        """The way of the requests with the head of this one; None if the client's proxy asks."""
        services = services_of(scope)
        return None if services.settings.trusted_proxies else cls(services, scope)

    def __init__(self, services: Services, scope: Scope) -> None:
        self._services = services
        self._topic: str = scope["path_params"]["topic"]
        self._asked = {key: scope[key] for key in ASKED}
        is_json = content_type(scope) == JSON
        self._headers = None if is_json else RawHeaders(self._topic, scope["headers"])
        self._lone: LoneSends | None = None
        is_plain = self._headers is not None and self._headers.is_plain
        self._unlike_count = ALIKE_COUNT if is_plain else 0  # 0: no more to count
        headers = dict(scope["headers"])
        self._extra = stay_secure(headers[b"host"]) if services.settings.tls_certificate else ()
        head = head_of(201, secured(answer_headers(JSON, b""), self._extra))
        assert head is not None, "it has a length"
        self._before, _, self._after = head.content.partition(NO_LENGTH)

    def begin(self, client: tuple[str, int] | None, body: bytes, answer: Answer) -> bool:
        """Store the message or the batch of a request; False if it may not be, or not this way."""
        address, limits = client[0] if client else "", self._services.request_limits
        caller = self._admit(address, len(body))
        if caller is None:
            return False

        def leave() -> None:
            limits.budget.give_small(address, caller, len(body))
            limits.leave(address)

        def done(sent: BatchSlice | ColumnsResult | None, error: EngineError | None) -> None:
            leave()
            answer(self._refusal(new, error) if sent is None else self._answer(sent))

        born_host = host_text(*client) if client else ""
        lone = self._lone
        if lone is not None and (place := self._store_alone(lone, body, born_host)) is not None:
            new = NewMessages([], lone.durability, is_alone=True)
            if lone.waits:
                lone.when_accepted(place, done)
            else:
                done(lone.result_of(place, lone.durability), None)
            return True
        try:
            new = self._messages(body, born_host)
        except (EngineError, ProblemError):
            leave()
            return False

        CLIENT_ADDRESS.set(address)
        messaging = self._services.messaging
        if isinstance(new.messages, MessageColumns):
            messaging.submit_columns(new.messages, new.durability, done)
        else:
            messaging.submit(new.messages, new.durability, done)
        if self._unlike_count:
            self._count_alike(body, born_host)
        return True

    def _admit(self, address: str, size_bytes: int) -> str | None:
        """The caller, for whom one more request of so many bytes is counted; None if it may not."""
        services = self._services
        limits = services.request_limits
        if not 0 < size_bytes <= limits.request_bytes_max:
            return None
        try:
            principal = services.authenticator.identify(self._asked)
            if not principal.is_open or principal.is_read_only:
                require(principal, Action.PRODUCE, Kind.TOPIC, self._topic)
            limits.enter(address)
        except (EngineError, ProblemError):
            return None
        if not limits.budget.take_whole(address, principal.caller, size_bytes):
            limits.leave(address)
            return None
        return principal.caller

    def _store_alone(self, lone: LoneSends, body: bytes, born_host: str) -> LonePlace | None:
        """Store the message at once; None, and nothing is done, where it may not be."""
        place = lone.send(body_column(body), 0, 0, SHARED, pack_host(born_host))
        if place is None and not lone.is_current:
            self._lone, self._unlike_count = None, ALIKE_COUNT
        return place

    def _count_alike(self, body: bytes, born_host: str) -> None:
        """Have a shorter way for raw bodies that come alone, once this is not the first of them."""
        self._unlike_count -= 1
        if self._unlike_count:
            return
        assert self._headers is not None
        columns = self._headers.columns(body, born_host)
        self._lone = self._services.messaging.lone_sender(columns, self._headers.durability)
        if self._lone is None:
            self._unlike_count = ALIKE_AGAIN

    def _messages(self, body: bytes, born_host: str) -> NewMessages:
        if self._headers is not None:
            return self._headers.message(body, born_host)
        return from_json(self._topic, body, born_host, self._services.host.clock.now_ms())

    def _answer(self, sent: BatchSlice | ColumnsResult) -> bytes:
        host = self._services.settings.store_host
        if isinstance(sent, ColumnsResult):
            body = json_of(sent, host)
        else:
            body = encode(result_of(sent, host))
        return b"%scontent-length: %d%s%s" % (self._before, len(body), self._after, body)

    def _refusal(self, new: NewMessages, error: EngineError | None) -> bytes | None:
        if isinstance(error, Forbidden):
            return None  # nothing is stored, and the ordinary way has it in the audit trail
        if isinstance(error, Invalid):
            error = new.renamed(error)
        status, headers, body = problem_answer(error or RuntimeError("neither stored nor refused"))
        head = head_of(status, secured(headers, self._extra))
        return None if head is None else head.content + body


def result_of(sent: BatchSlice | ColumnsResult, store_host: str) -> ProduceResult:
    """Convert the engine's result."""
    address = _address_of(store_host)
    ids: Iterable[str]
    queues: Iterable[int]
    offset_ids: Sequence[str] = [f"{address}{position:016X}" for position in sent.positions]
    if isinstance(sent, ColumnsResult):
        ids, queues = sent.message_ids(), repeat(sent.queue)
    else:
        ids = [message.message_id for message in sent.messages]
        queues = [message.queue for message in sent.messages]
        offset_ids = sent.offset_ids or offset_ids
    offsets, positions = map(str, sent.offsets), map(str, sent.positions)
    stored = map(StoredAt, ids, offset_ids, queues, offsets, positions)
    return ProduceResult(list(stored), WireDurability(sent.durability))


def json_of(sent: ColumnsResult, store_host: str) -> bytes:
    """The result as JSON, without an object for each message: it takes half of the time."""
    begin = f'{{"message_id":"{sent.id_prefix}'
    middle = f'","offset_id":"{_address_of(store_host)}'
    end, at = f'","queue":{sent.queue},"offset":"', '","position":"'
    messages = [
        f'{begin}{(place := f"{position:016X}")}{middle}{place}{end}{offset}{at}{position}"}}'
        for offset, position in zip(sent.offsets, sent.positions, strict=True)
    ]
    return f'{{"messages":[{",".join(messages)}],"durability":"{sent.durability}"}}'.encode()


@lru_cache(maxsize=16)
def _address_of(store_host: str) -> str:
    """The common prefix of this server's offset ids; the position's 16 digits follow."""
    return offset_id(store_host, 0)[:-16]
