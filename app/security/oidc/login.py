"""Login and logout through the OpenID Connect provider, from the button to a session."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.db.rows import UserRow
from app.errors import ProblemError
from app.oidc_settings import OidcSettings
from app.security.accounts import Accounts, Browser
from app.security.authenticator import LOGIN, LOGIN_BACK
from app.security.credentials import EVERYWHERE
from app.security.oidc import refusals
from app.security.oidc.identity import Identity, identity_of
from app.security.oidc.login_state import LoginState, LoginStates
from app.security.passwords import hash_secret
from engine.clock import Clock
from engine.errors import Conflict

if TYPE_CHECKING:
    from app.security.oidc.provider import Provider

ID_TOKENS_MAX = 1000  # for logging out at the provider; the oldest goes first
AUDITED_MAX = 60  # refused logins in the audit trail, in `AUDITED_EACH_S`
AUDITED_EACH_S = 60.0


@dataclass(frozen=True)
class LoginCallback:
    """The browser's return: the provider's answer, our cookie, and the server's base URL."""

    query: Mapping[str, str]
    cookie: str
    base_url: str


@dataclass(frozen=True)
class NewSession:
    """A session's secret, its end, and the page to show first."""

    secret: str
    expires_ms: int
    next_path: str


class ProviderLogin:
    """Every method raises a ProblemError of `refusals.py`, which says what to do."""

    def __init__(self, settings: OidcSettings, accounts: Accounts, clock: Clock) -> None:
        self._settings = settings
        self._accounts = accounts
        self._clock = clock
        self._states = LoginStates(clock)
        self._provider: Provider | None = None
        self._loading = asyncio.Lock()
        self._id_tokens: OrderedDict[str, str] = OrderedDict()
        self._audited: tuple[float, int] = (clock.monotonic_s(), 0)

    async def close(self) -> None:
        """Close the connections to the provider."""
        if self._provider is not None:
            await self._provider.close()

    async def begin(self, next_path: str, base_url: str) -> tuple[str, str]:
        """The provider's address for the browser, and the cookie to come back with."""
        provider = await self._loaded()
        login = self._states.create(next_path)
        address = await provider.authorization_url(login, self._base_url(base_url) + LOGIN_BACK)
        return address, login.cookie

    async def finish(self, callback: LoginCallback, browser: Browser) -> NewSession:
        """Open a session for the user that the provider's answer proves."""
        provider = await self._loaded()
        query = callback.query
        login = self._states.read(callback.cookie)
        if login is None or query.get("state") != login.state:
            raise refusals.state()
        subject = ""
        try:
            await _check_answer(query, provider)
            redirect_uri = self._base_url(callback.base_url) + LOGIN_BACK
            tokens = await provider.redeem(query["code"], login.verifier, redirect_uri)
            claims = await provider.claims(tokens, login.nonce)
            subject = str(claims["sub"])
            identity = identity_of(claims, self._settings)
            return await self._open_session(identity, tokens.id_token, login, browser)
        except ProblemError as error:
            await self._audit(error, subject, browser)
            raise

    def logout_cookie(self, session: str) -> str:
        """A cookie by which `logout_url` finds the id token of the session that ends here."""
        return self._states.create(hash_secret(session)).cookie

    @property
    def has_logout(self) -> bool:
        """Whether the provider offers to log out, as far as is known."""
        is_offered = self._provider is None or self._provider.may_end_sessions
        return self._settings.has_oidc and is_offered

    async def logout_url(self, cookie: str, base_url: str) -> str:
        """The address that logs out at the provider and leads back; "" if it has none."""
        provider = await self._loaded()
        login = self._states.read(cookie)
        # A restart of the server loses the id token: the provider then asks its user.
        id_token = self._id_tokens.pop(login.next_path, "") if login is not None else ""
        return await provider.logout_url(id_token, self._base_url(base_url) + LOGIN)

    async def _loaded(self) -> "Provider":
        if not self._settings.has_oidc:
            raise refusals.off()
        async with self._loading:
            if self._provider is None:
                self._provider = await asyncio.to_thread(_load, self._settings, self._clock)
            return self._provider

    def _base_url(self, base_url: str) -> str:
        return (self._settings.public_url or base_url).rstrip("/")

    async def _open_session(
        self, identity: Identity, id_token: str, login: LoginState, browser: Browser
    ) -> NewSession:
        user = UserRow(
            name=identity.name,
            password_hash="",  # which no password fits
            role=identity.role,
            patterns=EVERYWHERE,
            created_ms=self._clock.now_ms(),
            issuer=self._settings.oidc_issuer,
            subject=identity.subject,
        )
        try:
            secret, expires_ms = await self._accounts.log_in_from_provider(user, browser)
        except Conflict as error:
            raise refusals.name_taken(identity.name) from error
        self._id_tokens[hash_secret(secret)] = id_token
        while len(self._id_tokens) > ID_TOKENS_MAX:
            self._id_tokens.popitem(last=False)
        return NewSession(secret, expires_ms, login.next_path)

    async def _audit(self, error: ProblemError, subject: str, browser: Browser) -> None:
        """Record a refused login, at most AUDITED_MAX in AUDITED_EACH_S: anybody can repeat it."""
        since_s, count = self._audited
        now_s = self._clock.monotonic_s()
        if now_s - since_s >= AUDITED_EACH_S:
            since_s, count = now_s, 0
        self._audited = (since_s, count + 1)
        if count < AUDITED_MAX:
            details = {"reason": error.code, "detail": str(error.detail), "subject": subject}
            await self._accounts.audit_refusal(subject, browser, details)


def _load(settings: OidcSettings, clock: Clock) -> "Provider":
    """A provider; its libraries and certificates take longer to load than the loop may wait."""
    from app.security.oidc.provider import Provider

    return Provider(settings, clock)


async def _check_answer(query: Mapping[str, str], provider: "Provider") -> None:
    """Raise unless this provider, and no other (RFC 9207), sent a code."""
    metadata = await provider.metadata()
    issuer = query.get("iss", "")
    has_issuer = bool(issuer) or metadata.authorization_response_iss_parameter_supported
    if has_issuer and issuer != metadata.issuer:
        raise refusals.token("it names another issuer")
    if "error" in query:
        raise refusals.denied(query["error"], query.get("error_description", ""))
    if not query.get("code"):
        raise refusals.token("it holds no code")
