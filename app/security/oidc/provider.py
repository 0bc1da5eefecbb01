"""The provider over the network: what it publishes, and the code turned into tokens.

Every wait is bounded by `TIMEOUT_S`, every answer by `ANSWER_BYTES_MAX`, and at most `ASKING_MAX`
requests are out at once. What it publishes is kept for an hour; keys are asked for again when a
token names one that is not known, at most every ten seconds. Nothing is sent to other than https
addresses, except within this machine. The addresses of proxies and of further certificates come
from the environment (HTTPS_PROXY, SSL_CERT_FILE), as httpx reads it.
"""

import asyncio
import ipaddress
import logging
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from app.addresses import quiet_clients
from app.errors import DoorError
from app.oidc_settings import OidcSettings
from app.security.oidc import refusals
from app.settings import is_loopback, is_safe_url
from engine.clock import Clock

if TYPE_CHECKING:
    import httpx
    from joserfc.jwk import KeySet

log = logging.getLogger("kitemq.oidc")

T = TypeVar("T", bound=msgspec.Struct)

WELL_KNOWN = "/.well-known/openid-configuration"
TIMEOUT_S = 10.0
KEEP_S = 3600.0
KEYS_AGAIN_S = 10.0
ANSWER_BYTES_MAX = 1 << 20
ASKING_MAX = 8
WAITING_MAX = 64
LIBRARIES = ("httpx", "app.security.oidc.tokens")
# No compression: so what is counted is what is held.
HEADERS = {"accept": "application/json", "accept-encoding": "identity"}
BASIC, IN_FORM = "client_secret_basic", "client_secret_post"


class Metadata(msgspec.Struct, frozen=True):
    """What is used of the provider's discovery document (OpenID Connect Discovery 1.0)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    end_session_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = (BASIC,)
    authorization_response_iss_parameter_supported: bool = False


class Tokens(msgspec.Struct, frozen=True):
    """What a code was good for."""

    id_token: str
    access_token: str = ""


class Refusal(msgspec.Struct, frozen=True):
    """What a provider says where it gives no tokens (RFC 6749, 5.2)."""

    error: str = ""
    error_description: str = ""


class Provider:
    """Asks the provider; on the event loop's thread, without ever parking it."""

    def __init__(self, settings: OidcSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._client: httpx.AsyncClient | None = None
        self._opening = asyncio.Lock()
        self._slots = asyncio.Semaphore(ASKING_MAX)
        self._waiting = 0
        self._metadata: tuple[Metadata, float] | None = None
        self._keys: tuple[KeySet, float] | None = None

    @property
    def may_end_sessions(self) -> bool:
        """Whether it has an address to log out at; also True while nothing is known of it."""
        return self._metadata is None or bool(self._metadata[0].end_session_endpoint)

    async def close(self) -> None:
        """Let go of the connections."""
        if self._client is not None:
            await self._client.aclose()

    async def metadata(self) -> Metadata:
        """What the provider says about itself, at most an hour old."""
        now_s = self._clock.monotonic_s()
        if self._metadata is not None and now_s - self._metadata[1] < KEEP_S:
            return self._metadata[0]
        address = self._settings.oidc_issuer.rstrip("/") + WELL_KNOWN
        found = self._decoded(await self._answered("GET", address), Metadata)
        if found.issuer != self._settings.oidc_issuer:
            raise self._broken(
                f"it calls itself {found.issuer!r}: set oidc_issuer to exactly that, or correct it"
            )
        self._check_addresses(found)
        self._metadata = (found, now_s)
        return found

    async def keys(self) -> "KeySet":
        """The keys that it signs with, at most an hour old."""
        if self._keys is not None and self._clock.monotonic_s() - self._keys[1] < KEEP_S:
            return self._keys[0]
        return await self._asked_keys()

    async def newer_keys(self, known: "KeySet") -> "KeySet | None":
        """Its keys as of now, after `known` proved too old; None where it was just asked."""
        if self._keys is not None:
            if self._keys[0] is not known:
                return self._keys[0]
            if self._clock.monotonic_s() - self._keys[1] < KEYS_AGAIN_S:
                return None
        return await self._asked_keys()

    async def redeem(self, code: str, verifier: str, back: str) -> Tokens:
        """The tokens for a code; DoorError where the provider gives none."""
        known = await self.metadata()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "code_verifier": verifier,
        }
        status, body = await self._ask(
            "POST", known.token_endpoint, data=form | self._form_secret(known), **self._auth(known)
        )
        if status == 200:
            return self._decoded(body, Tokens)
        if status >= 500:
            raise self._broken(f"its token endpoint answered {status}")
        refusal = self._decoded(body, Refusal)
        log.warning("the provider gave no tokens: %s %s", status, refusal)
        if refusal.error == "invalid_client":
            raise self._broken("it does not know oidc_client_id with this oidc_client_secret")
        raise refusals.denied(refusal.error, refusal.error_description)

    async def userinfo(self, access_token: str) -> dict[str, Any]:
        """What it tells about whom the token was made for; empty where it tells nothing."""
        address = (await self.metadata()).userinfo_endpoint
        if not address or not access_token:
            return {}
        headers = {**HEADERS, "authorization": f"Bearer {access_token}"}
        body = await self._answered("GET", address, headers=headers)
        found = self._json(body)
        return found if isinstance(found, dict) else {}

    # -- how ------------------------------------------------------------------------------------

    async def _asked_keys(self) -> "KeySet":
        from app.security.oidc.tokens import keys_of

        document = self._json(await self._answered("GET", (await self.metadata()).jwks_uri))
        keys = keys_of(document if isinstance(document, dict) else {})
        if not keys:
            raise self._broken("it publishes no key that signs")
        self._keys = (keys, self._clock.monotonic_s())
        return keys

    def _form_secret(self, known: Metadata) -> dict[str, str]:
        settings = self._settings
        if not settings.oidc_client_secret:
            return {"client_id": settings.oidc_client_id}
        if self._is_basic(known):
            return {}
        return {
            "client_id": settings.oidc_client_id,
            "client_secret": settings.oidc_client_secret,
        }

    def _auth(self, known: Metadata) -> dict[str, Any]:
        settings = self._settings
        if not settings.oidc_client_secret or not self._is_basic(known):
            return {}
        # Both are form-encoded before they are joined (RFC 6749, 2.3.1).
        pair = (
            quote(settings.oidc_client_id, safe=""),
            quote(settings.oidc_client_secret, safe=""),
        )
        return {"auth": pair}

    def _is_basic(self, known: Metadata) -> bool:
        methods = known.token_endpoint_auth_methods_supported
        return BASIC in methods or IN_FORM not in methods

    def _check_addresses(self, found: Metadata) -> None:
        named = {
            "authorization_endpoint": found.authorization_endpoint,
            "token_endpoint": found.token_endpoint,
            "jwks_uri": found.jwks_uri,
            "userinfo_endpoint": found.userinfo_endpoint,
            "end_session_endpoint": found.end_session_endpoint,
        }
        for name, address in named.items():
            if address and not is_safe_url(address):
                raise self._broken(f"its {name} is {address[:200]!r}, which is not https")
            if address and _is_inside(address) and not _is_inside(self._settings.oidc_issuer):
                # Else it could have the server send requests to itself and to a cloud's metadata.
                raise self._broken(f"its {name} is {address[:200]!r}, which is not its own")

    def _decoded(self, body: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._broken(f"its answer is no {kind.__name__.lower()}: {error}") from error

    def _json(self, body: bytes) -> Any:
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._broken(f"its answer is no JSON: {error}") from error

    async def _answered(self, method: str, address: str, **options: Any) -> bytes:
        status, body = await self._ask(method, address, **options)
        if status != 200:
            raise self._broken(f"{address} answered {status}")
        return body

    async def _ask(self, method: str, address: str, **options: Any) -> tuple[int, bytes]:
        """Status and body, within all bounds; every failure is `unreachable`."""
        if self._waiting >= WAITING_MAX:
            raise refusals.busy()
        self._waiting += 1
        try:
            async with asyncio.timeout(TIMEOUT_S), self._slots:
                return await self._exchange(await self._opened(), method, address, options)
        except TimeoutError as error:
            raise self._broken(f"{address} took longer than {TIMEOUT_S:g} s") from error
        finally:
            self._waiting -= 1

    async def _exchange(
        self, client: "httpx.AsyncClient", method: str, address: str, options: Mapping[str, Any]
    ) -> tuple[int, bytes]:
        import httpx  # loaded by now

        body = bytearray()
        try:
            async with client.stream(method, address, **{"headers": HEADERS, **options}) as answer:
                async for chunk in answer.aiter_raw():
                    body += chunk
                    if len(body) > ANSWER_BYTES_MAX:
                        raise self._broken(f"{address} sent more than {ANSWER_BYTES_MAX} bytes")
                return answer.status_code, bytes(body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._broken(f"{address}: {str(error) or type(error).__name__}") from error

    async def _opened(self) -> "httpx.AsyncClient":
        """The client; libraries and certificates take longer to load than the loop may wait."""
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(_client)
            return self._client

    def _broken(self, why: str) -> DoorError:
        log.warning("the provider %s: %s", self._settings.oidc_issuer, why)
        return refusals.unreachable(self._settings.oidc_issuer)


def _is_inside(address: str) -> bool:
    """Whether an address names this very machine, or a link-local one."""
    host = urlsplit(address).hostname or ""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return is_loopback(host)
    return found.is_loopback or found.is_link_local or found.is_unspecified


def _client() -> "httpx.AsyncClient":
    for name in LIBRARIES:
        import_module(name)
    quiet_clients()
    import httpx

    limits = httpx.Limits(max_connections=ASKING_MAX, max_keepalive_connections=1)
    return httpx.AsyncClient(timeout=TIMEOUT_S, limits=limits, follow_redirects=False)
