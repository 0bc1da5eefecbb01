"""The gate in front of every route: one pass over the headers, then the checks, in pure ASGI.

In order: how much is under way, the Host, the Origin of what changes something (and of every
WebSocket handshake), who asks, the size of the body. Every answer leaves with the security
headers, also that of a route which failed.
"""

import logging
from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.db.rows import ASKED_FROM
from app.errors import AUDITED, REFUSED, DoorError, problem_answer
from app.security.access import PRINCIPAL, principal_of
from app.security.authenticator import Authenticator
from app.security.headers import STAY_SECURE, Header, secured
from app.security.hosts import LOOPBACK_NAMES, check_host, host_name, our_names
from app.security.origins import SAFE_METHODS, check_origin
from app.security.proxies import client_address, proxies_of
from app.security.refusal_audit import ACTION, KIND, RefusalAudit, RefusedAttempt
from app.security.request_body import RequestBody
from app.security.request_limits import RequestLimits
from app.settings import Settings

log = logging.getLogger("kitemq.gate")

PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
REFUSED_HANDSHAKE = 1008
REFUSALS = frozenset({401, 403})
REFUSED_CODES = {401: "login_needed", 403: "forbidden"}
AUDITED_ELSEWHERE = frozenset({"login_failed", "login_limited"})  # by name, where they arise
READ_HEADERS = frozenset(
    {b"host", b"origin", b"sec-fetch-site", b"content-length", b"transfer-encoding"}
)


class SecurityMiddleware:
    """ASGI callable around the application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: Settings,
        load: RequestLimits,
        authenticator: Authenticator,
        refusals: RefusalAudit,
    ) -> None:
        self._app = app
        self._refusals = refusals
        self._authenticator = authenticator
        self._load = load
        self._proxies = proxies_of(settings)
        self._names = our_names(settings.host, settings.allowed_hosts)
        self._is_tls = bool(settings.tls_certificate)
        self._origins = frozenset(
            origin.lower().rstrip("/").encode() for origin in settings.allowed_origins
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _SecuredAnswer(send)
        client = self._client_of(scope)
        ASKED_FROM.set(client)
        # Who watches the server is told how it is, also while its own address floods it.
        share = None if scope["path"] in PROBES else client
        try:
            self._load.enter(share)
        except DoorError as error:
            await answer.refuse(error)
            return
        body: RequestBody | None = None
        small_bytes = 0
        try:
            found = self._check(scope)
            if self._is_tls and host_name(found[b"host"].decode("latin-1")) not in LOOPBACK_NAMES:
                answer.extra = STAY_SECURE  # on localhost it would bind other programs' ports too
            is_chunked, length = b"transfer-encoding" in found, found.get(b"content-length")
            if length is not None and not is_chunked and share is not None:
                small_bytes = self._load.take_small(length)
            if is_chunked or (length is not None and not small_bytes):
                body = RequestBody(receive, self._load, scope)
                body.check_length(length)
                receive = body.read
            await self._app(scope, receive, answer.send)
        except Exception as error:
            scope[REFUSED] = error
            await answer.refuse(error)
        finally:
            self._load.leave(share, small_bytes)
            if body is not None:
                body.close()
            if answer.status in REFUSALS and scope["method"] not in SAFE_METHODS:
                self._note(scope, client, answer.status)
            # The error knows the frames of the request, with its body, and they know the scope:
            # all of that would stay until the collector comes round.
            scope.pop(REFUSED, None)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = self._client_of(scope)
        ASKED_FROM.set(client)
        try:
            self._load.enter(client)
        except DoorError as error:
            await _refuse_handshake(error, scope, send)
            return
        try:
            self._check(scope)
        except DoorError as error:
            if error.status_code in REFUSALS:
                scope[REFUSED] = error
                self._note(scope, client, error.status_code)
                del scope[REFUSED]
            await _refuse_handshake(error, scope, send)
        else:
            await self._app(scope, receive, send)
        finally:
            self._load.leave(client)

    def _client_of(self, scope: Scope) -> str:
        """The client's address, which the scope names from here on instead of its proxy."""
        peer = scope.get("client")
        if not self._proxies.are_any:
            return str(peer[0]) if peer else ""
        client = client_address(scope, self._proxies)
        if peer and peer[0] != client:
            scope["client"] = (client, 0)  # the port is known to the proxy alone
        return client

    def _note(self, scope: Scope, client: str, status: int) -> None:
        """Have it audited that somebody was turned away who wanted to change something."""
        error = scope.get(REFUSED)
        code = getattr(error, "code", REFUSED_CODES[status])
        if code in AUDITED_ELSEWHERE or hasattr(error, AUDITED):
            return
        name = f"{scope.get('method', 'WEBSOCKET')} {scope['path']}"
        attempt = RefusedAttempt(
            actor=principal_of(scope).audit_name(client),
            address=client,
            action=ACTION,
            kind=KIND,
            name=name[:512],
            code=code,
            detail=str(getattr(error, "detail", "")),
            request_id=_request_id(scope),
        )
        self._refusals.note(attempt)

    def _check(self, scope: Scope) -> dict[bytes, bytes]:
        """Check who asks and under which name; the headers that were looked at."""
        found = {key: value for key, value in scope["headers"] if key in READ_HEADERS}
        host = found.get(b"host", b"")
        check_host(host, self._names)
        if scope.get("method") not in SAFE_METHODS:
            check_origin(
                found.get(b"origin", b""), found.get(b"sec-fetch-site", b""), host, self._origins
            )
        authenticator = self._authenticator
        scope[PRINCIPAL] = (
            authenticator.everybody if authenticator.is_open else authenticator.identify(scope)
        )
        return found


class _SecuredAnswer:
    """`send` with the security headers; knows whether an answer has begun."""

    __slots__ = ("_send", "extra", "has_begun", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.extra: tuple[Header, ...] = ()
        self.has_begun = False
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            self.status = message["status"]
            message["headers"] = secured(message.get("headers", ()), self.extra)
        await self._send(message)

    async def refuse(self, error: Exception) -> None:
        """Answer with the problem, unless part of another answer is out already."""
        if self.has_begun:
            log.error("an answer broke off", exc_info=error)
            raise error
        status, headers, body = problem_answer(error)
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


def _request_id(scope: Scope) -> str:
    found = (value for name, value in scope["headers"] if name == b"x-request-id")
    return next(found, b"").decode("latin-1")[:64] or uuid4().hex


async def _refuse_handshake(error: DoorError, scope: Scope, send: Send) -> None:
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": REFUSED_HANDSHAKE, "reason": error.code})
        return
    status, headers, body = problem_answer(error)
    await send(
        {"type": "websocket.http.response.start", "status": status, "headers": secured(headers)}
    )
    await send({"type": "websocket.http.response.body", "body": body})
