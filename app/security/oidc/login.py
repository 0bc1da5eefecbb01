"""Logging in through the provider, from the button to a checked identity, and out again."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from app.db.rows import UserRow
from app.errors import DoorError
from app.oidc_settings import OidcSettings
from app.security.accounts import Accounts, Browser
from app.security.doorman import LOGIN, LOGIN_BACK
from app.security.drafts import EVERYWHERE
from app.security.oidc import refusals
from app.security.oidc.identity import Identity, identity_of, lacks_claims
from app.security.oidc.provider import Provider, Tokens
from app.security.oidc.trips import Trip, Trips, challenge
from app.security.passwords import hash_secret
from engine.clock import Clock
from engine.errors import Conflict

HINTS_MAX = 1000  # id tokens kept for logging out at the provider; the oldest goes
TOKEN_CHARS_MAX = 16_384
REFUSED_MAX = 60  # entries of the trail about refused logins, in `REFUSED_EACH_S`
REFUSED_EACH_S = 60.0


@dataclass(frozen=True)
class Back:
    """What a browser brings back from the provider: the address's query and the trip's cookie."""

    query: Mapping[str, str]
    cookie: str
    base: str  # under which address it reaches this server


@dataclass(frozen=True)
class Arrived:
    """A new session: its secret, when it ends, and where its owner wanted to go."""

    secret: str
    expires_ms: int
    then: str


class ProviderLogin:
    """One for the server; every method raises DoorError with what to do (`refusals.py`)."""

    def __init__(self, settings: OidcSettings, accounts: Accounts, clock: Clock) -> None:
        self._settings = settings
        self._accounts = accounts
        self._clock = clock
        self._trips = Trips(clock)
        self._provider = Provider(settings, clock)
        self._hints: OrderedDict[str, str] = OrderedDict()
        self._refused: tuple[float, int] = (clock.monotonic_s(), 0)

    async def close(self) -> None:
        """Let go of the provider."""
        await self._provider.close()

    async def begin(self, then: str, base: str) -> tuple[str, str]:
        """The provider's address to go to, and the cookie to come back with."""
        self._check_on()
        known = await self._provider.metadata()
        trip = self._trips.begin(then)
        query = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": self._way_back(base),
            "scope": " ".join(self._settings.oidc_scopes),
            "state": self._trips.state(trip),
            "nonce": self._trips.nonce(trip),
            "code_challenge": challenge(self._trips.verifier(trip)),
            "code_challenge_method": "S256",
        }
        return _joined(known.authorization_endpoint, query), self._trips.cookie(trip)

    async def finish(self, back: Back, browser: Browser) -> Arrived:
        """A new session for whom the provider vouches for."""
        self._check_on()
        trip = self._trips.read(back.cookie)
        if trip is None or back.query.get("state") != self._trips.state(trip):
            raise refusals.state()
        claims: dict[str, Any] = {}
        try:
            await self._check_answer(back.query)
            tokens = await self._provider.redeem(
                back.query["code"], self._trips.verifier(trip), self._way_back(back.base)
            )
            claims = await self._claims(tokens, trip)
            return await self._enter(identity_of(claims, self._settings), tokens, trip, browser)
        except DoorError as error:
            await self._write_down(error, str(claims.get("sub", "")), browser)
            raise

    def leave(self, session: str) -> str:
        """The cookie by which `farewell` knows the session that ends here."""
        return self._trips.cookie(self._trips.begin(hash_secret(session)))

    @property
    def may_leave(self) -> bool:
        """Whether the provider offers to log out, as far as is known."""
        return self._settings.has_oidc and self._provider.may_end_sessions

    async def farewell(self, cookie: str, base: str) -> str:
        """The provider's address that logs out there and leads back; "" where it has none."""
        self._check_on()
        known = await self._provider.metadata()
        trip = self._trips.read(cookie)
        # Lost where the server was started again since: the provider asks its user then.
        hint = self._hints.pop(trip.then, "") if trip is not None else ""
        if not known.end_session_endpoint:
            return ""
        query = {
            "client_id": self._settings.oidc_client_id,
            "post_logout_redirect_uri": self._base(base) + LOGIN,
        }
        if hint:
            query["id_token_hint"] = hint
        return _joined(known.end_session_endpoint, query)

    # -- how ------------------------------------------------------------------------------------

    def _check_on(self) -> None:
        if not self._settings.has_oidc:
            raise refusals.off()

    def _base(self, base: str) -> str:
        return (self._settings.public_url or base).rstrip("/")

    def _way_back(self, base: str) -> str:
        return self._base(base) + LOGIN_BACK

    async def _check_answer(self, query: Mapping[str, str]) -> None:
        """Raise unless the provider, and no other, sent a code (RFC 9207 for the issuer)."""
        known = await self._provider.metadata()
        issuer = query.get("iss", "")
        has_issuer = bool(issuer) or known.authorization_response_iss_parameter_supported
        if has_issuer and issuer != known.issuer:
            raise refusals.token("it names another issuer")
        if "error" in query:
            raise refusals.denied(query["error"], query.get("error_description", ""))
        if not query.get("code"):
            raise refusals.token("it holds no code")

    async def _claims(self, tokens: Tokens, trip: Trip) -> dict[str, Any]:
        """What the id token proves, with what userinfo adds about the same subject."""
        from app.security.oidc.tokens import (  # loaded beside the loop by now
            BadTokenError,
            Expected,
            UnknownKeyError,
            claims_of,
        )

        if len(tokens.id_token) > TOKEN_CHARS_MAX:
            raise refusals.token("its id token is too long")
        expected = Expected(
            issuer=self._settings.oidc_issuer,
            client_id=self._settings.oidc_client_id,
            nonce=self._trips.nonce(trip),
            access_token=tokens.access_token,
            now_s=self._clock.now_ms() // 1000,
        )
        keys = await self._provider.keys()
        try:
            try:
                claims = claims_of(tokens.id_token, keys, expected)
            except UnknownKeyError:
                newer = await self._provider.newer_keys(keys)
                if newer is None:
                    raise
                claims = claims_of(tokens.id_token, newer, expected)
        except BadTokenError as error:
            raise refusals.token(str(error)) from error
        return await self._completed(claims, tokens)

    async def _completed(self, claims: dict[str, Any], tokens: Tokens) -> dict[str, Any]:
        if not lacks_claims(claims, self._settings):
            return claims
        more = await self._provider.userinfo(tokens.access_token)
        if more and more.get("sub") != claims["sub"]:
            raise refusals.token("its userinfo is about somebody else")
        return {**more, **claims}

    async def _enter(self, who: Identity, tokens: Tokens, trip: Trip, browser: Browser) -> Arrived:
        known = UserRow(
            name=who.name,
            password_hash="",  # which no password fits
            role=who.role,
            patterns=EVERYWHERE,
            created_ms=self._clock.now_ms(),
            issuer=self._settings.oidc_issuer,
            subject=who.subject,
        )
        try:
            secret, expires_ms = await self._accounts.welcome(known, browser)
        except Conflict as error:
            raise refusals.name_taken(who.name) from error
        self._hints[hash_secret(secret)] = tokens.id_token
        while len(self._hints) > HINTS_MAX:
            self._hints.popitem(last=False)
        return Arrived(secret, expires_ms, trip.then)

    async def _write_down(self, error: DoorError, subject: str, browser: Browser) -> None:
        """In the trail, but no more than a trail should hold of what anybody can repeat."""
        code = getattr(error, "code", "")
        since_s, count = self._refused
        now_s = self._clock.monotonic_s()
        if now_s - since_s >= REFUSED_EACH_S:
            since_s, count = now_s, 0
        self._refused = (since_s, count + 1)
        if count < REFUSED_MAX:
            told = {"reason": code, "detail": str(error.detail), "subject": subject}
            await self._accounts.refused(subject, browser, told)


def _joined(address: str, query: Mapping[str, str]) -> str:
    """An endpoint, which may have a query of its own, with more of it."""
    sign = "&" if urlsplit(address).query else "?"
    return f"{address}{sign}{urlencode(query)}"
