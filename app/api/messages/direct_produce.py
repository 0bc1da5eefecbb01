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
from app.send_batcher import BatchSlice
from engine.errors import EngineError, Forbidden, Invalid
from engine.host import host_text
from engine.message import offset_id
from engine.message_columns import ColumnsResult, MessageColumns
from kitemq.model.produce import ProduceResult, StoredAt
from kitemq.model.topics import Durability as WireDurability

NO_LENGTH = b"content-length: 0"
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
        headers = dict(scope["headers"])
        self._extra = stay_secure(headers[b"host"]) if services.settings.tls_certificate else ()
        head = head_of(201, secured(answer_headers(JSON, b""), self._extra))
        assert head is not None, "it has a length"
        self._before, _, self._after = head.content.partition(NO_LENGTH)

    def begin(self, client: tuple[str, int] | None, body: bytes, answer: Answer) -> bool:
        """Store the message or the batch of a request; False if it may not be, or not this way."""
        services, address = self._services, client[0] if client else ""
        limits, size_bytes = services.request_limits, len(body)
        if not 0 < size_bytes <= limits.request_bytes_max:
            return False
        try:
            principal = services.authenticator.identify(self._asked)
            if not principal.is_open or principal.is_read_only:
                require(principal, Action.PRODUCE, Kind.TOPIC, self._topic)
            limits.enter(address)
        except (EngineError, ProblemError):
            return False
        if not limits.budget.take_whole(address, principal.caller, size_bytes):
            limits.leave(address)
            return False

        def leave() -> None:
            limits.budget.give_small(address, principal.caller, size_bytes)
            limits.leave(address)

        def done(sent: BatchSlice | ColumnsResult | None, error: EngineError | None) -> None:
            leave()
            answer(self._refusal(new, error) if sent is None else self._answer(sent))

        try:
            new = self._messages(body, host_text(*client) if client else "")
        except (EngineError, ProblemError):
            leave()
            return False

        CLIENT_ADDRESS.set(address)
        if isinstance(new.messages, MessageColumns):
            services.messaging.submit_columns(new.messages, new.durability, done)
        else:
            services.messaging.submit(new.messages, new.durability, done)
        return True

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
