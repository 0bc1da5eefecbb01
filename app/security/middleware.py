"""The security middleware before every route, in pure ASGI.

It checks, in this order: the requests under way, the Host, the Origin of changes and WebSocket
handshakes, the caller, the size of the body. Every answer gets the security headers, including
the answer of a route that failed.
"""

import logging
from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.db.rows import CLIENT_ADDRESS
from app.errors import AUDITED, REFUSED, ProblemError, problem_answer
from app.following import Following
from app.security.access import PRINCIPAL, principal_of
from app.security.authenticator import Authenticator
from app.security.headers import Header, secured, stay_secure
from app.security.hosts import check_host, our_names
from app.security.origins import SAFE_METHODS, check_origin
from app.security.proxies import client_address, proxies_of
from app.security.refusal_audit import ACTION, KIND, RefusalAudit, RefusedAttempt
from app.security.request_body import RequestBody
from app.security.request_limits import RequestLimits
from app.server_host import ServerHost
from app.settings import Settings
from kitemq.protocol.frames import STANDBY_HEADER

log = logging.getLogger("kitemq.gate")

PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
NEVER_LOADING = frozenset({"/healthz", "/readyz"})
REFUSED_HANDSHAKE = 1008
REFUSALS = frozenset({401, 403})
REFUSED_CODES = {401: "login_needed", 403: "forbidden"}
AUDITED_ELSEWHERE = frozenset({"login_failed", "login_limited"})  # with the name, by `accounts.py`
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
        limits: RequestLimits,
        authenticator: Authenticator,
        refusals: RefusalAudit,
        following: Following,
        host: ServerHost,
    ) -> None:
        self._app = app
        self._following, self._host = following, host
        self._refusals = refusals
        self._authenticator = authenticator
        self._limits = limits
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
        CLIENT_ADDRESS.set(client)
        if self._following.leader:
            answer.extra = self._standby_headers()
        # Monitoring is answered even while requests of its own address fill the server.
        share = None if scope["path"] in PROBES else client
        try:
            self._limits.enter(share)
        except ProblemError as error:
            await answer.refuse(error)
            return
        body: RequestBody | None = None
        small_bytes = 0
        try:
            headers = self._check(scope)
            if self._is_tls:
                answer.extra += stay_secure(headers[b"host"])
            is_chunked, length = b"transfer-encoding" in headers, headers.get(b"content-length")
            if length is not None and not is_chunked and share is not None:
                small_bytes = self._limits.take_small(length)
            if is_chunked or (length is not None and not small_bytes):
                body = RequestBody(receive, self._limits, scope)
                body.check_length(length)
                receive = body.read
            await self._app(scope, receive, answer.send)
        except Exception as error:
            scope[REFUSED] = error
            await answer.refuse(error)
        finally:
            self._limits.leave(share, small_bytes)
            if body is not None:
                body.close()
            if answer.status in REFUSALS and scope["method"] not in SAFE_METHODS:
                self._note(scope, client, answer.status)
            # The error refers to the request's frames and its body, and they refer to the scope:
            # a cycle that would stay in memory until the garbage collector runs.
            scope.pop(REFUSED, None)

    def _standby_headers(self) -> tuple[Header, ...]:
        """What tells a client that it reads a copy, and how much that lacks."""
        following, host = self._following, self._host
        text = following.text(host.broker.log_end) if host.is_ready else "a standby that loads"
        return ((STANDBY_HEADER.encode(), text.encode()),)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = self._client_of(scope)
        CLIENT_ADDRESS.set(client)
        try:
            self._limits.enter(client)
        except ProblemError as error:
            await _refuse_handshake(error, scope, send)
            return
        try:
            self._check(scope)
        except ProblemError as error:
            if error.status_code in REFUSALS:
                scope[REFUSED] = error
                self._note(scope, client, error.status_code)
                del scope[REFUSED]
            await _refuse_handshake(error, scope, send)
        else:
            await self._app(scope, receive, send)
        finally:
            self._limits.leave(client)

    def _client_of(self, scope: Scope) -> str:
        """The client's address, which replaces its proxy's in the scope."""
        peer = scope.get("client")
        if not self._proxies.are_any:
            return str(peer[0]) if peer else ""
        client = client_address(scope, self._proxies)
        if peer and peer[0] != client:
            scope["client"] = (client, 0)  # the port is known to the proxy alone
        return client

    def _note(self, scope: Scope, client: str, status: int) -> None:
        """Audit a refused attempt to change something."""
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
        """Check Host, Origin and caller; returns the headers that were read."""
        if self._host.is_loading and scope["path"] not in NEVER_LOADING:
            detail, remedy = "this standby loads what its leader sent", "try again in a while"
            raise ProblemError(503, "busy", detail, remedy=remedy, retry_after_s=2.0)
        headers = {key: value for key, value in scope["headers"] if key in READ_HEADERS}
        host = headers.get(b"host", b"")
        check_host(host, self._names)
        if scope.get("method") not in SAFE_METHODS:
            check_origin(
                headers.get(b"origin", b""),
                headers.get(b"sec-fetch-site", b""),
                host,
                self._origins,
            )
        authenticator = self._authenticator
        scope[PRINCIPAL] = (
            authenticator.anonymous if authenticator.is_open else authenticator.identify(scope)
        )
        return headers


class _SecuredAnswer:
    """Sends answers with the security headers; knows whether one has begun."""

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
        """Answer with the problem, unless another answer has begun."""
        if self.has_begun:
            log.error("an answer broke off", exc_info=error)
            raise error
        status, headers, body = problem_answer(error)
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


def _request_id(scope: Scope) -> str:
    values = (value for name, value in scope["headers"] if name == b"x-request-id")
    return next(values, b"").decode("latin-1")[:64] or uuid4().hex


async def _refuse_handshake(error: ProblemError, scope: Scope, send: Send) -> None:
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": REFUSED_HANDSHAKE, "reason": error.code})
        return
    status, headers, body = problem_answer(error)
    await send(
        {"type": "websocket.http.response.start", "status": status, "headers": secured(headers)}
    )
    await send({"type": "websocket.http.response.body", "body": body})
