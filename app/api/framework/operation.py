"""An operation of the REST API: one declaration that is both its route and its description.

`@operations.get(...)` names the path and the right; the handler's annotations name query, body and
answer. From both come the endpoint (a plain ASGI callable: msgspec decodes and encodes, nothing
else stands in the hot path) and the entry in the OpenAPI document (`openapi.py`), so that they
cannot drift apart.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, get_args
from urllib.parse import parse_qsl

import msgspec
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app import capabilities
from app.administration import Administration
from app.container import Services, services_of
from app.db.rows import Actor, actor_at
from app.errors import REFUSED, Headers, ProblemError, answer_headers, problem_answer
from app.host import EngineHost
from app.messaging import Messaging
from app.network.whole_request import DirectRequests
from app.security.access import NAMED, Action, Kind, Needs, Principal, principal_of, require
from app.security.client_names import owner_of
from app.security.message_rights import require_messages
from app.security.origins import check_own_page
from app.settings import Settings
from engine.errors import Invalid
from engine.host import host_text
from kitemq.model.conversion import decoded, encoded
from kitemq.model.numbers import whole
from kitemq.model.values import OFFSET_MAX
from kitemq.protocol.json_values import VALUES_MAX, has_too_many_values

API = "/api/v1"
JSON = b"application/json"
# What paths of examples name.
EXAMPLES = {
    "topic": "orders",
    "group": "billing",
    "queue": "0",
    "offset": "0",
    "id": "1",
    "message_id": "7F00000100001F900000000000000000",
    "correlation_id": "0f6b5a1c",
    "name": "ann",
}
SHELL_SPECIAL = frozenset("?&*")

Q = TypeVar("Q")
B = TypeVar("B")

encode = msgspec.json.Encoder(enc_hook=encoded).encode

DETAIL_CHARS_MAX = 1000
_PLACE = re.compile(r"^(?P<detail>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"(?P<kind>unknown|missing required) field `(?P<name>.*)`", re.DOTALL)


class ClientGone(Exception):
    """The connection closed before the whole request had arrived, so no answer is sent."""


class Raw(msgspec.Struct, frozen=True):
    """An answer that is not JSON made from the operation's type."""

    body: bytes
    media_type: bytes = JSON
    status: int = 200


class Call(Generic[Q, B]):
    """One request on its way through a handler: decoded query and body, and the services."""

    __slots__ = ("body", "content", "query", "receive", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.query: Q
        self.body: B
        self.content = b""  # the body's bytes, where the operation decodes them itself

    @property
    def host(self) -> EngineHost:
        return self.services.host

    @property
    def messaging(self) -> Messaging:
        return self.services.messaging

    @property
    def administration(self) -> Administration:
        return self.services.administration

    @property
    def settings(self) -> Settings:
        return self.services.settings

    @property
    def services(self) -> Services:
        return services_of(self.scope)

    @property
    def client(self) -> str:
        """The client's address as "ip:port"; empty where the server does not know it."""
        client = self.scope.get("client")
        return host_text(*client) if client else ""

    @property
    def who(self) -> Principal:
        """The caller's principal."""
        return principal_of(self.scope)

    @property
    def actor(self) -> Actor:
        """The caller, for the audit trail."""
        return actor_at(self.who.audit_name(self.client), self.header(b"x-request-id"))

    def require(self, action: Action, kind: Kind, name: str) -> None:
        """Raise RightMissing unless the caller may do this to an object that the body names."""
        who = self.who
        if not who.is_open or who.is_read_only:
            require(who, action, kind, name)

    def require_messages(self, topic: str) -> None:
        """Raise RightMissing unless the caller may read the messages of a topic."""
        require_messages(self.who, topic)

    def require_own_page(self) -> None:
        """Raise a 403 where a page of another site asks, for a GET that changes something."""
        check_own_page(self.scope["headers"], self.settings.allowed_origins)

    def claim_client(self, group: str, client: str) -> None:
        """Claim a client's name in a group for the caller; ClientNameTaken if another holds it."""
        if client and not self.who.is_open:
            self.services.client_names.claim(group, client, owner_of(self.who))

    def check_client(self, group: str, client: str) -> None:
        """Raise ClientNameTaken where the name is that of another's live member of the group."""
        if client and not self.who.is_open:
            self.services.client_names.check(group, client, owner_of(self.who))

    def path(self, name: str) -> str:
        """A parameter of the path."""
        return str(self.scope["path_params"][name])

    def number(self, name: str, most: int = OFFSET_MAX) -> int:
        """A number in the path, from 0 to `most`; Invalid names it where it is none."""
        text = self.path(name)
        number = whole(text, most)
        if number is not None:
            return number
        raise Invalid(
            f"{text[:40]!r} is not a number from 0 to {most}",
            field=name,
            remedy="correct the address",
        )

    def header(self, name: bytes) -> str:
        """A header by its lower-case name; empty where it was not sent."""
        for key, value in self.scope["headers"]:
            if key == name:
                return text_of(value)
        return ""


Handler = Callable[[Call[Any, Any]], Awaitable[object]]
# A way of requests that need no more of ASGI, by the scope of one that was answered; None for none.
DirectWay = Callable[[Scope], DirectRequests | None]


@dataclass(frozen=True)
class Parameter:
    """A header that an operation reads, for its description."""

    name: str
    description: str


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method on one path: its request, its answer and its errors."""

    method: str
    path: str
    handler: Handler
    tag: str
    query: type[msgspec.Struct] | None
    body: Any
    answer: Any
    status: int
    needs: Needs
    errors: tuple[int, ...] = ()
    raw_body: bool = False  # the handler decodes `content` itself; `body` only describes it,
    # and may be several types, of which the body is one
    headers: tuple[Parameter, ...] = ()
    media_type: str = "application/json"
    example_path: str
    example_body: str = ""
    curl_flags: str = ""  # further flags of the example
    direct: DirectWay | None = None
    capability: str = ""  # what the engine has to be able to do; else the answer is a 409

    @property
    def name(self) -> str:
        """The operation's id in the description."""
        return self.handler.__name__

    @property
    def summary(self) -> str:
        """The first line of the handler's docstring."""
        return (self.handler.__doc__ or "").strip().partition("\n")[0]

    @property
    def description(self) -> str:
        """The rest of the handler's docstring."""
        rest = (self.handler.__doc__ or "").strip().split("\n")[1:]
        return "\n".join(line.strip() for line in rest).strip()

    @property
    def example(self) -> str:
        """A call by curl; `$URL` stands for the server's address."""
        url = f"$URL{self.example_path}"
        words = ["curl", self.curl_flags, "" if self.method == "GET" else f"-X {self.method}"]
        words.append(f"'{url}'" if SHELL_SPECIAL & set(url) else url)
        if self.example_body:
            words.append(f"-H 'Content-Type: application/json' -d '{self.example_body}'")
        return " ".join(filter(None, words))

    def route(self) -> Route:
        """The route that answers this operation."""
        return Route(self.path, _Endpoint(self), methods=[self.method], name=self.name)


class Operations:
    """The operations of a module under one tag; they are routed in the order of declaration.

    A handler's annotations say what it takes and answers: `async def get_topic(call: Call[Query,
    Body]) -> Answer`, with None for no query, no body, and an empty answer (204). Keyword arguments
    are the fields of `Operation`; `answer` is one where a handler returns Raw.
    """

    def __init__(self, tag: str, **examples: str) -> None:
        """`examples` are what these operations' parameters of paths are in examples."""
        self._tag = tag
        self._examples = {**EXAMPLES, **examples}
        self._declared: list[Operation] = []
        self.get = partial(self._declare, "GET")
        self.post = partial(self._declare, "POST")
        self.put = partial(self._declare, "PUT")
        self.patch = partial(self._declare, "PATCH")
        self.delete = partial(self._declare, "DELETE")

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._declared)

    def _declare(
        self,
        method: str,
        path: str,
        *,
        prefix: str = API,
        example: str = "",
        errors: tuple[int, ...] = (),
        not_found: bool = True,
        needs: Needs | Action,
        **declared: Any,
    ) -> Callable[[Handler], Operation]:
        """Declare the decorated handler at `prefix` and `path`.

        `example` is a path and query below the prefix, or just the query: the path is then that of
        the operation, for the objects that all examples name. A path with parameters may answer
        404, unless `not_found` is False; `errors` are further statuses. `needs` is a right, or what
        has to be allowed on the topic or the group that the path names.
        """
        own_path = path.format(**self._examples)
        is_missing = not_found and own_path != path

        def declare(handler: Handler) -> Operation:
            fields = {
                **_types_of(handler),
                "method": method,
                "path": prefix + path,
                "handler": handler,
                "needs": _right_of(path, needs) if isinstance(needs, Action) else needs,
                "tag": self._tag,
                "example_path": prefix + (example if example[:1] == "/" else own_path + example),
                "errors": ((404,) * is_missing + (409,) * ("capability" in declared) + errors),
                **declared,
            }
            self._declared.append(Operation(**fields))
            return self._declared[-1]

        return declare


def _right_of(path: str, action: Action) -> Needs:
    """The right to do this to the topic or the group that a path names."""
    (kind,) = (kind for kind in NAMED if f"{{{kind}}}" in path)
    return Needs(action, kind, kind.value)


def _types_of(handler: Handler) -> dict[str, Any]:
    """Query, body and answer as the handler's annotations have them, and the answer's status."""
    query, body = (
        None if kind is NoneType else kind for kind in get_args(handler.__annotations__["call"])
    )
    answer = handler.__annotations__["return"]
    if isinstance(answer, UnionType):
        (answer,) = (kind for kind in get_args(answer) if kind is not Raw)
    status = 204 if answer is None else 200
    return {"query": query, "body": body, "answer": answer, "status": status}


class _Endpoint:
    """ASGI callable: decode, call the handler, encode; errors become problem bodies."""

    def __init__(self, operation: Operation) -> None:
        self._handler = operation.handler
        self._status = operation.status
        self._query = operation.query
        self._raw_body = operation.raw_body
        self._needs, self._capability = operation.needs, operation.capability
        decodes = operation.body is not None and not operation.raw_body
        self._decoder = msgspec.json.Decoder(operation.body, dec_hook=decoded) if decodes else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status, headers, body = await self._answer(scope, receive)
        except ClientGone:
            return
        except Exception as error:
            scope[REFUSED] = error
            status, headers, body = problem_answer(error)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, Headers, bytes]:
        call: Call[Any, Any] = Call(scope, receive)
        self._needs.check(scope)
        if self._capability:
            capabilities.require(call.messaging.capabilities, self._capability)
        if self._query is not None:
            call.query = decode_query(scope["query_string"], self._query)
        if self._raw_body:
            call.content = await read_body(receive)
        elif self._decoder is not None:
            require_json(scope)
            call.body = decode_body(await read_body(receive), self._decoder)
        answer = await self._handler(call)
        if answer is None:
            return 204, [], b""
        if isinstance(answer, Raw):
            return answer.status, answer_headers(answer.media_type, answer.body), answer.body
        body = encode(answer)
        return self._status, answer_headers(JSON, body), body


async def read_body(receive: Receive) -> bytes:
    """The whole body; its size is limited before it gets here. ClientGone if it never ends."""
    message = await receive()
    if message["type"] != "http.request":
        raise ClientGone
    if not message.get("more_body"):
        return bytes(message.get("body", b""))
    parts: list[bytes] = [message.get("body", b"")]
    while message.get("more_body"):
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        parts.append(message.get("body", b""))
    return b"".join(parts)


def content_type(scope: Scope) -> bytes:
    """The request's media type in lower case, without parameters; empty where none was sent."""
    for key, value in scope["headers"]:
        if key == b"content-type":
            return bytes(value.split(b";", 1)[0].strip().lower())
    return b""


def require_json(scope: Scope) -> None:
    """Raise a 415 unless the request says its body is JSON."""
    if content_type(scope) != JSON:
        raise ProblemError(
            415,
            "unsupported_media_type",
            "the body must be JSON",
            field="Content-Type",
            remedy="send Content-Type: application/json",
        )


def decode_body(content: bytes, decoder: msgspec.json.Decoder[B]) -> B:
    """Decode the body. Raises a 400 for malformed JSON, Invalid for a wrong value.

    A ProblemError (413) for one that holds more than VALUES_MAX values.
    """
    if has_too_many_values(content):
        raise ProblemError(
            413,
            "too_many_values",
            f"the body holds more than {VALUES_MAX} values",
            field="body",
            remedy="send fewer in one request",
        )
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        detail = _short(str(error)) or type(error).__name__
        raise ProblemError(
            400, "malformed_json", f"the body is not valid JSON: {detail}", remedy="send valid JSON"
        ) from None


def decode_query(query: bytes, kind: type[Q]) -> Q:
    """The query string as its type; Invalid names the parameter that does not fit."""
    try:
        pairs = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=64))
        return msgspec.convert(pairs, kind, strict=False, dec_hook=decoded)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None
    except ValueError as error:
        raise Invalid(f"the query string is not valid: {error}", field="query") from None


def _invalid(error: msgspec.ValidationError) -> Invalid:
    """msgspec's sentence with its `$.path` turned into our field name."""
    place = _PLACE.match(_short(str(error)))
    assert place is not None, "the pattern matches every text"
    detail = place["detail"]
    field = (place["path"] or "$").removeprefix("$").removeprefix(".")
    named = _UNKNOWN.search(detail)
    if named is None:
        return Invalid(detail, field=field or "body", remedy="correct the value")
    inner = named["name"]
    remedy = "remove it, or correct its spelling" if named["kind"] == "unknown" else "add it"
    return Invalid(detail, field=f"{field}.{inner}" if field else inner, remedy=remedy)


def _short(text: str) -> str:
    """An error's text, which may quote names of any length that were sent."""
    if len(text) <= DETAIL_CHARS_MAX:
        return text
    half = DETAIL_CHARS_MAX // 2
    return f"{text[:half]}…{text[-half:]}"


def text_of(value: bytes) -> str:
    """A header's value: UTF-8 where it is that, else Latin-1 as HTTP has it."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def routes_of(operations: Sequence[Operation]) -> list[Route]:
    """The routes of the operations, in their order: the most frequent first."""
    return [item.route() for item in operations]
