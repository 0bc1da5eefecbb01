"""The OpenID Connect provider: authlib's OAuth 2.0 client over a bounded HTTP client.

A request ends after TIMEOUT_S, an answer after ANSWER_BYTES_MAX, and at most REQUESTS_MAX are sent
at once. Metadata and keys are cached for an hour; a token signed with an unknown key has the keys
fetched again, at most every ten seconds. Addresses are https, or of this machine. Proxies and
further certificates come from the environment (HTTPS_PROXY, SSL_CERT_FILE), as httpx reads it.

Importing this module takes longer than the event loop may wait: `login.py` does it on a thread.
"""

import asyncio
import ipaddress
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx
import msgspec
from authlib.common.urls import add_params_to_uri
from authlib.integrations.base_client import OAuthError
from authlib.oauth2.client import OAuth2Client
from joserfc.jwk import KeySet

from app.addresses import quiet_clients
from app.errors import ProblemError
from app.oidc_settings import OidcSettings
from app.security.oidc import refusals
from app.security.oidc.identity import lacks_claims
from app.security.oidc.login_state import LoginState
from app.security.oidc.tokens import BadTokenError, UnknownKeyError, claims_of, keys_of
from app.settings import is_loopback, is_safe_url
from engine.clock import Clock

log = logging.getLogger("kitemq.oidc")

T = TypeVar("T")

WELL_KNOWN = "/.well-known/openid-configuration"
TIMEOUT_S = 10.0
CACHE_S = 3600.0
KEYS_AGAIN_S = 10.0
ANSWER_BYTES_MAX = 1 << 20
REQUESTS_MAX = 8
WAITING_MAX = 64
# Without compression, the bytes that are counted are those that are held.
HEADERS = {"accept": "application/json", "accept-encoding": "identity"}
BASIC, IN_FORM = "client_secret_basic", "client_secret_post"
FAILURES = (
    httpx.HTTPError, httpx.InvalidURL, msgspec.MsgspecError, TimeoutError, TypeError, ValueError,
)  # fmt: skip


class Metadata(msgspec.Struct, frozen=True):
    """The part of the discovery document that is used (OpenID Connect Discovery 1.0)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    end_session_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = (BASIC,)
    authorization_response_iss_parameter_supported: bool = False


class Tokens(msgspec.Struct, frozen=True):
    """The tokens that a code was exchanged for."""

    id_token: str
    access_token: str = ""


class _BoundedClient(httpx.AsyncClient):
    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        answer = await super().send(request, **{**options, "stream": True})
        body = bytearray()
        try:
            async for chunk in answer.aiter_raw():
                body += chunk
                if len(body) > ANSWER_BYTES_MAX:
                    raise ValueError(f"{request.url} sent more than {ANSWER_BYTES_MAX} bytes")
        finally:
            await answer.aclose()
        return httpx.Response(answer.status_code, content=bytes(body), request=request)


class _TokenClient(OAuth2Client):  # type: ignore[misc]
    """authlib's client on an asynchronous session, as its own integrations make one."""

    oauth_error_class = OAuthError

    async def _fetch_token(
        self, url: str, body: str, headers: Mapping[str, str], auth: Any, **__: Any
    ) -> Any:
        url, headers, body = auth.prepare("POST", url, dict(headers), body)
        return self.parse_response_token(
            await self.session.post(url, content=body, headers=headers)
        )


class Provider:
    """Exchanges codes for checked claims; every failure is a ProblemError of `refusals.py`."""

    def __init__(self, settings: OidcSettings, clock: Clock) -> None:
        quiet_clients()
        limits = httpx.Limits(max_connections=REQUESTS_MAX, max_keepalive_connections=1)
        self._http = _BoundedClient(headers=HEADERS, timeout=TIMEOUT_S, limits=limits)
        self._settings = settings
        self._clock = clock
        self._slots = asyncio.Semaphore(REQUESTS_MAX)
        self._waiting = 0
        self._metadata: tuple[Metadata, float] | None = None
        self._keys: tuple[KeySet, float] | None = None

    @property
    def may_end_sessions(self) -> bool:
        """Whether it has an address for logging out; also True before its metadata is known."""
        return self._metadata is None or bool(self._metadata[0].end_session_endpoint)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def metadata(self) -> Metadata:
        """The provider's metadata, at most an hour old."""
        now_s = self._clock.monotonic_s()
        if self._metadata is not None and now_s - self._metadata[1] < CACHE_S:
            return self._metadata[0]
        issuer = self._settings.oidc_issuer
        metadata = await self._get(issuer.rstrip("/") + WELL_KNOWN, Metadata)
        if metadata.issuer != issuer:
            raise self._unreachable(
                f"it calls itself {metadata.issuer!r}: set oidc_issuer to exactly that"
            )
        self._check_addresses(metadata)
        self._metadata = (metadata, now_s)
        return metadata

    async def authorization_url(self, login: LoginState, redirect_uri: str) -> str:
        """The address at the provider where the browser logs in."""
        client = OAuth2Client(None, self._settings.oidc_client_id, code_challenge_method="S256")
        url, __ = client.create_authorization_url(
            (await self.metadata()).authorization_endpoint,
            scope=" ".join(self._settings.oidc_scopes),
            state=login.state,
            code_verifier=login.verifier,
            nonce=login.nonce,
            redirect_uri=redirect_uri,
        )
        return str(url)

    async def logout_url(self, id_token: str, redirect_uri: str) -> str:
        """The address at the provider where the browser logs out; "" if it has none."""
        metadata = await self.metadata()
        query = {
            "client_id": self._settings.oidc_client_id,
            "post_logout_redirect_uri": redirect_uri,
        }
        if id_token:
            query["id_token_hint"] = id_token
        address = metadata.end_session_endpoint
        return str(add_params_to_uri(address, query)) if address else ""

    async def redeem(self, code: str, verifier: str, redirect_uri: str) -> Tokens:
        """Exchange the code for tokens."""
        metadata = await self.metadata()
        client = self._token_client(metadata.token_endpoint_auth_methods_supported)
        async with self._bounds():
            try:
                token = await client.fetch_token(
                    metadata.token_endpoint,
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=verifier,
                    redirect_uri=redirect_uri,
                )
            except OAuthError as error:
                log.warning("the provider gave no tokens: %s", error)
                if error.error == "invalid_client":
                    raise self._unreachable("it refuses oidc_client_id and its secret") from error
                raise refusals.denied(str(error.error), str(error.description or "")) from error
            return msgspec.convert(dict(token), Tokens)

    async def claims(self, tokens: Tokens, nonce: str) -> dict[str, Any]:
        """The claims of the id token, with those that userinfo adds about the same subject."""
        keys = await self._signing_keys(CACHE_S)
        try:
            try:
                claims = self._checked(tokens, keys, nonce)
            except UnknownKeyError:
                claims = self._checked(tokens, await self._signing_keys(KEYS_AGAIN_S, keys), nonce)
        except BadTokenError as error:
            raise refusals.token(str(error)) from error
        userinfo = (await self.metadata()).userinfo_endpoint
        if not (userinfo and tokens.access_token and lacks_claims(claims, self._settings)):
            return claims
        bearer = {"authorization": f"Bearer {tokens.access_token}"}
        more = await self._get(userinfo, dict[str, Any], headers=bearer)
        if more and more.get("sub") != claims["sub"]:
            raise refusals.token("its userinfo is about somebody else")
        return {**more, **claims}

    def _checked(self, tokens: Tokens, keys: KeySet, nonce: str) -> dict[str, Any]:
        return claims_of(
            tokens.id_token,
            keys,
            issuer=self._settings.oidc_issuer,
            now_s=self._clock.now_ms() // 1000,
            client_id=self._settings.oidc_client_id,
            nonce=nonce,
            access_token=tokens.access_token,
        )

    async def _signing_keys(self, age_s: float, refused: KeySet | None = None) -> KeySet:
        """The provider's keys, fetched again after `age_s` unless others than `refused` came."""
        now_s = self._clock.monotonic_s()
        if self._keys is not None:
            keys, fetched_s = self._keys
            if now_s - fetched_s < age_s or (refused is not None and keys is not refused):
                return keys
        document = await self._get((await self.metadata()).jwks_uri, dict[str, Any])
        keys = keys_of(document)
        if not keys:
            raise self._unreachable("it publishes no key that signs")
        self._keys = (keys, now_s)
        return keys

    def _token_client(self, methods: tuple[str, ...]) -> _TokenClient:
        """A client that authenticates by one of the token endpoint's `methods`."""
        name, secret = self._settings.oidc_client_id, self._settings.oidc_client_secret
        if not secret:
            return _TokenClient(self._http, name, None, "none")
        if BASIC not in methods and IN_FORM in methods:
            return _TokenClient(self._http, name, secret, IN_FORM)
        # Both are form-encoded before they are joined (RFC 6749, 2.3.1).
        return _TokenClient(self._http, quote(name, safe=""), quote(secret, safe=""), BASIC)

    def _check_addresses(self, metadata: Metadata) -> None:
        for name, address in msgspec.structs.asdict(metadata).items():
            if not name.endswith(("_endpoint", "_uri")) or not address:
                continue
            if not is_safe_url(address):
                raise self._unreachable(f"its {name} is {address[:200]!r}, which is not https")
            if _is_inside(address) and not _is_inside(self._settings.oidc_issuer):
                # Else it could have the server send requests to itself and to a cloud's metadata.
                raise self._unreachable(f"its {name} is {address[:200]!r}, which is not its own")

    async def _get(self, address: str, kind: type[T], **options: Any) -> T:
        async with self._bounds():
            answer = await self._http.get(address, **options)
            return msgspec.json.decode(answer.raise_for_status().content, type=kind)

    @asynccontextmanager
    async def _bounds(self) -> AsyncIterator[None]:
        """Bound the time and number of requests; turns their failures into `oidc_unreachable`."""
        if self._waiting >= WAITING_MAX:
            raise refusals.busy()
        self._waiting += 1
        try:
            async with asyncio.timeout(TIMEOUT_S), self._slots:
                yield
        except FAILURES as error:
            raise self._unreachable(str(error) or type(error).__name__) from error
        finally:
            self._waiting -= 1

    def _unreachable(self, reason: str) -> ProblemError:
        log.warning("the provider %s: %s", self._settings.oidc_issuer, reason)
        return refusals.unreachable(self._settings.oidc_issuer)


def _is_inside(address: str) -> bool:
    """Whether an address names this machine, or a link-local one."""
    host = urlsplit(address).hostname or ""
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return is_loopback(host)
    return ip.is_loopback or ip.is_link_local or ip.is_unspecified
